//! What a shard remembers of producers, so that a retry finds its first try (L3).
//!
//! Owned by the actor. An entry is in memory while a request of it is pending or not yet in SlateDB, and as long as
//! there is room; else it is loaded from SlateDB before its request is judged. The requests of an entry that is being
//! loaded wait here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use wadi_model::{Bucket, LogSeq};

use super::part::Stamp;
use crate::keys::producer::{ProducerEntry, SeenRequest};

#[cfg(test)]
mod tests;

/// How many requests of a producer are remembered in each bucket.
pub const WINDOW: usize = 64;

/// How many requests of one entry are remembered: a producer of one request at a time, as an idempotency key is, needs its last.
const fn window(once: bool) -> usize {
    if once { 1 } else { WINDOW }
}

/// Entries kept in memory although SlateDB has them too.
const KEPT: usize = 50_000;

/// A producer in a bucket.
pub(super) type ProducerKey = (Bucket, Arc<str>);

/// The name under which a stamp is remembered; keys and producers of one name are different.
pub(super) fn name_of(once: bool, producer: &str) -> Arc<str> {
    let kind = if once { "k/" } else { "p/" };
    format!("{kind}{producer}").into()
}

impl Stamp {
    pub(super) fn key(&self, bucket: Bucket) -> ProducerKey {
        (bucket, name_of(self.once, &self.producer))
    }
}

/// What is to be done with a request.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Not seen before: take it.
    New,
    /// Durable from an earlier try.
    Seen(SeenRequest),
    /// An earlier try is being written.
    InFlight,
    /// The same number came with other content.
    Reused,
    /// Older than the window.
    TooOld,
    /// The entry is being loaded; `first` asks the caller to start the load.
    Load {
        /// Whether nobody loads it yet.
        first: bool,
    },
}

#[derive(Debug)]
struct Known {
    entry: ProducerEntry,
    /// Taken and not yet durable: sequence and fingerprint.
    pending: Vec<(u64, u64)>,
    /// The last object that changed it; it may leave memory once that is in SlateDB.
    changed: LogSeq,
}

/// The producers of a shard. `W` is what waits for a load.
#[derive(Debug)]
pub(super) struct Producers<W> {
    known: BTreeMap<ProducerKey, Known>,
    loading: BTreeMap<ProducerKey, Vec<W>>,
    /// In the order in which they may leave memory.
    order: VecDeque<(ProducerKey, LogSeq)>,
    /// Changed since the last group was written.
    dirty: BTreeSet<ProducerKey>,
    lifetimes: Lifetimes,
}

/// How long producers and keys are remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetimes {
    pub producer: Duration,
    pub key: Duration,
}

impl Lifetimes {
    /// When an entry is forgotten, in milliseconds since 1970.
    pub(super) fn end(&self, entry: &ProducerEntry) -> i64 {
        let lifetime = if entry.once { self.key } else { self.producer };
        entry.heard.saturating_add(i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX))
    }
}

impl<W> Producers<W> {
    pub(super) fn new(lifetimes: Lifetimes) -> Producers<W> {
        Producers {
            known: BTreeMap::new(),
            loading: BTreeMap::new(),
            order: VecDeque::new(),
            dirty: BTreeSet::new(),
            lifetimes,
        }
    }

    /// Judges a request that arrives at `now`.
    pub(super) fn judge(&mut self, bucket: Bucket, stamp: &Stamp, now: i64) -> Verdict {
        let key = stamp.key(bucket);
        let Some(known) = self.known.get_mut(&key) else {
            return Verdict::Load { first: !self.loading.contains_key(&key) };
        };
        if known.pending.is_empty() && self.lifetimes.end(&known.entry) <= now {
            known.entry = ProducerEntry::default();
        }
        let same = |fingerprint| fingerprint == stamp.fingerprint;
        if let Some((_, fingerprint)) = known.pending.iter().find(|(s, _)| *s == stamp.sequence) {
            return if same(*fingerprint) { Verdict::InFlight } else { Verdict::Reused };
        }
        let requests = &known.entry.requests;
        if let Some(seen) = requests.iter().find(|r| r.sequence == stamp.sequence) {
            return if same(seen.fingerprint) { Verdict::Seen(*seen) } else { Verdict::Reused };
        }
        let below = requests.first().is_some_and(|r| stamp.sequence < r.sequence);
        if below && requests.len() + known.pending.len() >= window(stamp.once) {
            Verdict::TooOld
        } else {
            Verdict::New
        }
    }

    /// Lets something wait until the entry is loaded.
    pub(super) fn wait(&mut self, bucket: Bucket, stamp: &Stamp, waiting: W) {
        self.loading.entry(stamp.key(bucket)).or_default().push(waiting);
    }

    /// Takes in a loaded entry and gives back what waited for it.
    pub(super) fn loaded(&mut self, key: ProducerKey, entry: Option<ProducerEntry>) -> Vec<W> {
        let waiting = self.loading.remove(&key).unwrap_or_default();
        let known = Known { entry: entry.unwrap_or_default(), pending: Vec::new(), changed: LogSeq(0) };
        self.known.entry(key.clone()).or_insert(known);
        self.order.push_back((key, LogSeq(0)));
        waiting
    }

    /// Gives back what waited for a load that failed.
    pub(super) fn load_failed(&mut self, key: &ProducerKey) -> Vec<W> {
        self.loading.remove(key).unwrap_or_default()
    }

    /// Gives back everything that waits for a load.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = W> + '_ {
        std::mem::take(&mut self.loading).into_values().flatten()
    }

    /// Notes a request that was judged new and is now on its way.
    pub(super) fn begin(&mut self, bucket: Bucket, stamp: &Stamp) {
        if let Some(known) = self.known.get_mut(&stamp.key(bucket)) {
            known.pending.push((stamp.sequence, stamp.fingerprint));
        }
    }

    /// Notes that a request is durable since log object `seq`, flushed at `time`.
    pub(super) fn confirm(
        &mut self,
        key: ProducerKey,
        once: bool,
        request: SeenRequest,
        seq: LogSeq,
        time: i64,
    ) {
        let known = self.known.entry(key.clone()).or_insert_with(|| Known {
            entry: ProducerEntry::default(),
            pending: Vec::new(),
            changed: seq,
        });
        known.pending.retain(|(s, _)| *s != request.sequence);
        remember(&mut known.entry, once, request, time);
        known.changed = seq;
        self.dirty.insert(key.clone());
        self.order.push_back((key, seq));
    }

    /// The entries that changed since the last call, for SlateDB.
    pub(super) fn take_dirty(&mut self) -> Vec<(ProducerKey, ProducerEntry)> {
        let dirty = std::mem::take(&mut self.dirty);
        let entry = |key: ProducerKey| self.known.get(&key).map(|known| (key, known.entry.clone()));
        dirty.into_iter().filter_map(entry).collect()
    }

    /// Lets entries go that SlateDB has, as far as there are too many.
    pub(super) fn trim(&mut self, applied: LogSeq) {
        while self.order.len() > KEPT {
            let Some((key, seq)) = self.order.front() else { return };
            if *seq > applied {
                return;
            }
            let gone = |k: &Known| k.pending.is_empty() && k.changed <= applied && k.changed <= *seq;
            if self.known.get(key).is_some_and(gone) {
                self.known.remove(key);
            }
            self.order.pop_front();
        }
    }
}

/// Adds a request to an entry, dropping the oldest beyond the window.
pub(super) fn remember(entry: &mut ProducerEntry, once: bool, request: SeenRequest, time: i64) {
    let at = entry.requests.partition_point(|r| r.sequence < request.sequence);
    if entry.requests.get(at).is_some_and(|r| r.sequence == request.sequence) {
        entry.requests[at] = request;
    } else {
        entry.requests.insert(at, request);
    }
    if entry.requests.len() > window(once) {
        entry.requests.remove(0);
    }
    entry.heard = entry.heard.max(time);
    entry.once = once;
}
