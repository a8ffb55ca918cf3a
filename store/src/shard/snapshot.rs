//! The rows of a bucket at one point in time, kept so that they can be read in pages.
//!
//! Who holds a snapshot can begin a scan behind any key of it, as often as it takes: a page that was lost on its way is read again.
//! It dies with its shard: after a move every scan of it answers [`LookupError::NotOwned`].

use std::sync::Arc;

use bytes::Bytes;
use slatedb::DbSnapshot;
use slatedb::config::ScanOptions;
use wadi_model::{Bucket, Offset, Token};

use super::Shared;
use super::lookup::{LookupError, RowScan};
use super::rows::Confirmed;
use crate::keys::row;

/// The rows of a bucket at one point in time.
pub struct RowSnapshot {
    shared: Arc<Shared>,
    bucket: Bucket,
    high_watermark: Offset,
    stored: Arc<DbSnapshot>,
    /// Changes in memory, in the order of their keys.
    overlay: Vec<(Bytes, Confirmed)>,
}

impl std::fmt::Debug for RowSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowSnapshot").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl RowSnapshot {
    pub(super) fn take(shared: &Arc<Shared>, bucket: &Bucket) -> Result<RowSnapshot, LookupError> {
        // First: rows are confirmed before bounds move, so all below it are in the overlay or in the database.
        let high_watermark = shared.view.bounds(bucket).high_watermark;
        // In this order, see `Rows::overlay`.
        let overlay = shared.rows.overlay(row::range(bucket, &[]));
        let stored = shared.db.snapshot()?;
        Ok(RowSnapshot { shared: shared.clone(), bucket: *bucket, high_watermark, stored, overlay })
    }

    /// All changes below this offset are in it; later ones may be.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The token of the owner that took it.
    pub fn token(&self) -> Token {
        self.shared.claim.token()
    }

    /// About how many bytes of memory it holds.
    pub fn bytes(&self) -> usize {
        let row = |(key, confirmed): &(Bytes, Confirmed)| {
            key.len() + confirmed.state.row.as_ref().map_or(0, Bytes::len)
        };
        self.overlay.iter().map(row).sum()
    }

    /// The rows in the order of their keys: those behind an encoded primary key, or all.
    pub async fn scan_after(&self, key: Option<&[u8]>) -> Result<RowScan, LookupError> {
        let mut range = row::range(&self.bucket, &[]);
        if let Some(key) = key {
            // Nothing lies between a key and the same with a zero behind it.
            range.start = row::key(&self.bucket, &[key, &[0]].concat());
        }
        let from = self.overlay.partition_point(|(key, _)| *key < range.start);
        let overlay = self.overlay[from..].to_vec();
        RowScan::of(&self.shared, self.stored.clone(), range, overlay, &ScanOptions::default()).await
    }
}
