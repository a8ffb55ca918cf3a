//! The footer: what lies where in an object.
//!
//! Protobuf by hand-numbered fields, so that later versions can add some and older readers skip them.

use bytes::Bytes;
use prost::Message;
use wadi_model::{Bucket, Offset, PartitionId, SchemaId, TableId};

use super::{Damaged, HEADER_LEN, damaged};

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ChunkKind {
    /// Unknown; never written.
    Unknown = 0,
    /// Rows of a log table.
    Log = 1,
    /// Rows of a changelog, with the change type as their first column.
    Changelog = 2,
    /// A change of shard state.
    Command = 3,
}

/// The table of contents of an object.
#[derive(Clone, PartialEq, Message)]
pub struct Footer {
    /// In the order of their bytes.
    #[prost(message, repeated, tag = "1")]
    pub chunks: Vec<Chunk>,
    /// Of each bucket that has rows in the object, after the object.
    #[prost(message, repeated, tag = "2")]
    pub high_watermarks: Vec<HighWatermark>,
}

/// One bucket's rows.
#[derive(Clone, PartialEq, Message)]
pub struct Chunk {
    /// The table's id.
    #[prost(uint64, tag = "1")]
    pub table: u64,
    /// The partition's id, 0 without.
    #[prost(uint64, tag = "2")]
    pub partition: u64,
    /// The bucket's number.
    #[prost(uint32, tag = "3")]
    pub bucket: u32,
    /// What it holds.
    #[prost(enumeration = "ChunkKind", tag = "4")]
    pub kind: i32,
    /// The schema version of its rows.
    #[prost(uint32, tag = "5")]
    pub schema_id: u32,
    /// The offset of its first row.
    #[prost(uint64, tag = "6")]
    pub base_offset: u64,
    /// Its rows.
    #[prost(uint32, tag = "7")]
    pub rows: u32,
    /// Its first byte in the object.
    #[prost(uint32, tag = "8")]
    pub start: u32,
    /// Its bytes.
    #[prost(uint32, tag = "9")]
    pub len: u32,
    /// The bytes of the message before its body.
    #[prost(uint32, tag = "10")]
    pub metadata_len: u32,
    /// CRC32C of the whole chunk; of the message before its body, in chunks that carry columns.
    #[prost(fixed32, tag = "11")]
    pub crc: u32,
    /// Uncompressed bytes of its body.
    #[prost(uint64, tag = "12")]
    pub raw_len: u64,
    /// Rows flushed together, with their `_timestamp`, in order.
    #[prost(message, repeated, tag = "13")]
    pub runs: Vec<Run>,
    /// The producers of its rows.
    #[prost(message, repeated, tag = "14")]
    pub producers: Vec<Producer>,
    /// Its columns, in chunks of 64 KiB and more; empty in smaller ones.
    #[prost(message, repeated, tag = "15")]
    pub columns: Vec<ColumnSegment>,
}

/// Rows flushed together.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Run {
    /// How many.
    #[prost(uint32, tag = "1")]
    pub rows: u32,
    /// When, in milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub time: i64,
}

/// One request of a producer, as far as it lies in the chunk.
#[derive(Clone, PartialEq, Message)]
pub struct Producer {
    /// The name that the client chose.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The request's number; 0 for an idempotency key.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// What the request said, as a hash.
    #[prost(fixed64, tag = "3")]
    pub fingerprint: u64,
    /// The first row's offset.
    #[prost(uint64, tag = "4")]
    pub base_offset: u64,
    /// Its rows.
    #[prost(uint32, tag = "5")]
    pub rows: u32,
    /// Whether it is an idempotency key, a producer of one request.
    #[prost(bool, tag = "6")]
    pub once: bool,
}

/// Where one top-level column lies in a chunk.
#[derive(Clone, PartialEq, Message)]
pub struct ColumnSegment {
    /// Its first byte in the chunk.
    #[prost(uint32, tag = "1")]
    pub start: u32,
    /// Its bytes.
    #[prost(uint32, tag = "2")]
    pub len: u32,
    /// CRC32C of them.
    #[prost(fixed32, tag = "3")]
    pub crc: u32,
    /// Its statistics, encoded; empty without.
    #[prost(bytes = "bytes", tag = "4")]
    pub statistics: Bytes,
}

/// A bucket's high watermark.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct HighWatermark {
    /// The table's id.
    #[prost(uint64, tag = "1")]
    pub table: u64,
    /// The partition's id, 0 without.
    #[prost(uint64, tag = "2")]
    pub partition: u64,
    /// The bucket's number.
    #[prost(uint32, tag = "3")]
    pub bucket: u32,
    /// The first offset not yet taken.
    #[prost(uint64, tag = "4")]
    pub offset: u64,
}

impl Chunk {
    /// Whose rows they are.
    pub fn bucket_id(&self) -> Bucket {
        Bucket { table: TableId(self.table), partition: PartitionId(self.partition), bucket: self.bucket }
    }

    /// The schema version of its rows.
    pub fn schema(&self) -> SchemaId {
        SchemaId(self.schema_id as u16)
    }

    /// The offset of its first row.
    pub fn first(&self) -> Offset {
        Offset(self.base_offset)
    }

    /// The offset behind its last row.
    pub fn end(&self) -> Offset {
        Offset(self.base_offset.saturating_add(u64::from(self.rows)))
    }

    /// Its bytes in the object.
    pub fn range(&self) -> std::ops::Range<u64> {
        u64::from(self.start)..u64::from(self.start) + u64::from(self.len)
    }
}

impl HighWatermark {
    /// Whose it is.
    pub fn bucket_id(&self) -> Bucket {
        Bucket { table: TableId(self.table), partition: PartitionId(self.partition), bucket: self.bucket }
    }
}

impl Footer {
    /// Reads a footer and checks that its chunks lie where they can.
    pub fn decode(bytes: &[u8]) -> Result<Footer, Damaged> {
        let footer = <Footer as Message>::decode(bytes).map_err(|e| Damaged(format!("the footer: {e}")))?;
        let mut end = HEADER_LEN as u64;
        for (i, chunk) in footer.chunks.iter().enumerate() {
            let range = chunk.range();
            if range.start < end {
                return damaged(format!("chunk {i} overlaps what lies before it"));
            }
            end = range.end;
            let inside = |s: &ColumnSegment| {
                s.start >= chunk.metadata_len && u64::from(s.start) + u64::from(s.len) <= u64::from(chunk.len)
            };
            if chunk.metadata_len > chunk.len || !chunk.columns.iter().all(inside) {
                return damaged(format!("chunk {i} has a part outside itself"));
            }
            if chunk.base_offset.checked_add(u64::from(chunk.rows)).is_none() {
                return damaged(format!("chunk {i} has offsets beyond all offsets"));
            }
        }
        Ok(footer)
    }
}
