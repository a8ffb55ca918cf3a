//! What came of one run, and of many.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::checker::{Counts, Violation};

/// What came of one seed.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// How long the run was for those in it, but for the day that orphans take.
    pub simulated: Duration,
    /// Lines of the trace.
    pub operations: u64,
    /// The hash of the trace.
    pub hash: u64,
    /// Faults and other rare events, by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Takeovers that ended with an open shard.
    pub takeovers: u64,
    /// Shards given up in doubt.
    pub poisoned: u64,
    /// Files of databases that compactors wrote.
    pub compacted: u64,
    /// Those that gateways wrote where no compactor was alive.
    pub relieved: u64,
    /// Rounds of packing and merging that owners took.
    pub packed: u64,
    /// Log objects and packs that compactors deleted.
    pub deleted: u64,
    /// Packs without an owner among them.
    pub orphans: u64,
    /// Rounds of retention that trimmed something.
    pub trims: u64,
    /// Databases that were freed of what was dropped.
    pub sweeps: u64,
    /// What clients got done.
    pub counts: Counts,
    /// Broken invariants.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { acks, again, rows, failed, read, looks } = self.counts;
        write!(
            f,
            "seed {}: {:.1} s simulated, {} operations, hash {:016x}, {acks} acks ({again} again, {failed} failed), \
             {rows} rows acked, {read} read, {looks} rows looked up, {} takeovers, {} poisoned",
            self.seed,
            self.simulated.as_secs_f64(),
            self.operations,
            self.hash,
            self.takeovers,
            self.poisoned,
        )?;
        for Violation { invariant, at, what, trace } in &self.violations {
            write!(f, "\nseed {} at {at} ms: {invariant} violated: {what}", self.seed)?;
            for line in trace {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// Simulated time, all together.
    pub simulated: Duration,
    /// Lines of all traces.
    pub operations: u64,
    /// Faults and other rare events, by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// The seeds in which something was violated, with the first invariant of each.
    pub broken: Vec<(u64, &'static str)>,
}

impl Summary {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated += report.simulated;
        self.operations += report.operations;
        let Counts { acks, again, rows, failed, read, looks } = report.counts;
        let counted = [
            ("acks", acks),
            ("answered again", again),
            ("requests failed", failed),
            ("rows acked", rows),
            ("rows read", read),
            ("looks by key", looks),
            ("takeovers", report.takeovers),
            ("poisoned shards", report.poisoned),
            ("files compacted", report.compacted),
            ("files compacted by gateways", report.relieved),
            ("rounds of packing", report.packed),
            ("objects deleted", report.deleted),
            ("orphaned packs deleted", report.orphans),
            ("rounds of trimming", report.trims),
            ("databases swept", report.sweeps),
        ];
        for (kind, n) in report.events.iter().map(|(k, n)| (*k, *n)).chain(counted) {
            *self.events.entry(kind).or_default() += n;
        }
        if let Some(first) = report.violations.first() {
            self.broken.push((report.seed, first.invariant));
        }
    }

    /// How often something of this kind happened.
    pub fn count(&self, kind: &str) -> u64 {
        self.events.get(kind).copied().unwrap_or_default()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        writeln!(f, "{} seeds, {hours:.2} simulated hours, {} operations", self.seeds, self.operations)?;
        for (kind, n) in &self.events {
            writeln!(f, "{n:>12} {kind}")?;
        }
        for (seed, invariant) in &self.broken {
            writeln!(f, "seed {seed} violates {invariant}")?;
        }
        write!(f, "{} seeds violate an invariant", self.broken.len())
    }
}
