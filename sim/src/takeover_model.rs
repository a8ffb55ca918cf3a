//! The takeover protocol of a shard as an explicit-state model (docs/architecture.md tells it in words), for stateright.
//!
//! **The story.** A shard's log is a row of numbered slots in the bucket, and a slot is created if absent. One gateway
//! owns the shard, PUTs one log object at a time, acks its rows when the PUT is confirmed and flushes them to SlateDB
//! later. It may stall at any moment, lose its lease while it stalls, and wake with a PUT still under way. Another
//! gateway takes over: it reads the log from SlateDB's `last_l0_seq` to the first missing slot and creates a FENCE
//! there. The old owner has one PUT in flight, and that goes to the same slot; so either it lands first and is
//! taken over as it is, or it meets the FENCE. Deletion, resent PUTs, claims lost in the middle of a takeover and
//! wrong answers about PUTs are what makes this hard. The model tries all orders of them within [`Bounds`].
//!
//! **Actors.** The *bucket*: log slots. The *network*: copies of PUTs that land later or never. The *MetaStore*: one
//! claim per shard, tokens that grow. *SlateDB*: epoch, `last_l0_seq` and what is flushed. *Claimants*: each is one
//! claim, a takeover and a tenure, and is named by its token. *Clients*: rows, sent again without limit, each with one
//! producer sequence. The *compactor*: deletes from lists that may be arbitrarily old.
//!
//! **Actions.** Pause, crash and slow request need no action: any claimant may take no step for any time.
//!
//! | file | actions |
//! | --- | --- |
//! | `take_over.rs` | `ReadManifest`, `ReadBase`, `Scan`, the PUT of a FENCE, `OpenDb`, `Replay` |
//! | `put.rs` | `Reply` (answer seen), `Land` (nobody learns), `Probe` (header read), `Poison` (out of budget) |
//! | `serve.rs` | `Submit`, `Check` (deadline and claim), `Ack`, `Flush` |
//! | `steps.rs` | `Claim`, `Release`, `Resign`, `Expire`, `RevokeEarly`, `Delete`, and when each action is enabled |
//!
//! **Invariants.** The *effective log* is what a takeover would find now: SlateDB up to `last_l0_seq`, then the log to
//! the first missing slot. L and K are the guarantees of docs/architecture.md, F1, F2 and V1 its part that this model can see; C1
//! and R1 are names of this model.
//!
//! | name | holds |
//! | --- | --- |
//! | L1 | acked rows are in the effective log |
//! | L2 | no PUT whose rows were answered as failed is in it |
//! | L3 | no row is in it twice |
//! | L4 | a slot once readable keeps its one object, in it and for every owner |
//! | K1 | what is flushed to SlateDB equals the log |
//! | K3 | an owner inside its deadline reads every acked row (not after an early revocation) |
//! | F1 | no ack is decided past the deadline or under a claim given back |
//! | F2 | no ack rests on an object that is not the slot's |
//! | C1 | no false alarm: a healthy log is never reported as corrupt |
//! | R1 | no DATA but the readable one lies in a slot, so who reads by name alone is right |
//! | V1 | from every world, once faults stop, some owner serves and every row is acked |
//!
//! `sometimes_…` properties must be *met*, or a search proves nothing. [`MUTANTS`] break a rule each: a
//! property that no mutant violates, or a rule that no mutant misses, would be worth a question.
//!
//! **Left out.** Chunks, offsets and several buckets (a row stands for an object's content); packs and COMMANDs;
//! readers with stale references; the grace time of deletion; metadata that lies.

mod flaws;
mod healing;
mod mutants;
mod object;
mod properties;
mod put;
mod search;
mod serve;
mod steps;
mod take_over;
#[cfg(test)]
mod tests;
mod world;

pub use flaws::{Expect, Mutant};
pub use mutants::MUTANTS;
pub use object::LogObject;
pub use properties::{Invariant, SOMETIMES, V1};
pub use search::{Outcome, Search};
pub use steps::Action;
pub use world::World;

use flaws::Flaw;
use stateright::{Model, Property};

/// How far a search goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Claimants at once, one of which can hold the claim.
    pub claimants: usize,
    /// Slots of the log, at most 6.
    pub slots: u8,
    /// Claims in all, at most 4.
    pub tokens: u8,
    /// Rows, at most 3.
    pub rows: u8,
    /// Copies of one PUT.
    pub sends: u8,
    /// Early revocations.
    pub early_revocations: u8,
    /// Judges V1 too, which costs a healing run for every world.
    pub liveness: bool,
}

impl Bounds {
    /// Seconds; enough to catch the mutants.
    pub const SMALL: Bounds = Bounds {
        claimants: 3,
        slots: 4,
        tokens: 3,
        rows: 2,
        sends: 1,
        early_revocations: 0,
        liveness: false,
    };
    /// A minute or so.
    pub const FULL: Bounds = Bounds { slots: 5, sends: 2, ..Bounds::SMALL };
}

/// The model: the protocol, with some rules broken, within bounds.
#[derive(Clone, Copy, Debug)]
pub struct Takeover {
    bounds: Bounds,
    flaws: &'static [Flaw],
}

impl Takeover {
    /// The protocol as designed.
    #[must_use]
    pub fn base(bounds: Bounds) -> Takeover {
        Takeover { bounds, flaws: &[] }
    }

    /// A mutant in the bounds that show it.
    #[must_use]
    pub fn mutant(mutant: &Mutant) -> Takeover {
        Takeover { bounds: mutant.bounds, flaws: mutant.flaws }
    }
}

impl Model for Takeover {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds.early_revocations)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.candidates(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, action)?;
        self.audit(&mut next);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Takeover>> {
        properties::properties(self)
    }
}
