//! The ids that a bucket has for its table's auto-increment column.

use bytes::Bytes;
use prost::Message;
use wadi_model::Bucket;

use super::{DamagedEntry, all_of, bucket_key, damaged, kind, split_bucket};

/// What a bucket has left of the ranges that it was given, in the order in which they are used. An exhausted range stays until
/// there is another, so that an entry is never empty.
#[derive(Clone, PartialEq, Message)]
pub struct IdRanges {
    /// In order.
    #[prost(message, repeated, tag = "1")]
    pub ranges: Vec<IdRange>,
}

/// A range of ids, as far as they are not used.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct IdRange {
    /// The first id that is not used.
    #[prost(uint64, tag = "1")]
    pub next: u64,
    /// The id behind the last one.
    #[prost(uint64, tag = "2")]
    pub end: u64,
}

/// The key of a bucket.
pub fn key(bucket: &Bucket) -> Bytes {
    bucket_key(kind::IDS, bucket, 0).freeze()
}

/// The prefix of all such keys.
pub fn prefix() -> Bytes {
    all_of(kind::IDS)
}

/// Reads an entry.
pub fn decode(key: &[u8], value: &[u8]) -> Result<(Bucket, IdRanges), DamagedEntry> {
    let (bucket, _) = split_bucket("ids", kind::IDS, key)?;
    Ok((bucket, IdRanges::decode(value).map_err(|e| damaged("ids", e))?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::any_bucket;
    use super::*;

    proptest! {
        #[test]
        fn entries_read_back(bucket in any_bucket(), ranges in proptest::collection::vec(any::<(u64, u64)>(), 0..4)) {
            let ranges = ranges.into_iter().map(|(next, end)| IdRange { next, end }).collect();
            let entry = IdRanges { ranges };
            prop_assert_eq!(decode(&key(&bucket), &entry.encode_to_vec()).unwrap(), (bucket, entry));
        }

        #[test]
        fn keys_are_in_the_order_of_buckets(a in any_bucket(), b in any_bucket()) {
            prop_assert_eq!(a.cmp(&b), key(&a).cmp(&key(&b)));
        }
    }
}
