//! What can go wrong with databases and tables.

use wadi_model::name::InvalidName;
use wadi_model::partition::{InvalidPartition, MAX_PARTITIONS};
use wadi_model::suggest::did_you_mean;
use wadi_model::table::InvalidTable;
use wadi_model::{DatabaseName, ErrorKind, Fault, TableName};

use crate::{MetaError, MetaErrorKind};

/// A change or look-up that did not succeed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum CatalogError {
    #[error("database \"{name}\" does not exist{}", did_you_mean(.nearest.as_deref()))]
    DatabaseNotFound { name: DatabaseName, nearest: Option<String> },
    #[error("table \"{name}\" does not exist{}", did_you_mean(.nearest.as_deref()))]
    TableNotFound { name: TableName, nearest: Option<String> },
    #[error("partition \"{name}\" of table \"{table}\" does not exist{}; {known}", did_you_mean(.nearest.as_deref()))]
    PartitionNotFound { table: TableName, name: String, nearest: Option<String>, known: String },
    #[error("partition \"{name}\" of table \"{table}\" exists already")]
    PartitionExists { table: TableName, name: String },
    #[error(
        "table \"{table}\" would have more than {MAX_PARTITIONS} partitions; drop some, let auto-partition drop old ones \
        (table.auto-partition.num-retention), or partition by fewer values"
    )]
    TooManyPartitions { table: TableName },
    #[error(transparent)]
    Partition(#[from] InvalidPartition),
    #[error("database \"{name}\" exists already")]
    DatabaseExists { name: DatabaseName },
    #[error("table \"{name}\" exists already")]
    TableExists { name: TableName },
    #[error("database \"{name}\" still has {tables} table(s), among them \"{table}\"; drop them first")]
    DatabaseNotEmpty { name: DatabaseName, tables: usize, table: String },
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Table(#[from] InvalidTable),
    #[error("others changed the same thing at the same time; try again")]
    Contended,
    #[error("the catalog entry \"{key}\" is damaged: {why}")]
    Damaged { key: String, why: String },
    #[error("the meta store: {0}")]
    Meta(#[from] MetaError),
}

impl CatalogError {
    pub(super) fn database_not_found(name: &DatabaseName, nearest: Option<&str>) -> CatalogError {
        CatalogError::DatabaseNotFound { name: name.clone(), nearest: nearest.map(str::to_owned) }
    }
}

impl Fault for CatalogError {
    fn kind(&self) -> ErrorKind {
        match self {
            CatalogError::DatabaseNotFound { .. }
            | CatalogError::TableNotFound { .. }
            | CatalogError::PartitionNotFound { .. } => ErrorKind::NotFound,
            CatalogError::Partition(e) => e.kind(),
            CatalogError::DatabaseExists { .. }
            | CatalogError::PartitionExists { .. }
            | CatalogError::TooManyPartitions { .. }
            | CatalogError::TableExists { .. }
            | CatalogError::DatabaseNotEmpty { .. } => ErrorKind::Conflict,
            CatalogError::Name(e) => e.kind(),
            CatalogError::Table(e) => e.kind(),
            CatalogError::Contended => ErrorKind::Unavailable,
            CatalogError::Damaged { .. } => ErrorKind::Internal,
            CatalogError::Meta(e) => match e.kind() {
                MetaErrorKind::Invalid => ErrorKind::Invalid,
                MetaErrorKind::Internal => ErrorKind::Internal,
                MetaErrorKind::Unknown => ErrorKind::OutcomeUnknown,
                MetaErrorKind::Unavailable
                | MetaErrorKind::SessionLost
                | MetaErrorKind::Fenced
                | MetaErrorKind::Closed => ErrorKind::Unavailable,
            },
        }
    }

    fn code(&self) -> &str {
        match self {
            CatalogError::DatabaseNotFound { .. } => "database_not_found",
            CatalogError::TableNotFound { .. } => "table_not_found",
            CatalogError::PartitionNotFound { .. } => "partition_not_found",
            CatalogError::PartitionExists { .. } => "partition_exists",
            CatalogError::TooManyPartitions { .. } => "too_many_partitions",
            CatalogError::Partition(e) => e.code(),
            CatalogError::DatabaseExists { .. } => "database_exists",
            CatalogError::TableExists { .. } => "table_exists",
            CatalogError::DatabaseNotEmpty { .. } => "database_not_empty",
            CatalogError::Name(e) => e.code(),
            CatalogError::Table(e) => e.code(),
            CatalogError::Contended => "contended",
            CatalogError::Damaged { .. } => "internal",
            CatalogError::Meta(_) => "meta_unavailable",
        }
    }
}
