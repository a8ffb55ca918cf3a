//! The state of the model: bucket, network, MetaStore, SlateDB and all claimants of one shard.

use super::object::{FENCE, LogObject, SLOTS, Slots};
use super::properties::Invariant;

/// Where a claimant stands. A pause needs no phase: any claimant may take no step for any time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// Has the claim, has read nothing.
    Claimed,
    /// Knows the manifest; reads the header of the log object at `last_l0_seq`.
    ReadBase,
    /// Reads the log forward, one GET a step.
    Scan,
    /// A PUT is out: of its FENCE in the takeover, of DATA as owner.
    Put,
    /// The FENCE is in place; opens SlateDB.
    Open,
    /// SlateDB is open; reads again what lies between `last_l0_seq` and the FENCE.
    Replay,
    /// Owner, with no PUT out.
    Serve,
    /// The PUT of DATA is confirmed.
    Durable,
    /// The deadline was checked, the ack is not sent yet: a pause fits between.
    Checked,
}

/// One claim: a takeover and the tenure after it. A gateway that claims anew is a new claimant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Claimant {
    pub(crate) token: u8,
    /// Tenures before this one under the same token; 0 without a flaw.
    pub(crate) attempt: u8,
    pub(crate) phase: Phase,
    /// The local deadline of the session holds.
    pub(crate) live: bool,
    /// The process has poisoned or released the claim. Only a flaw keeps such a claimant.
    pub(crate) given_up: bool,
    /// SlateDB epoch: read from the manifest, then held.
    pub(crate) epoch: u8,
    /// `last_l0_seq` where scan or replay began.
    pub(crate) floor: u8,
    /// The last slot known. The next PUT goes to the one behind it.
    pub(crate) known: u8,
    /// What that PUT carries.
    pub(crate) row: u8,
    /// Copies sent of it.
    pub(crate) sends: u8,
    /// The log up to `known` as this claimant sees and serves it.
    pub(crate) view: Slots,
}

impl Claimant {
    pub(crate) fn new(token: u8, attempt: u8) -> Claimant {
        Claimant {
            token,
            attempt,
            phase: Phase::Claimed,
            live: true,
            given_up: false,
            epoch: 0,
            floor: 0,
            known: 0,
            row: FENCE,
            sends: 0,
            view: [LogObject::MISSING; SLOTS],
        }
    }

    /// Forgets what was read and starts the takeover again. The session is the same.
    pub(crate) fn restart(&mut self) {
        *self =
            Claimant { live: self.live, given_up: self.given_up, ..Claimant::new(self.token, self.attempt) };
    }

    pub(crate) fn next_slot(&self) -> usize {
        usize::from(self.known) + 1
    }

    /// The object that is being PUT.
    pub(crate) fn put(&self) -> LogObject {
        LogObject::new(self.row, self.token, self.attempt)
    }

    pub(crate) fn append(&mut self, object: LogObject) {
        self.known += 1;
        self.view[usize::from(self.known)] = object;
    }

    /// The takeover is over: it answers reads and appends, so far as the lease rules let it.
    pub(crate) fn is_owner(&self) -> bool {
        match self.phase {
            Phase::Put => self.row != FENCE,
            phase => matches!(phase, Phase::Serve | Phase::Durable | Phase::Checked),
        }
    }

    pub(crate) fn reads(&self, row: u8) -> bool {
        self.view[1..=usize::from(self.known)].iter().any(|object| object.row() == row)
    }
}

/// Everything at one moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// Bucket: the shard log, created if absent. A deleted slot is a 404 and can be created again.
    pub(crate) log: Slots,
    /// Network: a sorted bag of PUT copies that may reach the bucket at any later time, or never.
    pub(crate) in_flight: Vec<(u8, LogObject)>,
    /// SlateDB manifest: writer epoch, `last_l0_seq`, and the log content that is flushed.
    pub(crate) epoch: u8,
    pub(crate) flushed: u8,
    pub(crate) db: Slots,
    /// MetaStore: token of the claim, 0 for none, and the token of the next one.
    pub(crate) holder: u8,
    pub(crate) next_token: u8,
    /// Early revocations that may still happen.
    pub(crate) early_left: u8,
    pub(crate) claimants: Vec<Claimant>,
    /// Rows that clients have sent so far; they come in order, since they are alike.
    pub(crate) rows_sent: u8,
    /// Set of acked rows, a bit each.
    pub(crate) acked: u8,
    /// PUTs whose rows were answered as definitely failed. Only a flaw does that after a PUT began.
    pub(crate) failed: Vec<LogObject>,
    /// For the checker only: the first object that anybody made readable in a slot.
    pub(crate) first_readable: Slots,
    /// For the checker only: violated invariants, a bit each.
    pub(crate) violated: u16,
}

impl World {
    /// A new shard.
    pub(crate) fn new(early_revocations: u8) -> World {
        World {
            log: [LogObject::MISSING; SLOTS],
            in_flight: Vec::new(),
            epoch: 0,
            flushed: 0,
            db: [LogObject::MISSING; SLOTS],
            holder: 0,
            next_token: 1,
            early_left: early_revocations,
            claimants: Vec::new(),
            rows_sent: 0,
            acked: 0,
            failed: Vec::new(),
            first_readable: [LogObject::MISSING; SLOTS],
            violated: 0,
        }
    }

    pub(crate) fn violate(&mut self, invariant: Invariant) {
        self.violated |= invariant.bit();
    }

    pub(crate) fn is_acked(&self, row: u8) -> bool {
        self.acked & 1 << row != 0
    }

    /// The log as a takeover would find it now, and its last slot: SlateDB up to `last_l0_seq`, then log objects up to
    /// the first missing one.
    pub(crate) fn effective_log(&self) -> (Slots, usize) {
        let (mut slots, mut end) = (self.db, usize::from(self.flushed));
        while end + 1 < SLOTS && !self.log[end + 1].is_missing() {
            end += 1;
            slots[end] = self.log[end];
        }
        (slots, end)
    }

    /// Takes claimant `i` away and gives its claim back. Copies of its PUTs stay under way.
    pub(crate) fn remove(&mut self, i: usize) {
        if self.claimants.remove(i).token == self.holder {
            self.holder = 0;
        }
    }

    /// Notes that all that claimant `i` knows is now readable.
    pub(crate) fn publish(&mut self, i: usize) {
        let claimant = &self.claimants[i];
        for slot in 1..=usize::from(claimant.known) {
            if self.first_readable[slot].is_missing() {
                self.first_readable[slot] = claimant.view[slot];
            }
        }
    }
}
