//! The PUT of a log object, DATA or FENCE, and what may come of it.
//!
//! A copy reaches the bucket by [`land`](Takeover::land) with nobody learning of it, or by [`reply`](Takeover::reply).
//! An outcome that is not known is settled by the header that lies in the slot: my put id, a foreign one, or a 404,
//! upon which the *same* PUT goes out again. Out of budget, the claimant is poisoned.

use super::Takeover;
use super::flaws::Flaw;
use super::object::{FENCE, LogObject};
use super::properties::Invariant;
use super::steps::when;
use super::world::{Claimant, Phase, World};

impl Takeover {
    /// Starts a PUT of `row` to the next slot.
    pub(crate) fn start_put(&self, world: &mut World, i: usize, row: u8) -> Option<()> {
        let claimant = &mut world.claimants[i];
        (claimant.row, claimant.sends, claimant.phase) = (row, 0, Phase::Put);
        self.send(world, i)
    }

    fn send(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &mut world.claimants[i];
        when(claimant.known < self.bounds.slots && claimant.sends < self.bounds.sends)?;
        claimant.sends += 1;
        let copy = (claimant.known + 1, claimant.put());
        if !self.is_fenced_for_ever(world, usize::from(copy.0)) {
            world.in_flight.push(copy);
            world.in_flight.sort_unstable();
        }
        Some(())
    }

    /// A PUT to a slot that holds a FENCE for ever can do nothing. It is dropped, which saves worlds. A FENCE that came
    /// late into a deleted slot is not for ever: a list may name that slot again.
    fn is_fenced_for_ever(&self, world: &World, slot: usize) -> bool {
        let matters = [Flaw::FenceDeleted, Flaw::ExistsIsFailure, Flaw::ExistsIsSuccess];
        let is_late = slot <= usize::from(world.flushed) && world.db[slot].is_data();
        world.log[slot].is_fence() && !is_late && !matters.iter().any(|flaw| self.has(*flaw))
    }

    /// One copy reaches the bucket: create-if-absent. True if it made the object.
    pub(crate) fn land(&self, world: &mut World, slot: u8, object: LogObject) -> Option<bool> {
        let copy = world.in_flight.iter().position(|c| *c == (slot, object))?;
        world.in_flight.remove(copy);
        let at = &mut world.log[usize::from(slot)];
        let made = at.is_missing();
        if made {
            *at = object;
        }
        if self.is_fenced_for_ever(world, usize::from(slot)) {
            world.in_flight.retain(|c| c.0 != slot);
        }
        Some(made)
    }

    /// A copy reaches the bucket and the sender sees the answer.
    pub(crate) fn reply(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &world.claimants[i];
        let (slot, put) = (claimant.known + 1, claimant.put());
        if self.land(world, slot, put)? || self.has(Flaw::ExistsIsSuccess) {
            self.confirmed(&mut world.claimants[i]);
        } else if self.has(Flaw::ExistsIsFailure) {
            self.answer_failed(world, i);
        } else {
            return self.probe(world, i);
        }
        Some(())
    }

    /// The outcome is unknown: reads the header in the slot.
    pub(crate) fn probe(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &mut world.claimants[i];
        let (found, put) = (world.log[claimant.next_slot()], claimant.put());
        if found == put || self.has(Flaw::CompareTokens) && found.token() == claimant.token {
            self.confirmed(claimant);
        } else if found.is_missing() && self.has(Flaw::MissingIsFailure) && claimant.row != FENCE {
            self.answer_failed(world, i);
        } else if found.is_missing() {
            return self.send(world, i);
        } else if claimant.row == FENCE {
            if self.include(world, i, found) {
                return self.start_put(world, i, FENCE);
            }
        } else {
            if found.token() <= claimant.token {
                world.violate(Invariant::C1);
            }
            if self.has(Flaw::ForeignIsFailure) {
                self.answer_failed(world, i);
            } else {
                world.remove(i);
            }
        }
        Some(())
    }

    /// Out of budget, or confirmed after the deadline. The rows are answered with an unknown outcome, the claim is
    /// given back; who claims anew has a new token.
    pub(crate) fn poison(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &mut world.claimants[i];
        when(claimant.phase == Phase::Put || claimant.phase == Phase::Durable && !claimant.live)?;
        let is_data = claimant.row != FENCE;
        if is_data && self.has(Flaw::PoisonKeepsToken) {
            when(claimant.attempt == 0)?;
            claimant.attempt = 1;
            claimant.restart();
        } else if is_data && self.has(Flaw::PoisonIsFailure) {
            self.answer_failed(world, i);
        } else if is_data && self.has(Flaw::PoisonSkipsSlot) {
            when(claimant.phase == Phase::Put && claimant.known + 1 < self.bounds.slots)?;
            claimant.append(LogObject::MISSING);
            (claimant.row, claimant.phase) = (FENCE, Phase::Serve);
        } else {
            self.give_up(world, i);
        }
        Some(())
    }

    /// Gives the claim back. What this process still runs under it must end with it.
    pub(crate) fn give_up(&self, world: &mut World, i: usize) {
        let claimant = &mut world.claimants[i];
        if self.has(Flaw::ClaimNotChecked) && claimant.is_owner() {
            claimant.given_up = true;
            world.holder = 0;
        } else {
            world.remove(i);
        }
    }

    fn answer_failed(&self, world: &mut World, i: usize) {
        let put = world.claimants[i].put();
        world.failed.extend(put.is_data().then_some(put));
        world.remove(i);
    }

    fn confirmed(&self, claimant: &mut Claimant) {
        if claimant.row == FENCE {
            claimant.append(claimant.put());
            claimant.phase = Phase::Open;
        } else {
            claimant.phase = Phase::Durable;
        }
    }
}
