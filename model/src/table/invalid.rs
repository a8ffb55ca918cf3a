//! Everything that can be wrong with a table's definition.

use super::MAX_BUCKETS;
use crate::fault::{ErrorKind, Fault};
use crate::name::InvalidName;
use crate::options::InvalidOption;
use crate::schema::{InvalidDefault, MAX_COLUMNS};
use crate::types::{DataType, InvalidType};

/// A table that cannot be created or altered as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidTable {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Type(#[from] InvalidType),
    #[error(transparent)]
    Option(#[from] InvalidOption),
    #[error(transparent)]
    Default(#[from] InvalidDefault),
    #[error("a table has 1 to {MAX_COLUMNS} columns, not {given}")]
    ColumnCount { given: usize },
    #[error("column name \"{}\" is not allowed: {why}", .column.escape_debug())]
    ColumnName { column: String, why: &'static str },
    #[error("column \"{column}\" stands twice")]
    ColumnTwice { column: String },
    #[error("the {role} names column \"{column}\", which does not exist{hint}")]
    UnknownColumn { role: &'static str, column: String, hint: String },
    #[error("the {role} names column \"{column}\" twice")]
    KeyTwice { role: &'static str, column: String },
    #[error("column \"{column}\" is {data_type} and cannot be part of the {role}; keys are of simple types")]
    KeyType { role: &'static str, column: String, data_type: DataType },
    #[error("column \"{column}\" of the {role} must also be part of the {of}")]
    KeyOutside { role: &'static str, column: String, of: &'static str },
    #[error("column \"{column}\" is in the partition key and so cannot be in the bucket key")]
    BucketKeyInPartition { column: String },
    #[error(
        "every column of the primary key is in the partition key; some must tell the rows of a partition apart"
    )]
    KeyIsPartition,
    #[error(
        "column \"{column}\" is {data_type}, which names no partitions; use string, bigint, date or another simple type"
    )]
    PartitionType { column: String, data_type: DataType },
    #[error(
        "column \"{column}\" is in the partition key and cannot become {to}: partitions would get other names"
    )]
    WidensPartition { column: String, to: DataType },
    #[error("column \"{column}\" is {data_type}, which Iceberg's bucket function does not take")]
    BucketKeyType { column: String, data_type: DataType },
    #[error("a table has 1 to {MAX_BUCKETS} buckets, not {given}")]
    Buckets { given: u32 },
    #[error("option \"{option}\" does not fit this table: {why}")]
    Conflict { option: &'static str, why: &'static str },
    #[error("option \"{option}\" does not fit this table: {why}")]
    ColumnOption { option: String, why: String },
    #[error("a table has at most one auto-increment column, not {given}")]
    AutoIncrements { given: usize },
    #[error("column \"{column}\" cannot be the auto-increment column: {why}")]
    AutoIncrement { column: String, why: &'static str },
    #[error("column \"{column}\" cannot be dropped: it is the {role}")]
    DropsUsed { column: String, role: &'static str },
    #[error("column \"{column}\" cannot be dropped: it is part of the {role}")]
    DropsKey { column: String, role: &'static str },
    #[error("column \"{column}\" cannot change from {from} to {to}; a type can only be widened")]
    NotWider { column: String, from: DataType, to: DataType },
    #[error(
        "column \"{column}\" cannot change its type: it is part of the {role}, and where stored rows lie does not change"
    )]
    WidensKey { column: String, role: &'static str },
    #[error("new column \"{column}\" is not null and has no default; older rows would have no value for it")]
    NewNotNull { column: String },
    #[error("the table has had {} schema versions and can take no more", u16::MAX)]
    TooManyVersions,
}

impl Fault for InvalidTable {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &str {
        match self {
            InvalidTable::Name(e) => e.code(),
            InvalidTable::Type(e) => e.code(),
            InvalidTable::Option(e) => e.code(),
            InvalidTable::Default(e) => e.code(),
            InvalidTable::UnknownColumn { .. } => "column_not_found",
            _ => "invalid_table",
        }
    }
}
