//! Counts requests to the object store and their bytes, by what they do and which objects they are for: the bill.
//!
//! Every process wraps its store in one of these before anything else uses it. What is counted is what the process asks for, whatever
//! comes of it. Not counted are repetitions inside the client of S3, and the look that follows a create which met an object
//! ([`super::Guarded`]). A list counts once for each thousand names, and a large file once for each of its parts and twice more.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::Objects;

/// Names in an answer to a list.
const PAGE: u64 = 1000;

type Labels = [(&'static str, &'static str); 2];

/// Counters of requests. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct RequestMetrics {
    requests: Family<Labels, Counter>,
    bytes: Family<Labels, Counter>,
}

/// A store that counts.
#[derive(Clone, Debug)]
pub struct Counted {
    inner: Arc<dyn ObjectStore>,
    root: Path,
    metrics: RequestMetrics,
}

impl RequestMetrics {
    /// Metrics that are shown in `registry` under `wadi_object_store_…`.
    pub fn new(registry: &mut Registry) -> RequestMetrics {
        let metrics = RequestMetrics::default();
        let own = registry.sub_registry_with_prefix("wadi_object_store");
        own.register(
            "requests",
            "Requests by what they do and the objects they are for",
            metrics.requests.clone(),
        );
        let bytes = metrics.bytes.clone();
        own.register_with_unit("transferred", "Bytes put and got by those requests", Unit::Bytes, bytes);
        metrics
    }

    fn count(&self, request: &'static str, kind: &'static str) {
        self.requests.get_or_create(&[("request", request), ("kind", kind)]).inc();
    }

    fn transfer(&self, request: &'static str, kind: &'static str, bytes: u64) {
        self.count(request, kind);
        self.bytes.get_or_create(&[("request", request), ("kind", kind)]).inc_by(bytes);
    }
}

impl Objects {
    /// The same store, whose requests are counted.
    pub fn counted(self, registry: &mut Registry) -> Objects {
        let (root, metrics) = (self.root.clone(), RequestMetrics::new(registry));
        Objects { store: Arc::new(Counted { inner: self.store, root, metrics }), ..self }
    }
}

impl Counted {
    fn kind(&self, path: &Path) -> &'static str {
        kind(&self.root, path)
    }

    fn listed(
        &self,
        prefix: Option<&Path>,
        names: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (metrics, kind) = (self.metrics.clone(), prefix.map_or("other", |prefix| self.kind(prefix)));
        metrics.count("list", kind);
        let mut seen = 0u64;
        let names = names.inspect(move |_| {
            if seen > 0 && seen.is_multiple_of(PAGE) {
                metrics.count("list", kind);
            }
            seen += 1;
        });
        names.boxed()
    }
}

/// What an object is, by its name.
fn kind(root: &Path, path: &Path) -> &'static str {
    let Some(mut parts) = path.prefix_match(root) else { return "other" };
    let first = parts.next();
    match first.as_ref().map(AsRef::as_ref) {
        Some("meta") => return "meta",
        Some("shard") => {}
        _ => return "other",
    }
    let (what, below) = (parts.nth(1), parts.next());
    match (what.as_ref().map(AsRef::as_ref), below.as_ref().map(AsRef::as_ref)) {
        (Some("log"), _) => "log",
        (Some("pack"), _) => "pack",
        // What it holds, apart from the lists of it.
        (Some("db"), Some("compacted")) => "state",
        (Some("db"), _) => "manifest",
        _ => "other",
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Counted {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.metrics.transfer("put", self.kind(path), payload.content_length() as u64);
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let kind = self.kind(path);
        self.metrics.count("put", kind);
        let inner = self.inner.put_multipart_opts(path, options).await?;
        Ok(Box::new(CountedUpload { inner, kind, metrics: self.metrics.clone() }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let (kind, head) = (self.kind(path), options.head);
        let outcome = self.inner.get_opts(path, options).await;
        match &outcome {
            _ if head => self.metrics.count("head", kind),
            Ok(found) => self.metrics.transfer("get", kind, found.range.end - found.range.start),
            Err(_) => self.metrics.count("get", kind),
        }
        outcome
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // S3 is asked once for ranges that lie close together, and is what the bill is about.
        for (start, end) in joined(ranges) {
            self.metrics.transfer("get", self.kind(path), end - start);
        }
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (root, metrics) = (self.root.clone(), self.metrics.clone());
        let paths = paths.inspect(move |path| {
            if let Ok(path) = path {
                metrics.count("delete", kind(&root, path));
            }
        });
        self.inner.delete_stream(paths.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listed(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.metrics.count("list", prefix.map_or("other", |prefix| self.kind(prefix)));
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.metrics.count("copy", self.kind(to));
        self.inner.copy_opts(from, to, options).await
    }
}

/// Ranges that one request of the store's client covers.
fn joined(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
    let mut sorted: Vec<_> = ranges.iter().map(|range| (range.start, range.end)).collect();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(sorted.len());
    for (start, end) in sorted {
        match joined.last_mut() {
            Some(last) if start.saturating_sub(last.1) <= object_store::OBJECT_STORE_COALESCE_DEFAULT => {
                last.1 = last.1.max(end);
            }
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[derive(Debug)]
struct CountedUpload {
    inner: Box<dyn MultipartUpload>,
    kind: &'static str,
    metrics: RequestMetrics,
}

#[async_trait]
impl MultipartUpload for CountedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.metrics.transfer("put", self.kind, data.content_length() as u64);
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.metrics.count("put", self.kind);
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.metrics.count("delete", self.kind);
        self.inner.abort().await
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::{ObjectStoreExt, WriteMultipart};
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn objects_are_told_apart_by_their_names() {
        let root = Path::from("a/b");
        for (name, want) in [
            ("a/b/shard/7/log/00000000000000000042", "log"),
            ("a/b/shard/7/log", "log"),
            ("a/b/shard/7/pack/1-2-0-3-x", "pack"),
            ("a/b/shard/7/db/compacted/x.sst", "state"),
            ("a/b/shard/7/db/manifest/00000000000000000001.manifest", "manifest"),
            ("a/b/shard/7/db", "manifest"),
            ("a/b/shard/7", "other"),
            ("a/b/meta/db/compacted/x.sst", "meta"),
            ("a/b/CLUSTER", "other"),
            ("a/b", "other"),
            ("shard/7/log/1", "other"),
        ] {
            assert_eq!(kind(&root, &Path::from(name)), want, "{name}");
        }
        assert_eq!(kind(&Path::default(), &Path::from("shard/7/log/1")), "log");
    }

    #[test]
    fn near_ranges_are_one_request() {
        const MIB: u64 = 1 << 20;
        assert_eq!(joined(&[]), []);
        assert_eq!(joined(&[5..9, 0..4]), [(0, 9)]);
        assert_eq!(joined(&[0..4, 2..3, 5 * MIB..6 * MIB]), [(0, 4), (5 * MIB, 6 * MIB)]);
    }

    #[tokio::test]
    async fn requests_and_bytes_are_counted() {
        let mut registry = Registry::default();
        let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (root, metrics) = (Path::default(), RequestMetrics::new(&mut registry));
        let store = Counted { inner, root, metrics };
        let path = Path::from("shard/1/log/1");
        store.put(&path, vec![0; 100].into()).await.unwrap();
        store.get_range(&path, 10..40).await.unwrap();
        store.get_ranges(&path, &[0..1, 2..5]).await.unwrap();
        store.get(&Path::from("shard/1/log/2")).await.unwrap_err();
        store.head(&path).await.unwrap();
        assert_eq!(
            store.list(Some(&Path::from("shard/1/log"))).try_collect::<Vec<_>>().await.unwrap().len(),
            1
        );
        store.delete(&path).await.unwrap();
        let mut upload =
            WriteMultipart::new(store.put_multipart(&Path::from("shard/1/pack/1")).await.unwrap());
        upload.write(&[0; 7]);
        upload.finish().await.unwrap();
        for n in 0..1001 {
            store.put(&Path::from(format!("meta/{n}")), PutPayload::new()).await.unwrap();
        }
        store.list(Some(&Path::from("meta"))).try_collect::<Vec<_>>().await.unwrap();
        let mut page = String::new();
        encode(&mut page, &registry).unwrap();
        for line in [
            "wadi_object_store_requests_total{request=\"put\",kind=\"log\"} 1",
            "wadi_object_store_transferred_bytes_total{request=\"put\",kind=\"log\"} 100",
            "wadi_object_store_requests_total{request=\"get\",kind=\"log\"} 3",
            "wadi_object_store_transferred_bytes_total{request=\"get\",kind=\"log\"} 35",
            "wadi_object_store_requests_total{request=\"head\",kind=\"log\"} 1",
            "wadi_object_store_requests_total{request=\"list\",kind=\"log\"} 1",
            "wadi_object_store_requests_total{request=\"delete\",kind=\"log\"} 1",
            "wadi_object_store_requests_total{request=\"put\",kind=\"pack\"} 3",
            "wadi_object_store_transferred_bytes_total{request=\"put\",kind=\"pack\"} 7",
            "wadi_object_store_requests_total{request=\"list\",kind=\"meta\"} 2",
        ] {
            assert!(page.lines().any(|one| one == line), "{line} is not in\n{page}");
        }
    }
}
