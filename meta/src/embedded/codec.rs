//! What the database holds: one row per key, and one row about the store itself.
//!
//! * `k` + key: format `1`, created, modified and session (0: none), each `u64` little endian; then the value.
//! * `s`: [`Record`] as JSON, put in every batch.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::state::{Entry, Step};
use crate::{Change, KeyValue, MetaError, Revision, SessionId};

const FORMAT: u8 = 1;
const HEADER: usize = 1 + 3 * 8;

/// The row of the [`Record`].
pub(super) const RECORD_KEY: &[u8] = b"s";

/// What the store remembers about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u8,
    /// The revision of the last change.
    revision: u64,
    /// For how long the process that wrote this may believe that it has the store, at most, after it wrote it; 0 after a clean close.
    ttl_ms: u64,
}

impl Record {
    pub(super) fn new(revision: Revision, ttl: Duration) -> Self {
        // Rounded up: a later process must never wait too short.
        let ttl_ms = u64::try_from(ttl.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        Self { format: FORMAT, revision: revision.0, ttl_ms }
    }

    pub(super) fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, MetaError> {
        serde_json::to_vec(self)
            .map_err(|e| MetaError::internal("encoding the store's record").with_source(e))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MetaError> {
        let record: Self = serde_json::from_slice(bytes).map_err(|e| {
            MetaError::internal("the record of the metadata database is damaged").with_source(e)
        })?;
        check_format(record.format)?;
        Ok(record)
    }
}

fn check_format(format: u8) -> Result<(), MetaError> {
    if format == FORMAT {
        return Ok(());
    }
    Err(MetaError::internal(format!(
        "the metadata database has format {format}, this version reads format {FORMAT}: use the version that wrote it"
    )))
}

/// The row key of a key.
pub(super) fn encode_key(key: &str) -> Bytes {
    let mut row = BytesMut::with_capacity(1 + key.len());
    row.put_u8(b'k');
    row.put_slice(key.as_bytes());
    row.freeze()
}

/// The row key, and the row unless the change is a delete.
pub(super) fn encode_step(step: &Step) -> (Bytes, Option<Bytes>) {
    match &step.change {
        Change::Delete { key } => (encode_key(key), None),
        Change::Put(kv) => {
            let mut row = BytesMut::with_capacity(HEADER + kv.value.len());
            row.put_u8(FORMAT);
            row.put_u64_le(kv.created.0);
            row.put_u64_le(kv.modified.0);
            row.put_u64_le(step.session.map_or(0, |id| id.0));
            row.put_slice(&kv.value);
            (encode_key(&kv.key), Some(row.freeze()))
        }
    }
}

/// Reads a row of a key.
pub(super) fn decode_entry(row_key: &[u8], row: &Bytes) -> Result<Entry, MetaError> {
    let damaged = || MetaError::internal(format!("row {row_key:?} of the metadata database is damaged"));
    let key = row_key.strip_prefix(b"k").and_then(|key| std::str::from_utf8(key).ok()).ok_or_else(damaged)?;
    let (header, _) = row.split_first_chunk::<HEADER>().ok_or_else(damaged)?;
    check_format(header[0])?;
    let field = |index: usize| {
        let start = 1 + 8 * index;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[start..start + 8]);
        u64::from_le_bytes(bytes)
    };
    let kv = KeyValue {
        key: key.to_owned(),
        // A copy: a slice would keep the whole block alive that SlateDB read.
        value: Bytes::copy_from_slice(&row[HEADER..]),
        created: Revision(field(0)),
        modified: Revision(field(1)),
    };
    let session = Some(field(2)).filter(|id| *id != 0).map(SessionId);
    Ok(Entry { kv, session })
}

#[cfg(test)]
mod tests;
