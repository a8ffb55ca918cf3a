//! Which bucket a row belongs to: Fluss's hash, or Iceberg's bucket transform.
//!
//! Part of the data format: rows of one key must meet in one bucket for ever, and an Iceberg reader must compute the
//! same bucket from its own transform. Source: `BucketingFunction`, `MurmurHashUtils` and `KeyEncoder` of Apache
//! Fluss, and the Iceberg specification, appendix B.

use arrow::array::RecordBatch;

use crate::types::DataType;
use key::KeyColumn;

pub use key::UnsupportedKey;

mod key;
mod murmur;
#[cfg(test)]
mod tests;

/// How key bytes choose a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketFunction {
    /// Fluss's own: murmur with seed 42 over Fluss's compacted key bytes, hashed once more.
    Fluss,
    /// Iceberg's bucket transform, for one column.
    Iceberg,
}

impl BucketFunction {
    /// Whether a column of this type can be hashed.
    pub fn takes(self, data_type: &DataType) -> bool {
        use DataType::*;
        match self {
            BucketFunction::Fluss => data_type.can_be_key(),
            BucketFunction::Iceberg => match data_type {
                Int | BigInt | Date | Decimal { .. } | Char(_) | String | Binary(_) | Bytes => true,
                // Iceberg hashes microseconds; finer units would need a v3 type.
                Time(p) | Timestamp(p) => *p <= 6,
                _ => false,
            },
        }
    }

    /// The bucket of one key's bytes.
    fn bucket(self, key: &[u8], buckets: u32) -> u32 {
        match self {
            BucketFunction::Fluss => murmur::fluss_finish(murmur::fluss_hash(key)) % buckets,
            BucketFunction::Iceberg => (murmur::murmur3_32(key) & 0x7fff_ffff) % buckets,
        }
    }

    /// The bucket of each row, from the columns at `key` in their order. Key columns hold no nulls for Fluss's
    /// function of a primary key; where a log table's bucket key is null, null counts as a value of its own.
    pub fn buckets_of(
        self,
        batch: &RecordBatch,
        key: &[usize],
        buckets: u32,
    ) -> Result<Vec<u32>, UnsupportedKey> {
        if buckets == 1 {
            return Ok(vec![0; batch.num_rows()]);
        }
        let columns: Vec<KeyColumn<'_>> = key
            .iter()
            .map(|i| KeyColumn::new(batch.schema_ref().field(*i), batch.column(*i)))
            .collect::<Result<_, _>>()?;
        let mut bytes = Vec::with_capacity(64);
        let mut bucket = |row: usize| {
            bytes.clear();
            for column in &columns {
                match self {
                    BucketFunction::Fluss => column.write_compacted(row, &mut bytes),
                    BucketFunction::Iceberg => column.write_iceberg(row, &mut bytes),
                }
            }
            self.bucket(&bytes, buckets)
        };
        Ok((0..batch.num_rows()).map(&mut bucket).collect())
    }
}

/// The bucket for rows without a bucket key that carry a producer's sequence: the same for every retry.
pub fn bucket_of_producer(producer: &str, sequence: u64, buckets: u32) -> u32 {
    let mut bytes = producer.as_bytes().to_vec();
    bytes.extend_from_slice(&sequence.to_be_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) % u64::from(buckets.max(1))) as u32
}
