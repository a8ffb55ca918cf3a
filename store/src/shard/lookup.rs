//! Reads of rows by key: point lookups, and pages of rows in the order of their keys.
//!
//! Both see durable rows only, and all that were acked before they began (K3): the newest confirmed change lies in memory
//! or in SlateDB. Every answer is checked against the claim at its end.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::{DbIterator, DbSnapshot};
use wadi_model::{Bucket, ErrorKind, Fault, LogSeq};

use super::Shared;
use super::rows::{Confirmed, Keep, Row};
use crate::keys::row;

/// All that can go wrong when rows are read by key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The shard is not open here any more.
    #[error("the shard of this bucket is not open here now")]
    NotOwned,
    /// The object store did not answer.
    #[error("the object store did not answer: {0}")]
    Unavailable(String),
    /// Stored data is damaged.
    #[error("{0}")]
    Internal(String),
}

impl Fault for LookupError {
    fn kind(&self) -> ErrorKind {
        match self {
            LookupError::NotOwned | LookupError::Unavailable(_) => ErrorKind::Unavailable,
            LookupError::Internal(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            LookupError::NotOwned => "shard_not_open",
            LookupError::Unavailable(_) => "store_unavailable",
            LookupError::Internal(_) => "internal",
        }
    }
}

impl From<slatedb::Error> for LookupError {
    fn from(error: slatedb::Error) -> LookupError {
        match error.kind() {
            slatedb::ErrorKind::Closed(_) => LookupError::NotOwned,
            slatedb::ErrorKind::Unavailable => LookupError::Unavailable(error.to_string()),
            _ => LookupError::Internal(error.to_string()),
        }
    }
}

/// The rows of these keys (keys of the database), in their order; `None` where there is none.
pub(super) async fn lookup(shared: &Shared, keys: &[Bytes]) -> Result<Vec<Row>, LookupError> {
    let mut known = shared.rows.known(keys);
    // A read that a write has voided is repeated; then the write's row is in memory, unless it was driven out already.
    while known.iter().any(Option::is_none) {
        let missing = keys.iter().zip(&known).filter(|(_, row)| row.is_none()).map(|(key, _)| key.clone());
        let reads = shared.rows.read(&shared.db, missing.collect(), Keep::All).await?;
        let found = reads.valid();
        let again = shared.rows.known(keys);
        for ((row, key), again) in known.iter_mut().zip(keys).zip(again) {
            if row.is_none() {
                *row = again.or_else(|| found.get(key.as_ref()).map(|row| (*row).clone()));
            }
        }
    }
    if !shared.claim.hold().await {
        return Err(LookupError::NotOwned);
    }
    Ok(known.into_iter().flatten().collect())
}

/// Rows in the order of their keys.
#[derive(Clone, Debug, Default)]
pub struct RowPage {
    /// As they are stored, each under the version that it names.
    pub rows: Vec<Bytes>,
    /// Whether more rows follow.
    pub more: bool,
}

/// The rows of a range of keys at one point in time, read page by page.
pub struct RowScan {
    shared: Arc<Shared>,
    /// Kept so that the database keeps what it shows.
    _snapshot: Arc<DbSnapshot>,
    seq: LogSeq,
    stored: DbIterator,
    next_stored: Option<(Bytes, Bytes)>,
    overlay: std::iter::Peekable<std::vec::IntoIter<(Bytes, Confirmed)>>,
}

impl std::fmt::Debug for RowScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowScan").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl RowScan {
    /// Begins with the rows whose primary key begins with `prefix`.
    pub(super) async fn begin(
        shared: &Arc<Shared>,
        bucket: &Bucket,
        prefix: &[u8],
    ) -> Result<RowScan, LookupError> {
        let range = row::range(bucket, prefix);
        // In this order, see `Rows::overlay`.
        let overlay = shared.rows.overlay(range.clone());
        let snapshot = shared.db.snapshot()?;
        RowScan::of(shared, snapshot, range, overlay).await
    }

    /// The rows of a range at one point in time, which a snapshot and the changes taken before it make up.
    pub(super) async fn of(
        shared: &Arc<Shared>,
        snapshot: Arc<DbSnapshot>,
        range: Range<Bytes>,
        overlay: Vec<(Bytes, Confirmed)>,
    ) -> Result<RowScan, LookupError> {
        let seq = LogSeq(snapshot.seq());
        let stored = snapshot.scan(range).await?;
        let overlay: Vec<_> = overlay.into_iter().filter(|(_, confirmed)| confirmed.seq > seq).collect();
        let overlay = overlay.into_iter().peekable();
        let mut scan =
            RowScan { shared: shared.clone(), _snapshot: snapshot, seq, stored, next_stored: None, overlay };
        scan.advance().await?;
        Ok(scan)
    }

    async fn advance(&mut self) -> Result<(), LookupError> {
        self.next_stored = self.stored.next().await?.map(|entry| (entry.key, entry.value));
        Ok(())
    }

    /// The next rows: at most `max_rows` of them, and no more once they have `max_bytes`.
    pub async fn page(&mut self, max_rows: usize, max_bytes: usize) -> Result<RowPage, LookupError> {
        let mut page = RowPage::default();
        let mut bytes = 0;
        while page.rows.len() < max_rows && bytes < max_bytes {
            let Some(row) = self.next().await? else { break };
            bytes += row.len();
            page.rows.push(row);
        }
        page.more = self.next_stored.is_some() || self.overlay.peek().is_some();
        if !self.shared.claim.hold().await {
            return Err(LookupError::NotOwned);
        }
        Ok(page)
    }

    async fn next(&mut self) -> Result<Option<Bytes>, LookupError> {
        loop {
            let changed_first = match (&self.next_stored, self.overlay.peek()) {
                (None, None) => return Ok(None),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some((stored, _)), Some((changed, _))) if stored == changed => {
                    self.advance().await?;
                    true
                }
                (Some((stored, _)), Some((changed, _))) => changed < stored,
            };
            if changed_first {
                if let Some((_, Confirmed { row: Some(row), .. })) = self.overlay.next() {
                    return Ok(Some(row));
                }
                continue;
            }
            let found = self.next_stored.take().map(|(_, row)| row);
            self.advance().await?;
            return Ok(found);
        }
    }
}
