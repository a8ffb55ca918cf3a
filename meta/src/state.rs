//! All keys in memory, with the recent history of their changes: the common core of the memory and the embedded store.
//!
//! It does no I/O and knows no time. A store [plans](State::plan) a change, makes it durable if it has to, and then
//! [applies](State::apply) it; nothing that is only planned is visible. Whoever plans must be the only one who does, until
//! he has applied.

mod shared;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

pub(crate) use shared::Shared;

use crate::{Change, Compare, KeyValue, Listing, Op, Revision, SessionId};

/// Bounds of the history that watches are served from.
const HISTORY_COMMITS: usize = 10_000;
const HISTORY_BYTES: usize = 8 << 20;

/// What one key holds.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) kv: KeyValue,
    pub(crate) session: Option<SessionId>,
}

/// One key's part of a planned change.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) change: Change,
    /// For a put: the session that the key ends with.
    pub(crate) session: Option<SessionId>,
}

/// A change of one or more keys at one revision.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) revision: Revision,
    pub(crate) steps: Vec<Step>,
}

impl Commit {
    /// About the memory that it holds.
    fn weight(&self) -> usize {
        self.steps
            .iter()
            .map(|step| match &step.change {
                Change::Put(kv) => 2 * kv.key.len() + kv.value.len(),
                Change::Delete { key } => key.len(),
            })
            .sum()
    }
}

/// The keys and their recent history.
#[derive(Debug, Default)]
pub(crate) struct State {
    entries: BTreeMap<String, Entry>,
    revision: Revision,
    history: VecDeque<Arc<Commit>>,
    history_bytes: usize,
    /// Changes up to this revision are not in the history.
    floor: Revision,
}

impl State {
    /// A state that was read from storage; it has no history.
    pub(crate) fn loaded(entries: BTreeMap<String, Entry>, revision: Revision) -> Self {
        Self { entries, revision, floor: revision, ..Self::default() }
    }

    /// The revision of the last change.
    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn get(&self, key: &str) -> Option<KeyValue> {
        self.entries.get(key).map(|entry| entry.kv.clone())
    }

    pub(crate) fn list(&self, prefix: &str) -> Listing {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let entries = self
            .entries
            .range::<str, _>(from)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, entry)| entry.kv.clone())
            .collect();
        Listing { entries, revision: self.revision }
    }

    /// What the compared keys hold, if a compare does not hold.
    pub(crate) fn refusal(&self, compares: &[Compare]) -> Option<Vec<Option<KeyValue>>> {
        let holds = |compare: &Compare| compare.holds(self.entries.get(compare.key()).map(|entry| &entry.kv));
        if compares.iter().all(holds) {
            return None;
        }
        Some(compares.iter().map(|compare| self.get(compare.key())).collect())
    }

    /// What `ops` would change at `revision`. `None` if nothing would.
    pub(crate) fn plan(&self, ops: &[Op], revision: Revision) -> Option<Commit> {
        let steps: Vec<Step> = ops.iter().filter_map(|op| self.step(op, revision)).collect();
        (!steps.is_empty()).then_some(Commit { revision, steps })
    }

    fn step(&self, op: &Op, revision: Revision) -> Option<Step> {
        let current = self.entries.get(op.key());
        match op {
            Op::Put { key, value, session } => Some(Step {
                change: Change::Put(KeyValue {
                    key: key.clone(),
                    value: value.clone(),
                    created: current.map_or(revision, |entry| entry.kv.created),
                    modified: revision,
                }),
                session: *session,
            }),
            Op::Delete { key } => {
                current.map(|_| Step { change: Change::Delete { key: key.clone() }, session: None })
            }
        }
    }

    /// The deletes that the end of these sessions makes.
    pub(crate) fn deletes_of(&self, ended: impl Fn(SessionId) -> bool) -> Vec<Op> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.session.is_some_and(&ended))
            .map(|(key, _)| Op::Delete { key: key.clone() })
            .collect()
    }

    /// Makes a planned change visible.
    pub(crate) fn apply(&mut self, commit: Commit) {
        self.revision = commit.revision;
        for step in &commit.steps {
            match &step.change {
                Change::Put(kv) => {
                    let entry = Entry { kv: kv.clone(), session: step.session };
                    self.entries.insert(kv.key.clone(), entry);
                }
                Change::Delete { key } => {
                    self.entries.remove(key);
                }
            }
        }
        self.history_bytes += commit.weight();
        self.history.push_back(Arc::new(commit));
        while self.history.len() > HISTORY_COMMITS || self.history_bytes > HISTORY_BYTES {
            self.forget_oldest();
        }
    }

    /// Forgets the whole history.
    pub(crate) fn compact(&mut self) {
        while !self.history.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(commit) = self.history.pop_front() {
            self.history_bytes -= commit.weight();
            self.floor = commit.revision;
        }
    }

    /// Whether every change after `revision` is still known.
    pub(crate) fn remembers(&self, revision: Revision) -> bool {
        revision >= self.floor
    }

    /// The first change after `after` that touches `prefix`.
    pub(crate) fn next_change(&self, prefix: &str, after: Revision) -> Option<(Revision, Vec<Change>)> {
        let start = self.history.partition_point(|commit| commit.revision <= after);
        self.history.range(start..).find_map(|commit| {
            let touched = |step: &&Step| step.change.key().starts_with(prefix);
            let changes: Vec<Change> =
                commit.steps.iter().filter(touched).map(|step| step.change.clone()).collect();
            (!changes.is_empty()).then_some((commit.revision, changes))
        })
    }
}

#[cfg(test)]
mod tests;
