//! Partitions: which one a row belongs to, what they are called, and how they come and go with time.
//!
//! A partition holds the rows of one value of the partition columns. Its name is made of the values alone, so every
//! gateway names the same rows alike; its id comes from the meta store and is never used again. The gateway groups
//! the rows of a write here ([`Grouping`]), the catalog keeps [`Partition`]s, and the auto-partition duty asks
//! [`AutoPartition`] what to make and what to drop. What holds:
//!
//! * Different values have different names (all NaN are one value), and a name says its values: it is the values in
//!   the order of the key, in Fluss's spelling, with `$` between, and `$` stands in no value.
//! * No row is without a partition: a null, or a value that cannot be part of a name, rejects the row.
//! * Time is passed in; nothing here asks a clock.

use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, Fault};
use crate::ids::{PartitionId, TableId};
use crate::name::MAX_NAME;
use crate::table::Table;

pub use auto::{AutoPartition, Period, TimeUnit, Untimely};
pub use group::{Grouping, TooManyPartitions};

mod auto;
mod format;
mod group;
#[cfg(test)]
mod tests;
mod value;
mod zone;

/// Most partitions of a table (Fluss's `max.partition.num`).
pub const MAX_PARTITIONS: usize = 1000;

/// What stands between the values in a name.
pub const SEPARATOR: char = '$';

/// Whether a partition lives or goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionState {
    /// Serves reads and writes.
    #[default]
    Active,
    /// Dropped by its user or by time; its data is on the way out.
    Dropping,
}

/// A partition as the meta store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Never used again, not for a partition of the same name either.
    pub id: PartitionId,
    /// The table.
    pub table: TableId,
    /// The values of the partition columns.
    pub name: String,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Whether it lives.
    #[serde(default)]
    pub state: PartitionState,
}

/// A partition that cannot be asked for or made under this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidPartition {
    #[error("table \"{table}\" has no partitions")]
    NotPartitioned { table: String },
    #[error("partition \"{}\" has {given} value(s); the table is partitioned by {columns}", shown(.name))]
    Values { name: String, given: usize, columns: String },
    #[error("partition \"{}\" cannot be: the value \"{}\" of column \"{column}\" should be {expected}", shown(.name), shown(.value))]
    Value { name: String, column: String, value: String, expected: String },
    #[error("partition \"{}\" cannot be: column \"{column}\" is not given", shown(.name))]
    Missing { name: String, column: String },
    #[error("the name of partition \"{}\" is longer than {MAX_NAME} characters", shown(.name))]
    TooLong { name: String },
    #[error("partition \"{}\" is expired: {why}", shown(.name))]
    Expired { name: String, why: String },
}

/// A name as it is shown: in one line, cut.
fn shown(name: &str) -> String {
    name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect()
}

impl Fault for InvalidPartition {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        match self {
            InvalidPartition::NotPartitioned { .. } => "not_partitioned",
            InvalidPartition::Expired { .. } => "partition_expired",
            _ => "invalid_partition",
        }
    }
}

impl Table {
    /// Whether rows have partitions.
    pub fn is_partitioned(&self) -> bool {
        !self.partition_by.is_empty()
    }

    /// The positions of the partition columns in the newest schema, in the order of the key.
    pub fn partition_columns(&self) -> Vec<usize> {
        self.partition_by.iter().filter_map(|id| self.schema().index_of_id(*id)).collect()
    }

    /// Checks that a partition of this table may have this name, and with `now` that it may be made now
    /// (milliseconds since 1970).
    pub fn check_partition(&self, name: &str, now: Option<i64>) -> Result<(), InvalidPartition> {
        if !self.is_partitioned() {
            return Err(InvalidPartition::NotPartitioned { table: self.name.to_string() });
        }
        let owned = || name.to_owned();
        if name.len() > MAX_NAME {
            return Err(InvalidPartition::TooLong { name: owned() });
        }
        let values: Vec<&str> = name.split(SEPARATOR).collect();
        let columns = self.partition_columns();
        if values.len() != columns.len() {
            let columns = self.names_of(&self.partition_by).join(", ");
            return Err(InvalidPartition::Values { name: owned(), given: values.len(), columns });
        }
        for (index, value) in columns.iter().zip(&values) {
            let column = &self.schema().columns()[*index];
            value::check(&column.data_type, value).map_err(|expected| InvalidPartition::Value {
                name: owned(),
                column: column.name.clone(),
                value: (*value).to_owned(),
                expected,
            })?;
        }
        // What a table's options say is checked when it is made and altered.
        let Some(auto) = AutoPartition::of(self).ok().flatten() else { return Ok(()) };
        let value = values[auto.position()];
        match auto.judge(value, now) {
            Ok(_) => Ok(()),
            Err(Untimely::Malformed { expected }) => Err(InvalidPartition::Value {
                name: owned(),
                column: self.names_of(&self.partition_by[auto.position()..=auto.position()]).concat(),
                value: value.to_owned(),
                expected,
            }),
            Err(Untimely::Expired { expected }) => {
                Err(InvalidPartition::Expired { name: owned(), why: format!("the table keeps {expected}") })
            }
        }
    }

    /// The name of the partition of these values, given by column.
    pub fn partition_name<'a>(
        &self,
        value_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<String, InvalidPartition> {
        if !self.is_partitioned() {
            return Err(InvalidPartition::NotPartitioned { table: self.name.to_string() });
        }
        let mut name = String::new();
        for (i, column) in self.names_of(&self.partition_by).into_iter().enumerate() {
            if i > 0 {
                name.push(SEPARATOR);
            }
            match value_of(column) {
                Some(value) => name.push_str(value),
                None => return Err(InvalidPartition::Missing { name, column: column.to_owned() }),
            }
        }
        Ok(name)
    }
}
