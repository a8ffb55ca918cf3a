//! Which columns the rows of a part touch.
//!
//! A partial update names the same columns for all its rows. A change stream from another database may lack values row by
//! row, so that each row touches columns of its own; such a part has a few sets, and an index for each row.

use std::sync::Arc;

use arrow::array::{Array, UInt16Array};
use wadi_model::merge::TargetColumns;

/// The columns that each row of a part touches. By default all rows are whole.
#[derive(Clone, Debug)]
pub struct Targets {
    /// At least one; `None` is all columns.
    sets: Arc<[Option<Arc<TargetColumns>>]>,
    /// For each row the place of its set; `None`: all rows have the first one.
    of_rows: Option<Arc<UInt16Array>>,
}

impl Default for Targets {
    fn default() -> Targets {
        Targets { sets: Arc::new([None]), of_rows: None }
    }
}

impl From<TargetColumns> for Targets {
    /// All rows touch these.
    fn from(columns: TargetColumns) -> Targets {
        Targets { sets: Arc::new([Some(Arc::new(columns))]), of_rows: None }
    }
}

impl Targets {
    /// For each row the place of its set (`None` is all columns). `None` if a row has no set.
    pub fn by_row(sets: Vec<Option<Arc<TargetColumns>>>, of_rows: UInt16Array) -> Option<Targets> {
        let all =
            of_rows.null_count() == 0 && of_rows.values().iter().all(|set| usize::from(*set) < sets.len());
        (all && !sets.is_empty()).then(|| Targets { sets: sets.into(), of_rows: Some(Arc::new(of_rows)) })
    }

    /// The one set that all rows have. `None` if there is not exactly one.
    pub(crate) fn of_all(sets: Vec<Option<Arc<TargetColumns>>>) -> Option<Targets> {
        (sets.len() == 1).then(|| Targets { sets: sets.into(), of_rows: None })
    }

    /// All sets.
    pub(crate) fn sets(&self) -> &[Option<Arc<TargetColumns>>] {
        &self.sets
    }

    /// The columns that a row touches; `None` is all.
    pub fn of(&self, row: usize) -> Option<&TargetColumns> {
        let set = self.of_rows.as_ref().map_or(0, |sets| usize::from(sets.value(row)));
        self.sets[set].as_deref()
    }

    /// For each row the place of its set, unless all rows have the same.
    pub fn of_rows(&self) -> Option<&UInt16Array> {
        self.of_rows.as_deref()
    }

    /// The same sets for some of these rows, whose places were taken from [`Targets::of_rows`].
    pub fn with_rows(&self, of_rows: UInt16Array) -> Option<Targets> {
        Targets::by_row(self.sets.to_vec(), of_rows)
    }
}
