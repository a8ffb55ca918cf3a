//! The trace: one line per operation on the object store, the meta store, and by clients, and a hash over all of them.
//!
//! The same seed gives the same hash; that is how we know that a seed reproduces what it found. The last lines are kept
//! for the report of a violation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

/// Lines that are kept.
const KEPT: usize = 400;

/// The trace of one run. Clones write to the same.
#[derive(Clone)]
pub struct Trace {
    start: Instant,
    verbose: bool,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: Xxh3,
    operations: u64,
    counts: BTreeMap<&'static str, u64>,
    last: VecDeque<String>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

impl Trace {
    /// An empty trace that begins now; `verbose` prints each line.
    pub fn new(verbose: bool) -> Trace {
        let (hash, counts, last) = (Xxh3::new(), BTreeMap::new(), VecDeque::new());
        let inner = Inner { hash, operations: 0, counts, last };
        Trace { start: Instant::now(), verbose, inner: Arc::new(Mutex::new(inner)) }
    }

    /// When the run began.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Adds a line: who did what, and what came of it.
    pub fn note(&self, who: impl fmt::Display, what: impl fmt::Display) {
        let at = self.start.elapsed();
        let line = format!("{:>10.3}ms {who} {what}", at.as_secs_f64() * 1000.0);
        if self.verbose {
            println!("{line}");
        }
        let mut inner = self.inner.lock();
        inner.hash.update(line.as_bytes());
        inner.operations += 1;
        if inner.last.len() == KEPT {
            inner.last.pop_front();
        }
        inner.last.push_back(line);
    }

    /// Counts a fault, or something else that should happen now and then.
    pub fn count(&self, kind: &'static str) {
        *self.inner.lock().counts.entry(kind).or_default() += 1;
    }

    /// What was counted.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().counts.clone()
    }

    /// How many lines there are.
    pub fn operations(&self) -> u64 {
        self.inner.lock().operations
    }

    /// The hash of all lines so far.
    pub fn hash(&self) -> u64 {
        self.inner.lock().hash.digest()
    }

    /// The last lines, oldest first.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let inner = self.inner.lock();
        inner.last.iter().skip(inner.last.len().saturating_sub(lines)).cloned().collect()
    }
}
