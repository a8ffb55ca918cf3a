//! What can be wrong with a row.

use arrow::datatypes::DataType as ArrowType;

use crate::fault::{ErrorKind, Fault};
use crate::ids::SchemaId;

/// Columns that cannot become rows. The gateway makes batches fit the table, so this is a fault of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RowFault {
    #[error("the rows have {given} columns and the table {columns}")]
    Columns { given: usize, columns: usize },
    #[error("there is no column {position}, or it stands twice")]
    Position { position: usize },
    #[error("column \"{column}\" is {expected} in the table and {got} in the rows")]
    Type { column: String, expected: ArrowType, got: ArrowType },
    #[error("column \"{column}\" has {got} values for {rows} rows")]
    Length { column: String, rows: usize, got: usize },
    #[error("the rows are larger than 4 GiB together")]
    TooLarge,
}

impl Fault for RowFault {
    fn kind(&self) -> ErrorKind {
        match self {
            RowFault::TooLarge => ErrorKind::TooLarge,
            _ => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            RowFault::TooLarge => "too_large",
            _ => "internal",
        }
    }
}

/// A stored row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored row {row} cannot be read as schema version {schema}{}: {damage}", at(.column.as_deref()))]
pub struct DamagedRow {
    /// Which of the rows given, from 0.
    pub row: usize,
    /// The version that it was read as.
    pub schema: SchemaId,
    /// Where, if it is in one column.
    pub column: Option<String>,
    /// What is wrong.
    pub damage: Damage,
}

fn at(column: Option<&str>) -> String {
    column.map(|name| format!(", at column \"{name}\"")).unwrap_or_default()
}

impl Fault for DamagedRow {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Internal
    }

    fn code(&self) -> &'static str {
        "damaged_row"
    }
}

/// What is wrong with stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Damage {
    #[error("it ends too early")]
    Cut,
    #[error("{bytes} bytes follow its end")]
    Trailing { bytes: usize },
    #[error("it is of schema version {0}")]
    OtherSchema(SchemaId),
    #[error("a number does not fit its type, or is not in its one spelling")]
    Number,
    #[error("a boolean is neither 0 nor 1")]
    Boolean,
    #[error("text is not UTF-8")]
    Text,
    #[error("bytes of a fixed length have another one")]
    Length,
    #[error("unused null bits are set")]
    NullBits,
    #[error("a nested value is null and must not be")]
    Null,
    #[error("a group of eight bytes is not as it is written")]
    Group,
    #[error("its columns would be larger than Arrow can count")]
    Full,
    #[error("the type of a column has changed to one that does not hold its values")]
    NotWider,
}
