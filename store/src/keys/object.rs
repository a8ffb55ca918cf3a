//! The footers of applied log objects, so that a read needs no request for them.

use bytes::{BufMut, Bytes, BytesMut};
use wadi_model::LogSeq;

use super::{DamagedEntry, all_of, damaged, kind};
use crate::container::Footer;

/// The key of a log object.
pub fn key(seq: LogSeq) -> Bytes {
    let mut key = BytesMut::with_capacity(9);
    key.put_u8(kind::OBJECT);
    key.put_u64(seq.0);
    key.freeze()
}

/// The prefix of all such keys.
pub fn prefix() -> Bytes {
    all_of(kind::OBJECT)
}

/// Reads the log position.
pub fn seq(key: &[u8]) -> Result<LogSeq, DamagedEntry> {
    let seq = key.get(1..).and_then(|seq| seq.try_into().ok());
    let seq = seq.ok_or_else(|| damaged("object", "its key has no log position"))?;
    Ok(LogSeq(u64::from_be_bytes(seq)))
}

/// Reads the footer.
pub fn decode(value: &[u8]) -> Result<Footer, DamagedEntry> {
    Footer::decode(value).map_err(|e| damaged("object", e))
}
