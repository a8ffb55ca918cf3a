//! A log object, reduced to the part of its header that the protocol looks at.

use std::fmt::{Debug, Formatter, Result};
use std::hash::{Hash, Hasher};

/// Slots of the modelled shard log. Slot 0 is never used. A search fills at most [`super::Bounds::slots`] of them;
/// the rest is room for the healing run of V1.
pub(crate) const SLOTS: usize = 14;

/// The "row" that a FENCE carries.
pub(crate) const FENCE: u8 = 0;

/// What a slot holds: nothing, a FENCE, or DATA with one row.
///
/// Row, token and attempt together are the put id, so two objects are equal if and only if their put ids are.
/// They are packed into a byte (row 2 bits, token 3, attempt 3): a search keeps millions of worlds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogObject(u8);

/// A shard log, or what somebody knows of it.
pub(crate) type Slots = [LogObject; SLOTS];

impl LogObject {
    /// An empty slot: a 404.
    pub(crate) const MISSING: LogObject = LogObject(0);

    /// `token` is at least 1. `attempt` tells apart two tenures under one token, which only a flaw allows.
    pub(crate) fn new(row: u8, token: u8, attempt: u8) -> LogObject {
        debug_assert!(row < 4 && (1..8).contains(&token) && attempt < 8);
        LogObject(row | token << 2 | attempt << 5)
    }

    pub(crate) fn row(self) -> u8 {
        self.0 & 3
    }

    pub(crate) fn token(self) -> u8 {
        self.0 >> 2 & 7
    }

    pub(crate) fn is_missing(self) -> bool {
        self == LogObject::MISSING
    }

    pub(crate) fn is_fence(self) -> bool {
        !self.is_missing() && self.row() == FENCE
    }

    pub(crate) fn is_data(self) -> bool {
        self.row() != FENCE
    }
}

impl Debug for LogObject {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.row() {
            _ if self.is_missing() => write!(f, "-"),
            FENCE => write!(f, "FENCE@T{}", self.token()),
            row => write!(f, "row{row}@T{}", self.token()),
        }
    }
}

impl Hash for LogObject {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(self.0);
    }

    // Hashing takes much of a search: eight slots go in at once.
    fn hash_slice<H: Hasher>(objects: &[LogObject], hasher: &mut H) {
        for eight in objects.chunks(8) {
            hasher.write_u64(eight.iter().fold(0, |sum, object| sum << 8 | u64::from(object.0)));
        }
    }
}
