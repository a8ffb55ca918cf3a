//! Schema changes: add, rename, drop and widen columns.
//!
//! A change makes a new schema version and touches no stored row: columns are known by their field ids, and
//! [`crate::batch::read_as`] shows old rows under the new version, [`crate::row::RowUpgrade`] stored ones of primary-key
//! tables. Keys are kept as [`crate::key`] writes them, by the width of their types, so columns of the primary key keep
//! their types; and the hash of a bucket key depends on its type, so those of the bucket key do too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{FieldId, SchemaId};
use crate::options::{self, InvalidOption, column};
use crate::schema::{Column, MAX_COLUMNS, Schema};
use crate::suggest::did_you_mean;
use crate::table::{ColumnSpec, InvalidTable, Table, check_column_name};
use crate::types::DataType;

#[cfg(test)]
mod tests;

/// One change of a table's columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SchemaChange {
    /// Adds a column at the end. Older rows show its default, or null.
    AddColumn(ColumnSpec),
    /// Gives a column another name.
    RenameColumn {
        /// The name now.
        from: String,
        /// The name to be.
        to: String,
    },
    /// Takes a column away. Its id is never used again.
    DropColumn {
        /// The name.
        name: String,
    },
    /// Gives a column a type that holds all values of the old one, and more.
    WidenColumn {
        /// The name.
        name: String,
        /// The new type.
        #[serde(rename = "type")]
        data_type: DataType,
    },
}

impl Table {
    /// This table after changes of its columns, and then of its options.
    pub fn altered(
        &self,
        changes: &[SchemaChange],
        options: &BTreeMap<String, Option<String>>,
    ) -> Result<Table, InvalidTable> {
        let mut table = self.evolved(changes)?;
        table.options = table.options.altered(options.clone())?;
        for name in options.keys() {
            let Some(option) = column::parse(name)? else { continue };
            let schema = table.schema();
            let id = schema.index_of(option.column).map(|i| schema.columns()[i].id);
            // What one function has stored, another one cannot go on with.
            if id.is_some_and(|id| id < self.next_field) {
                return Err(InvalidOption::NotAlterable { name: name.clone() }.into());
            }
        }
        table.check()?;
        Ok(table)
    }

    /// This table after changes of its columns, with one new schema version for all of them. Options that name a
    /// column follow it.
    pub fn evolved(&self, changes: &[SchemaChange]) -> Result<Table, InvalidTable> {
        let mut table = self.clone();
        if changes.is_empty() {
            return Ok(table);
        }
        let version = self.schema().id().0.checked_add(1).ok_or(InvalidTable::TooManyVersions)?;
        let mut columns = self.schema().columns().to_vec();
        for change in changes {
            match change {
                SchemaChange::AddColumn(spec) => {
                    columns.push(added(&columns, table.next_field, spec)?);
                    table.next_field = FieldId(table.next_field.0 + 1);
                }
                SchemaChange::RenameColumn { from, to } => {
                    rename(&mut columns, from, to)?;
                    table.options = table.options.with_column_renamed(from, to);
                }
                SchemaChange::DropColumn { name } => {
                    table.drop_column(&mut columns, name)?;
                    table.options = table.options.with_column_dropped(name);
                }
                SchemaChange::WidenColumn { name, data_type } => {
                    let column = find(&mut columns, name)?;
                    let keys = [("primary key", &self.primary_key), ("bucket key", &self.bucket_key)];
                    let key = keys.into_iter().find(|(_, ids)| ids.contains(&column.id));
                    if let Some((role, _)) = key.filter(|_| column.data_type != *data_type) {
                        return Err(InvalidTable::WidensKey { column: name.clone(), role });
                    }
                    if !column.data_type.widens_to(data_type) {
                        let (from, to) = (column.data_type.clone(), data_type.clone());
                        return Err(InvalidTable::NotWider { column: name.clone(), from, to });
                    }
                    let renames = column.data_type == DataType::Float && *data_type == DataType::Double;
                    if renames && self.partition_by.contains(&column.id) {
                        let (column, to) = (name.clone(), data_type.clone());
                        return Err(InvalidTable::WidensPartition { column, to });
                    }
                    column.data_type = data_type.clone();
                }
            }
        }
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return Err(InvalidTable::ColumnCount { given: columns.len() });
        }
        table.schemas.push(Schema::new(SchemaId(version), columns));
        Ok(table)
    }

    fn drop_column(&self, columns: &mut Vec<Column>, name: &str) -> Result<(), InvalidTable> {
        let id = find(columns, name)?.id;
        let keys = [
            ("primary key", &self.primary_key),
            ("bucket key", &self.bucket_key),
            ("partition key", &self.partition_by),
        ];
        if let Some((role, _)) = keys.into_iter().find(|(_, ids)| ids.contains(&id)) {
            return Err(InvalidTable::DropsKey { column: name.to_owned(), role });
        }
        let role = if self.auto_increment == Some(id) {
            "auto-increment column"
        } else if self.options.get(options::VERSION_COLUMN) == Some(name) {
            "version column"
        } else if self.options.get(options::ROW_TTL_COLUMN) == Some(name) {
            "time column of the row TTL"
        } else {
            columns.retain(|c| c.id != id);
            return Ok(());
        };
        Err(InvalidTable::DropsUsed { column: name.to_owned(), role })
    }
}

fn added(columns: &[Column], id: FieldId, spec: &ColumnSpec) -> Result<Column, InvalidTable> {
    if columns.iter().any(|c| c.name == spec.name) {
        return Err(InvalidTable::ColumnTwice { column: spec.name.clone() });
    }
    let column = Column::from_spec(id, spec)?;
    if !column.nullable && column.default.is_none() {
        return Err(InvalidTable::NewNotNull { column: column.name });
    }
    Ok(column)
}

fn rename(columns: &mut [Column], from: &str, to: &str) -> Result<(), InvalidTable> {
    check_column_name(to)?;
    if from != to && columns.iter().any(|c| c.name == to) {
        return Err(InvalidTable::ColumnTwice { column: to.to_owned() });
    }
    find(columns, from)?.name = to.to_owned();
    Ok(())
}

fn find<'a>(columns: &'a mut [Column], name: &str) -> Result<&'a mut Column, InvalidTable> {
    match columns.iter().position(|c| c.name == name) {
        Some(i) => Ok(&mut columns[i]),
        None => {
            let nearest = crate::suggest::nearest(name, columns.iter().map(|c| c.name.as_str()));
            let hint = did_you_mean(nearest);
            Err(InvalidTable::UnknownColumn { role: "change", column: name.to_owned(), hint })
        }
    }
}
