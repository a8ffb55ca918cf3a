//! What readers see of a shard: bounds of its buckets, and the newest log objects in memory.
//!
//! Only the actor writes it, and only with durable objects. What is older than the view is found in SlateDB, which has
//! everything up to `applied`; so an object leaves the view only after it was applied.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use wadi_model::{Bucket, LogSeq, Offset};

use crate::container::Footer;
use crate::keys::index::IndexedChunk;
use crate::keys::watermark::Watermark;
use crate::stored::ObjectId;

/// Most objects that are kept in memory for their chunks, however small they are.
const TAIL_OBJECTS: usize = 1024;

/// The chunks of an object, in the order of its footer.
type Chunks = Arc<[Bytes]>;

/// The ends of a bucket's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The first offset that is still kept.
    pub log_start: Offset,
    /// The first offset not yet durable.
    pub high_watermark: Offset,
}

/// The view of one shard.
#[derive(Debug)]
pub(super) struct View {
    inner: RwLock<Inner>,
    tail_bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    buckets: BTreeMap<Bucket, BucketView>,
    objects: BTreeMap<LogSeq, ObjectView>,
    /// Objects whose chunks are in memory, oldest first, and the bytes of those.
    tail: VecDeque<LogSeq>,
    held: usize,
    applied: LogSeq,
}

#[derive(Debug, Default)]
struct BucketView {
    bounds: Bounds,
    /// What is counted; its ends are in `bounds`.
    counted: Watermark,
    recent: VecDeque<IndexedChunk>,
}

#[derive(Debug)]
struct ObjectView {
    footer: Arc<Footer>,
    chunks: Option<Chunks>,
}

/// What the view knows of a range of a bucket.
#[derive(Debug)]
pub(super) struct Located {
    pub bounds: Bounds,
    /// The chunks from the asked offset on that are in the view.
    pub recent: Vec<IndexedChunk>,
    /// The first offset that the view knows; below it SlateDB does.
    pub from: Offset,
}

impl View {
    pub(super) fn new(watermarks: BTreeMap<Bucket, Watermark>, applied: LogSeq, tail_bytes: usize) -> View {
        let bucket = |(bucket, mark): (Bucket, Watermark)| {
            let bounds = Bounds { log_start: Offset(mark.start), high_watermark: Offset(mark.high) };
            (bucket, BucketView { bounds, counted: mark, recent: VecDeque::new() })
        };
        let buckets = watermarks.into_iter().map(bucket).collect();
        View { inner: RwLock::new(Inner { buckets, applied, ..Inner::default() }), tail_bytes }
    }

    /// Makes a durable object readable. `grown` says how many rows more it brings to buckets of primary-key tables.
    pub(super) fn publish(
        &self,
        seq: LogSeq,
        footer: &Arc<Footer>,
        chunks: Chunks,
        grown: impl IntoIterator<Item = (Bucket, Option<i64>)>,
    ) {
        let mut inner = self.inner.write();
        for (bucket, more) in grown {
            inner.buckets.entry(bucket).or_default().counted.grow(more);
        }
        for (position, chunk) in footer.chunks.iter().enumerate().filter(|(_, chunk)| !chunk.is_of_shard()) {
            let bucket = inner.buckets.entry(chunk.bucket_id()).or_default();
            bucket.bounds.high_watermark = chunk.end();
            if chunk.rows == 0 {
                continue;
            }
            bucket.recent.push_back(IndexedChunk::new(ObjectId::Log(seq), position, chunk));
        }
        inner.held += chunks.iter().map(Bytes::len).sum::<usize>();
        inner.tail.push_back(seq);
        inner.objects.insert(seq, ObjectView { footer: footer.clone(), chunks: Some(chunks) });
        inner.trim(self.tail_bytes);
    }

    /// Raises the start of a bucket's log.
    pub(super) fn trim_log(&self, bucket: &Bucket, log_start: Offset) {
        if let Some(bucket) = self.inner.write().buckets.get_mut(bucket) {
            bucket.bounds.log_start = bucket.bounds.log_start.max(log_start);
        }
    }

    /// Forgets a bucket of which nothing is kept.
    pub(super) fn forget(&self, bucket: &Bucket) {
        self.inner.write().buckets.remove(bucket);
    }

    /// All buckets that have or had rows.
    pub(super) fn buckets(&self) -> Vec<(Bucket, Bounds)> {
        self.inner.read().buckets.iter().map(|(bucket, found)| (*bucket, found.bounds)).collect()
    }

    /// Notes that SlateDB has everything up to `seq`.
    pub(super) fn applied(&self, seq: LogSeq) {
        let mut inner = self.inner.write();
        inner.applied = seq;
        inner.trim(self.tail_bytes);
    }

    pub(super) fn bounds(&self, bucket: &Bucket) -> Bounds {
        self.inner.read().buckets.get(bucket).map(|b| b.bounds).unwrap_or_default()
    }

    /// The ends of a bucket's log, and its count of rows at its end.
    pub(super) fn watermark(&self, bucket: &Bucket) -> Watermark {
        let inner = self.inner.read();
        let Some(BucketView { bounds, counted, .. }) = inner.buckets.get(bucket) else {
            return Watermark::default();
        };
        Watermark { high: bounds.high_watermark.0, start: bounds.log_start.0, ..*counted }
    }

    /// What is known of a bucket from `offset` on.
    pub(super) fn locate(&self, bucket: &Bucket, offset: Offset) -> Located {
        let inner = self.inner.read();
        let Some(found) = inner.buckets.get(bucket) else {
            return Located { bounds: Bounds::default(), recent: Vec::new(), from: Offset(0) };
        };
        let first = found.recent.partition_point(|c| c.end() <= offset);
        let from = found.recent.front().map_or(found.bounds.high_watermark, |c| Offset(c.base_offset));
        Located { bounds: found.bounds, recent: found.recent.range(first..).copied().collect(), from }
    }

    /// The footer of an object in the view, and its chunks if they are in memory.
    pub(super) fn object(&self, seq: LogSeq) -> Option<(Arc<Footer>, Option<Chunks>)> {
        let inner = self.inner.read();
        inner.objects.get(&seq).map(|o| (o.footer.clone(), o.chunks.clone()))
    }
}

impl Inner {
    fn trim(&mut self, tail_bytes: usize) {
        while self.held > tail_bytes || self.tail.len() > TAIL_OBJECTS {
            let Some(seq) = self.tail.pop_front() else { break };
            if let Some(chunks) = self.objects.get_mut(&seq).and_then(|o| o.chunks.take()) {
                self.held -= chunks.iter().map(Bytes::len).sum::<usize>();
            }
        }
        let kept = self.tail.front().copied().unwrap_or(LogSeq(u64::MAX));
        while let Some(entry) = self.objects.first_entry() {
            if *entry.key() > self.applied || *entry.key() >= kept {
                break;
            }
            let (seq, object) = entry.remove_entry();
            for chunk in &object.footer.chunks {
                if let Some(bucket) = self.buckets.get_mut(&chunk.bucket_id()) {
                    while bucket.recent.front().is_some_and(|c| c.seq <= seq.0) {
                        bucket.recent.pop_front();
                    }
                }
            }
        }
    }
}
