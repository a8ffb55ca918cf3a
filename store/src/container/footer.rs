//! The footer: what lies where in an object.
//!
//! Protobuf by hand-numbered fields, so that later versions can add some and older readers skip them.
//!
//! An object of many small chunks is to cost little more than their rows, so [`Footer::to_bytes`] leaves out what a
//! reader can tell by itself, and [`Footer::decode`] fills it in again: where a chunk begins that lies right behind the
//! one before, the run of a chunk that was flushed with all others, high watermarks.

use bytes::Bytes;
use prost::Message;
use wadi_model::ipc::Codec;
use wadi_model::{Bucket, Offset, PartitionId, SchemaId, TableId};

use super::{ALIGNMENT, COLUMN_CHUNK_BYTES, Damaged, HEADER_LEN, damaged};

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

/// The compressed frame that a small chunk is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Frame {
    /// None: the chunk is a message.
    None = 0,
    /// LZ4.
    Lz4 = 1,
    /// zstd.
    Zstd = 2,
}

impl From<Codec> for Frame {
    fn from(codec: Codec) -> Frame {
        match codec {
            Codec::Lz4 => Frame::Lz4,
            Codec::Zstd => Frame::Zstd,
        }
    }
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
    /// When the object was flushed, in milliseconds since 1970: the time of rows without runs.
    #[prost(int64, tag = "3")]
    pub time: i64,
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
    /// The bytes of the message before its body; 0 in frames.
    #[prost(uint32, tag = "10")]
    pub metadata_len: u32,
    /// CRC32C of the whole chunk; of the message before its body, in chunks that carry columns.
    #[prost(fixed32, tag = "11")]
    pub crc: u32,
    /// Uncompressed bytes of its body, or of its frame.
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
    /// Whether it is stored as one frame.
    #[prost(enumeration = "Frame", tag = "16")]
    pub frame: i32,
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

    /// Whether it is about the shard, not about a bucket. Ids of tables begin with 1.
    pub fn is_of_shard(&self) -> bool {
        self.table == 0
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

    /// How its frame is compressed, if it is one.
    pub fn codec(&self) -> Option<Codec> {
        match self.frame() {
            Frame::None => None,
            Frame::Lz4 => Some(Codec::Lz4),
            Frame::Zstd => Some(Codec::Zstd),
        }
    }

    /// Whether its numbers fit each other.
    fn check(&self) -> Result<(), &'static str> {
        let inside = |s: &ColumnSegment| {
            s.start >= self.metadata_len && u64::from(s.start) + u64::from(s.len) <= u64::from(self.len)
        };
        if self.metadata_len > self.len || !self.columns.iter().all(inside) {
            return Err("has a part outside itself");
        }
        if self.base_offset.checked_add(u64::from(self.rows)).is_none() {
            return Err("has offsets beyond all offsets");
        }
        match Frame::try_from(self.frame) {
            Ok(Frame::None) => Ok(()),
            // Readers allocate what a frame says it holds.
            Ok(_) if self.raw_len > COLUMN_CHUNK_BYTES as u64 => Err("is a frame that holds too much"),
            Ok(_) if !self.columns.is_empty() || self.metadata_len > 0 => Err("is a frame with columns"),
            Ok(_) => Ok(()),
            Err(_) => Err("is a frame of an unknown kind"),
        }
    }
}

impl HighWatermark {
    /// Whose it is.
    pub fn bucket_id(&self) -> Bucket {
        Bucket { table: TableId(self.table), partition: PartitionId(self.partition), bucket: self.bucket }
    }
}

impl Footer {
    /// The stored form.
    pub fn to_bytes(&self) -> Bytes {
        let mut end = HEADER_LEN as u64;
        let slim = |chunk: &Chunk| {
            let mut chunk = chunk.clone();
            let behind = end.next_multiple_of(ALIGNMENT);
            end = chunk.range().end;
            if u64::from(chunk.start) == behind {
                chunk.start = 0;
            }
            if chunk.runs == [Run { rows: chunk.rows, time: self.time }] {
                chunk.runs.clear();
            }
            chunk
        };
        let chunks = self.chunks.iter().map(slim).collect();
        let derived = high_watermarks(&self.chunks);
        let high_watermarks =
            if self.high_watermarks == derived { Vec::new() } else { self.high_watermarks.clone() };
        Footer { chunks, high_watermarks, time: self.time }.encode_to_vec().into()
    }

    /// Reads a footer and checks that its chunks lie where they can.
    pub fn decode(bytes: &[u8]) -> Result<Footer, Damaged> {
        let mut footer =
            <Footer as Message>::decode(bytes).map_err(|e| Damaged(format!("the footer: {e}")))?;
        let mut end = HEADER_LEN as u64;
        for (i, chunk) in footer.chunks.iter_mut().enumerate() {
            if chunk.start == 0 {
                chunk.start = u32::try_from(end.next_multiple_of(ALIGNMENT))
                    .map_err(|_| Damaged(format!("chunk {i} begins beyond all positions")))?;
            }
            if chunk.runs.is_empty() && chunk.rows > 0 {
                chunk.runs.push(Run { rows: chunk.rows, time: footer.time });
            }
            let range = chunk.range();
            if range.start < end {
                return damaged(format!("chunk {i} overlaps what lies before it"));
            }
            end = range.end;
            chunk.check().map_err(|what| Damaged(format!("chunk {i} {what}")))?;
        }
        if footer.high_watermarks.is_empty() {
            footer.high_watermarks = high_watermarks(&footer.chunks);
        }
        Ok(footer)
    }
}

/// Where each bucket stands after an object with these chunks; those of one bucket stand side by side.
pub(super) fn high_watermarks(chunks: &[Chunk]) -> Vec<HighWatermark> {
    let mut marks: Vec<HighWatermark> = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_of_shard()) {
        let offset = chunk.end().0;
        match marks.last_mut() {
            Some(mark) if mark.bucket_id() == chunk.bucket_id() => mark.offset = offset,
            _ => marks.push(HighWatermark {
                table: chunk.table,
                partition: chunk.partition,
                bucket: chunk.bucket,
                offset,
            }),
        }
    }
    marks
}
