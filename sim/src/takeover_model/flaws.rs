//! Mutants: the protocol with rules taken away. A rule that no mutant needs is either covered by another one or
//! covers a case outside the bounds; [`Expect::Survives`] says which.

use super::Bounds;

/// One rule that a mutant breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    NoFence,
    FenceDeleted,
    NoAckDeadline,
    NoReadDeadline,
    ClaimNotChecked,
    SessionRevives,
    NoLeaseRecheck,
    NoFlushedCheck,
    BaseDeleted,
    BaseIgnored,
    AppliedIgnored,
    HigherIgnored,
    AlarmAtOnce,
    AnyEpoch,
    ReplaySkipsMissing,
    ReplayTrustsNames,
    UnflushedDeleted,
    ApplyEarly,
    ExistsIsFailure,
    ExistsIsSuccess,
    ForeignIsFailure,
    MissingIsFailure,
    PoisonIsFailure,
    PoisonSkipsSlot,
    PoisonKeepsToken,
    PoisonKeepsFence,
    EqualTokenIncluded,
    CompareTokens,
}

/// What a search of a mutant must end with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// Each of these properties has a counterexample.
    Caught(&'static [&'static str]),
    /// None is found within the bounds, for this reason.
    Survives(&'static str),
}

/// The base protocol with some rules broken.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// As given to `--mutant`.
    pub name: &'static str,
    /// What it does wrong.
    pub wrong: &'static str,
    /// What catches it.
    pub expect: Expect,
    pub(crate) flaws: &'static [Flaw],
    /// Bounds in which that shows.
    pub bounds: Bounds,
}

impl Mutant {
    pub(crate) const fn caught(
        name: &'static str,
        flaws: &'static [Flaw],
        by: &'static [&'static str],
        wrong: &'static str,
    ) -> Mutant {
        Mutant { name, wrong, expect: Expect::Caught(by), flaws, bounds: Bounds::SMALL }
    }

    pub(crate) const fn survives(
        name: &'static str,
        flaws: &'static [Flaw],
        why: &'static str,
        wrong: &'static str,
    ) -> Mutant {
        Mutant { name, wrong, expect: Expect::Survives(why), flaws, bounds: Bounds::SMALL }
    }

    /// One early revocation may happen.
    pub(crate) const fn revoked(mut self) -> Mutant {
        self.bounds.early_revocations = 1;
        self
    }

    /// A PUT may be sent twice.
    pub(crate) const fn resent(mut self) -> Mutant {
        self.bounds.sends = 2;
        self
    }

    pub(crate) const fn claims(mut self, claims: u8) -> Mutant {
        self.bounds.tokens = claims;
        self.bounds.claimants = claims as usize;
        self
    }

    pub(crate) const fn rows(mut self, rows: u8) -> Mutant {
        self.bounds.rows = rows;
        self
    }

    pub(crate) const fn slots(mut self, slots: u8) -> Mutant {
        self.bounds.slots = slots;
        self
    }

    pub(crate) const fn with_liveness(mut self) -> Mutant {
        self.bounds.liveness = true;
        self
    }

    /// The mutant of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Mutant> {
        super::MUTANTS.iter().find(|mutant| mutant.name == name)
    }
}
