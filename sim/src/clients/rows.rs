//! Rows whose columns follow from their ids, so that a row that was mangled is known by itself.

use std::sync::Arc;

use arrow::array::{AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use wadi_model::{Table, ipc};
use wadi_store::shard::{LogAnswer, Piece};

use crate::checker::Entry;

/// The columns of all simulated log tables.
pub(crate) const COLUMNS: [(&str, &str); 3] = [("id", "bigint"), ("n", "int"), ("name", "string")];

/// The columns of primary-key tables: the key, three that follow from an id, and one that holds another id.
pub(crate) const KEYED_COLUMNS: [(&str, &str); 5] =
    [("k", "bigint"), ("id", "bigint"), ("n", "int"), ("name", "string"), ("other", "bigint")];

/// The column of those that get ids, behind the others.
pub(crate) const ID_COLUMN: (&str, &str) = ("auto", "bigint");

/// The column of those whose keys lie in groups, which prefix lookups find: it follows from the key.
pub(crate) const GROUP_COLUMN: (&str, &str) = ("g", "bigint");

/// The column of those with partitions.
pub(crate) const PARTITION_COLUMN: (&str, &str) = ("p", "string");

/// Keys of a group.
pub(crate) const GROUP: i64 = 8;

/// Where a table has this column.
pub(super) fn position(table: &Table, (name, _): (&str, &str)) -> Option<usize> {
    table.schema().columns().iter().position(|column| column.name == name)
}

/// Whether all rows name the partition in which they lie.
pub(super) fn fits_partition(table: &Table, batch: &RecordBatch, partition: &str) -> Result<(), String> {
    let Some(at) = position(table, PARTITION_COLUMN) else { return Ok(()) };
    match batch.column(at).as_string::<i32>().iter().find(|found| *found != Some(partition)) {
        Some(stray) => Err(format!("a row of partition {stray:?} lies in partition \"{partition}\"")),
        None => Ok(()),
    }
}

pub(super) fn n(id: i64) -> i32 {
    (id % 1_000_003) as i32
}

pub(super) fn name(id: i64) -> String {
    format!("row {}", id.wrapping_mul(31) % 100_003)
}

/// The rows of ids from `first` on, in a partition if the table has some.
pub(super) fn rows(table: &Table, partition: &str, first: i64, count: u64) -> Result<RecordBatch, String> {
    let ids = || first..first + count as i64;
    let mut columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids())),
        Arc::new(Int32Array::from_iter_values(ids().map(n))),
        Arc::new(StringArray::from_iter_values(ids().map(name))),
    ];
    if position(table, PARTITION_COLUMN).is_some() {
        columns.push(Arc::new(StringArray::from_iter_values(ids().map(|_| partition))));
    }
    RecordBatch::try_new(table.schema().arrow().clone(), columns).map_err(|e| e.to_string())
}

/// The rows of an answer that asked for all columns of a log table. An error says which row is not what was sent.
pub(super) fn entries(table: &Table, partition: &str, answer: &LogAnswer) -> Result<Vec<Entry>, String> {
    let schema = table.schema().arrow();
    let mut all = Vec::new();
    for piece in &answer.pieces {
        let batch = match piece {
            Piece::Batch(batch) => batch.clone(),
            Piece::Message { message, .. } => {
                ipc::decode(message, schema, 1 << 30).map_err(|e| e.to_string())?
            }
        };
        fits_partition(table, &batch, partition)?;
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
