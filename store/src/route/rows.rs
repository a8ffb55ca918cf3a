//! Rows of a bucket at one point in time, wherever its owner is, read in pages.
//!
//! Of another process its owner keeps the snapshot under a number until it is told that nobody needs it any more, or nobody has asked
//! for long. It dies with the owner's claim: after a move every page is [`LookupError::NotOwned`], as it is for a local one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wadi_model::{Bucket, Offset, Token};

use super::message::Malformed;
use super::part::rows_of;
use super::{ANSWER, At, Call, NoGood, Peer, Route, RouteError};
use crate::context::Context;
use crate::host::Host;
use crate::open::Open;
use crate::shard::{LookupError, RowPage, RowScan, RowSnapshot, Shard};
use crate::task;

/// Most snapshots that are kept for other processes, and bytes of changes that they may hold in memory.
const MOST: usize = 1024;
const HELD_BYTES: usize = 64 << 20;

/// Snapshots that are kept for other processes, by their numbers.
#[derive(Debug)]
pub(super) struct Kept(Open<RowSnapshot>);

impl Default for Kept {
    fn default() -> Kept {
        Kept(Open::new(MOST))
    }
}

/// A snapshot that its owner keeps.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct KeptHead {
    id: u128,
    token: Token,
    high_watermark: Offset,
}

/// A page that is asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct PageHead {
    id: u128,
    /// Whether a key is given, behind which the page begins.
    after: bool,
    max_rows: usize,
    max_bytes: usize,
}

/// The rows of a bucket at one point in time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Snapshot(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Here(Arc<RowSnapshot>),
    There(Arc<There>),
}

#[derive(Debug)]
struct There {
    peer: Peer,
    kept: KeptHead,
    /// Knows whether that peer is still the owner.
    host: Host,
}

impl Drop for There {
    fn drop(&mut self) {
        let (peer, id) = (self.peer.clone(), self.kept.id);
        // If it is not heard, the owner forgets it by itself some time later.
        task::spawn(async move { drop(peer.ask::<()>(Call::Forget, &id, Vec::new(), ANSWER).await) });
    }
}

/// A pass over the rows of a snapshot.
#[derive(Debug)]
pub struct Scan(Pass);

#[derive(Debug)]
enum Pass {
    Here(Box<RowScan>),
    There { snapshot: Arc<There>, after: Option<Bytes> },
}

impl Route {
    /// The rows of a bucket as they are now; see [`RowSnapshot`].
    pub async fn snapshot(
        &self,
        bucket: Bucket,
        patience: Duration,
    ) -> Result<Snapshot, RouteError<LookupError>> {
        let host = &self.inner.host;
        let question = move |at: At| async move {
            match at {
                At::Here(shard) => Ok(Snapshot(Kind::Here(Arc::new(shard.snapshot_rows(&bucket)?)))),
                At::There(peer) => {
                    let (kept, _) = peer.ask::<KeptHead>(Call::Snapshot, &bucket, Vec::new(), ANSWER).await?;
                    Ok(Snapshot(Kind::There(Arc::new(There { peer, kept, host: host.clone() }))))
                }
            }
        };
        self.ask(self.shard(&bucket), patience, question).await
    }
}

impl Snapshot {
    /// All changes below this offset are in it; later ones may be.
    pub fn high_watermark(&self) -> Offset {
        match &self.0 {
            Kind::Here(snapshot) => snapshot.high_watermark(),
            Kind::There(there) => there.kept.high_watermark,
        }
    }

    /// The token of the owner that took it.
    pub fn token(&self) -> Token {
        match &self.0 {
            Kind::Here(snapshot) => snapshot.token(),
            Kind::There(there) => there.kept.token,
        }
    }

    /// About how many bytes of memory it holds in this process.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Kind::Here(snapshot) => snapshot.bytes(),
            Kind::There(_) => 0,
        }
    }

    /// The rows in the order of their keys: those behind an encoded primary key, or all.
    pub async fn scan_after(&self, key: Option<&[u8]>) -> Result<Scan, LookupError> {
        Ok(Scan(match &self.0 {
            Kind::Here(snapshot) => Pass::Here(Box::new(snapshot.scan_after(key).await?)),
            Kind::There(there) => {
                Pass::There { snapshot: there.clone(), after: key.map(Bytes::copy_from_slice) }
            }
        }))
    }
}

impl Scan {
    /// The next rows: at most `max_rows` of them, and no more once they have `max_bytes`.
    pub async fn page(&mut self, max_rows: usize, max_bytes: usize) -> Result<RowPage, LookupError> {
        match &mut self.0 {
            Pass::Here(scan) => scan.page(max_rows, max_bytes).await,
            Pass::There { snapshot, after } => {
                let page = snapshot.page(after.clone(), max_rows, max_bytes).await?;
                if page.last.is_some() {
                    after.clone_from(&page.last);
                }
                Ok(page)
            }
        }
    }
}

impl There {
    /// An owner that has given its shard away may be gone, and with it what it kept.
    fn moved(&self, error: NoGood) -> LookupError {
        let owner = self.host.owner(self.peer.shard);
        let is_owner = owner.is_some_and(|owner| owner.nonce == self.peer.owner.nonce);
        match error {
            NoGood::Unanswered(_) if !is_owner => LookupError::NotOwned,
            error => error.into(),
        }
    }

    async fn page(
        &self,
        after: Option<Bytes>,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<RowPage, LookupError> {
        let head = PageHead { id: self.kept.id, after: after.is_some(), max_rows, max_bytes };
        let asked = self.peer.ask::<bool>(Call::Page, &head, after.into_iter().collect(), ANSWER);
        let (more, sections) = asked.await.map_err(|error| self.moved(error))?;
        let damaged = |what: &str| LookupError::Internal(Malformed(what.to_owned()).to_string());
        let [bytes, ends, last @ ..] = sections.as_slice() else {
            return Err(damaged("its rows are missing"));
        };
        let rows = rows_of(bytes, ends).map_err(|e| LookupError::Internal(e.to_string()))?;
        let rows = (0..rows.len()).map(|row| rows.slice(row)).collect();
        Ok(RowPage { rows, last: last.first().cloned(), more })
    }
}

/// Keeps a snapshot for another process.
pub(super) fn answer_snapshot(
    context: &Context,
    kept: &Kept,
    shard: &Shard,
    bucket: &Bucket,
) -> Result<KeptHead, LookupError> {
    let snapshot = shard.snapshot_rows(bucket)?;
    let (token, high_watermark) = (snapshot.token(), snapshot.high_watermark());
    let id = context.env.unique();
    let held = kept.0.sum(RowSnapshot::bytes) + snapshot.bytes();
    if held > HELD_BYTES || !kept.0.insert(id, Arc::new(snapshot)) {
        return Err(LookupError::Unavailable("too many scans are open at the owner of the shard".into()));
    }
    Ok(KeptHead { id, token, high_watermark })
}

/// Answers a page of a snapshot that is kept here: whether there is more, the rows and their ends, the key of the last one.
pub(super) async fn answer_page(
    kept: &Kept,
    head: PageHead,
    sections: &[Bytes],
) -> Result<(bool, Vec<Bytes>), LookupError> {
    // Whoever does not know it was not its owner, or is not any more.
    let snapshot = kept.0.get(head.id).ok_or(LookupError::NotOwned)?;
    let after = sections.first().filter(|_| head.after);
    let mut scan = snapshot.scan_after(after.map(Bytes::as_ref)).await?;
    let page = scan.page(head.max_rows, head.max_bytes).await?;
    let (_, mut sections) = super::keys::sections_of_groups(std::slice::from_ref(&page.rows));
    sections.extend(page.last);
    Ok((page.more, sections))
}

/// Forgets a snapshot that was kept for another process.
pub(super) fn answer_forget(kept: &Kept, id: u128) {
    kept.0.remove(id);
}
