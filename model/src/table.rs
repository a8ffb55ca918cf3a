//! What a table is: the DDL that asks for it, and the description that the meta store keeps.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bucketing::BucketFunction;
use crate::ids::{Bucket, FieldId, SchemaId, TableId};
use crate::name::TableName;
use crate::options::{self, TableOptions};
use crate::schema::{Column, MAX_COLUMNS, Schema, default_value};
use crate::suggest::did_you_mean;
use crate::types::{DataType, Nested};

pub use invalid::InvalidTable;

mod check;
mod invalid;
#[cfg(test)]
mod tests;

/// Most buckets of a table, or of one of its partitions.
pub const MAX_BUCKETS: u32 = 4096;

/// A request to create a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// The table's own name, without its database.
    pub name: String,
    /// The columns in their order.
    pub columns: Vec<ColumnSpec>,
    /// Present: a primary-key table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primary_key: Vec<String>,
    /// The columns whose hash chooses the bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bucket_key: Vec<String>,
    /// 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<u32>,
    /// The columns whose values choose the partition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_by: Vec<String>,
    /// The column whose values the server hands out; at most one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_increment: Vec<String>,
    /// Options (`table.…`, `fields.…`) and the user's own properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A column in a [`TableSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// The name.
    pub name: String,
    /// The type's spelling, with an optional `not null`.
    #[serde(rename = "type")]
    pub column_type: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What a row gets that does not name the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
}

/// Whether a table lives or goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableState {
    /// Serves reads and writes.
    #[default]
    Active,
    /// Dropped by its user; its data is on the way out.
    Dropping,
}

/// A table as the meta store keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Never used again.
    pub id: TableId,
    /// `database.table`.
    pub name: TableName,
    /// All versions, oldest first; stored rows are read through the one that they name.
    pub schemas: Vec<Schema>,
    /// The id that the next new column gets.
    pub next_field: FieldId,
    /// Empty in log tables.
    pub primary_key: Vec<FieldId>,
    /// May be empty in log tables.
    pub bucket_key: Vec<FieldId>,
    /// The number of buckets.
    pub buckets: u32,
    /// Empty without partitions.
    pub partition_by: Vec<FieldId>,
    /// The column whose values the server hands out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_increment: Option<FieldId>,
    /// Options and properties.
    pub options: TableOptions,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Whether it lives.
    #[serde(default)]
    pub state: TableState,
}

impl Table {
    /// Checks a request and makes the table of it.
    pub fn create(
        id: TableId,
        name: TableName,
        spec: &TableSpec,
        created_at: i64,
    ) -> Result<Table, InvalidTable> {
        let columns = columns(spec)?;
        let find = |role, names: &[String]| key(&columns, role, names);
        let primary_key = find("primary key", &spec.primary_key)?;
        let partition_by = find("partition key", &spec.partition_by)?;
        let mut bucket_key = find("bucket key", &spec.bucket_key)?;
        let auto_increment = match find("auto-increment columns", &spec.auto_increment)?.as_slice() {
            [] => None,
            [id] => Some(*id),
            more => return Err(InvalidTable::AutoIncrements { given: more.len() }),
        };
        if bucket_key.is_empty() {
            bucket_key = primary_key.iter().copied().filter(|id| !partition_by.contains(id)).collect();
        }
        let buckets = spec.buckets.unwrap_or(1);
        if !(1..=MAX_BUCKETS).contains(&buckets) {
            return Err(InvalidTable::Buckets { given: buckets });
        }
        let next_field = FieldId(columns.len() as u32 + 1);
        let columns = columns.into_iter().map(|mut c| {
            c.nullable &= !primary_key.contains(&c.id) && auto_increment != Some(c.id);
            c
        });
        let table = Table {
            id,
            name,
            schemas: vec![Schema::new(SchemaId(1), columns.collect())],
            next_field,
            primary_key,
            bucket_key,
            buckets,
            partition_by,
            auto_increment,
            options: TableOptions::new(spec.properties.clone())?,
            comment: spec.comment.clone(),
            created_at,
            state: TableState::Active,
        };
        table.check()?;
        Ok(table)
    }

    /// The newest schema version.
    pub fn schema(&self) -> &Schema {
        // `create` makes the first version and nothing takes versions away.
        self.schemas.last().expect("a table has at least one schema version")
    }

    /// The schema version of this id.
    pub fn schema_of(&self, id: SchemaId) -> Option<&Schema> {
        self.schemas.iter().find(|s| s.id() == id)
    }

    /// Whether rows have keys.
    pub fn has_primary_key(&self) -> bool {
        !self.primary_key.is_empty()
    }

    /// The positions of the bucket key's columns in the newest schema.
    pub fn bucket_columns(&self) -> Vec<usize> {
        self.bucket_key.iter().filter_map(|id| self.schema().index_of_id(*id)).collect()
    }

    /// The columns that tell the rows of one partition apart, in the order of the key: the primary key without the
    /// partition columns, which are the same in all of them.
    pub fn key_fields(&self) -> impl Iterator<Item = FieldId> + '_ {
        self.primary_key.iter().copied().filter(|id| !self.partition_by.contains(id))
    }

    /// The positions of [`Table::key_fields`] in the newest schema.
    pub fn key_columns(&self) -> Vec<usize> {
        self.key_fields().filter_map(|id| self.schema().index_of_id(id)).collect()
    }

    /// The position of the auto-increment column in the newest schema.
    pub fn auto_increment_column(&self) -> Option<usize> {
        self.auto_increment.and_then(|id| self.schema().index_of_id(id))
    }

    /// How the bucket key's value chooses the bucket.
    pub fn bucket_function(&self) -> BucketFunction {
        match (self.options.get(options::LAKE_FORMAT), self.bucket_key.as_slice()) {
            (Some("iceberg"), [_]) => BucketFunction::Iceberg,
            _ => BucketFunction::Fluss,
        }
    }

    /// The bucket of this number, of a table without partitions.
    pub fn bucket(&self, number: u32) -> Bucket {
        Bucket::of(self.id, number)
    }

    /// The names of the columns of these ids, in the newest schema.
    pub fn names_of(&self, ids: &[FieldId]) -> Vec<&str> {
        let schema = self.schema();
        let name = |id: &FieldId| schema.index_of_id(*id).map(|i| schema.columns()[i].name.as_str());
        ids.iter().filter_map(name).collect()
    }
}

fn unknown(role: &'static str, name: &str, nearest: Option<&str>) -> InvalidTable {
    InvalidTable::UnknownColumn { role, column: name.to_owned(), hint: did_you_mean(nearest) }
}

fn columns(spec: &TableSpec) -> Result<Vec<Column>, InvalidTable> {
    if spec.columns.is_empty() || spec.columns.len() > MAX_COLUMNS {
        return Err(InvalidTable::ColumnCount { given: spec.columns.len() });
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = spec.columns.iter().find(|c| !names.insert(&c.name)) {
        return Err(InvalidTable::ColumnTwice { column: twice.name.clone() });
    }
    let column = |(i, c): (usize, &ColumnSpec)| Column::from_spec(FieldId(i as u32 + 1), c);
    spec.columns.iter().enumerate().map(column).collect()
}

impl Column {
    /// Checks a column's name, type and default.
    pub fn from_spec(id: FieldId, spec: &ColumnSpec) -> Result<Column, InvalidTable> {
        check_column_name(&spec.name)?;
        let Nested { data_type, nullable } = spec.column_type.parse()?;
        let column = Column {
            id,
            name: spec.name.clone(),
            data_type,
            nullable,
            comment: spec.comment.clone(),
            default: spec.default.clone().filter(|d| !d.is_null()),
        };
        default_value(&column)?;
        Ok(column)
    }
}

/// Checks a column's name: 1 to 200 bytes without control characters, not a system column's.
pub fn check_column_name(name: &str) -> Result<(), InvalidTable> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > crate::name::MAX_NAME {
        "it is longer than 200 bytes"
    } else if name.chars().any(char::is_control) {
        "control characters may not stand in it"
    } else if crate::system::is_reserved(name) {
        "system columns and names that begin with \"__\" belong to the system"
    } else {
        return Ok(());
    };
    let column = name.chars().take(crate::name::MAX_NAME).collect();
    Err(InvalidTable::ColumnName { column, why })
}

fn key(columns: &[Column], role: &'static str, names: &[String]) -> Result<Vec<FieldId>, InvalidTable> {
    let mut ids: Vec<FieldId> = Vec::with_capacity(names.len());
    for name in names {
        let Some(column) = columns.iter().find(|c| c.name == *name) else {
            let nearest = crate::suggest::nearest(name, columns.iter().map(|c| c.name.as_str()));
            return Err(unknown(role, name, nearest));
        };
        if !column.data_type.can_be_key() {
            return Err(InvalidTable::KeyType {
                role,
                column: name.clone(),
                data_type: column.data_type.clone(),
            });
        }
        if ids.contains(&column.id) {
            return Err(InvalidTable::KeyTwice { role, column: name.clone() });
        }
        ids.push(column.id);
    }
    Ok(ids)
}

impl TableSpec {
    /// A log table of these columns, as the type names say them.
    pub fn log(name: &str, columns: &[(&str, &str)]) -> TableSpec {
        let column = |(name, column_type): &(&str, &str)| ColumnSpec {
            name: (*name).to_owned(),
            column_type: (*column_type).to_owned(),
            comment: None,
            default: None,
        };
        TableSpec {
            name: name.to_owned(),
            columns: columns.iter().map(column).collect(),
            ..TableSpec::default()
        }
    }
}

impl ColumnSpec {
    /// The column that holds values of a type.
    pub fn of(name: &str, data_type: &DataType, nullable: bool) -> ColumnSpec {
        let not_null = if nullable { "" } else { " not null" };
        let column_type = format!("{data_type}{not_null}");
        ColumnSpec { name: name.to_owned(), column_type, comment: None, default: None }
    }
}
