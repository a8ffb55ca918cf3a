//! Columns and schema versions.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema as ArrowSchema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::ids::{FieldId, SchemaId};
use crate::suggest;
use crate::types::DataType;

pub use default::{InvalidDefault, default_value};

mod default;
#[cfg(test)]
mod tests;

/// Most columns of a table.
pub const MAX_COLUMNS: usize = 2000;

/// A column of one schema version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The same through all versions.
    pub id: FieldId,
    /// Unique among the columns of the version.
    pub name: String,
    /// The type's spelling.
    #[serde(rename = "type")]
    pub data_type: DataType,
    /// Whether the column may be null.
    pub nullable: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What a row gets that does not name the column: a JSON scalar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<serde_json::Value>,
}

impl Column {
    /// The Arrow field.
    pub fn to_field(&self) -> Field {
        Field::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}

/// One version of a table's columns. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredSchema", into = "StoredSchema")]
pub struct Schema {
    id: SchemaId,
    columns: Arc<[Column]>,
    arrow: SchemaRef,
    /// By position; `None` where the column has no default.
    defaults: Arc<[Option<ArrayRef>]>,
}

#[derive(Serialize, Deserialize)]
struct StoredSchema {
    id: SchemaId,
    columns: Arc<[Column]>,
}

impl From<StoredSchema> for Schema {
    fn from(stored: StoredSchema) -> Schema {
        let fields: Vec<Field> = stored.columns.iter().map(Column::to_field).collect();
        // A default that no longer reads (which DDL refuses) counts as none: the rows are worth more than it.
        let defaults = stored.columns.iter().map(|c| default_value(c).ok().flatten()).collect();
        let arrow = Arc::new(ArrowSchema::new(fields));
        Schema { id: stored.id, columns: stored.columns, arrow, defaults }
    }
}

impl From<Schema> for StoredSchema {
    fn from(schema: Schema) -> StoredSchema {
        StoredSchema { id: schema.id, columns: schema.columns }
    }
}

impl Schema {
    /// A version with the given columns, whose names and ids are unique.
    pub fn new(id: SchemaId, columns: Vec<Column>) -> Schema {
        StoredSchema { id, columns: columns.into() }.into()
    }

    /// The version.
    pub fn id(&self) -> SchemaId {
        self.id
    }

    /// The columns in their order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns as Arrow fields.
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The default of the column at `index`, as an array of one value.
    pub fn default_of(&self, index: usize) -> Option<&ArrayRef> {
        self.defaults.get(index).and_then(Option::as_ref)
    }

    /// The position of the column of this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// The position of the column of this id.
    pub fn index_of_id(&self, id: FieldId) -> Option<usize> {
        self.columns.iter().position(|c| c.id == id)
    }

    /// Positions by name, for bodies with many columns.
    pub fn positions(&self) -> BTreeMap<&str, usize> {
        self.columns.iter().enumerate().map(|(i, c)| (c.name.as_str(), i)).collect()
    }

    /// The column name nearest to a mistyped one.
    pub fn nearest(&self, name: &str) -> Option<&str> {
        suggest::nearest(name, self.columns.iter().map(|c| c.name.as_str()))
    }
}
