//! The one format of log objects and packs.
//!
//! ```text
//! header   72 bytes: magic, version, kind, shard, seq range, token, put id, time, CRC32C
//! body     chunks, each 8-aligned: one Arrow IPC record batch message of one bucket, small ones as one frame; or a command
//! footer   protobuf: for each chunk its bucket, offsets, byte range, columns, producers
//! trailer  16 bytes: footer length, footer CRC32C, version, magic
//! ```
//! All numbers are little endian. Every part has its checksum: header, footer, each chunk, and in chunks of 64 KiB
//! and more each column, so that a projected read is verified too. One ranged GET of the tail reads the footer.
//!
//! Version 2 stores chunks of less than 64 KiB plain as one compressed frame, and leaves out of the footer what follows
//! from the rest of it. Version 1 is a special case of that, so one reader reads both.
//!
//! Written by the shard's actor and by the compactor, read by takeover and log reads. Objects never change.

use bytes::Bytes;

pub use command::{BucketRewrite, Command, Deleted, LogRound, NewPack, Released, Rewrite};
pub use footer::{Chunk, ChunkKind, ColumnSegment, Footer, Frame, HighWatermark, Producer, Run};
pub use header::{HEADER_LEN, Header, Kind};
pub use seal::{SealedObject, seal};

use crate::versions::unknown_format;

mod command;
mod footer;
mod header;
mod seal;
#[cfg(test)]
mod tests;

/// The version that is written. All since 1 are read, and golden files of each say so.
pub const VERSION: u16 = 2;

/// Chunks from this size on carry byte ranges, checksums and statistics of each column. Smaller ones are read whole, and
/// those that are smaller even without compression are stored as one frame.
pub const COLUMN_CHUNK_BYTES: usize = 64 << 10;

/// Chunks, and the footer, begin at multiples of this.
const ALIGNMENT: u64 = 8;

/// How much of an object's end is read at once in the hope that its footer is in it.
pub const TAIL_BYTES: u64 = 64 << 10;

/// Bytes of the trailer.
pub const TRAILER_LEN: usize = 16;

const MAGIC: [u8; 4] = *b"WADI";
const END_MAGIC: [u8; 4] = *b"IDAW";

/// An object that is not what it should be. Data is damaged, foreign, or of a later version; nothing may be built on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it cannot be read: {0}")]
pub struct Damaged(pub String);

/// Refuses objects of versions to come.
fn check_version(version: u16) -> Result<(), Damaged> {
    match version {
        1..=VERSION => Ok(()),
        0 => damaged("version 0 was never written"),
        _ => damaged(unknown_format("the object", version, VERSION.into())),
    }
}

pub(crate) fn damaged<T>(what: impl Into<String>) -> Result<T, Damaged> {
    Err(Damaged(what.into()))
}

/// Where the footer lies, read from the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes of the footer, directly before the trailer.
    pub footer_len: u32,
    footer_crc: u32,
}

impl Trailer {
    /// Reads the trailer from the last bytes of an object.
    pub fn read(tail: &[u8]) -> Result<Trailer, Damaged> {
        let Some((_, trailer)) = tail.split_last_chunk::<TRAILER_LEN>() else {
            return damaged(format!("{} bytes are too few for a trailer", tail.len()));
        };
        let word =
            |at: usize| u32::from_le_bytes([trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]]);
        if trailer[12..] != END_MAGIC {
            return damaged("the trailer's magic is missing");
        }
        check_version(u16::from_le_bytes([trailer[8], trailer[9]]))?;
        Ok(Trailer { footer_len: word(0), footer_crc: word(4) })
    }

    /// Writes the trailer of a footer.
    fn write(footer: &[u8]) -> [u8; TRAILER_LEN] {
        let mut trailer = [0; TRAILER_LEN];
        trailer[..4].copy_from_slice(&(footer.len() as u32).to_le_bytes());
        trailer[4..8].copy_from_slice(&crc32c::crc32c(footer).to_le_bytes());
        trailer[8..10].copy_from_slice(&VERSION.to_le_bytes());
        trailer[12..].copy_from_slice(&END_MAGIC);
        trailer
    }

    /// Checks and reads the footer's bytes.
    pub fn footer(&self, bytes: &Bytes) -> Result<Footer, Damaged> {
        if bytes.len() != self.footer_len as usize || crc32c::crc32c(bytes) != self.footer_crc {
            return damaged("the footer's checksum does not match");
        }
        Footer::decode(bytes)
    }
}
