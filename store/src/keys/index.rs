//! Where a bucket's rows lie: one entry for each bucket and group of log objects, or pack, found by its last offset.

use bytes::{BufMut, Bytes};
use prost::Message;
use wadi_model::{Bucket, LogSeq, Offset};

use super::{DamagedEntry, bucket_key, damaged, kind, split_bucket};
use crate::container::Chunk;
use crate::stored::{ObjectId, PackId};

/// The chunks of one bucket in one group of log objects, or in one pack, by offset.
#[derive(Clone, PartialEq, Message)]
pub struct IndexEntry {
    /// Side by side, without gap.
    #[prost(message, repeated, tag = "1")]
    pub chunks: Vec<IndexedChunk>,
}

/// A chunk's place.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct IndexedChunk {
    /// The log object; 0 if it is a pack.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// Its position in the object's footer.
    #[prost(uint32, tag = "2")]
    pub position: u32,
    /// The offset of its first row.
    #[prost(uint64, tag = "3")]
    pub base_offset: u64,
    /// Its rows.
    #[prost(uint32, tag = "4")]
    pub rows: u32,
    /// The `_timestamp` of its last row.
    #[prost(int64, tag = "5")]
    pub time: i64,
    /// The upper half of the pack's id; 0 for log objects.
    #[prost(fixed64, tag = "6")]
    pub pack_high: u64,
    /// The lower half.
    #[prost(fixed64, tag = "7")]
    pub pack_low: u64,
    /// Its stored bytes; 0 if they were not noted.
    #[prost(uint32, tag = "8")]
    pub bytes: u32,
}

impl IndexedChunk {
    /// Chunk `position` of an object.
    pub fn new(object: ObjectId, position: usize, chunk: &Chunk) -> IndexedChunk {
        let (seq, pack) = match object {
            ObjectId::Log(seq) => (seq.0, 0),
            ObjectId::Pack(id) => (0, id.0),
        };
        IndexedChunk {
            seq,
            position: position as u32,
            base_offset: chunk.base_offset,
            rows: chunk.rows,
            time: chunk.runs.last().map_or(0, |run| run.time),
            pack_high: (pack >> 64) as u64,
            pack_low: pack as u64,
            bytes: chunk.len,
        }
    }

    /// The object that it lies in.
    pub fn object(&self) -> ObjectId {
        match u128::from(self.pack_high) << 64 | u128::from(self.pack_low) {
            0 => ObjectId::Log(LogSeq(self.seq)),
            pack => ObjectId::Pack(PackId(pack)),
        }
    }

    /// The offset behind the last row.
    pub fn end(&self) -> Offset {
        Offset(self.base_offset.saturating_add(u64::from(self.rows)))
    }
}

/// The key of the entry whose last row has this offset.
pub fn key(bucket: &Bucket, last: Offset) -> Bytes {
    let mut key = bucket_key(kind::INDEX, bucket, 8);
    key.put_u64(last.0);
    key.freeze()
}

/// The keys of all entries that hold `from` or later rows: the first one is where `from` lies.
pub fn from(bucket: &Bucket, from: Offset) -> std::ops::RangeInclusive<Bytes> {
    key(bucket, from)..=key(bucket, Offset(u64::MAX))
}

/// Reads an entry: its bucket, last offset and chunks.
pub fn decode(key: &[u8], value: &[u8]) -> Result<(Bucket, Offset, IndexEntry), DamagedEntry> {
    let (bucket, rest) = split_bucket("index", kind::INDEX, key)?;
    let last = rest.try_into().map_err(|_| damaged("index", "its key has no offset"))?;
    let entry = IndexEntry::decode(value).map_err(|e| damaged("index", e))?;
    Ok((bucket, Offset(u64::from_be_bytes(last)), entry))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::any_bucket;
    use super::*;

    proptest! {
        #[test]
        fn entries_read_back(bucket in any_bucket(), last in any::<u64>(), seq in any::<u64>(), rows in any::<u32>()) {
            let chunk = IndexedChunk { seq, position: 3, base_offset: last / 2, rows, time: -1, ..IndexedChunk::default() };
            let entry = IndexEntry { chunks: vec![chunk] };
            let read = decode(&key(&bucket, Offset(last)), &entry.encode_to_vec()).unwrap();
            prop_assert_eq!(read, (bucket, Offset(last), entry));
        }

        #[test]
        fn keys_are_in_the_order_of_buckets_and_offsets(
            a in (any_bucket(), any::<u64>()), b in (any_bucket(), any::<u64>())
        ) {
            prop_assert_eq!(a.cmp(&b), key(&a.0, Offset(a.1)).cmp(&key(&b.0, Offset(b.1))));
        }
    }
}
