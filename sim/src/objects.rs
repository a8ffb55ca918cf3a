//! The simulated object store: one for all gateways, and a view of it per gateway with that gateway's faults.
//!
//! A write takes effect in a task of its own, so that a request that was sent may arrive after its sender gave up,
//! was fenced, or died: that is what makes an outcome unknown. Each request and each effect is a line of the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use wadi_model::ShardId;
use wadi_store::container::{HEADER_LEN, Header, Kind};
use wadi_store::task;

use crate::accounting::Listing;
use crate::clock::EPOCH;
use crate::faults::{Link, Reach};
use crate::trace::Trace;

/// How long a client of the store waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than the lease and the grace of deletions together, in these runs.
const LONG: Duration = Duration::from_secs(5);

/// A PUT that was answered with an error lands no later than this.
const LATEST: u64 = 6_000;

/// The objects, as they are. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Bucket {
    inner: InMemory,
    /// Simulated times of the last changes; the store in memory knows only real ones.
    modified: Arc<Mutex<BTreeMap<Path, DateTime<Utc>>>>,
    /// The headers of log objects that were deleted.
    deleted: Arc<Mutex<BTreeMap<Path, Header>>>,
    /// Packs that were.
    deleted_packs: Arc<Mutex<BTreeSet<Path>>>,
    trace: Trace,
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
                [_, "CLUSTER"] | [_, "shard", _, "db", ..] => {}
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
    async fn delete(&self, path: &Path) -> Result<()> {
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
    fn count_miss(&self, who: &Link, path: &Path) {
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

    async fn put(
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

    fn touch(&self, path: &Path) {
        let now = EPOCH + self.trace.start().elapsed().as_millis() as i64;
        self.modified.lock().insert(path.clone(), DateTime::from_timestamp_millis(now).unwrap_or_default());
    }

    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
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

fn outcome<T>(result: &Result<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::AlreadyExists { .. }) => "exists",
        Err(Error::NotFound { .. }) => "404",
        Err(Error::Precondition { .. }) => "412",
        Err(_) => "error",
    }
}

fn failed(why: &'static str) -> Error {
    Error::Generic { store: "simulated", source: why.into() }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fine,
    Refused,
    Conflict,
    LostReply,
    Late,
    Hang,
    Cut,
}

/// A gateway's view of the store.
#[derive(Clone, Debug)]
pub struct SimObjects {
    bucket: Bucket,
    link: Link,
    median: Duration,
}

impl SimObjects {
    /// The view of the gateway behind `link`; requests take `median` if nothing slows them.
    pub fn new(bucket: Bucket, link: Link, median: Duration) -> SimObjects {
        SimObjects { bucket, link, median }
    }

    fn note(&self, verb: &str, path: &Path, what: impl fmt::Display) {
        self.bucket.trace.note(self.link.name(), format_args!("{verb} {path} {what}"));
    }

    fn latency(&self) -> Duration {
        self.link.dice().latency(self.median.mul_f64(self.link.rates().slow / 2.0))
    }

    fn fate(&self, write: bool, create: bool) -> Fate {
        if self.link.reach() == Reach::NoObjects {
            return Fate::Cut;
        }
        let (rates, dice) = (self.link.rates(), self.link.dice());
        let (fate, kind) = match () {
            () if dice.chance(rates.refused) => (Fate::Refused, "503"),
            () if dice.chance(rates.hang) => (Fate::Hang, "hang"),
            () if create && dice.chance(rates.conflict) => (Fate::Conflict, "409"),
            () if write && dice.chance(rates.lost_reply) => (Fate::LostReply, "lost reply"),
            () if create && dice.chance(rates.late) => (Fate::Late, "late PUT"),
            () => return Fate::Fine,
        };
        self.bucket.trace.count(kind);
        fate
    }

    /// Starts the request's way to the store; the effect comes after `delay`, whatever becomes of the sender.
    fn send(
        &self,
        delay: Duration,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> tokio::task::JoinHandle<Result<PutResult>> {
        let (this, path) = (self.clone(), path.clone());
        task::spawn(async move {
            sleep(delay).await;
            this.bucket.put(&this.link, &path, payload, options).await
        })
    }

    /// Waits until the process runs, and counts if it was stopped for so long that all it knows may be outdated (F2).
    async fn wake(&self, deletes: bool) {
        let began = Instant::now();
        self.link.running().await;
        if began.elapsed() >= LONG {
            self.bucket.trace.count(match (deletes, self.link.name().starts_with('c')) {
                (true, _) => "F2: deletions that slept longer than lease and grace",
                (_, true) => "F2: requests of compactors that slept longer than lease and grace",
                (_, false) => "F2: requests of gateways that slept longer than lease and grace",
            });
        }
    }

    /// The way back of an answer.
    async fn answer(&self) -> Result<()> {
        sleep(self.latency()).await;
        self.wake(false).await;
        if self.link.reach() == Reach::NoObjects {
            self.link.silence(TIMEOUT).await;
            return Err(failed("the connection broke"));
        }
        Ok(())
    }

    /// What comes before a read takes effect.
    async fn ask(&self, verb: &'static str, path: &Path) -> Result<()> {
        self.wake(verb == "DELETE").await;
        match self.fate(false, false) {
            Fate::Fine => {
                sleep(self.latency()).await;
                Ok(())
            }
            Fate::Hang | Fate::Cut => {
                self.note(verb, path, "silence");
                self.link.silence(TIMEOUT).await;
                Err(failed("timeout"))
            }
            _ => {
                sleep(self.latency()).await;
                self.note(verb, path, "503");
                self.answer().await?;
                Err(failed("503 SlowDown"))
            }
        }
    }
}

impl fmt::Display for SimObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated objects of {}", self.link.name())
    }
}

#[async_trait]
impl ObjectStore for SimObjects {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.link.running().await;
        let create = options.mode == PutMode::Create;
        let there = self.latency();
        let dice = self.link.dice();
        match self.fate(true, create) {
            fate @ (Fate::Fine | Fate::LostReply) => {
                let landed = self.send(there, path, payload, options).await;
                self.answer().await?;
                match landed {
                    Ok(result) if fate == Fate::Fine => result,
                    _ => Err(failed("the connection broke")),
                }
            }
            Fate::Refused => {
                sleep(there).await;
                self.note("PUT", path, "503");
                self.answer().await?;
                Err(failed("503 SlowDown"))
            }
            Fate::Conflict => {
                sleep(there).await;
                self.note("PUT", path, "409");
                self.answer().await?;
                // What object_store makes of S3's ConditionalRequestConflict.
                Err(Error::AlreadyExists { path: path.to_string(), source: "409 Conflict".into() })
            }
            Fate::Late => {
                let after = dice.millis(50..LATEST);
                self.note("PUT", path, format_args!("late by {after:?}"));
                drop(self.send(there + after, path, payload, options));
                self.answer().await?;
                Err(failed("500 InternalError"))
            }
            fate => {
                self.note("PUT", path, "silence");
                if fate == Fate::Hang && dice.chance(0.5) {
                    drop(self.send(dice.millis(50..LATEST), path, payload, options));
                }
                self.link.silence(TIMEOUT).await;
                Err(failed("timeout"))
            }
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.ask("multipart", path).await?;
        self.bucket.touch(path);
        self.bucket.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask("GET", path).await?;
        let mut found = self.bucket.inner.get_opts(path, options).await;
        if let Err(Error::NotFound { .. }) = &found {
            self.bucket.count_miss(&self.link, path);
        }
        if let Ok(found) = &mut found {
            found.meta = self.bucket.dated(found.meta.clone());
        }
        let size = found.as_ref().map_or(0, |f| f.range.end - f.range.start);
        self.note("GET", path, format_args!("{size} {}", outcome(&found)));
        self.answer().await?;
        found
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.ask("GET", path).await?;
        let found = self.bucket.inner.get_ranges(path, ranges).await;
        if let Err(Error::NotFound { .. }) = &found {
            self.bucket.count_miss(&self.link, path);
        }
        self.note("GET", path, format_args!("{} ranges {}", ranges.len(), outcome(&found)));
        self.answer().await?;
        found
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |path: Result<Path>| {
            let this = this.clone();
            async move {
                let path = path?;
                this.ask("DELETE", &path).await?;
                this.bucket.delete(&path).await?;
                this.note("DELETE", &path, "ok");
                this.answer().await?;
                Ok(path)
            }
        };
        paths.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        let listed = async move {
            let name = prefix.clone().unwrap_or_default();
            this.ask("LIST", &name).await?;
            let found: Vec<ObjectMeta> = this.bucket.inner.list(prefix.as_ref()).try_collect().await?;
            this.note("LIST", &name, found.len());
            this.answer().await?;
            let dated: Vec<Result<ObjectMeta>> =
                found.into_iter().map(|meta| Ok(this.bucket.dated(meta))).collect();
            Ok::<_, Error>(stream::iter(dated))
        };
        stream::once(listed).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let name = prefix.cloned().unwrap_or_default();
        self.ask("LIST", &name).await?;
        let mut found = self.bucket.inner.list_with_delimiter(prefix).await?;
        found.objects = found.objects.into_iter().map(|meta| self.bucket.dated(meta)).collect();
        self.note("LIST", &name, found.objects.len());
        self.answer().await?;
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.ask("COPY", to).await?;
        self.bucket.touch(to);
        self.bucket.inner.copy_opts(from, to, options).await
    }
}
