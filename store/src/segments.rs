//! Parts of log objects and packs, cached in memory and on a local disk, and read by range.
//!
//! The unit is a *segment*: what a reader asks for as a whole and the footer gives a checksum of — a small chunk, or of a
//! larger one its message head or one of its columns. So a reader of two columns reads and keeps those bytes alone,
//! and a reader of all columns finds the two in memory. (Aligned blocks would read a mebibyte for a column of 100 KiB.)
//!
//! Called by log reads. Objects never change, so entries never go stale; checksums are verified when they enter, and again
//! when they come from the disk.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{Cache, CacheBuilder, Code, HybridCache, Source};
use futures::future::try_join_all;
use object_store::ObjectStore;
use object_store::path::Path;
use wadi_model::{LogSeq, ShardId};

use crate::container::Damaged;
use crate::disk_cache::DiskCache;
use crate::log::ReadError;
use crate::metrics::StoreMetrics;
use crate::stored::{ObjectId, PackId, StoredObject};

/// Segments that lie no further apart are read by one request: the bytes between cost less than a round trip.
const MERGE_GAP: u64 = 16 << 10;

/// The longest range of one request.
pub(crate) const MERGE_LIMIT: u64 = 8 << 20;

/// A segment of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Its bytes in the object.
    pub range: Range<u64>,
    /// CRC32C of them.
    pub crc: u32,
}

/// What it holds, in which format, as a directory on the disk.
const NAME: &str = "segments-2";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    shard: ShardId,
    object: ObjectId,
    start: u64,
}

impl Code for Key {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        let (kind, id) = match self.object {
            ObjectId::Log(seq) => (0u8, u128::from(seq.0)),
            ObjectId::Pack(id) => (1, id.0),
        };
        self.shard.0.encode(writer)?;
        kind.encode(writer)?;
        ((id >> 64) as u64).encode(writer)?;
        (id as u64).encode(writer)?;
        self.start.encode(writer)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Key> {
        let (shard, kind) = (ShardId(u32::decode(reader)?), u8::decode(reader)?);
        let id = u128::from(u64::decode(reader)?) << 64 | u128::from(u64::decode(reader)?);
        let object = match kind {
            0 => ObjectId::Log(LogSeq(id as u64)),
            1 => ObjectId::Pack(PackId(id)),
            _ => return Err(foyer::Error::io_error(std::io::ErrorKind::InvalidData.into())),
        };
        Ok(Key { shard, object, start: u64::decode(reader)? })
    }

    fn estimated_size(&self) -> usize {
        29
    }
}

/// A segment's bytes as foyer keeps them.
#[derive(Clone, Debug)]
struct Kept(Bytes);

impl Code for Kept {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        (self.0.len() as u64).encode(writer)?;
        writer.write_all(&self.0).map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Kept> {
        let len = u64::decode(reader)?;
        let mut bytes = Vec::new();
        // What the disk says is not believed before the bytes are there.
        reader.take(len).read_to_end(&mut bytes).map_err(foyer::Error::io_error)?;
        match bytes.len() as u64 == len {
            true => Ok(Kept(bytes.into())),
            false => Err(foyer::Error::io_error(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    fn estimated_size(&self) -> usize {
        8 + self.0.len()
    }
}

/// The cache of segments. Clones share it.
#[derive(Clone, Debug)]
pub struct SegmentCache(Tier);

#[derive(Clone, Debug)]
enum Tier {
    None,
    Memory(Cache<Key, Kept>),
    Disk {
        cache: HybridCache<Key, Kept>,
        /// Locked as long as the cache uses it.
        _directory: DiskCache,
    },
}

impl SegmentCache {
    /// A cache of so many bytes in memory.
    pub fn new(bytes: usize) -> SegmentCache {
        let cache =
            CacheBuilder::new(bytes).with_name(NAME).with_weighter(|_, kept: &Kept| kept.0.len() + 64);
        SegmentCache(Tier::Memory(cache.build()))
    }

    /// A cache of so many bytes in memory, and on the disk if there is one.
    pub async fn open(bytes: usize, disk: Option<&DiskCache>) -> SegmentCache {
        if let Some(disk) = disk
            && let Some(cache) = disk.cache(NAME, (3, 4), bytes, |kept: &Kept| kept.0.len()).await
        {
            return SegmentCache(Tier::Disk { cache, _directory: disk.clone() });
        }
        SegmentCache::new(bytes)
    }

    /// Keeps nothing, for simulations.
    pub fn none() -> SegmentCache {
        SegmentCache(Tier::None)
    }

    /// Waits until the disk has what it was given.
    pub async fn close(&self) {
        if let Tier::Disk { cache, .. } = &self.0
            && let Err(error) = cache.close().await
        {
            tracing::debug!(%error, "the segment cache did not close cleanly");
        }
    }

    async fn get(&self, key: &Key, crc: u32, metrics: &StoreMetrics) -> Option<Bytes> {
        match &self.0 {
            Tier::None => None,
            Tier::Memory(cache) => cache.get(key).map(|entry| entry.value().0.clone()),
            Tier::Disk { cache, .. } => {
                let entry = match cache.get(key).await {
                    Ok(entry) => entry?,
                    Err(error) => {
                        tracing::debug!(%error, "a segment was not read from the disk cache");
                        metrics.segment_disk_errors.inc();
                        return None;
                    }
                };
                if entry.source() != Source::Disk {
                    return Some(entry.value().0.clone());
                }
                if crc32c::crc32c(&entry.value().0) != crc {
                    metrics.segment_disk_errors.inc();
                    cache.remove(key);
                    return None;
                }
                metrics.segment_disk_hits.inc();
                Some(entry.value().0.clone())
            }
        }
    }

    fn put(&self, key: Key, bytes: &Bytes) {
        // A slice would keep the whole answer of a merged request alive.
        let kept = || Kept(Bytes::copy_from_slice(bytes));
        match &self.0 {
            Tier::None => {}
            Tier::Memory(cache) => drop(cache.insert(key, kept())),
            Tier::Disk { cache, .. } => drop(cache.insert(key, kept())),
        }
    }

    /// The bytes of segments of one object, in the order asked, which is the order of their ranges.
    pub async fn fetch(
        &self,
        objects: &Arc<dyn ObjectStore>,
        metrics: &StoreMetrics,
        place: &StoredObject,
        wanted: &[Segment],
    ) -> Result<Vec<Bytes>, ReadError> {
        let key = |s: &Segment| Key { shard: place.shard, object: place.id, start: s.range.start };
        let mut found = Vec::with_capacity(wanted.len());
        for segment in wanted {
            found.push(self.get(&key(segment), segment.crc, metrics).await);
        }
        let missing: Vec<usize> = (0..wanted.len()).filter(|i| found[*i].is_none()).collect();
        metrics.segment_hits.inc_by((wanted.len() - missing.len()) as u64);
        metrics.segment_misses.inc_by(missing.len() as u64);
        let path = &place.path;
        let requests = merge(wanted, &missing);
        let mut gets = Vec::with_capacity(requests.len());
        for (range, _) in &requests {
            metrics.log_gets.inc();
            metrics.log_get_bytes.inc_by(range.end - range.start);
            gets.push(get(objects.as_ref(), path, range));
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
                        path,
                        Damaged("it is shorter than its footer says".into()),
                    ));
                }
                let bytes = answer.slice(from..to);
                if crc32c::crc32c(&bytes) != segment.crc {
                    return Err(ReadError::damaged(
                        path,
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
mod tests;
