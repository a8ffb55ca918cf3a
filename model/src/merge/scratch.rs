//! A merged row without a copy of its fields: for each column, where its value lies.

use std::ops::Range;

use super::{Fields, MergeEngine};

/// Where the value of one column of a merged row comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    Null,
    Stored,
    Change,
    /// The column's default; NULL without one.
    Default,
    /// These bytes of [`MergeScratch`].
    Made(Range<usize>),
}

/// Memory for merged rows, used again from row to row.
#[derive(Debug, Default)]
pub struct MergeScratch {
    picks: Vec<Pick>,
    made: Vec<u8>,
}

impl MergeScratch {
    /// Empty, with room for a row of so many columns.
    pub(super) fn begin(&mut self, columns: usize) -> (&mut Vec<Pick>, &mut Vec<u8>) {
        self.picks.clear();
        self.picks.reserve(columns);
        self.made.clear();
        (&mut self.picks, &mut self.made)
    }
}

/// A row that was put together from the stored row, the change, defaults and aggregated values.
#[derive(Clone, Copy, Debug)]
pub struct MergedRow<'x> {
    engine: &'x MergeEngine,
    stored: Option<Fields<'x>>,
    change: Fields<'x>,
    scratch: &'x MergeScratch,
}

impl<'x> MergedRow<'x> {
    pub(super) fn new(
        engine: &'x MergeEngine,
        stored: Option<Fields<'x>>,
        change: Fields<'x>,
        scratch: &'x MergeScratch,
    ) -> MergedRow<'x> {
        MergedRow { engine, stored, change, scratch }
    }

    /// The fields in the order of the schema's columns; `None` is NULL.
    pub fn fields(self) -> impl ExactSizeIterator<Item = Option<&'x [u8]>> + Clone {
        self.scratch.picks.iter().enumerate().map(move |(i, pick)| match pick {
            Pick::Null => None,
            Pick::Stored => self.stored.and_then(|fields| fields[i]),
            Pick::Change => self.change[i],
            Pick::Default => self.engine.columns[i].default.as_deref(),
            Pick::Made(range) => Some(&self.scratch.made[range.clone()]),
        })
    }
}
