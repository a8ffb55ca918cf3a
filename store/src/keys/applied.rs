//! Up to which log object the database is the fold of the log.

use bytes::Bytes;
use prost::Message;

use super::{DamagedEntry, damaged, kind};

/// The last applied object. Written with every group.
#[derive(Clone, PartialEq, Message)]
pub struct Applied {
    /// Its position.
    #[prost(uint64, tag = "1")]
    pub seq: u64,
    /// Its token.
    #[prost(uint64, tag = "2")]
    pub token: u64,
    /// Its put id.
    #[prost(bytes = "bytes", tag = "3")]
    pub put_id: Bytes,
    /// The highest `_timestamp` up to there; later ones are never lower.
    #[prost(int64, tag = "4")]
    pub time: i64,
}

/// The one key.
pub fn key() -> Bytes {
    Bytes::from_static(&[kind::APPLIED])
}

/// Reads the value.
pub fn decode(value: &[u8]) -> Result<Applied, DamagedEntry> {
    Applied::decode(value).map_err(|e| damaged("applied", e))
}
