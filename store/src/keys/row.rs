//! A row of a primary-key table: its key orders it, its value is the row as `model::row` stores it.

use std::ops::Range;

use bytes::{BufMut, Bytes};
use wadi_model::Bucket;
use wadi_model::key::prefix_end;

use super::{DamagedEntry, bucket_key, kind, split_bucket};

/// The key of the row whose primary key, without partition columns, encodes to `primary`.
pub fn key(bucket: &Bucket, primary: &[u8]) -> Bytes {
    let mut key = bucket_key(kind::ROW, bucket, primary.len());
    key.put_slice(primary);
    key.freeze()
}

/// The keys of all rows whose primary key begins with `prefix`; with an empty prefix all of the bucket.
pub fn range(bucket: &Bucket, prefix: &[u8]) -> Range<Bytes> {
    range_of(key(bucket, prefix))
}

/// The keys that begin with a key, or its beginning, of this kind.
pub fn range_of(first: Bytes) -> Range<Bytes> {
    // The first byte is a letter, so something is above every key.
    let end = prefix_end(&first).map_or_else(Bytes::new, Bytes::from);
    first..end
}

/// The primary key within a row's key.
pub fn primary(key: &[u8]) -> Result<&[u8], DamagedEntry> {
    Ok(split_bucket("row", kind::ROW, key)?.1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::any_bucket;
    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..12)
    }

    proptest! {
        #[test]
        fn keys_read_back(bucket in any_bucket(), primary_key in bytes()) {
            let whole = key(&bucket, &primary_key);
            prop_assert_eq!(primary(&whole).unwrap(), primary_key.as_slice());
        }

        #[test]
        fn a_range_holds_what_begins_with_its_prefix(a in any_bucket(), b in any_bucket(), prefix in bytes(), rest in bytes()) {
            let range = range(&a, &prefix);
            let whole = [prefix.clone(), rest.clone()].concat();
            prop_assert!(range.contains(&key(&a, &whole)));
            prop_assert_eq!(range.contains(&key(&b, &whole)), a == b);
            prop_assert_eq!(range.contains(&key(&a, &rest)), rest.starts_with(&prefix));
        }
    }
}
