//! What can be wrong with a filter, its evaluation, or stored statistics.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use std::fmt;

/// A place in the text of a filter; both count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u64,
    /// Character in the line.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a text is not a filter on a table. All of them are the caller's to fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PredicateError {
    /// The text is longer than the limit.
    #[error("the filter is {bytes} bytes long; at most {limit} are allowed")]
    TooLong {
        /// Length of the text.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Parentheses and NOTs are nested too deeply.
    #[error("the filter is nested more than {limit} levels deep at {position}; use fewer parentheses")]
    TooDeep {
        /// The limit.
        limit: usize,
        /// Where the limit was passed.
        position: Position,
    },
    /// There are too many comparisons and list values.
    #[error("the filter has more than {limit} comparisons and list values at {position}; split it")]
    TooManyNodes {
        /// The limit.
        limit: usize,
        /// Where the limit was passed.
        position: Position,
    },
    /// The text is no filter.
    #[error("{message} at {position}")]
    Syntax {
        /// What is wrong and what was expected.
        message: String,
        /// Where.
        position: Position,
    },
    /// SQL that filters do not have.
    #[error(
        "{what} at {position} is not supported in a filter; supported are comparisons of a column with a literal \
         or a column, AND, OR, NOT, BETWEEN, IN (literals), LIKE, ILIKE, IS [NOT] NULL, IS [NOT] TRUE and FALSE"
    )]
    Unsupported {
        /// The thing that was used.
        what: String,
        /// Where.
        position: Position,
    },
    /// No column has this name.
    #[error("there is no column `{column}` at {position}{}", did_you_mean(.suggestion.as_deref()))]
    UnknownColumn {
        /// The name in the text.
        column: String,
        /// Where.
        position: Position,
        /// A column with a similar name.
        suggestion: Option<String>,
    },
    /// Several columns have this name but for upper and lower case.
    #[error("`{column}` at {position} may be any of {}; write one exactly, in double quotes", .candidates.join(", "))]
    AmbiguousColumn {
        /// The name in the text.
        column: String,
        /// Where.
        position: Position,
        /// The columns it may mean.
        candidates: Vec<String>,
    },
    /// A column is used in a way its type does not allow.
    #[error("column `{column}` is {column_type} and cannot be used with {operand} at {position}: {fix}")]
    TypeMismatch {
        /// The column.
        column: String,
        /// Its type, in Wadi's words.
        column_type: String,
        /// The literal, column or operator it was used with.
        operand: String,
        /// Where the operand is.
        position: Position,
        /// What to write instead.
        fix: String,
    },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Why a predicate cannot be evaluated on a batch. A parsed predicate meets this only on a batch of another table.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The column's type in the batch does not fit the predicate.
    #[error("column `{column}` is {found} in the batch, the filter needs {expected}")]
    ColumnType {
        /// The column.
        column: String,
        /// What the predicate needs.
        expected: String,
        /// What the batch has.
        found: DataType,
    },
    /// An Arrow kernel refused.
    #[error("the filter cannot be evaluated: {0}")]
    Arrow(#[from] ArrowError),
}

/// Stored column statistics cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    /// The bytes end too early.
    #[error("column statistics are cut short")]
    Truncated,
    /// The bytes have no meaning.
    #[error("column statistics are corrupt: bad {0}")]
    Corrupt(&'static str),
}
