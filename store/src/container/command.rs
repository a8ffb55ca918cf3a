//! Commands: changes of a shard's state that are not rows, as chunks of log objects.
//!
//! A command changes the state of one bucket, whose id its chunk carries, or of the shard, whose chunks carry table 0; the chunk has no
//! rows. It says everything that is to be known, so that who applies it reads nothing else. Later kinds get fields of their own; a
//! reader that knows none of those that are set must not go on, since it cannot tell what it would miss.

use bytes::Bytes;
use prost::Message;
use wadi_model::{Bucket, PartitionId, TableId};

use super::{Chunk, ChunkKind, Damaged, damaged};
use crate::keys::ids::IdRanges;
use crate::keys::index::IndexEntry;

/// A change of state.
#[derive(Clone, PartialEq, Message)]
pub struct Command {
    /// The ids that the bucket has left after the rows that the object brings.
    #[prost(message, optional, tag = "1")]
    pub ids: Option<IdRanges>,
    /// Rows of the shard are found elsewhere now, or not at all.
    #[prost(message, optional, tag = "2")]
    pub rewrite: Option<Rewrite>,
    /// Objects of the shard are gone.
    #[prost(message, optional, tag = "3")]
    pub deleted: Option<Deleted>,
}

/// A change of where rows are found: they were packed, or are kept no longer.
#[derive(Clone, PartialEq, Message)]
pub struct Rewrite {
    /// How much of the log is packed by it; none if only packs were merged, or rows expired.
    #[prost(message, optional, tag = "1")]
    pub round: Option<LogRound>,
    /// The packs that were made.
    #[prost(message, repeated, tag = "2")]
    pub packs: Vec<NewPack>,
    /// Entries of the index that do not point into these packs any more.
    #[prost(message, repeated, tag = "3")]
    pub released: Vec<Released>,
    /// What changes in each bucket.
    #[prost(message, repeated, tag = "4")]
    pub buckets: Vec<BucketRewrite>,
}

/// Log objects that were packed.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LogRound {
    /// The last one.
    #[prost(uint64, tag = "1")]
    pub to: u64,
    /// How many had rows.
    #[prost(uint64, tag = "2")]
    pub objects: u64,
    /// Bytes of their chunks.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// When the last one was flushed, in milliseconds since 1970.
    #[prost(int64, tag = "4")]
    pub time: i64,
}

/// A pack that becomes part of the shard.
#[derive(Clone, PartialEq, Message)]
pub struct NewPack {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its bytes.
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
    /// Entries of the index that point into it.
    #[prost(uint32, tag = "3")]
    pub live: u32,
    /// Its footer as it is stored.
    #[prost(bytes = "bytes", tag = "4")]
    pub footer: Bytes,
}

/// Entries of the index that do not point into a pack any more.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Released {
    /// The upper half of the pack's id.
    #[prost(fixed64, tag = "1")]
    pub pack_high: u64,
    /// The lower half.
    #[prost(fixed64, tag = "2")]
    pub pack_low: u64,
    /// How many entries.
    #[prost(uint32, tag = "3")]
    pub entries: u32,
}

/// What changes in the index of a bucket.
#[derive(Clone, PartialEq, Message)]
pub struct BucketRewrite {
    /// The table's id.
    #[prost(uint64, tag = "1")]
    pub table: u64,
    /// The partition's id, 0 without.
    #[prost(uint64, tag = "2")]
    pub partition: u64,
    /// The bucket's number.
    #[prost(uint32, tag = "3")]
    pub bucket: u32,
    /// Entries that go, by their last offset.
    #[prost(uint64, repeated, tag = "4")]
    pub removed: Vec<u64>,
    /// Entries that come.
    #[prost(message, repeated, tag = "5")]
    pub entries: Vec<IndexEntry>,
    /// The first offset that is kept, if that has changed.
    #[prost(uint64, optional, tag = "6")]
    pub log_start: Option<u64>,
    /// Whether nothing of the bucket is kept: its table or partition was dropped.
    #[prost(bool, tag = "7")]
    pub gone: bool,
}

/// Objects that were deleted.
#[derive(Clone, PartialEq, Message)]
pub struct Deleted {
    /// Log objects.
    #[prost(uint64, repeated, tag = "1")]
    pub log: Vec<u64>,
    /// Packs, by name.
    #[prost(string, repeated, tag = "2")]
    pub packs: Vec<String>,
}

impl BucketRewrite {
    /// Nothing yet.
    pub fn of(bucket: &Bucket) -> BucketRewrite {
        let Bucket { table, partition, bucket } = *bucket;
        BucketRewrite { table: table.0, partition: partition.0, bucket, ..BucketRewrite::default() }
    }

    /// The bucket.
    pub fn bucket_id(&self) -> Bucket {
        Bucket { table: TableId(self.table), partition: PartitionId(self.partition), bucket: self.bucket }
    }
}

impl Command {
    /// The chunk of a command for a bucket, which stands before chunk `next` of the bucket.
    pub fn chunk(&self, next: &Chunk) -> (Chunk, Bytes) {
        let Chunk { table, partition, bucket, base_offset, .. } = *next;
        self.chunk_of(Chunk { table, partition, bucket, base_offset, ..Chunk::default() })
    }

    /// The chunk of a command for the shard.
    pub fn chunk_of_shard(&self) -> (Chunk, Bytes) {
        self.chunk_of(Chunk::default())
    }

    fn chunk_of(&self, place: Chunk) -> (Chunk, Bytes) {
        let bytes = Bytes::from(self.encode_to_vec());
        let chunk = Chunk {
            kind: ChunkKind::Command as i32,
            crc: crc32c::crc32c(&bytes),
            raw_len: bytes.len() as u64,
            ..place
        };
        (chunk, bytes)
    }

    /// Reads the bytes of a command's chunk.
    pub fn read(bytes: &[u8]) -> Result<Command, Damaged> {
        let command = Command::decode(bytes).map_err(|e| Damaged(format!("a command: {e}")))?;
        if command == Command::default() {
            return damaged("a command is of a kind that is not known here");
        }
        Ok(command)
    }
}
