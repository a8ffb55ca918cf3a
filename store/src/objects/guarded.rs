//! What every S3 store is wrapped in: requests end in bounded time, creates say "exists already" only when something is
//! there, and what fails is noted ([`Health`]).
//!
//! **Bounded.** A request whose connection has gone silent would hold up a takeover, or a database that retries for ever
//! but waits for each answer.
//!
//! **Confirmed.** S3 answers a create with 409 when another request for the same name is under way, also when that one then comes to
//! nothing; object_store makes "already exists" of it. Whoever believes that skips a name that nobody will ever fill. Our
//! own log looks for itself (`log::create`), but SlateDB takes the answer for a rival's write: it left a hole in its
//! numbered files, and the database could never be opened again. The simulation found it.
//!
//! **Plain.** Errors are told without what may be secret in them (`plain`).

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use tokio::time::Instant;

use super::health::Access;
use super::{Health, plain};

/// How often a create is sent again while nothing is there.
const TRIES: u32 = 5;

/// When a read must have begun to answer.
const READ: Duration = Duration::from_secs(5);

/// When a write must have ended; a log object's own budget is shorter.
const WRITE: Duration = Duration::from_secs(20);

/// A write that was given up earlier was not missed by anybody: its shard or its process has ended.
const GIVEN_UP: Duration = Duration::from_secs(1);

const STORE: &str = "guarded";

/// Between two tries, so that the other request can end.
const PAUSE: Duration = Duration::from_millis(50);

/// A guarded store.
#[derive(Clone, Debug)]
pub struct Guarded {
    inner: Arc<dyn ObjectStore>,
    health: Health,
}

impl Guarded {
    /// Guards a store.
    pub fn new(inner: Arc<dyn ObjectStore>, health: Health) -> Guarded {
        Guarded { inner, health }
    }

    async fn within<T>(
        &self,
        access: Access,
        limit: Duration,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let waiting = Waiting { health: &self.health, access, since: Instant::now() };
        let outcome = tokio::time::timeout(limit, request).await.unwrap_or_else(|_| Err(silent(limit)));
        let outcome = plain::plain(outcome);
        self.health.note(access, &outcome, waiting.since);
        // It has been noted.
        std::mem::forget(waiting);
        outcome
    }

    async fn create(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mut left = TRIES;
        loop {
            let put = self.inner.put_opts(path, payload.clone(), options.clone());
            let exists = match self.within(Access::Write, WRITE, put).await {
                Err(error @ Error::AlreadyExists { .. }) => error,
                outcome => return outcome,
            };
            match self.within(Access::Read, READ, self.inner.head(path)).await {
                Ok(_) => return Err(exists),
                Err(Error::NotFound { .. }) if left > 0 => left -= 1,
                // In doubt it is an error like any other, never a claim that somebody was there first.
                Err(error) => {
                    return Err(Error::Generic { store: STORE, source: Box::new(error) });
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A request that has no answer yet. Who gives a write up after a while, as a log object's budget does, has met a failure as well.
struct Waiting<'a> {
    health: &'a Health,
    access: Access,
    since: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = self.since.elapsed();
        if self.access == Access::Write && waited >= GIVEN_UP {
            self.health.note::<()>(self.access, &Err(silent(waited)), self.since);
        }
    }
}

fn silent(waited: Duration) -> Error {
    Error::Generic { store: STORE, source: format!("no answer within {waited:?}").into() }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Guarded {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match options.mode {
            PutMode::Create => self.create(path, payload, options).await,
            _ => self.within(Access::Write, WRITE, self.inner.put_opts(path, payload, options)).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = plain::plain(self.inner.put_multipart_opts(path, options).await)?;
        Ok(Box::new(Upload { inner, health: self.health.clone() }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.within(Access::Read, READ, self.inner.get_opts(path, options)).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.within(Access::Read, WRITE, self.inner.get_ranges(path, ranges)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths).map_err(plain::error).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix).map_err(plain::error).boxed()
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset).map_err(plain::error).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.within(Access::Read, WRITE, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        plain::plain(self.inner.copy_opts(from, to, options).await)
    }
}

/// An upload in parts.
#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    health: Health,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, health) = (self.inner.put_part(data), self.health.clone());
        Box::pin(async move {
            let begun = Instant::now();
            let outcome = plain::plain(part.await);
            health.note(Access::Write, &outcome, begun);
            outcome
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        plain::plain(self.inner.complete().await)
    }

    async fn abort(&mut self) -> Result<()> {
        plain::plain(self.inner.abort().await)
    }
}
