//! What can be wrong with a key.

use arrow::datatypes::DataType as ArrowType;

use super::MAX_KEY_BYTES;
use crate::fault::{ErrorKind, Fault};
use crate::row::Damage;
use crate::types::DataType;

/// Columns that cannot become keys. Columns and rows are given by their position, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KeyFault {
    #[error("key column {column} is null in row {row}; keys are never null")]
    Null { column: usize, row: usize },
    #[error("the key of row {row} is longer than {MAX_KEY_BYTES} bytes; texts and bytes take nine for eight")]
    TooLong { row: usize },
    #[error("key column {column} is {data_type}; keys are of simple types")]
    Unsupported { column: usize, data_type: DataType },
    #[error("key column {column} is {expected} in the table and {got} in the rows")]
    Type { column: usize, expected: ArrowType, got: ArrowType },
    #[error("the rows have {given} key columns and the key {columns}")]
    Columns { given: usize, columns: usize },
    #[error("key column {column} has {got} values for {rows} rows")]
    Length { column: usize, rows: usize, got: usize },
    #[error("the keys are larger than 4 GiB together")]
    TooLarge,
}

impl Fault for KeyFault {
    fn kind(&self) -> ErrorKind {
        match self {
            KeyFault::Null { .. } | KeyFault::TooLong { .. } => ErrorKind::Rejected,
            KeyFault::Unsupported { .. } => ErrorKind::Invalid,
            KeyFault::TooLarge => ErrorKind::TooLarge,
            // Batches are made to fit the table before they come here.
            KeyFault::Type { .. } | KeyFault::Columns { .. } | KeyFault::Length { .. } => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            KeyFault::Null { .. } => "null_key",
            KeyFault::TooLong { .. } => "key_too_long",
            KeyFault::Unsupported { .. } => "invalid_table",
            KeyFault::TooLarge => "too_large",
            KeyFault::Type { .. } | KeyFault::Columns { .. } | KeyFault::Length { .. } => "internal",
        }
    }
}

/// A stored key that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored key {key} cannot be read{}: {damage}", at(*.column))]
pub struct DamagedKey {
    /// Which of the keys given, from 0.
    pub key: usize,
    /// The position of the key column, if it is in one.
    pub column: Option<usize>,
    /// What is wrong.
    pub damage: Damage,
}

fn at(column: Option<usize>) -> String {
    column.map(|column| format!(", at key column {column}")).unwrap_or_default()
}

impl Fault for DamagedKey {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Internal
    }

    fn code(&self) -> &'static str {
        "damaged_key"
    }
}
