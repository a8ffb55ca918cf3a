//! What a row of a changelog means.

use std::fmt;

/// A change of a row. The numbers are stored, and Fluss's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChangeType {
    /// The row was added: `+I`.
    Insert = 1,
    /// The row as it was before an update: `-U`.
    UpdateBefore = 2,
    /// The row as it is after an update: `+U`.
    UpdateAfter = 3,
    /// The row was deleted: `-D`, with the row as it was.
    Delete = 4,
}

impl ChangeType {
    /// All, in the order of their numbers.
    pub const ALL: [ChangeType; 4] =
        [ChangeType::Insert, ChangeType::UpdateBefore, ChangeType::UpdateAfter, ChangeType::Delete];

    /// The change of this number.
    pub fn of(number: u8) -> Option<ChangeType> {
        ChangeType::ALL.into_iter().find(|change| *change as u8 == number)
    }

    /// How it is written: `+I`, `-U`, `+U` or `-D`.
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeType::Insert => "+I",
            ChangeType::UpdateBefore => "-U",
            ChangeType::UpdateAfter => "+U",
            ChangeType::Delete => "-D",
        }
    }

    /// What the change does to the state: `Some(true)` puts the row, `Some(false)` takes it away, `None` does nothing.
    pub fn effect(self) -> Option<bool> {
        match self {
            ChangeType::Insert | ChangeType::UpdateAfter => Some(true),
            ChangeType::UpdateBefore => None,
            ChangeType::Delete => Some(false),
        }
    }
}

impl fmt::Display for ChangeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
