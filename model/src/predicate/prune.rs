//! Whether a chunk can hold a row that a predicate selects, from column statistics alone.
//!
//! For each part of the predicate, [`Outcomes`] is a superset of the outcomes that it has in the chunk. Keeping all
//! three, and not only "may be true", carries NOT and IS through any depth.

use super::ast::{CompareOp, Predicate};
use super::like::literal_prefix;
use super::literal::{Literal, Value};
use super::stats::ColumnStatistics;
use arrow::datatypes::DataType;
use std::cmp::Ordering;

impl Predicate {
    /// False only if no row of a chunk with these statistics is selected.
    ///
    /// `stats` gives `None` for a column of which nothing is known. For a column that the chunk does not have it
    /// must give [`ColumnStatistics::all_null`].
    pub fn may_match<'a>(&self, rows: u64, stats: impl Fn(&str) -> Option<&'a ColumnStatistics>) -> bool {
        rows > 0 && outcomes(self, rows, &stats).is_true
    }
}

/// The outcomes that a predicate may have in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Outcomes {
    is_true: bool,
    is_false: bool,
    is_null: bool,
}

impl Outcomes {
    const ANY: Self = Self { is_true: true, is_false: true, is_null: true };
    const NULL: Self = Self { is_true: false, is_false: false, is_null: true };

    fn only(outcome: Option<bool>) -> Self {
        Self { is_true: outcome == Some(true), is_false: outcome == Some(false), is_null: outcome.is_none() }
    }

    fn not(self) -> Self {
        Self { is_true: self.is_false, is_false: self.is_true, is_null: self.is_null }
    }

    fn and(self, other: Self) -> Self {
        Self {
            is_true: self.is_true && other.is_true,
            is_false: self.is_false || other.is_false,
            is_null: (self.is_null && (other.is_null || other.is_true)) || (other.is_null && self.is_true),
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    fn negate_if(self, negated: bool) -> Self {
        if negated { self.not() } else { self }
    }
}

fn outcomes<'a>(
    predicate: &Predicate,
    rows: u64,
    stats: &impl Fn(&str) -> Option<&'a ColumnStatistics>,
) -> Outcomes {
    let of_column = |column: &str, decide: &dyn Fn(&ColumnStatistics) -> (bool, bool)| match stats(column) {
        Some(found) => with_nulls(found, rows, || decide(found)),
        None => Outcomes::ANY,
    };
    match predicate {
        Predicate::And(parts) => {
            parts.iter().fold(Outcomes::only(Some(true)), |sum, part| sum.and(outcomes(part, rows, stats)))
        }
        Predicate::Or(parts) => {
            parts.iter().fold(Outcomes::only(Some(false)), |sum, part| sum.or(outcomes(part, rows, stats)))
        }
        Predicate::Not(inner) => outcomes(inner, rows, stats).not(),
        Predicate::Is { predicate, outcome } => {
            let inner = outcomes(predicate, rows, stats);
            let (is_true, is_false) = match outcome {
                Some(true) => (inner.is_true, inner.is_false || inner.is_null),
                Some(false) => (inner.is_false, inner.is_true || inner.is_null),
                None => (inner.is_null, inner.is_true || inner.is_false),
            };
            Outcomes { is_true, is_false, is_null: false }
        }
        Predicate::Compare { column, op, literal } => of_column(column, &|found| {
            relation(found.min.as_ref(), found.max.as_ref(), *op, Some(literal), Some(literal))
        }),
        Predicate::CompareColumns { left, op, right } => match (stats(left), stats(right)) {
            (Some(l), Some(r)) => compare_columns(l, *op, r, rows),
            _ => Outcomes::ANY,
        },
        Predicate::In { literals, negated, .. } if literals.is_empty() => Outcomes::only(Some(*negated)),
        Predicate::In { column, literals, negated } => {
            of_column(column, &|found| contained(found, literals)).negate_if(*negated)
        }
        Predicate::IsNull { column, negated } => match stats(column) {
            Some(found) => {
                Outcomes { is_true: found.null_count > 0, is_false: found.null_count < rows, is_null: false }
            }
            None => Outcomes { is_null: false, ..Outcomes::ANY },
        }
        .negate_if(*negated),
        Predicate::Like { column, pattern, escape, negated, case_insensitive } => {
            let prefix = if *case_insensitive { String::new() } else { literal_prefix(pattern, *escape) };
            of_column(column, &|found| (may_start_with(found, &prefix), true)).negate_if(*negated)
        }
        Predicate::Column(column) => of_column(column, &|found| {
            let is = |bound: &Option<Literal>, value| matches!(bound.as_ref().map(Literal::value), Some(Value::Boolean(found)) if *found == value);
            (!is(&found.max, false), !is(&found.min, true))
        }),
        Predicate::Constant(outcome) => Outcomes::only(*outcome),
    }
}

/// Null where the column is null, else true and false as `decide` says.
fn with_nulls(found: &ColumnStatistics, rows: u64, decide: impl FnOnce() -> (bool, bool)) -> Outcomes {
    if found.null_count >= rows {
        return Outcomes::NULL;
    }
    let (is_true, is_false) = decide();
    Outcomes { is_true, is_false, is_null: found.null_count > 0 }
}

fn compare_columns(left: &ColumnStatistics, op: CompareOp, right: &ColumnStatistics, rows: u64) -> Outcomes {
    if left.null_count >= rows || right.null_count >= rows {
        return Outcomes::NULL;
    }
    let (is_true, is_false) =
        relation(left.min.as_ref(), left.max.as_ref(), op, right.min.as_ref(), right.max.as_ref());
    Outcomes { is_true, is_false, is_null: left.null_count > 0 || right.null_count > 0 }
}

type Bound<'a> = Option<&'a Literal>;

/// Whether `l op r` may be true, and may be false, for values within the bounds.
fn relation(
    l_min: Bound<'_>,
    l_max: Bound<'_>,
    op: CompareOp,
    r_min: Bound<'_>,
    r_max: Bound<'_>,
) -> (bool, bool) {
    let order = |a: Bound<'_>, b: Bound<'_>| a?.compare(b?);
    // All of the left above all of the right, and the like.
    let above = order(l_min, r_max) == Some(Ordering::Greater);
    let not_below = matches!(order(l_min, r_max), Some(Ordering::Greater | Ordering::Equal));
    let below = order(l_max, r_min) == Some(Ordering::Less);
    let not_above = matches!(order(l_max, r_min), Some(Ordering::Less | Ordering::Equal));
    match op {
        CompareOp::Eq => (!above && !below, !(not_below && not_above)),
        CompareOp::NotEq => (!(not_below && not_above), !above && !below),
        CompareOp::Lt => (!not_below, !below),
        CompareOp::GtEq => (!below, !not_below),
        CompareOp::LtEq => (!above, !not_above),
        CompareOp::Gt => (!not_above, !above),
    }
}

fn contained(found: &ColumnStatistics, literals: &[Literal]) -> (bool, bool) {
    literals.iter().fold((false, true), |(is_true, is_false), literal| {
        let (equal, differs) =
            relation(found.min.as_ref(), found.max.as_ref(), CompareOp::Eq, Some(literal), Some(literal));
        (is_true || equal, is_false && differs)
    })
}

/// Whether a value within the bounds may begin with `prefix`.
fn may_start_with(found: &ColumnStatistics, prefix: &str) -> bool {
    let Some(bound) = Literal::new(DataType::Utf8, Value::Utf8(prefix.to_owned())) else {
        return true;
    };
    let below = found.max.as_ref().and_then(|max| max.compare(&bound)) == Some(Ordering::Less);
    // Above every string with the prefix: greater than it and not beginning with it.
    let above = match found.min.as_ref().map(Literal::value) {
        Some(Value::Utf8(min)) => min.as_str() > prefix && !min.starts_with(prefix),
        _ => false,
    };
    !below && !above
}
