//! The rows of a shard's primary-key tables, as far as they are in memory.
//!
//! A row's newest durable state is in the first of these that knows the key:
//!
//! 1. the *overlay*: changes that are durable in the log and not yet in SlateDB,
//! 2. the *cache*: rows that were read or written lately, absent ones included,
//! 3. SlateDB.
//!
//! Only the actor writes the overlay, when an object is confirmed, so nothing is seen here before it is durable (K3).
//! Changes of objects that are still on their way are the actor's own (see [`super::merging`]).
//!
//! A key that is read from SlateDB may be written meanwhile, and its change may even have left the overlay before the read
//! returns. So a read is registered first: a confirmed change voids it, and a void read is not believed but repeated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::RwLock;
use slatedb::Db;
use wadi_model::LogSeq;

use cache::RowCache;

mod cache;
#[cfg(test)]
mod tests;

/// Keys that are read from SlateDB at once.
const PARALLEL: usize = 64;

/// A row as it is stored, or its absence.
pub(super) type Row = Option<Bytes>;

/// The rows in memory. Keys are keys of the database, so buckets do not mix.
#[derive(Debug)]
pub(super) struct Rows {
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    overlay: BTreeMap<Bytes, Confirmed>,
    cache: RowCache,
    loads: HashMap<Bytes, Load>,
    next_load: u64,
}

/// A change that SlateDB does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Confirmed {
    pub seq: LogSeq,
    pub row: Row,
}

/// Reads of a key that began at the same state of it.
#[derive(Debug)]
struct Load {
    id: u64,
    readers: usize,
}

impl Rows {
    /// Keeps about so many bytes of rows.
    pub(super) fn new(cache_bytes: usize) -> Rows {
        let (overlay, loads) = (BTreeMap::new(), HashMap::new());
        Rows { inner: RwLock::new(Inner { overlay, cache: RowCache::new(cache_bytes), loads, next_load: 0 }) }
    }

    /// What is known of each key; `None` must be read from SlateDB.
    pub(super) fn known<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Option<Row>> {
        let inner = self.inner.read();
        keys.iter().map(|key| inner.known(key.as_ref())).collect()
    }

    /// Registers reads of the keys that are not known, or with [`Keep::All`] of all keys, whose known rows then count as
    /// read.
    pub(super) fn begin_reads(self: &Arc<Rows>, keys: impl IntoIterator<Item = Bytes>, keep: Keep) -> Reads {
        let mut inner = self.inner.write();
        let mut reads = Vec::new();
        // A part may name a key many times.
        let mut registered = HashSet::new();
        for key in keys {
            // Judged under this lock: a change in the overlay is newer than what SlateDB would answer.
            let row = inner.known(&key);
            if row.is_some() && keep == Keep::Missing || !registered.insert(key.clone()) {
                continue;
            }
            inner.next_load += 1;
            let fresh = Load { id: inner.next_load, readers: 0 };
            let load = inner.loads.entry(key.clone()).or_insert(fresh);
            load.readers += 1;
            reads.push(Read { key, load: load.id, row });
        }
        Reads { rows: self.clone(), reads }
    }

    /// Reads what is not known of the keys, many at once.
    pub(super) async fn read(
        self: &Arc<Rows>,
        db: &Db,
        keys: Vec<Bytes>,
        keep: Keep,
    ) -> Result<Reads, slatedb::Error> {
        let mut reads = self.begin_reads(keys, keep);
        let gets: Vec<_> = reads.missing().map(|key| db.get(key.clone())).collect();
        let found = stream::iter(gets).buffered(PARALLEL).try_collect().await?;
        reads.finish(found);
        Ok(reads)
    }

    /// Takes in the changes of a durable log object, in their order.
    pub(super) fn confirm(&self, seq: LogSeq, changes: impl IntoIterator<Item = (Bytes, Row)>) {
        let mut inner = self.inner.write();
        for (key, row) in changes {
            inner.loads.remove(&key);
            inner.cache.put(&key, row.clone());
            inner.overlay.insert(key, Confirmed { seq, row });
        }
    }

    /// Notes that SlateDB has everything up to `seq`.
    pub(super) fn applied(&self, seq: LogSeq) {
        self.inner.write().overlay.retain(|_, confirmed| confirmed.seq > seq);
    }

    /// The changes in a range of keys that SlateDB may not have.
    ///
    /// To read a range at one point in time, take this first and a snapshot of SlateDB second: a change at or below the
    /// snapshot's position is in it, perhaps followed by a later one; a change above it is newer than the snapshot.
    pub(super) fn overlay(&self, range: Range<Bytes>) -> Vec<(Bytes, Confirmed)> {
        let inner = self.inner.read();
        inner.overlay.range(range).map(|(key, confirmed)| (key.clone(), confirmed.clone())).collect()
    }
}

impl Inner {
    fn known(&self, key: &[u8]) -> Option<Row> {
        match self.overlay.get(key) {
            Some(confirmed) => Some(confirmed.row.clone()),
            None => self.cache.get(key),
        }
    }
}

/// Of which keys a reader keeps the rows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Of those that are not known: enough where the others stay known until they are used.
    Missing,
    /// Of all: whatever a small cache lets go meanwhile, the reader has what it needs, unless it is written.
    All,
}

/// One registered read.
#[derive(Debug)]
struct Read {
    key: Bytes,
    load: u64,
    row: Option<Row>,
}

/// Registered reads of SlateDB. What they found counts for as long as this lives and the key is not written.
#[derive(Debug)]
pub(super) struct Reads {
    rows: Arc<Rows>,
    reads: Vec<Read>,
}

impl Reads {
    /// The keys to be read from SlateDB.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Bytes> {
        self.reads.iter().filter(|read| read.row.is_none()).map(|read| &read.key)
    }

    /// Takes in what SlateDB has for the missing keys, in their order, and shares it with others through the cache.
    pub(super) fn finish(&mut self, found: Vec<Row>) {
        let mut inner = self.rows.inner.write();
        let missing = self.reads.iter_mut().filter(|read| read.row.is_none());
        for (read, row) in missing.zip(found) {
            if inner.loads.get(&read.key).is_some_and(|load| load.id == read.load) {
                inner.cache.put(&read.key, row.clone());
                read.row = Some(row);
            }
        }
    }

    /// What was found, by key, as far as it still counts.
    pub(super) fn valid(&self) -> HashMap<&[u8], &Row> {
        let inner = self.rows.inner.read();
        let counts = |read: &&Read| inner.loads.get(&read.key).is_some_and(|load| load.id == read.load);
        let found = self.reads.iter().filter(counts);
        found.filter_map(|read| Some((read.key.as_ref(), read.row.as_ref()?))).collect()
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let mut inner = self.rows.inner.write();
        for read in &self.reads {
            if let Some(load) = inner.loads.get_mut(&read.key).filter(|load| load.id == read.load) {
                load.readers -= 1;
                if load.readers == 0 {
                    inner.loads.remove(&read.key);
                }
            }
        }
    }
}
