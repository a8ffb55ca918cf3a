//! The system columns of rows in a chunk: nothing of them is stored but the runs of flush times. What they can be in a
//! chunk is known before it is read, so a filter on them skips chunks.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use wadi_model::predicate::{ColumnStatistics, Literal, Predicate, Value};
use wadi_model::{Bucket, Offset, Table, system};

use crate::container::Chunk;
use crate::keys::index::IndexedChunk;

/// Whether a chunk may have rows that match, by what the index knows of it: its offsets and its bucket.
pub(super) fn may_match(filter: &Predicate, bucket: &Bucket, chunk: &IndexedChunk) -> bool {
    let offsets = of_offsets(chunk.base_offset, chunk.rows);
    let (bucket, change) = (of_bucket(bucket.bucket), of_change());
    filter.may_match(u64::from(chunk.rows), |name| match name {
        system::OFFSET => offsets.as_ref(),
        system::BUCKET => bucket.as_ref(),
        system::CHANGE_TYPE => change.as_ref(),
        _ => None,
    })
}

/// The least and the greatest value of a system column in a chunk; `None` if it is none, or nothing is known of it.
pub(super) fn of_chunk(name: &str, chunk: &Chunk) -> Option<ColumnStatistics> {
    match name {
        system::OFFSET => of_offsets(chunk.base_offset, chunk.rows),
        system::TIMESTAMP => {
            let times = || chunk.runs.iter().map(|run| run.time);
            between(name, Value::Int(times().min()?), Value::Int(times().max()?))
        }
        system::BUCKET => of_bucket(chunk.bucket),
        system::CHANGE_TYPE => of_change(),
        _ => None,
    }
}

fn of_offsets(base: u64, rows: u32) -> Option<ColumnStatistics> {
    let last = base + u64::from(rows).saturating_sub(1);
    between(system::OFFSET, Value::Int(i64::try_from(base).ok()?), Value::Int(i64::try_from(last).ok()?))
}

fn of_bucket(bucket: u32) -> Option<ColumnStatistics> {
    let bucket = i64::from(i32::try_from(bucket).ok()?);
    between(system::BUCKET, Value::Int(bucket), Value::Int(bucket))
}

/// Of a log table.
fn of_change() -> Option<ColumnStatistics> {
    between(system::CHANGE_TYPE, Value::Utf8(INSERT.to_owned()), Value::Utf8(INSERT.to_owned()))
}

fn between(name: &str, min: Value, max: Value) -> Option<ColumnStatistics> {
    let field = system::field(name)?;
    let literal = |value| Literal::new(field.data_type().clone(), value);
    Some(ColumnStatistics { min: Some(literal(min)?), max: Some(literal(max)?), null_count: 0 })
}

/// The change type of all rows of log tables.
const INSERT: &str = "+I";

/// The system columns of a chunk's rows from `first` on.
pub(super) struct SystemColumns<'a> {
    pub chunk: &'a Chunk,
    pub first: Offset,
    pub table: &'a Table,
}

impl SystemColumns<'_> {
    /// Adds the named system columns behind the others.
    pub(super) fn append(
        &self,
        rows: RecordBatch,
        names: &[impl AsRef<str>],
    ) -> Result<RecordBatch, ArrowError> {
        if names.is_empty() {
            return Ok(rows);
        }
        let count = rows.num_rows();
        let mut fields: Vec<Arc<Field>> = rows.schema_ref().fields().iter().cloned().collect();
        let mut columns = rows.columns().to_vec();
        for name in names.iter().map(AsRef::as_ref) {
            let unknown = || ArrowError::InvalidArgumentError(format!("{name} is no system column"));
            fields.push(Arc::new(system::field(name).ok_or_else(unknown)?));
            columns.push(self.column(name, count));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }

    fn column(&self, name: &str, rows: usize) -> ArrayRef {
        match name {
            system::OFFSET => {
                let first = self.first.0 as i64;
                Arc::new(Int64Array::from_iter_values(first..first + rows as i64))
            }
            system::TIMESTAMP => {
                let skip = (self.first.0 - self.chunk.base_offset) as usize;
                let runs = self.chunk.runs.iter().flat_map(|r| std::iter::repeat_n(r.time, r.rows as usize));
                let times = runs.chain(std::iter::repeat(self.chunk.runs.last().map_or(0, |r| r.time)));
                let times = TimestampMillisecondArray::from_iter_values(times.skip(skip).take(rows));
                Arc::new(times.with_timezone("UTC"))
            }
            system::BUCKET => Arc::new(Int32Array::from(vec![self.chunk.bucket as i32; rows])),
            system::CHANGE_TYPE => Arc::new(StringArray::from(vec![INSERT; rows])),
            // Partitions have names of their own, which the table will know.
            _ => {
                debug_assert!(self.table.partition_by.is_empty(), "only tables without partitions exist");
                Arc::new(StringArray::from(vec![""; rows]))
            }
        }
    }
}
