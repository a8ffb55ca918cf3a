//! The simulated object store: one for all gateways, and a view of it per gateway with that gateway's faults.
//!
//! A write takes effect in a task of its own, so that a request that was sent may arrive after its sender gave up,
//! was fenced, or died: that is what makes an outcome unknown. Each request and each effect is a line of the trace.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::time::{Instant, sleep};
use wadi_store::task;

use crate::faults::{Link, Reach};

pub use bucket::Bucket;
use bucket::outcome;

mod bucket;

/// How long a client of the store waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than the lease and the grace of deletions together, in these runs.
const LONG: Duration = Duration::from_secs(5);

/// A PUT that was answered with an error lands no later than this.
const LATEST: u64 = 6_000;

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
