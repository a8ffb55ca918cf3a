//! Merge engines: what a stored row and a change to it become.
//!
//! The owner of a bucket calls [`MergeEngine::merge`] for each row of a part, in order, with the newest row of the
//! key. Rows come as the slices of their fields ([`crate::row::field`]), one for each column of the table's newest
//! schema; the caller brings older rows to it first. Nothing is decoded that need not be: the default engine and
//! partial updates only choose between slices, aggregation reads the aggregated fields alone.
//!
//! | engine | upsert onto a stored row | delete, if not said otherwise |
//! | --- | --- | --- |
//! | default | the change; of a partial update its target columns only | removes the row |
//! | `first_row` | nothing | nothing |
//! | `versioned` | the change, unless its version is lower; NULL is the lowest | nothing |
//! | `aggregation` | each column by its function, of a partial update the target columns | nothing |
//!
//! Invariants: a merge depends on its arguments alone, so that a retry and a replay give the same bytes (K1); a partial
//! update touches its target columns only (K4), on a first insert too; an auto-increment column keeps the value that
//! its row was inserted with. docs/decisions/0007-merge-engines.md says where Fluss differs, and why.

use arrow::array::ArrayRef;

use crate::options::{DeleteBehavior, MergeKind};
use crate::row::field;
use crate::table::{InvalidTable, Table};

pub use fault::MergeFault;
pub use function::AggFunction;
pub use scratch::{MergeScratch, MergedRow};
pub use targets::{InvalidTargets, TargetColumns, Verb};

pub(crate) use function::Aggregate;

use fold::{Fold, FoldFault};
use scratch::Pick;

mod bitmap;
mod check;
mod constant;
mod fault;
mod fold;
mod function;
mod number;
#[cfg(any(test, feature = "testing"))]
pub mod plain;
mod scratch;
mod targets;
#[cfg(test)]
mod tests;

/// Most bytes that the aggregated values of one row may take: the row's two images in the changelog must fit into one
/// log object with room for others.
pub const MAX_AGGREGATED: usize = 8 << 20;

/// The fields of a row in the order of the schema's columns; `None` is NULL.
pub type Fields<'x> = &'x [Option<&'x [u8]>];

/// How the rows of one table merge, under its newest schema.
#[derive(Clone, Debug)]
pub struct MergeEngine {
    rule: Rule,
    deletes: DeleteBehavior,
    columns: Box<[ColumnRule]>,
    /// The position of the auto-increment column.
    auto: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    LastRow,
    FirstRow,
    /// The position of the version column.
    Versioned(usize),
    Aggregation {
        /// Whether some column's first value is not the input itself.
        makes_first: bool,
    },
}

#[derive(Clone, Debug)]
struct ColumnRule {
    name: Box<str>,
    key: bool,
    /// What a row gets that is inserted by a partial update of other columns.
    default: Option<Box<[u8]>>,
    fold: Fold,
}

/// What a writer asks for.
#[derive(Clone, Copy, Debug)]
pub enum Change<'x> {
    /// Insert or update.
    Upsert {
        /// All columns; what stands in columns that are no targets does not matter. The auto-increment column holds
        /// the id for a new row.
        fields: Fields<'x>,
        /// The columns of a partial update; without it all of them.
        targets: Option<&'x TargetColumns>,
    },
    /// Delete.
    Delete {
        /// The columns of a partial delete; without it the row goes.
        targets: Option<&'x TargetColumns>,
    },
}

/// What becomes of the stored row.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'x> {
    /// It stays, or stays absent, and the changelog says nothing.
    Unchanged,
    /// The row of the change takes its place as it came. A row that is the same as before is a change too.
    Replace,
    /// This row takes its place.
    Put(MergedRow<'x>),
    /// It goes.
    Delete,
}

impl MergeEngine {
    /// The engine of a primary-key table.
    pub fn new(table: &Table) -> Result<MergeEngine, InvalidTable> {
        if !table.has_primary_key() {
            let why = "it is for primary-key tables only";
            return Err(InvalidTable::Conflict { option: crate::options::MERGE_ENGINE, why });
        }
        let schema = table.schema();
        let kind = table.options.merge_engine();
        let functions = table.aggregates()?;
        let columns: Box<[ColumnRule]> = (schema.columns().iter().zip(functions).enumerate())
            .map(|(i, (column, aggregate))| ColumnRule {
                name: column.name.as_str().into(),
                key: table.primary_key.contains(&column.id),
                default: schema.default_of(i).and_then(constant::field_of),
                fold: Fold::new(&aggregate, &column.data_type),
            })
            .collect();
        let rule = match kind {
            MergeKind::LastRow => Rule::LastRow,
            MergeKind::FirstRow => Rule::FirstRow,
            MergeKind::Versioned => Rule::Versioned(table.version_column()?),
            MergeKind::Aggregation => {
                let makes_first = columns.iter().any(|c| !c.key && c.fold.makes_first());
                Rule::Aggregation { makes_first }
            }
        };
        let auto = table.auto_increment_column();
        Ok(MergeEngine { rule, deletes: table.options.delete_behavior(), columns, auto })
    }

    /// What deletes do.
    pub fn deletes(&self) -> DeleteBehavior {
        self.deletes
    }

    /// Whether an upsert of whole rows replaces whatever is stored, so that neither row has to be taken apart. The
    /// stored row is then needed for `-U`, and to know an insert from an update.
    pub fn replaces(&self) -> bool {
        self.rule == Rule::LastRow && self.auto.is_none()
    }

    /// Whether whole rows must be looked at before they are sent to an owner (see [`MergeEngine::check`]).
    pub fn needs_check(&self) -> bool {
        self.columns.iter().any(|c| c.fold.bitmap().is_some())
    }

    /// Merges a change into the stored row of its key.
    pub fn merge<'x>(
        &'x self,
        stored: Option<Fields<'x>>,
        change: Change<'x>,
        scratch: &'x mut MergeScratch,
    ) -> Result<Outcome<'x>, MergeFault> {
        let fits = |fields: Fields<'_>| fields.len() == self.columns.len();
        if !stored.is_none_or(fits) {
            return Err(MergeFault::Misfit("the stored row is not of the table's newest schema"));
        }
        match change {
            Change::Upsert { fields, .. } if !fits(fields) => {
                Err(MergeFault::Misfit("the row is not of the table's newest schema"))
            }
            Change::Upsert { targets: Some(t), .. } if !t.fits(Verb::Upsert, self.columns.len()) => {
                Err(MergeFault::Misfit("the target columns are not those of an upsert of this table"))
            }
            Change::Delete { targets: Some(t) } if !t.fits(Verb::Delete, self.columns.len()) => {
                Err(MergeFault::Misfit("the target columns are not those of a delete of this table"))
            }
            Change::Upsert { fields, targets } => self.upsert(stored, fields, targets, scratch),
            Change::Delete { targets } => self.delete(stored, targets, scratch),
        }
    }

    fn upsert<'x>(
        &'x self,
        stored: Option<Fields<'x>>,
        fields: Fields<'x>,
        targets: Option<&TargetColumns>,
        scratch: &'x mut MergeScratch,
    ) -> Result<Outcome<'x>, MergeFault> {
        let targets = targets.filter(|t| !t.is_full());
        match (self.rule, stored) {
            (Rule::FirstRow | Rule::Versioned(_), _) if targets.is_some() => {
                return Err(MergeFault::Misfit("this merge engine takes whole rows only"));
            }
            (Rule::FirstRow, Some(_)) => return Ok(Outcome::Unchanged),
            (Rule::Versioned(at), Some(stored)) if self.is_older(at, fields, stored)? => {
                return Ok(Outcome::Unchanged);
            }
            _ => {}
        }
        let aggregates = matches!(self.rule, Rule::Aggregation { .. });
        let as_it_came = match stored {
            Some(_) => !aggregates && self.auto.is_none(),
            None => self.rule != Rule::Aggregation { makes_first: true },
        };
        if targets.is_none() && as_it_came {
            return Ok(Outcome::Replace);
        }
        let (picks, made) = scratch.begin(self.columns.len());
        for (i, column) in self.columns.iter().enumerate() {
            let pick = match stored {
                _ if column.key => Pick::Change,
                None if self.auto == Some(i) => Pick::Change,
                Some(_) if self.auto == Some(i) => Pick::Stored,
                None if targets.is_some_and(|t| !t.contains(i)) => Pick::Default,
                Some(_) if targets.is_some_and(|t| !t.contains(i)) => Pick::Stored,
                _ if !aggregates => Pick::Change,
                None => column.fold.first(fields[i], made).map_err(|f| self.fault(i, f))?,
                Some(stored) => {
                    column.fold.merge(stored[i], fields[i], made).map_err(|f| self.fault(i, f))?
                }
            };
            if made.len() > MAX_AGGREGATED {
                return Err(MergeFault::TooLarge { column: column.name.to_string() });
            }
            picks.push(pick);
        }
        Ok(Outcome::Put(MergedRow::new(self, stored, fields, scratch)))
    }

    fn delete<'x>(
        &'x self,
        stored: Option<Fields<'x>>,
        targets: Option<&TargetColumns>,
        scratch: &'x mut MergeScratch,
    ) -> Result<Outcome<'x>, MergeFault> {
        match self.deletes {
            DeleteBehavior::Disable => return Err(MergeFault::DeleteDisabled),
            DeleteBehavior::Ignore => return Ok(Outcome::Unchanged),
            DeleteBehavior::Allow => {}
        }
        let (stored, targets) = match (stored, targets) {
            (None, _) => return Ok(Outcome::Unchanged),
            (Some(_), None) => return Ok(Outcome::Delete),
            (Some(stored), Some(targets)) => (stored, targets),
        };
        // The key is always among the targets.
        let stays = |i: usize| !targets.contains(i) && stored[i].is_some();
        if !(0..self.columns.len()).any(stays) {
            return Ok(Outcome::Delete);
        }
        let (picks, _) = scratch.begin(self.columns.len());
        picks.extend(
            self.columns.iter().enumerate().map(|(i, column)| {
                if targets.contains(i) && !column.key { Pick::Null } else { Pick::Stored }
            }),
        );
        Ok(Outcome::Put(MergedRow::new(self, Some(stored), &[], scratch)))
    }

    /// Whether the change's version is below that of the stored row.
    fn is_older(&self, at: usize, change: Fields<'_>, stored: Fields<'_>) -> Result<bool, MergeFault> {
        let version = |fields: Fields<'_>| match fields[at] {
            None => Ok(None),
            Some(bytes) => {
                let version = field::int(bytes).ok_or_else(|| self.fault(at, FoldFault::Damaged))?;
                Ok(Some(version))
            }
        };
        Ok(version(change)? < version(stored)?)
    }

    fn fault(&self, at: usize, fault: FoldFault) -> MergeFault {
        let column = self.columns[at].name.to_string();
        match fault {
            FoldFault::Overflow => MergeFault::Overflow { column },
            FoldFault::Bitmap(why) => MergeFault::Bitmap { column, why },
            FoldFault::TooLarge => MergeFault::TooLarge { column },
            FoldFault::Damaged => MergeFault::Damaged { column },
        }
    }
}

/// Whether a default can stand in a column of this function: a bitmap, if the function unites bitmaps.
pub(crate) fn default_fits(function: AggFunction, default: &ArrayRef) -> bool {
    let width = match function {
        AggFunction::Rbm32 => bitmap::Width::Bits32,
        AggFunction::Rbm64 => bitmap::Width::Bits64,
        _ => return true,
    };
    constant::field_of(default).is_some_and(|bytes| bitmap::check(width, &bytes).is_ok())
}
