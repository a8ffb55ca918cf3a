//! Splits a batch into the rows of each bucket, by Arrow's kernels.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::error::ArrowError;

/// The rows of each bucket that has any, in the order in which they came.
pub fn split(batch: RecordBatch, buckets: &[u32]) -> Result<Vec<(u32, RecordBatch)>, ArrowError> {
    let Some(first) = buckets.first() else {
        return Ok(Vec::new());
    };
    if buckets.iter().all(|b| b == first) {
        return Ok(vec![(*first, batch)]);
    }
    let count = buckets.iter().copied().max().unwrap_or(0) as usize + 1;
    let mut sizes = vec![0usize; count];
    for bucket in buckets {
        sizes[*bucket as usize] += 1;
    }
    let mut rows: Vec<Vec<u32>> = sizes.into_iter().map(Vec::with_capacity).collect();
    for (row, bucket) in buckets.iter().enumerate() {
        rows[*bucket as usize].push(row as u32);
    }
    let parts = rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty());
    parts
        .map(|(bucket, rows)| Ok((bucket as u32, take_record_batch(&batch, &UInt32Array::from(rows))?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn rows_keep_their_order_within_a_bucket() {
        let rows = Arc::new(Int64Array::from_iter_values(0..6));
        let batch = RecordBatch::try_from_iter([("n", rows as _)]).unwrap();
        let parts = split(batch, &[2, 0, 2, 2, 0, 5]).unwrap();
        let parts: Vec<_> = parts
            .iter()
            .map(|(b, p)| (*b, p.column(0).as_primitive::<Int64Type>().values().to_vec()))
            .collect();
        assert_eq!(parts, [(0, vec![1, 4]), (2, vec![0, 2, 3]), (5, vec![5])]);
    }
}
