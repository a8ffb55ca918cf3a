//! Reads of rows by key: point lookups, and pages of rows in the order of their keys.
//!
//! Both see durable rows only, and all that were acked before they began (K3): the newest confirmed change lies in memory
//! or in SlateDB. Every answer is checked against the claim at its end.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use slatedb::config::ScanOptions;
use slatedb::{DbIterator, DbSnapshot, KeyValue};
use wadi_model::{Bucket, ErrorKind, Fault, LogSeq, Told};

use super::Shared;
use super::rows::{Confirmed, Keep, Row, State};
use crate::keys::row;

/// All that can go wrong when rows are read by key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The shard is not open here any more.
    #[error("the shard of this bucket is not open here now")]
    NotOwned,
    /// The shard's owner cannot be reached.
    #[error("the owner of this bucket's shard did not answer: {0}")]
    Unreachable(String),
    /// The object store did not answer.
    #[error("the object store did not answer: {0}")]
    Unavailable(String),
    /// Stored data is damaged.
    #[error("{0}")]
    Internal(String),
    /// What its owner said.
    #[error(transparent)]
    Told(Told),
}

impl From<Told> for LookupError {
    fn from(told: Told) -> LookupError {
        match told.code.as_str() {
            "shard_not_open" => LookupError::NotOwned,
            _ => LookupError::Told(told),
        }
    }
}

impl Fault for LookupError {
    fn kind(&self) -> ErrorKind {
        match self {
            LookupError::NotOwned | LookupError::Unavailable(_) | LookupError::Unreachable(_) => {
                ErrorKind::Unavailable
            }
            LookupError::Internal(_) => ErrorKind::Internal,
            LookupError::Told(told) => told.kind(),
        }
    }

    fn code(&self) -> &str {
        match self {
            LookupError::NotOwned => "shard_not_open",
            LookupError::Unreachable(_) => "owner_unreachable",
            LookupError::Told(told) => told.code(),
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
    let now = shared.context.env.now_millis();
    let mut known = shared.rows.known(keys, now);
    // A read that a write has voided is repeated; then the write's row is in memory, unless it was driven out already.
    while known.iter().any(Option::is_none) {
        let missing = keys.iter().zip(&known).filter(|(_, row)| row.is_none()).map(|(key, _)| key.clone());
        let reads = shared.rows.read(&shared.context, &shared.db, missing.collect(), Keep::All).await?;
        let found = reads.valid(now);
        let again = shared.rows.known(keys, now);
        for ((row, key), again) in known.iter_mut().zip(keys).zip(again) {
            if row.is_none() {
                *row = again.or_else(|| found.get(key.as_ref()).cloned());
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
    /// The encoded primary key of the last of them.
    pub last: Option<Bytes>,
    /// Whether more rows follow.
    pub more: bool,
}

/// The rows of a range of keys at one point in time, read page by page.
pub struct RowScan {
    shared: Arc<Shared>,
    /// Kept so that the database keeps what it shows.
    _snapshot: Arc<DbSnapshot>,
    seq: LogSeq,
    /// The time at which its rows are alive.
    now: i64,
    stored: DbIterator,
    next_stored: Option<KeyValue>,
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
        RowScan::of_range(shared, row::range(bucket, prefix), &ScanOptions::default()).await
    }

    /// Begins with the rows whose keys in the database are in a range.
    pub(super) async fn of_range(
        shared: &Arc<Shared>,
        range: Range<Bytes>,
        options: &ScanOptions,
    ) -> Result<RowScan, LookupError> {
        // In this order, see `Rows::overlay`.
        let overlay = shared.rows.overlay(range.clone());
        let snapshot = shared.db.snapshot()?;
        RowScan::of(shared, snapshot, range, overlay, options).await
    }

    /// The rows of a range at one point in time, which a snapshot and the changes taken before it make up.
    pub(super) async fn of(
        shared: &Arc<Shared>,
        snapshot: Arc<DbSnapshot>,
        range: Range<Bytes>,
        overlay: Vec<(Bytes, Confirmed)>,
        options: &ScanOptions,
    ) -> Result<RowScan, LookupError> {
        let seq = LogSeq(snapshot.seq());
        let stored = snapshot.scan_with_options(range, options).await?;
        let overlay: Vec<_> = overlay.into_iter().filter(|(_, confirmed)| confirmed.seq > seq).collect();
        let overlay = overlay.into_iter().peekable();
        let now = shared.context.env.now_millis();
        let mut scan = RowScan {
            shared: shared.clone(),
            _snapshot: snapshot,
            seq,
            now,
            stored,
            next_stored: None,
            overlay,
        };
        scan.advance().await?;
        Ok(scan)
    }

    async fn advance(&mut self) -> Result<(), LookupError> {
        self.next_stored = self.stored.next().await?;
        Ok(())
    }

    /// The next rows: at most `max_rows` of them, and no more once they have `max_bytes`.
    pub async fn page(&mut self, max_rows: usize, max_bytes: usize) -> Result<RowPage, LookupError> {
        let mut page = RowPage::default();
        let (mut bytes, mut last) = (0, None);
        while page.rows.len() < max_rows && bytes < max_bytes {
            let Some((key, State { row: Some(row), .. })) = self.next().await? else { break };
            bytes += row.len();
            page.rows.push(row);
            last = Some(key);
        }
        if let Some(key) = last {
            let primary = row::primary(&key).map_err(|e| LookupError::Internal(e.to_string()))?;
            page.last = Some(Bytes::copy_from_slice(primary));
        }
        page.more = self.next_stored.is_some() || self.overlay.peek().is_some();
        if !self.shared.claim.hold().await {
            return Err(LookupError::NotOwned);
        }
        Ok(page)
    }

    /// The next row that is there, with its key.
    pub(super) async fn next(&mut self) -> Result<Option<(Bytes, State)>, LookupError> {
        loop {
            let changed_first = match (&self.next_stored, self.overlay.peek()) {
                (None, None) => return Ok(None),
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(stored), Some((changed, _))) if stored.key == *changed => {
                    self.advance().await?;
                    true
                }
                (Some(stored), Some((changed, _))) => *changed < stored.key,
            };
            let (key, state) = match changed_first {
                true => match self.overlay.next() {
                    Some((key, confirmed)) => (key, confirmed.state),
                    None => continue,
                },
                false => {
                    let found = self.next_stored.take();
                    self.advance().await?;
                    match found {
                        Some(found) => (found.key.clone(), State::stored(Some(found))),
                        None => continue,
                    }
                }
            };
            if state.at(self.now).is_some() {
                return Ok(Some((key, state)));
            }
        }
    }
}
