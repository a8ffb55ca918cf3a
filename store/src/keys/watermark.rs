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
        fn entries_read_back(bucket in any_bucket(), high in any::<u64>(), start in any::<u64>()) {
            let mark = Watermark { high, start };
            prop_assert_eq!(decode(&key(&bucket), &mark.encode_to_vec()).unwrap(), (bucket, mark));
        }

        #[test]
        fn keys_are_in_the_order_of_buckets(a in any_bucket(), b in any_bucket()) {
            prop_assert_eq!(a.cmp(&b), key(&a).cmp(&key(&b)));
        }
    }
}
