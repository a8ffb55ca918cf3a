//! All actions of the model, and when each may happen.

use super::Takeover;
use super::flaws::Flaw;
use super::object::LogObject;
use super::world::{Claimant, Phase, World};

/// What one claimant does, or what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The deadline passes, and then the claim ends.
    Expire,
    /// Fault: the claim ends while the local deadline holds (etcd lost it, or a clock runs wrong).
    RevokeEarly,
    /// The deadline passes of a claim that has ended already.
    DeadlinePasses,
    /// Only with a flaw: a new session gives an old claim a new deadline.
    NewSession,
    /// Notices that the claim or the SlateDB epoch is lost, and stops.
    Resign,
    /// Drained: gives the claim back.
    Release,
    /// Reads epoch, `last_l0_seq` and `meta/applied`.
    ReadManifest,
    /// Reads the header at `last_l0_seq`.
    ReadBase,
    /// Reads the next slot; starts the PUT of the FENCE at a 404.
    Scan,
    /// Opens SlateDB, which fences the writer before.
    OpenDb,
    /// Reads the log above `last_l0_seq` again, and serves.
    Replay,
    /// A client sends this row.
    Submit(u8),
    /// A PUT copy lands and its answer is seen.
    Reply,
    /// Reads the header in the slot of the PUT.
    Probe,
    /// Out of budget.
    Poison,
    /// Checks deadline and claim.
    Check,
    /// Sends the ack.
    Ack,
    /// Flushes SlateDB up to this slot.
    Flush(u8),
}

/// One action of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A gateway claims the shard, under a token higher than all before.
    Claim,
    /// A copy of a PUT reaches the bucket, and nobody sees the answer.
    Land(u8, LogObject),
    /// The compactor deletes a log object. Its list may be as old as it likes.
    Delete(u8),
    /// A step of the claimant with this token.
    By(u8, Step),
}

/// `when(condition)?` leaves a step that is not enabled.
pub(crate) fn when(enabled: bool) -> Option<()> {
    enabled.then_some(())
}

impl Takeover {
    /// Changes the world, or answers `None` if the action is not enabled; the world is then of no use.
    pub(crate) fn act(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Claim => {
                when(world.holder == 0 && world.claimants.len() < self.bounds.claimants)?;
                when(world.next_token <= self.bounds.tokens)?;
                world.claimants.push(Claimant::new(world.next_token, 0));
                world.holder = world.next_token;
                world.next_token += 1;
            }
            Action::Land(slot, object) => _ = self.land(world, slot, object)?,
            Action::Delete(slot) => self.delete(world, slot)?,
            Action::By(token, step) => {
                let i = world.claimants.iter().position(|claimant| claimant.token == token)?;
                self.step(world, i, step)?;
            }
        }
        Some(())
    }

    /// Lists name DATA strictly below the flushed `last_l0_seq` of some owner. `last_l0_seq` only grows, so what any
    /// list may name, of any age, is what was flushed as DATA below it now. The compactor deletes by name, whatever
    /// lies there. The grace time is left out: safety does not rest on it.
    fn delete(&self, world: &mut World, slot: u8) -> Option<()> {
        let s = usize::from(slot);
        let below = slot < world.flushed || slot == world.flushed && self.has(Flaw::BaseDeleted);
        let flushed =
            below && (world.db[s].is_data() || world.db[s].is_fence() && self.has(Flaw::FenceDeleted));
        let is_applied = |claimant: &Claimant| claimant.is_owner() && claimant.known >= slot;
        let applied =
            slot > world.flushed && world.log[s].is_data() && world.claimants.iter().any(is_applied);
        when(!world.log[s].is_missing() && (flushed || applied && self.has(Flaw::UnflushedDeleted)))?;
        world.log[s] = LogObject::MISSING;
        Some(())
    }

    fn step(&self, world: &mut World, i: usize, step: Step) -> Option<()> {
        let (holder, epoch) = (world.holder, world.epoch);
        let claimant = &mut world.claimants[i];
        let (held, phase) = (holder == claimant.token, claimant.phase);
        match step {
            Step::Expire => {
                when(held)?;
                claimant.live = false;
                world.holder = 0;
            }
            Step::RevokeEarly => {
                when(held && world.early_left > 0)?;
                world.early_left -= 1;
                world.holder = 0;
            }
            Step::DeadlinePasses => {
                when(!held && claimant.live)?;
                claimant.live = false;
            }
            Step::NewSession => {
                when(!held && !claimant.live && self.has(Flaw::SessionRevives))?;
                claimant.live = true;
            }
            Step::Resign => {
                when(!held || claimant.is_owner() && claimant.epoch != epoch)?;
                world.remove(i);
            }
            Step::Release => {
                when(held && phase == Phase::Serve)?;
                self.give_up(world, i);
            }
            Step::ReadManifest => {
                when(phase == Phase::Claimed)?;
                self.read_manifest(world, i);
            }
            Step::ReadBase => {
                when(phase == Phase::ReadBase)?;
                self.read_base(world, i);
            }
            Step::Scan => {
                when(phase == Phase::Scan)?;
                self.scan(world, i)?;
            }
            Step::OpenDb => {
                when(phase == Phase::Open)?;
                self.open_db(world, i);
            }
            Step::Replay => {
                when(phase == Phase::Replay)?;
                self.replay(world, i);
            }
            Step::Submit(row) => {
                when(phase == Phase::Serve)?;
                self.submit(world, i, row)?;
            }
            Step::Reply => {
                when(phase == Phase::Put)?;
                self.reply(world, i)?;
            }
            Step::Probe => {
                when(phase == Phase::Put)?;
                self.probe(world, i)?;
            }
            Step::Poison => self.poison(world, i)?,
            Step::Check => {
                when(phase == Phase::Durable)?;
                self.check(world, i)?;
            }
            Step::Ack => {
                when(phase == Phase::Checked)?;
                self.ack(world, i);
            }
            Step::Flush(to) => self.flush(world, i, to)?,
        }
        Some(())
    }

    /// Actions that may be enabled in `world`; [`act`](Self::act) has the last word.
    pub(crate) fn candidates(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Claim);
        for (n, &(slot, object)) in world.in_flight.iter().enumerate() {
            if n == 0 || world.in_flight[n - 1] != (slot, object) {
                actions.push(Action::Land(slot, object));
            }
        }
        actions.extend((1..=self.bounds.slots).map(Action::Delete));
        for claimant in &world.claimants {
            let mut by = |step| actions.push(Action::By(claimant.token, step));
            let steps: &[Step] = match claimant.phase {
                Phase::Claimed => &[Step::ReadManifest],
                Phase::ReadBase => &[Step::ReadBase],
                Phase::Scan => &[Step::Scan],
                Phase::Open => &[Step::OpenDb],
                Phase::Replay => &[Step::Replay],
                Phase::Put => &[Step::Reply, Step::Probe, Step::Poison],
                Phase::Durable => &[Step::Check, Step::Poison],
                Phase::Checked => &[Step::Ack],
                Phase::Serve => &[Step::Release],
            };
            steps.iter().for_each(|step| by(*step));
            if claimant.phase == Phase::Serve {
                (1..=self.bounds.rows).for_each(|row| by(Step::Submit(row)));
            }
            by(Step::Resign);
            if world.holder == claimant.token {
                [Step::Expire, Step::RevokeEarly].into_iter().for_each(&mut by);
            } else {
                [Step::DeadlinePasses, Step::NewSession].into_iter().for_each(&mut by);
            }
            if claimant.is_owner() {
                (world.flushed + 1..=claimant.known + 1).for_each(|to| by(Step::Flush(to)));
            }
        }
    }
}
