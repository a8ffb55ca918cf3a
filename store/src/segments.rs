//! Parts of log objects, cached in memory and read by range.
//!
//! The unit is a *segment*: what a reader asks for as a whole and the footer gives a checksum of — a small chunk, or of a
//! larger one its message head or one of its columns. So a reader of two columns reads and keeps those bytes alone,
//! and a reader of all columns finds the two in memory. (Aligned blocks would read a mebibyte for a column of 100 KiB.)
//!
//! Called by log reads. Objects never change, so entries never go stale; checksums are verified when they enter.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{Cache, CacheBuilder};
use futures::future::try_join_all;
use object_store::ObjectStore;
use object_store::path::Path;
use wadi_model::{LogSeq, ShardId};

use crate::container::Damaged;
use crate::log::{ReadError, object_path};
use crate::metrics::StoreMetrics;

/// Segments that lie no further apart are read by one request: the bytes between cost less than a round trip.
const MERGE_GAP: u64 = 16 << 10;

/// The longest range of one request.
const MERGE_LIMIT: u64 = 8 << 20;

/// A segment of a log object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Its bytes in the object.
    pub range: Range<u64>,
    /// CRC32C of them.
    pub crc: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    shard: ShardId,
    seq: LogSeq,
    start: u64,
}

/// The cache of segments. Clones share it.
#[derive(Clone, Debug)]
pub struct SegmentCache(Option<Cache<Key, Bytes>>);

impl SegmentCache {
    /// A cache of so many bytes.
    pub fn new(bytes: usize) -> SegmentCache {
        let cache = CacheBuilder::new(bytes).with_name("segments").with_weighter(|_, v: &Bytes| v.len() + 64);
        SegmentCache(Some(cache.build()))
    }

    /// Keeps nothing, for simulations.
    pub fn none() -> SegmentCache {
        SegmentCache(None)
    }

    fn get(&self, key: &Key) -> Option<Bytes> {
        self.0.as_ref().and_then(|cache| cache.get(key)).map(|entry| entry.value().clone())
    }

    fn put(&self, key: Key, bytes: &Bytes) {
        if let Some(cache) = &self.0 {
            // A slice would keep the whole answer of a merged request alive.
            cache.insert(key, Bytes::copy_from_slice(bytes));
        }
    }

    /// The bytes of segments of one object, in the order asked, which is the order of their ranges.
    pub async fn fetch(
        &self,
        objects: &Arc<dyn ObjectStore>,
        root: &Path,
        metrics: &StoreMetrics,
        (shard, seq): (ShardId, LogSeq),
        wanted: &[Segment],
    ) -> Result<Vec<Bytes>, ReadError> {
        let key = |s: &Segment| Key { shard, seq, start: s.range.start };
        let mut found: Vec<Option<Bytes>> = wanted.iter().map(|s| self.get(&key(s))).collect();
        let missing: Vec<usize> = (0..wanted.len()).filter(|i| found[*i].is_none()).collect();
        metrics.segment_hits.inc_by((wanted.len() - missing.len()) as u64);
        metrics.segment_misses.inc_by(missing.len() as u64);
        let path = object_path(root, shard, seq);
        let requests = merge(wanted, &missing);
        let mut gets = Vec::with_capacity(requests.len());
        for (range, _) in &requests {
            metrics.log_gets.inc();
            metrics.log_get_bytes.inc_by(range.end - range.start);
            gets.push(get(objects.as_ref(), &path, range));
        }
        let answers =
            try_join_all(gets).await.map_err(|source| ReadError::Store { path: path.clone(), source })?;
        for ((range, members), answer) in requests.iter().zip(answers) {
            for i in members {
                let segment = &wanted[*i];
                let from = (segment.range.start - range.start) as usize;
                let to = (segment.range.end - range.start) as usize;
                if answer.len() < to {
                    return Err(ReadError::damaged(
                        &path,
                        Damaged("it is shorter than its footer says".into()),
                    ));
                }
                let bytes = answer.slice(from..to);
                if crc32c::crc32c(&bytes) != segment.crc {
                    return Err(ReadError::damaged(
                        &path,
                        Damaged("a segment's checksum does not match".into()),
                    ));
                }
                self.put(key(segment), &bytes);
                found[*i] = Some(bytes);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }
}

/// One range of an object. The call for several ranges, as a local store then opens and reads the file in one go.
async fn get(store: &dyn ObjectStore, path: &Path, range: &Range<u64>) -> object_store::Result<Bytes> {
    let answers = store.get_ranges(path, std::slice::from_ref(range)).await?;
    Ok(answers.into_iter().next().unwrap_or_default())
}

/// The requests for the missing segments: each a range, and which segments lie in it.
fn merge(wanted: &[Segment], missing: &[usize]) -> Vec<(Range<u64>, Vec<usize>)> {
    let mut requests: Vec<(Range<u64>, Vec<usize>)> = Vec::new();
    for i in missing {
        let range = &wanted[*i].range;
        match requests.last_mut() {
            Some((r, members))
                if range.start >= r.end
                    && range.start - r.end <= MERGE_GAP
                    && range.end - r.start <= MERGE_LIMIT =>
            {
                r.end = range.end;
                members.push(*i);
            }
            _ => requests.push((range.clone(), vec![*i])),
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(range: Range<u64>) -> Segment {
        Segment { range, crc: 0 }
    }

    #[test]
    fn near_segments_share_a_request_and_far_ones_do_not() {
        let wanted = [segment(0..10), segment(10..20), segment(100..200), segment(1 << 20..1 << 21)];
        let requests = merge(&wanted, &[0, 1, 2, 3]);
        assert_eq!(requests, [(0..200, vec![0, 1, 2]), (1 << 20..1 << 21, vec![3])]);
    }

    #[test]
    fn cached_segments_are_left_out() {
        let wanted = [segment(0..10), segment(10..20), segment(20..30)];
        assert_eq!(merge(&wanted, &[0, 2]), [(0..30, vec![0, 2])]);
        assert!(merge(&wanted, &[]).is_empty());
    }
}
