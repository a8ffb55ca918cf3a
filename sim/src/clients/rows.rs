//! Rows whose columns follow from their ids, so that a row that was mangled is known by itself.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use wadi_model::ipc;
use wadi_store::shard::{LogAnswer, Piece};

use crate::checker::Entry;

/// The columns of all simulated log tables.
pub(crate) const COLUMNS: [(&str, &str); 3] = [("id", "bigint"), ("n", "int"), ("name", "string")];

/// The columns of primary-key tables: the key, three that follow from an id, and one that holds another id.
pub(crate) const KEYED_COLUMNS: [(&str, &str); 5] =
    [("k", "bigint"), ("id", "bigint"), ("n", "int"), ("name", "string"), ("other", "bigint")];

/// The column of those that get ids, behind the others.
pub(crate) const ID_COLUMN: (&str, &str) = ("auto", "bigint");

pub(super) fn n(id: i64) -> i32 {
    (id % 1_000_003) as i32
}

pub(super) fn name(id: i64) -> String {
    format!("row {}", id.wrapping_mul(31) % 100_003)
}

/// The rows of ids from `first` on.
pub(super) fn rows(schema: &SchemaRef, first: i64, count: u64) -> Result<RecordBatch, String> {
    let ids = || first..first + count as i64;
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids())),
        Arc::new(Int32Array::from_iter_values(ids().map(n))),
        Arc::new(StringArray::from_iter_values(ids().map(name))),
    ];
    RecordBatch::try_new(schema.clone(), columns).map_err(|e| e.to_string())
}

/// The rows of an answer that asked for all columns of a log table. An error says which row is not what was sent.
pub(super) fn entries(schema: &SchemaRef, answer: &LogAnswer) -> Result<Vec<Entry>, String> {
    let mut all = Vec::new();
    for piece in &answer.pieces {
        let batch = match piece {
            Piece::Batch(batch) => batch.clone(),
            Piece::Message { message, .. } => {
                ipc::decode(message, schema, 1 << 30).map_err(|e| e.to_string())?
            }
        };
        let id = batch.column(0).as_primitive::<Int64Type>();
        let ns = batch.column(1).as_primitive::<Int32Type>();
        let names = batch.column(2).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let id = id.value(row);
            if ns.value(row) != n(id) || names.value(row) != name(id) {
                return Err(format!("row {id} has columns {} and {}", ns.value(row), names.value(row)));
            }
            all.push(Entry::Row(id));
        }
    }
    Ok(all)
}
