//! How far a bucket reaches.

use bytes::Bytes;
use prost::Message;
use wadi_model::Bucket;

use super::{DamagedEntry, all_of, bucket_key, damaged, kind, split_bucket};

/// The ends of a bucket's log.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Watermark {
    /// The first offset not yet taken.
    #[prost(uint64, tag = "1")]
    pub high: u64,
    /// The first offset that is still kept.
    #[prost(uint64, tag = "2")]
    pub start: u64,
    /// Of a primary-key table: how many rows there are, as the changelog up to `high` tells.
    #[prost(uint64, tag = "3")]
    pub rows: u64,
    /// Whether the changelog has once not told if a row was new, so that `rows` means nothing.
    #[prost(bool, tag = "4")]
    pub uncounted: bool,
}

impl Watermark {
    /// Counts what a piece of the changelog adds; `None` is not told.
    pub fn grow(&mut self, more: Option<i64>) {
        // A deletion without a row before would be a damaged changelog.
        match more.and_then(|more| self.rows.checked_add_signed(more)) {
            Some(rows) => self.rows = rows,
            None => self.uncounted = true,
        }
    }

    /// How many rows there are, if that is known.
    pub fn count(&self) -> Option<u64> {
        (!self.uncounted).then_some(self.rows)
    }
}

/// The key of a bucket.
pub fn key(bucket: &Bucket) -> Bytes {
    bucket_key(kind::WATERMARK, bucket, 0).freeze()
}

/// The prefix of all such keys.
pub fn prefix() -> Bytes {
    all_of(kind::WATERMARK)
}

/// Reads an entry.
pub fn decode(key: &[u8], value: &[u8]) -> Result<(Bucket, Watermark), DamagedEntry> {
    let (bucket, _) = split_bucket("high watermark", kind::WATERMARK, key)?;
    Ok((bucket, Watermark::decode(value).map_err(|e| damaged("high watermark", e))?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::any_bucket;
    use super::*;

    proptest! {
        #[test]
        fn entries_read_back(bucket in any_bucket(), numbers in any::<[u64; 3]>(), uncounted in any::<bool>()) {
            let [high, start, rows] = numbers;
            let mark = Watermark { high, start, rows, uncounted };
            prop_assert_eq!(decode(&key(&bucket), &mark.encode_to_vec()).unwrap(), (bucket, mark));
        }

        #[test]
        fn keys_are_in_the_order_of_buckets(a in any_bucket(), b in any_bucket()) {
            prop_assert_eq!(a.cmp(&b), key(&a).cmp(&key(&b)));
        }
    }
}
