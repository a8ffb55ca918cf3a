//! The keys and values of a shard's SlateDB database, one file per kind.
//!
//! The first byte of a key is its kind, so that each kind is one range. Numbers in keys are big endian, so that the
//! order of keys is the order of what they name.
//!
//! | kind | key | value |
//! | --- | --- | --- |
//! | `a` applied | | log position, token and put id of the last applied object |
//! | `c` contents | pack | the pack's name and footer |
//! | `h` high watermark | table, partition, bucket | high watermark, log start, last time |
//! | `i` index | table, partition, bucket, last offset | the chunks that end there, by object |
//! | `k` pack | pack | what it covers, and how much of it is still pointed to |
//! | `l` log packing | | how far the log was turned into packs, and how much was not |
//! | `n` next ids | table, partition, bucket | the ids that the bucket has for its auto-increment column |
//! | `o` object | log position | the object's footer |
//! | `p` producer | table, partition, bucket, producer | its newest requests with their offsets |
//! | `r` row | table, partition, bucket, primary key | the row |

use bytes::{BufMut, Bytes, BytesMut};
use wadi_model::{Bucket, PartitionId, TableId};

pub mod applied;
pub mod ids;
pub mod index;
pub mod object;
pub mod pack;
pub mod packing;
pub mod producer;
pub mod row;
pub mod watermark;

/// What a kind's first byte is.
mod kind {
    pub(super) const APPLIED: u8 = b'a';
    pub(super) const WATERMARK: u8 = b'h';
    pub(super) const INDEX: u8 = b'i';
    pub(super) const IDS: u8 = b'n';
    pub(super) const OBJECT: u8 = b'o';
    pub(super) const PACK: u8 = b'k';
    pub(super) const PACK_CONTENTS: u8 = b'c';
    pub(super) const PACKING: u8 = b'l';
    pub(super) const PRODUCER: u8 = b'p';
    pub(super) const ROW: u8 = b'r';
}

/// A stored key or value that is not what its kind should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {kind} entry in the shard's database: {why}")]
pub struct DamagedEntry {
    kind: &'static str,
    why: String,
}

pub(crate) fn damaged(kind: &'static str, why: impl ToString) -> DamagedEntry {
    DamagedEntry { kind, why: why.to_string() }
}

/// The key of a kind and a bucket, with room for `more` bytes.
fn bucket_key(kind: u8, bucket: &Bucket, more: usize) -> BytesMut {
    let mut key = BytesMut::with_capacity(21 + more);
    key.put_u8(kind);
    key.put_u64(bucket.table.0);
    key.put_u64(bucket.partition.0);
    key.put_u32(bucket.bucket);
    key
}

/// Splits a key of [`bucket_key`] into its bucket and what follows.
fn split_bucket<'a>(what: &'static str, kind: u8, key: &'a [u8]) -> Result<(Bucket, &'a [u8]), DamagedEntry> {
    let (head, rest) = key.split_first_chunk::<21>().ok_or_else(|| damaged(what, "its key is too short"))?;
    if head[0] != kind {
        return Err(damaged(what, "its key is of another kind"));
    }
    let eight = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&head[at..at + 8]);
        u64::from_be_bytes(word)
    };
    let bucket = u32::from_be_bytes([head[17], head[18], head[19], head[20]]);
    Ok((Bucket { table: TableId(eight(1)), partition: PartitionId(eight(9)), bucket }, rest))
}

/// The kinds of a bucket's entries that nobody counts or points to, so that a compaction may leave them out when the bucket's table
/// was dropped. Index, high watermark and ids are the owner's: it removes them by a command in the log, with the packs that they keep.
const COUNTED_BY_NOBODY: [u8; 2] = [kind::PRODUCER, kind::ROW];

/// The bucket of a row or a producer; `None` for all other entries.
pub fn removable_of(key: &[u8]) -> Option<Bucket> {
    let kind = *key.first()?;
    if !COUNTED_BY_NOBODY.contains(&kind) {
        return None;
    }
    split_bucket("any", kind, key).ok().map(|(bucket, _)| bucket)
}

/// What the keys of rows and producers of a table begin with, or of one of its partitions: one prefix for each kind.
pub fn removable(table: TableId, partition: Option<PartitionId>) -> impl Iterator<Item = Bytes> {
    COUNTED_BY_NOBODY.into_iter().map(move |kind| table_prefix(kind, table, partition))
}

/// What the keys of all that is stored of a table begin with, or of one of its partitions: one prefix for each kind.
pub fn all_of_table(table: TableId, partition: Option<PartitionId>) -> impl Iterator<Item = Bytes> {
    let kinds = COUNTED_BY_NOBODY.into_iter().chain([kind::INDEX, kind::WATERMARK, kind::IDS]);
    kinds.map(move |kind| table_prefix(kind, table, partition))
}

fn table_prefix(kind: u8, table: TableId, partition: Option<PartitionId>) -> Bytes {
    let mut prefix = BytesMut::with_capacity(17);
    prefix.put_u8(kind);
    prefix.put_u64(table.0);
    if let Some(partition) = partition {
        prefix.put_u64(partition.0);
    }
    prefix.freeze()
}

/// All keys of a kind.
fn all_of(kind: u8) -> Bytes {
    Bytes::copy_from_slice(&[kind])
}

#[cfg(test)]
fn any_bucket() -> impl proptest::strategy::Strategy<Value = Bucket> {
    use proptest::prelude::*;
    (any::<u64>(), any::<u64>(), any::<u32>()).prop_map(|(table, partition, bucket)| Bucket {
        table: TableId(table),
        partition: PartitionId(partition),
        bucket,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stored::PackId;
    use wadi_model::{LogSeq, Offset};

    proptest! {
        #[test]
        fn rows_and_producers_are_known_as_their_buckets(bucket in any_bucket(), other in any_bucket()) {
            let within = |key: &Bytes, table, partition| {
                removable(table, partition).filter(|prefix| key.starts_with(prefix)).count()
            };
            for key in [producer::key(&bucket, "p"), row::key(&bucket, b"k")] {
                prop_assert_eq!(removable_of(&key), Some(bucket));
                prop_assert_eq!(within(&key, bucket.table, None), 1);
                prop_assert_eq!(within(&key, bucket.table, Some(bucket.partition)), 1);
                prop_assert_eq!(within(&key, other.table, None), usize::from(other.table == bucket.table));
            }
        }

        #[test]
        fn nothing_that_others_need_is_removable(bucket in any_bucket(), seq in any::<u64>(), rest in any::<Vec<u8>>()) {
            let (table, id) = (bucket.table, PackId(u128::from(seq)));
            let of_bucket = [watermark::key(&bucket), index::key(&bucket, Offset(seq)), ids::key(&bucket)];
            let of_shard = [applied::key(), packing::key(), object::key(LogSeq(seq)), pack::entry_key(id), pack::contents_key(id)];
            for key in of_bucket.iter().chain(&of_shard) {
                prop_assert_eq!(removable_of(key), None);
                prop_assert!(!removable(table, None).any(|prefix| key.starts_with(&prefix)));
            }
            // Short keys of whatever kind are nobody's.
            prop_assert_eq!(removable_of(&rest[..rest.len().min(20)]), None);
        }
    }
}
