//! V1, sketched: from any world, once faults stop, an owner serves and every row that was sent is acked.

use super::object::SLOTS;
use super::steps::{Action, Step};
use super::world::{Claimant, Phase, World};
use super::{Bounds, Takeover};

/// Far more steps than a fair run needs.
const STEPS: usize = 120;

impl Takeover {
    /// Drives `world` by one fair schedule. Claimants that have lost claim or epoch notice it, PUT copies under way
    /// land first or not at all.
    pub(crate) fn heals(&self, mut world: World, land_first: bool) -> bool {
        let bounds = Bounds { slots: SLOTS as u8 - 1, tokens: 7, ..self.bounds };
        let calm = Takeover { bounds, ..*self };
        while let (true, Some(&(slot, object))) = (land_first, world.in_flight.first()) {
            calm.land(&mut world, slot, object);
        }
        for _ in 0..STEPS {
            let unacked = (1..=world.rows_sent).find(|row| !world.is_acked(*row));
            let is_lost = |claimant: &&Claimant| {
                claimant.token != world.holder || claimant.is_owner() && claimant.epoch != world.epoch
            };
            let next = world.claimants.iter().find(is_lost).or(world.claimants.first());
            let Some(claimant) = next else {
                calm.act(&mut world, Action::Claim);
                continue;
            };
            let lost = is_lost(&claimant);
            if !lost && claimant.phase == Phase::Serve && unacked.is_none() {
                return true;
            }
            let wanted: &[Step] = match claimant.phase {
                _ if lost => &[Step::Resign],
                Phase::Claimed => &[Step::ReadManifest],
                Phase::ReadBase => &[Step::ReadBase],
                Phase::Scan => &[Step::Scan],
                Phase::Open => &[Step::OpenDb],
                Phase::Replay => &[Step::Replay],
                Phase::Put => &[Step::Reply, Step::Probe, Step::Poison],
                Phase::Durable => &[Step::Check],
                Phase::Checked => &[Step::Ack],
                Phase::Serve => &[Step::Submit(unacked.unwrap_or(1))],
            };
            let token = claimant.token;
            let tried = wanted.iter().find_map(|step| {
                let mut next = world.clone();
                calm.act(&mut next, Action::By(token, *step)).map(|()| next)
            });
            let Some(next) = tried else { return false };
            world = next;
        }
        false
    }
}
