//! What must hold, and what must happen lest the model is vacuous.

use super::Takeover;
use super::flaws::Flaw;
use super::object::SLOTS;
use super::world::World;
use stateright::Property;

/// What must hold in every world. The module doc of [`super`] says what each means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Invariant {
    L1,
    L2,
    L3,
    L4,
    K1,
    K3,
    F1,
    F2,
    C1,
    R1,
}

impl Invariant {
    /// All of them, in the order of their bits.
    pub const ALL: [Invariant; 10] = {
        use Invariant::*;
        [L1, L2, L3, L4, K1, K3, F1, F2, C1, R1]
    };

    /// Judged at a step, and never again: the world does not show them.
    const AT_A_STEP: u16 =
        Invariant::K1.bit() | Invariant::F1.bit() | Invariant::F2.bit() | Invariant::C1.bit();

    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The name it has in the design and in `--trace`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["L1", "L2", "L3", "L4", "K1", "K3", "F1", "F2", "C1", "R1"][self as usize]
    }

    fn property(self) -> Property<Takeover> {
        let check = match self {
            Invariant::L1 => holds::<{ Invariant::L1 as u16 }>,
            Invariant::L2 => holds::<{ Invariant::L2 as u16 }>,
            Invariant::L3 => holds::<{ Invariant::L3 as u16 }>,
            Invariant::L4 => holds::<{ Invariant::L4 as u16 }>,
            Invariant::K1 => holds::<{ Invariant::K1 as u16 }>,
            Invariant::K3 => holds::<{ Invariant::K3 as u16 }>,
            Invariant::F1 => holds::<{ Invariant::F1 as u16 }>,
            Invariant::F2 => holds::<{ Invariant::F2 as u16 }>,
            Invariant::C1 => holds::<{ Invariant::C1 as u16 }>,
            Invariant::R1 => holds::<{ Invariant::R1 as u16 }>,
        };
        Property::always(self.name(), check)
    }
}

/// The liveness property, which [`super::Bounds::liveness`] turns on.
pub const V1: &str = "V1";

/// What a search must meet.
pub const SOMETIMES: [&str; 4] = [
    "sometimes_two_owners_ack",
    "sometimes_unacked_row_is_inherited",
    "sometimes_fence_meets_late_put",
    "sometimes_object_is_deleted",
];

// stateright takes plain functions, so the invariant is a parameter of the type.
fn holds<const BIT: u16>(_: &Takeover, world: &World) -> bool {
    world.violated & 1 << BIT == 0
}

pub(crate) fn properties(model: &Takeover) -> Vec<Property<Takeover>> {
    let mut all: Vec<_> = Invariant::ALL.iter().map(|invariant| invariant.property()).collect();
    all.push(Property::sometimes(SOMETIMES[0], |model: &Takeover, world: &World| {
        let acked_by = |token| {
            let of = |object: &&super::LogObject| object.is_data() && object.token() == token;
            world.first_readable.iter().filter(of).any(|object| world.is_acked(object.row()))
        };
        let all_acked = (1..=model.bounds.rows).all(|row| world.is_acked(row));
        all_acked && (1..=model.bounds.tokens).filter(|token| acked_by(*token)).count() > 1
    }));
    all.push(Property::sometimes(SOMETIMES[1], |_, world: &World| {
        world.claimants.iter().filter(|claimant| claimant.is_owner()).any(|owner| {
            let of_another = |object: &&super::LogObject| object.is_data() && object.token() < owner.token;
            owner.view.iter().filter(of_another).any(|object| !world.is_acked(object.row()))
        })
    }));
    all.push(Property::sometimes(SOMETIMES[2], |_, world: &World| {
        let is_fence = |slot: u8| world.first_readable[usize::from(slot)].is_fence();
        let stalled = |owner: &super::world::Claimant| owner.is_owner() && is_fence(owner.known + 1);
        world.claimants.iter().any(|owner| stalled(owner) && owner.row != super::object::FENCE)
    }));
    all.push(Property::sometimes(SOMETIMES[3], |_, world: &World| {
        (1..usize::from(world.flushed)).any(|slot| world.log[slot].is_missing() && world.db[slot].is_data())
    }));
    if model.bounds.liveness {
        all.push(Property::always(V1, |model: &Takeover, world: &World| {
            model.heals(world.clone(), false) && model.heals(world.clone(), true)
        }));
    }
    all
}

impl Takeover {
    /// Judges the invariants that a world shows by itself.
    pub(crate) fn audit(&self, world: &mut World) {
        world.violated &= Invariant::AT_A_STEP;
        let (log, end) = world.effective_log();
        let (mut rows, mut repeated) = (0, 0);
        for object in log[1..=end].iter().filter(|object| object.is_data()) {
            repeated |= rows & 1 << object.row();
            rows |= 1 << object.row();
        }
        let acked = world.acked;
        let mut violated = 0;
        let mut require =
            |invariant: Invariant, holds: bool| violated |= if holds { 0 } else { invariant.bit() };
        require(Invariant::L1, acked & !rows == 0);
        require(Invariant::L2, !world.failed.iter().any(|put| log[1..=end].contains(put)));
        require(Invariant::L3, repeated == 0);
        for slot in (1..SLOTS).filter(|slot| !world.first_readable[*slot].is_missing()) {
            let readable = world.first_readable[slot];
            require(Invariant::L4, slot <= end && log[slot] == readable);
            require(Invariant::R1, !world.log[slot].is_data() || world.log[slot] == readable);
        }
        for owner in world.claimants.iter().filter(|claimant| claimant.is_owner()) {
            let known = usize::from(owner.known);
            require(Invariant::L4, owner.view[1..=known] == world.first_readable[1..=known]);
            let is_stale = (1..=self.bounds.rows).any(|row| world.is_acked(row) && !owner.reads(row));
            require(Invariant::K3, !(is_stale && self.may_read(owner)));
        }
        world.violated |= violated;
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaws.contains(&flaw)
    }
}
