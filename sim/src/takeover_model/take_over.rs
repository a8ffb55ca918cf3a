//! The takeover: manifest, base object, scan, FENCE, open, replay.

use super::Takeover;
use super::flaws::Flaw;
use super::object::FENCE;
use super::properties::Invariant;
use super::steps::when;
use super::world::{Claimant, Phase, World};

impl Takeover {
    /// Reads epoch, `last_l0_seq` and `meta/applied` at once, and will read the log from there.
    pub(crate) fn read_manifest(&self, world: &mut World, i: usize) {
        let (floor, epoch) = (world.flushed, world.epoch);
        let base = usize::from(floor);
        let claimant = &mut world.claimants[i];
        claimant.restart();
        (claimant.epoch, claimant.floor, claimant.known) = (epoch, floor, floor);
        claimant.view[..=base].copy_from_slice(&world.db[..=base]);
        claimant.phase =
            if floor == 0 || self.has(Flaw::BaseIgnored) { Phase::Scan } else { Phase::ReadBase };
        if world.db[base].token() > claimant.token && !self.has(Flaw::AppliedIgnored) {
            world.remove(i);
        }
    }

    /// Reads the header of the log object at `last_l0_seq`. If it is gone, the manifest has moved on.
    pub(crate) fn read_base(&self, world: &mut World, i: usize) {
        let claimant = &mut world.claimants[i];
        let found = world.log[usize::from(claimant.floor)];
        if found.is_missing() {
            claimant.restart();
        } else if found.token() > claimant.token {
            world.remove(i);
        } else {
            claimant.phase = Phase::Scan;
        }
    }

    /// One GET behind what is known. The first missing slot is where the FENCE goes.
    pub(crate) fn scan(&self, world: &mut World, i: usize) -> Option<()> {
        let claimant = &mut world.claimants[i];
        when(claimant.known < self.bounds.slots)?;
        let found = world.log[claimant.next_slot()];
        if !found.is_missing() {
            self.include(world, i, found);
        } else if self.creates_fence(claimant) {
            self.start_put(world, i, FENCE)?;
        } else {
            claimant.phase = Phase::Open;
        }
        Some(())
    }

    fn creates_fence(&self, claimant: &Claimant) -> bool {
        let again = claimant.attempt > 0;
        !self.has(Flaw::NoFence) && (!again || !self.has(Flaw::PoisonKeepsFence))
    }

    /// The takeover found an object behind what it knows. False if it cannot go on from there.
    pub(crate) fn include(&self, world: &mut World, i: usize, found: super::LogObject) -> bool {
        let claimant = &mut world.claimants[i];
        // A takeover that starts again meets its own FENCE; any other object under its token is corruption.
        let is_own = found.token() == claimant.token
            && (found == claimant.put()
                || self.has(Flaw::CompareTokens)
                || self.has(Flaw::EqualTokenIncluded));
        let is_lower = found.token() < claimant.token && found.token() >= self.highest_token(claimant);
        if is_own || is_lower || found.token() > claimant.token && self.has(Flaw::HigherIgnored) {
            claimant.append(found);
            return true;
        }
        if found.token() > claimant.token {
            world.remove(i);
        } else if world.flushed > claimant.floor && !self.has(Flaw::AlarmAtOnce) {
            claimant.restart(); // the scan began too low: part of what it looks for was deleted meanwhile
        } else {
            world.violate(Invariant::C1);
            world.remove(i);
        }
        false
    }

    fn highest_token(&self, claimant: &Claimant) -> u8 {
        let base_unknown = self.has(Flaw::BaseIgnored) && self.has(Flaw::AppliedIgnored);
        let from = usize::from(claimant.floor) + usize::from(base_unknown);
        let read = claimant.view.get(from..claimant.next_slot()).unwrap_or_default();
        read.iter().map(|object| object.token()).max().unwrap_or(0)
    }

    /// Opens SlateDB with the expected epoch, which fences the writer before.
    pub(crate) fn open_db(&self, world: &mut World, i: usize) {
        let holder = world.holder;
        let claimant = &mut world.claimants[i];
        if world.epoch != claimant.epoch && !self.has(Flaw::AnyEpoch) {
            if holder == claimant.token {
                claimant.restart();
            } else {
                world.remove(i);
            }
            return;
        }
        world.epoch += 1;
        let first_missing = if self.creates_fence(claimant) { claimant.known } else { claimant.known + 1 };
        if world.flushed >= first_missing && !self.has(Flaw::NoFlushedCheck) {
            return self.read_manifest(world, i);
        }
        claimant.epoch = world.epoch;
        let replay_from = world.flushed.min(claimant.known);
        claimant.floor = replay_from;
        let base = usize::from(replay_from);
        claimant.view[..=base].copy_from_slice(&world.db[..=base]);
        claimant.phase = Phase::Replay;
    }

    /// Reads the log objects between `last_l0_seq` and the FENCE again, which must be those that the scan met; checks the
    /// lease, and serves.
    pub(crate) fn replay(&self, world: &mut World, i: usize) {
        let claimant = &mut world.claimants[i];
        for slot in usize::from(claimant.floor) + 1..claimant.next_slot() {
            let found = world.log[slot];
            let skipped = found.is_missing() && self.has(Flaw::ReplaySkipsMissing);
            let trusted = !found.is_missing() && self.has(Flaw::ReplayTrustsNames);
            // A later owner may have flushed and deleted the slot, and a PUT copy that came late may lie there now.
            if found != claimant.view[slot] && !skipped && !trusted {
                return claimant.restart();
            }
            claimant.view[slot] = found;
        }
        if !claimant.live && !self.has(Flaw::NoLeaseRecheck) {
            return world.remove(i);
        }
        (claimant.floor, claimant.sends, claimant.row, claimant.phase) = (0, 0, FENCE, Phase::Serve);
        world.publish(i);
    }
}
