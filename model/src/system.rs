//! The system columns, which every read can ask for beside the table's own.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, Schema, TimeUnit};

/// A row's offset in its bucket.
pub const OFFSET: &str = "_offset";
/// When the row became part of the log, by the owner's clock.
pub const TIMESTAMP: &str = "_timestamp";
/// `+I`, `-U`, `+U` or `-D`; always `+I` in log tables.
pub const CHANGE_TYPE: &str = "_change_type";
/// The bucket's number.
pub const BUCKET: &str = "_bucket";
/// The partition's name; empty without partitions.
pub const PARTITION: &str = "_partition";

/// All system columns, in the order in which they are shown.
pub const ALL: [&str; 5] = [OFFSET, TIMESTAMP, CHANGE_TYPE, BUCKET, PARTITION];

/// The schema of a table's columns and, behind them, the system columns: what a filter may name.
pub fn beside(columns: &Schema) -> Schema {
    let own = columns.fields().iter().map(|f| f.as_ref().clone());
    Schema::new(own.chain(ALL.iter().filter_map(|name| field(name))).collect::<Vec<_>>())
}

/// Whether a user's column may not have this name.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with("__") || ALL.contains(&name)
}

/// The Arrow field of a system column.
pub fn field(name: &str) -> Option<Field> {
    let data_type = match name {
        OFFSET => ArrowType::Int64,
        TIMESTAMP => ArrowType::Timestamp(TimeUnit::Millisecond, Some(Arc::from("UTC"))),
        CHANGE_TYPE | PARTITION => ArrowType::Utf8,
        BUCKET => ArrowType::Int32,
        _ => return None,
    };
    Some(Field::new(name, data_type, false))
}
