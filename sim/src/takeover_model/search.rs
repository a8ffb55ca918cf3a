//! Runs the checker and tells what it found.

use super::Takeover;
use super::properties::{Invariant, SOMETIMES, V1};
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A search of one model, breadth first, so that counterexamples are shortest (with one thread).
pub struct Search {
    model: Takeover,
    threads: usize,
}

/// What a search found.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct worlds seen.
    pub worlds: usize,
    /// Longest way to one of them.
    pub depth: usize,
    /// Names of the violated properties, sorted.
    pub violated: Vec<&'static str>,
    /// Names of the `sometimes_…` properties that were met, sorted.
    pub met: Vec<&'static str>,
}

impl Search {
    /// Uses `threads` threads, at least 1.
    #[must_use]
    pub fn new(model: Takeover, threads: usize) -> Search {
        Search { model, threads: threads.max(1) }
    }

    /// Explores all worlds within the bounds.
    #[must_use]
    pub fn all(&self) -> Outcome {
        self.run(HasDiscoveries::AllOf(BTreeSet::from(["never"])))
    }

    /// Explores until each of `properties` has a counterexample, or to the end.
    #[must_use]
    pub fn until(&self, properties: &[&'static str]) -> Outcome {
        self.run(HasDiscoveries::AllOf(properties.iter().copied().collect()))
    }

    /// The way to the first world found that violates (or, for `sometimes_…`, meets) `property`, one action and world
    /// a line. `None` if there is no such property, or no such world within the bounds.
    #[must_use]
    pub fn trace(&self, property: &str) -> Option<String> {
        let invariants = Invariant::ALL.map(Invariant::name);
        let mut names = invariants.iter().chain(&SOMETIMES).chain([&V1]);
        let name = *names.find(|name| **name == property)?;
        let found = self.checker(HasDiscoveries::AnyOf(BTreeSet::from([name])));
        let mut text = String::new();
        for (world, action) in found.discovery(name)?.into_vec() {
            let log = &world.log[1..=usize::from(self.model.bounds.slots)];
            let acked: Vec<u8> = (1..=self.model.bounds.rows).filter(|row| world.is_acked(*row)).collect();
            let _ = writeln!(
                text,
                "    log {log:?}, last_l0_seq {}, epoch {}, claim T{}, acked {acked:?}, in flight {:?}",
                world.flushed, world.epoch, world.holder, world.in_flight
            );
            if let Some(action) = action {
                let _ = writeln!(text, "{action:?}");
            }
        }
        Some(text)
    }

    fn run(&self, until: HasDiscoveries) -> Outcome {
        let checker = self.checker(until);
        let mut names: Vec<_> = checker.discoveries().into_keys().collect();
        names.sort_unstable();
        let (met, violated) = names.into_iter().partition(|name| SOMETIMES.contains(name));
        Outcome { worlds: checker.unique_state_count(), depth: checker.max_depth(), violated, met }
    }

    fn checker(&self, until: HasDiscoveries) -> impl Checker<Takeover> {
        self.model.checker().threads(self.threads).finish_when(until).spawn_bfs().join()
    }
}
