//! Filters on rows: Wadi's own filter language, from text to selected rows.
//!
//! A [`Predicate`] comes from the `filter=` parameter of a log read ([`Predicate::parse`]) or is built by the
//! query layer. `store` asks it twice: [`Predicate::may_match`] skips a chunk by its column statistics, then
//! [`Predicate::filter`] decides on the rows of the chunk.
//!
//! Invariants:
//! * SQL's three-valued logic; a row is selected only if the predicate is true.
//! * Columns are named, not numbered. A column that a batch does not have is null in all its rows, and a column
//!   that was widened since is compared in the wider type, so one predicate serves every schema version.
//! * If `may_match` is false, `evaluate` selects no row of that chunk.
//! * `Predicate::parse(predicate.to_string())` is the same predicate; the text is what gateways forward.
//!
//! Floats: NaN equals NaN and lies above infinity; a NaN whose sign bit is set lies below minus infinity (IEEE 754
//! total order, as Arrow's kernels). The two zeros are equal. A number literal is rounded to the column's type, so
//! that `f = 0.1` finds what was written as `0.1`, also in a `float` column.

mod ast;
mod bind;
mod cursor;
mod display;
mod error;
mod eval;
mod like;
mod literal;
mod number;
mod parse;
mod prune;
mod resolve;
mod stats;
mod stats_codec;
mod time;
mod types;

#[cfg(test)]
mod tests;

pub use ast::{CompareOp, Predicate};
pub use error::{EvaluateError, Position, PredicateError, StatisticsError};
pub use literal::{Literal, Value};
pub use stats::ColumnStatistics;
