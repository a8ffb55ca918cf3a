//! Small rows that are copied out of the cache into one buffer, and large ones that are shared.

use std::ops::Range;

use bytes::Bytes;

use super::Row;
use super::cache::Found;

/// Rows on their way out of the cache.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<u8>);

/// A row among [`Copies`].
#[derive(Debug)]
pub(super) enum Copy {
    Absent,
    Copied(Range<usize>),
    Shared(Bytes),
}

/// Rows that were taken.
#[derive(Debug)]
pub(super) struct Taken(Bytes);

impl Copies {
    pub(super) fn take(&mut self, found: Found<'_>) -> Copy {
        match found {
            Found::Absent => Copy::Absent,
            Found::Large(row) => Copy::Shared(row),
            Found::Small(row) => {
                let start = self.0.len();
                self.0.extend_from_slice(row);
                Copy::Copied(start..self.0.len())
            }
        }
    }

    pub(super) fn taken(self) -> Taken {
        Taken(self.0.into())
    }
}

impl Taken {
    pub(super) fn row(&self, copy: Copy) -> Row {
        match copy {
            Copy::Absent => None,
            Copy::Copied(range) => Some(self.0.slice(range)),
            Copy::Shared(row) => Some(row),
        }
    }
}
