//! The rows of a shard's primary-key tables, as far as they are in memory.
//!
//! A row's newest durable state is in the first of these that knows the key:
//!
//! 1. the *cache*: rows that were read or written lately, absent ones included; each confirmed change renews it,
//! 2. the *overlay*: changes that are durable in the log and not yet in SlateDB,
//! 3. SlateDB.
//!
//! Only the actor writes here, when an object is confirmed, so nothing is seen here before it is durable (K3).
//! Changes of objects that are still on their way are the actor's own (see [`super::merging`]).
//!
//! A key that is read from SlateDB may be written meanwhile, and its change may even have left the overlay before the read
//! returns. So a read is registered first: a confirmed change voids it, and a void read is not believed but repeated. The
//! same holds for all rows of a prefix ([`groups`]): any write under it voids the read.
//!
//! A row may have a time until which it lives. Who asks brings the time; a row whose life is over is absent.

use std::collections::{BTreeMap, HashSet};
use std::ops::{Bound, Range};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use hashbrown::HashMap;
use parking_lot::RwLock;
use slatedb::{Db, KeyValue};
use wadi_model::LogSeq;

use crate::context::Context;
use crate::keyed::{FOREVER, Life};
use cache::{Found, RowCache};
use copies::Copies;

pub(super) use groups::PrefixRows;
pub(super) use key::Key;

mod cache;
mod copies;
mod groups;
mod key;
#[cfg(test)]
mod tests;

/// Keys of one part that are read from SlateDB at once.
const PARALLEL: usize = 64;

/// Most rows of a prefix that are kept as a group.
pub(super) const GROUP_ROWS: usize = 1000;

/// Most bytes of rows that are read to become a group.
pub(super) const GROUP_READ_BYTES: usize = 1 << 20;

/// A row as it is stored, or its absence.
pub(super) type Row = Option<Bytes>;

/// A row, or its absence, and the time (milliseconds since 1970) until which it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub row: Row,
    pub expires: i64,
}

impl State {
    /// A row that lives for ever, or its absence.
    pub(super) fn lasting(row: Row) -> State {
        State { row, expires: FOREVER }
    }

    /// A row, or its absence, that was written at a time.
    pub(super) fn written(row: Row, life: &Life, time: i64) -> State {
        let expires = row.as_ref().map_or(FOREVER, |row| life.end(row, time));
        State { row, expires }
    }

    /// What SlateDB has.
    pub(super) fn stored(found: Option<KeyValue>) -> State {
        match found {
            Some(found) => State { row: Some(found.value), expires: found.expire_ts.unwrap_or(FOREVER) },
            None => State::lasting(None),
        }
    }

    /// The row at a time.
    pub(super) fn at(&self, now: i64) -> Option<&Bytes> {
        self.row.as_ref().filter(|_| self.expires > now)
    }
}

/// The rows in memory. Keys are keys of the database, so buckets do not mix.
#[derive(Debug)]
pub(super) struct Rows {
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    overlay: BTreeMap<Key, Confirmed>,
    cache: RowCache,
    loads: HashMap<Bytes, Load>,
    group_loads: BTreeMap<Bytes, Load>,
    next_load: u64,
}

/// A change that SlateDB does not have yet.
#[derive(Clone, Debug)]
pub(super) struct Confirmed {
    pub seq: LogSeq,
    pub state: State,
}

/// Reads of a key, or of a prefix, that began at the same state of it.
#[derive(Debug)]
struct Load {
    id: u64,
    readers: usize,
}

impl Rows {
    /// Keeps about so many bytes of rows.
    pub(super) fn new(cache_bytes: usize) -> Rows {
        let inner = Inner {
            overlay: BTreeMap::new(),
            cache: RowCache::new(cache_bytes),
            loads: HashMap::new(),
            group_loads: BTreeMap::new(),
            next_load: 0,
        };
        Rows { inner: RwLock::new(inner) }
    }

    /// What is known of each key; `None` must be read from SlateDB.
    pub(super) fn known<K: AsRef<[u8]>>(&self, keys: &[K], now: i64) -> Vec<Option<Row>> {
        let mut copies = Copies::default();
        let known: Vec<_> = {
            let inner = self.inner.read();
            keys.iter().map(|key| Some(copies.take(inner.find(key.as_ref(), now)?))).collect()
        };
        let taken = copies.taken();
        known.into_iter().map(|copy| copy.map(|copy| taken.row(copy))).collect()
    }

    /// Registers reads of the keys that are not known, or with [`Keep::All`] of all keys, whose known rows then count as
    /// read.
    pub(super) fn begin_reads(self: &Arc<Rows>, mut keys: Vec<Bytes>, keep: Keep) -> Reads {
        let mut reads = Vec::new();
        if keep == Keep::Missing {
            // Most parts end here: all of their rows are in memory.
            let inner = self.inner.read();
            keys.retain(|key| !inner.knows(key));
        }
        if keys.is_empty() {
            return Reads { rows: self.clone(), reads };
        }
        let mut inner = self.inner.write();
        // A part may name a key many times.
        let mut registered = HashSet::new();
        for key in keys {
            // Judged under this lock: a change in the overlay is newer than what SlateDB would answer.
            let state = inner.state(&key);
            if state.is_some() && keep == Keep::Missing || !registered.insert(key.clone()) {
                continue;
            }
            let load = inner.fresh_load();
            let load = inner.loads.entry(key.clone()).or_insert(load);
            load.readers += 1;
            reads.push(Read { key, load: load.id, state });
        }
        Reads { rows: self.clone(), reads }
    }

    /// Reads what is not known of the keys, many at once.
    pub(super) async fn read(
        self: &Arc<Rows>,
        context: &Context,
        db: &Db,
        keys: Vec<Bytes>,
        keep: Keep,
    ) -> Result<Reads, slatedb::Error> {
        let mut reads = self.begin_reads(keys, keep);
        let missing: Vec<Bytes> = reads.missing().cloned().collect();
        if !missing.is_empty() {
            // A read has some kilobytes before it has read anything, so each is made when its turn comes.
            let get = |key| async move {
                let _permit = context.memtables.read(context.local).await;
                db.get_key_value(key).await
            };
            let gets = stream::iter(missing).map(get).buffered(PARALLEL).map_ok(State::stored);
            let found = gets.try_collect().await?;
            reads.finish(found);
        }
        Ok(reads)
    }

    /// Takes in the changes of a durable log object, in their order.
    pub(super) fn confirm(&self, seq: LogSeq, changes: impl IntoIterator<Item = (Bytes, State)>) {
        let mut inner = self.inner.write();
        for (key, state) in changes {
            if !inner.loads.is_empty() {
                inner.loads.remove(&key);
            }
            inner.void_group_loads(&key);
            inner.cache.put(&key, &state);
            inner.overlay.insert(Key::from(&key), Confirmed { seq, state });
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
        let range = (Bound::Included(range.start.as_ref()), Bound::Excluded(range.end.as_ref()));
        let inside = inner.overlay.range::<[u8], _>(range);
        inside.map(|(key, confirmed)| (key.to_bytes(), confirmed.clone())).collect()
    }
}

impl Inner {
    /// The row of a key at a time, if it is known.
    fn find(&self, key: &[u8], now: i64) -> Option<Found<'_>> {
        if let Some(row) = self.cache.get(key) {
            return Some(row.at(now));
        }
        let confirmed = self.overlay.get(key)?;
        Some(confirmed.state.at(now).map_or(Found::Absent, |row| Found::Large(row.clone())))
    }

    /// The state of a key, if it is known.
    fn state(&self, key: &[u8]) -> Option<State> {
        match self.cache.get(key) {
            Some(row) => Some(row.state()),
            None => self.overlay.get(key).map(|confirmed| confirmed.state.clone()),
        }
    }

    fn knows(&self, key: &[u8]) -> bool {
        self.cache.knows(key) || self.overlay.contains_key(key)
    }

    fn fresh_load(&mut self) -> Load {
        self.next_load += 1;
        Load { id: self.next_load, readers: 0 }
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
    state: Option<State>,
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
        self.reads.iter().filter(|read| read.state.is_none()).map(|read| &read.key)
    }

    /// Takes in what SlateDB has for the missing keys, in their order, and shares it with others through the cache.
    pub(super) fn finish(&mut self, found: Vec<State>) {
        let mut inner = self.rows.inner.write();
        let missing = self.reads.iter_mut().filter(|read| read.state.is_none());
        for (read, state) in missing.zip(found) {
            if inner.loads.get(&read.key).is_some_and(|load| load.id == read.load) {
                inner.cache.put(&read.key, &state);
                read.state = Some(state);
            }
        }
    }

    /// The rows at a time of what was found, by key, as far as it still counts.
    pub(super) fn valid(&self, now: i64) -> HashMap<&[u8], Row> {
        if self.reads.is_empty() {
            return HashMap::new();
        }
        let inner = self.rows.inner.read();
        let counts = |read: &&Read| inner.loads.get(&read.key).is_some_and(|load| load.id == read.load);
        let found = self.reads.iter().filter(counts);
        found.filter_map(|read| Some((read.key.as_ref(), read.state.as_ref()?.at(now).cloned()))).collect()
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        if self.reads.is_empty() {
            return;
        }
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
