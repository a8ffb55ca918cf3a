//! The owner: appends, acks, flushes.

use super::Takeover;
use super::flaws::Flaw;
use super::object::FENCE;
use super::properties::Invariant;
use super::steps::when;
use super::world::{Claimant, Phase, World};

impl Takeover {
    /// The lease rules let this claimant ack.
    fn may_ack(&self, claimant: &Claimant) -> bool {
        (claimant.live || self.has(Flaw::NoAckDeadline))
            && (!claimant.given_up || self.has(Flaw::ClaimNotChecked))
    }

    /// The lease rules let this claimant answer a linearizable read.
    pub(crate) fn may_read(&self, claimant: &Claimant) -> bool {
        (claimant.live || self.has(Flaw::NoReadDeadline))
            && (!claimant.given_up || self.has(Flaw::ClaimNotChecked))
    }

    /// A client sends `row`, perhaps again. The producer entry answers a row that was seen; another one is PUT.
    pub(crate) fn submit(&self, world: &mut World, i: usize, row: u8) -> Option<()> {
        when(row <= world.rows_sent + 1)?;
        let claimant = &world.claimants[i];
        if !claimant.reads(row) {
            world.rows_sent = world.rows_sent.max(row);
            return self.start_put(world, i, row);
        }
        when(!world.is_acked(row) && self.may_ack(claimant))?;
        let in_time = claimant.live && !claimant.given_up;
        world.acked |= 1 << row;
        if !in_time {
            world.violate(Invariant::F1);
        }
        Some(())
    }

    /// Checks deadline and claim, which decides the ack.
    pub(crate) fn check(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &world.claimants[i];
        when(self.may_ack(claimant))?;
        let in_time = claimant.live && !claimant.given_up;
        let (slot, put) = (claimant.next_slot(), claimant.put());
        world.claimants[i].phase = Phase::Checked;
        if !in_time {
            world.violate(Invariant::F1);
        }
        let decided = if slot <= usize::from(world.flushed) { world.db[slot] } else { world.log[slot] };
        if put != decided {
            world.violate(Invariant::F2);
        }
        Some(())
    }

    /// Makes the row readable and sends the ack.
    pub(crate) fn ack(&self, world: &mut World, i: usize) {
        let claimant = &mut world.claimants[i];
        claimant.append(claimant.put());
        world.acked |= 1 << claimant.row;
        (claimant.row, claimant.sends, claimant.phase) = (FENCE, 0, Phase::Serve);
        world.publish(i);
    }

    /// Applies any prefix of what is durable and flushes it: one conditional write of the manifest.
    pub(crate) fn flush(&self, world: &mut World, i: usize, to: u8) -> Option<()> {
        let claimant = &world.claimants[i];
        let is_pending = to == claimant.known + 1 && matches!(claimant.phase, Phase::Put | Phase::Durable);
        let applied = to <= claimant.known || is_pending && self.has(Flaw::ApplyEarly);
        when(claimant.is_owner() && claimant.epoch == world.epoch && to > world.flushed && applied)?;
        let mut view = claimant.view;
        if is_pending {
            view[usize::from(to)] = claimant.put();
        }
        let applied = usize::from(world.flushed) + 1..=usize::from(to);
        world.db[applied.clone()].copy_from_slice(&view[applied.clone()]);
        if world.log[applied.clone()] != view[applied] {
            world.violate(Invariant::K1);
        }
        world.flushed = to;
        Some(())
    }
}
