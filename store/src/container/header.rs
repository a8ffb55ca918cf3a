//! The first 72 bytes of an object: who wrote it, where it stands, and whose PUT it was.

use wadi_model::{LogSeq, ShardId, Token};

use super::{Damaged, MAGIC, VERSION, check_version, damaged};

/// Bytes of a header.
pub const HEADER_LEN: usize = 72;

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A flush of the shard's buckets.
    Data = 1,
    /// The end of all lower tokens, made by a takeover. Never deleted.
    Fence = 2,
    /// Merged chunks of a range of the log.
    Pack = 3,
}

/// The header of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Whose it is.
    pub shard: ShardId,
    /// Its position in the log; in packs the first one of the range.
    pub seq: LogSeq,
    /// The same position; in packs the last one of the range.
    pub last: LogSeq,
    /// The owner's token when it was written.
    pub token: Token,
    /// Chosen anew for each object, so that a writer knows its own PUT again.
    pub put_id: u128,
    /// When it was flushed, in milliseconds since 1970: `_timestamp` of its rows.
    pub time: i64,
}

impl Header {
    /// The header's bytes.
    pub fn write(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6] = self.kind as u8;
        out[8..12].copy_from_slice(&self.shard.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.seq.0.to_le_bytes());
        out[24..32].copy_from_slice(&self.last.0.to_le_bytes());
        out[32..40].copy_from_slice(&self.token.0.to_le_bytes());
        out[40..56].copy_from_slice(&self.put_id.to_le_bytes());
        out[56..64].copy_from_slice(&self.time.to_le_bytes());
        let crc = crc32c::crc32c(&out[..64]);
        out[64..68].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header from an object's first bytes.
    pub fn read(bytes: &[u8]) -> Result<Header, Damaged> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return damaged(format!("{} bytes are too few for a header", bytes.len()));
        };
        let eight = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[..4] != MAGIC {
            return damaged("the header's magic is missing");
        }
        check_version(u16::from_le_bytes([bytes[4], bytes[5]]))?;
        if crc32c::crc32c(&bytes[..64]) != eight(64) as u32 {
            return damaged("the header's checksum does not match");
        }
        let kind = match bytes[6] {
            1 => Kind::Data,
            2 => Kind::Fence,
            3 => Kind::Pack,
            kind => return damaged(format!("kind {kind} is not known")),
        };
        Ok(Header {
            kind,
            shard: ShardId(eight(8) as u32),
            seq: LogSeq(eight(16)),
            last: LogSeq(eight(24)),
            token: Token(eight(32)),
            put_id: u128::from(eight(40)) | u128::from(eight(48)) << 64,
            time: eight(56) as i64,
        })
    }
}
