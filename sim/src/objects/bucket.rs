//! The objects themselves, and the checks of what is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use wadi_model::ShardId;
use wadi_store::container::{HEADER_LEN, Header, Kind};

use crate::accounting::Listing;
use crate::clock::EPOCH;
use crate::faults::{Link, Reach};
use crate::trace::Trace;

/// The objects, as they are. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Bucket {
    pub(super) inner: InMemory,
    /// Simulated times of the last changes; the store in memory knows only real ones.
    modified: Arc<Mutex<BTreeMap<Path, DateTime<Utc>>>>,
    /// The headers of log objects that were deleted.
    deleted: Arc<Mutex<BTreeMap<Path, Header>>>,
    /// Packs that were.
    deleted_packs: Arc<Mutex<BTreeSet<Path>>>,
    pub(super) trace: Trace,
}

fn is_log(path: &Path) -> bool {
    path.as_ref().contains("/log/")
}

/// Whether an object is a deleted one that has come back: a PUT that was answered with an error, was repeated and done, and takes effect when
/// its object is deleted already. It lies below the position from which any takeover reads, so it does no harm. In earnest the grace of
/// deletions is two hours, and no PUT is on its way for so long.
fn is_late(deleted: &Header, found: &Header) -> bool {
    deleted.put_id == found.put_id
}

impl Bucket {
    /// An empty store.
    pub fn new(trace: Trace) -> Bucket {
        Bucket {
            inner: InMemory::new(),
            modified: Arc::default(),
            deleted: Arc::default(),
            deleted_packs: Arc::default(),
            trace,
        }
    }

    /// The store without faults and without a trace.
    pub fn raw(&self) -> &InMemory {
        &self.inner
    }

    /// Checks that in every shard's log positions are dense and tokens never go down: no owner wrote behind the FENCE
    /// of a later one (F1); deleted objects count as they were, and no FENCE is ever deleted (F2). An error says where.
    pub async fn check_logs(&self) -> std::result::Result<(), String> {
        let mut log = BTreeMap::new();
        let objects: Vec<ObjectMeta> =
            self.inner.list(None).try_collect().await.map_err(|e| e.to_string())?;
        for path in objects.into_iter().map(|o| o.location).filter(is_log) {
            let header = self.header(&path).await?;
            log.insert(path, header);
        }
        for (path, header) in self.deleted.lock().iter() {
            if header.kind == Kind::Fence {
                return Err(format!("{path} was a fence, and was deleted"));
            }
            // A takeover that stalled may have put its FENCE where an object was deleted meanwhile; it ends there.
            match log.insert(path.clone(), *header) {
                Some(other) if other.kind != Kind::Fence && !is_late(header, &other) => {
                    return Err(format!("{path} was written again"));
                }
                _ => {}
            }
        }
        let mut last: Option<Header> = None;
        // In the order of names, and so of shards and positions.
        for (path, header) in log {
            if let Some(before) = last.filter(|before| before.shard == header.shard) {
                if header.seq != before.seq.next() {
                    return Err(format!("{path} follows log position {}", before.seq));
                }
                if header.token < before.token {
                    return Err(format!(
                        "{path} has token {}, below {} before it",
                        header.token, before.token
                    ));
                }
            }
            last = Some(header);
        }
        Ok(())
    }

    /// All objects, by shard.
    pub async fn listing(&self) -> std::result::Result<Listing, String> {
        let objects: Vec<ObjectMeta> =
            self.inner.list(None).try_collect().await.map_err(|e| e.to_string())?;
        let mut listing = Listing::default();
        for path in objects.into_iter().map(|object| object.location) {
            let parts: Vec<&str> = path.as_ref().split('/').collect();
            match parts.as_slice() {
                [_, "CLUSTER" | "PROBE"] | [_, "shard", _, "db", ..] => {}
                [_, "shard", shard, "log", _] if let Ok(shard) = shard.parse() => {
                    let header = self.header(&path).await?;
                    if self.deleted.lock().get(&path).is_some_and(|deleted| is_late(deleted, &header)) {
                        continue;
                    }
                    let objects = listing.shards.entry(ShardId(shard)).or_default();
                    objects.log.insert(header.seq, header.kind);
                }
                [_, "shard", shard, "pack", name]
                    if let (Ok(shard), Ok(name)) = (shard.parse(), name.parse()) =>
                {
                    listing.shards.entry(ShardId(shard)).or_default().packs.insert(name);
                }
                _ => listing.strange.push(path),
            }
        }
        Ok(listing)
    }

    /// Takes an object away, as nobody ever should.
    pub async fn lose(&self, path: &Path) -> Result<()> {
        self.inner.delete(path).await
    }

    async fn header(&self, path: &Path) -> std::result::Result<Header, String> {
        let bytes = self.inner.get_range(path, 0..HEADER_LEN as u64).await.map_err(|e| e.to_string())?;
        Header::read(&bytes).map_err(|e| format!("{path}: {e}"))
    }

    /// Deletes an object. A log object is remembered.
    pub(super) async fn delete(&self, path: &Path) -> Result<()> {
        let header = if is_log(path) { self.header(path).await.ok() } else { None };
        self.inner.delete(path).await?;
        if let Some(header) = header {
            self.deleted.lock().entry(path.clone()).or_insert(header);
        } else if path.as_ref().contains("/pack/") {
            self.deleted_packs.lock().insert(path.clone());
        }
        Ok(())
    }

    /// Counts a read that comes too late: its reader follows what the index said before (F2).
    pub(super) fn count_miss(&self, who: &Link, path: &Path) {
        let kind = match (self.deleted_packs.lock().contains(path), self.deleted.lock().contains_key(path)) {
            (true, _) => "F2: reads of deleted packs",
            (_, true) => "F2: reads of deleted log objects",
            _ => return,
        };
        self.trace.count(kind);
        if who.name().starts_with('c') {
            self.trace.count("F2: of these by compactors");
        }
    }

    pub(super) async fn put(
        &self,
        who: &Link,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let header = log_header(path, &payload);
        let size = payload.content_length();
        let result = self.inner.put_opts(path, payload, options).await;
        self.trace.note(who.name(), format_args!("landed {path} {size} {}", outcome(&result)));
        match (&result, header) {
            (Ok(_), header) => {
                self.touch(path);
                self.count_landing(who, header);
            }
            (Err(Error::AlreadyExists { .. }), Some(ours)) => {
                let there = self.inner.get_range(path, 0..HEADER_LEN as u64).await?;
                match Header::read(&there) {
                    Ok(there) if there.put_id == ours.put_id => self.trace.count("PUT met itself"),
                    Ok(there) if there.kind == Kind::Fence && ours.kind == Kind::Data => {
                        self.trace.count("PUT met a FENCE");
                    }
                    Ok(there) if there.kind == Kind::Data && ours.kind == Kind::Fence => {
                        self.trace.count("FENCE met a PUT");
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        result
    }

    fn count_landing(&self, who: &Link, header: Option<Header>) {
        match header.map(|h| h.kind) {
            Some(Kind::Fence) => self.trace.count("fences"),
            Some(_) if who.reach() == Reach::Dead => self.trace.count("log PUT landed after a crash"),
            Some(_) if who.reach() == Reach::Paused => self.trace.count("log PUT landed during a pause"),
            _ => {}
        }
    }

    pub(super) fn touch(&self, path: &Path) {
        let now = EPOCH + self.trace.start().elapsed().as_millis() as i64;
        self.modified.lock().insert(path.clone(), DateTime::from_timestamp_millis(now).unwrap_or_default());
    }

    pub(super) fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        meta.last_modified = self.modified.lock().get(&meta.location).copied().unwrap_or_default();
        meta
    }
}

/// The header of a log object that is about to be written.
fn log_header(path: &Path, payload: &PutPayload) -> Option<Header> {
    if !path.as_ref().contains("/log/") {
        return None;
    }
    let bytes: Vec<u8> = payload.iter().flat_map(|b| b.iter().copied()).take(HEADER_LEN).collect();
    Header::read(&bytes).ok()
}

pub(super) fn outcome<T>(result: &Result<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::AlreadyExists { .. }) => "exists",
        Err(Error::NotFound { .. }) => "404",
        Err(Error::Precondition { .. }) => "412",
        Err(_) => "error",
    }
}
