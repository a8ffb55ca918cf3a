//! `insert_if_not_exists=true`: keys that are looked up and have no row get one.
//!
//! The other columns get their defaults, or null, and the auto-increment column the next id: so texts become dense numbers. An
//! owner inserts the missing rows of a bucket as one part, and leaves rows alone that came meanwhile; then the rows are
//! looked up again. So all who ask get the same row whoever was first, and a request that is sent again finds what its first
//! try has done, without a key of its own.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema as ArrowSchema;
use bytes::Bytes;
use tokio::time::{Instant, sleep};
use wadi_model::ipc::Originals;
use wadi_model::{ErrorKind, Table};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::{Keyed, Targets};

use super::{AGAIN, By, internal, parts, points};
use crate::app::Gateway;
use crate::problem::Problem;
use crate::write::{self, Rows};
use crate::{request::Parameters, targets};

/// Whether missing rows are to be inserted.
pub(super) fn is_asked(parameters: &mut Parameters) -> Result<bool, Problem> {
    match parameters.text("insert_if_not_exists").as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let detail = format!("parameter \"insert_if_not_exists\" is \"{other}\"; write true or false");
            Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail))
        }
    }
}

/// Refuses what can never be inserted: beginnings of keys, and rows that would lack a value.
pub(super) fn check(table: &Table, by: &By, given: usize) -> Result<(), Problem> {
    if given < by.len() {
        let all = (0..by.len()).map(|at| by.name(at)).collect::<Vec<_>>().join(", ");
        let detail =
            format!("with insert_if_not_exists=true give all key columns ({all}); a prefix is no row");
        return Err(Problem::new(ErrorKind::Rejected, "invalid_key", detail));
    }
    let schema = table.schema();
    let lacks = schema.columns().iter().enumerate().find(|(i, column)| {
        let comes = table.primary_key.contains(&column.id) || table.auto_increment == Some(column.id);
        !comes && !column.nullable && schema.default_of(*i).is_none()
    });
    match lacks {
        Some((_, column)) => {
            let detail = format!(
                "column \"{}\" is not null and has no default: a row that is inserted for a key would have no value for \
                 it; give the column a default, or upsert whole rows",
                column.name
            );
            Err(Problem::new(ErrorKind::Rejected, "missing_column", detail))
        }
        None => Ok(()),
    }
}

/// The rows of full keys, after those that were missing are inserted.
pub(super) async fn points_or_insert(
    gateway: &Gateway,
    keyed: &Arc<KeyedTable>,
    by: &By,
    keys: &RecordBatch,
) -> Result<Vec<Bytes>, Problem> {
    let deadline = Instant::now() + gateway.limits().patience;
    loop {
        let parts = parts(gateway, keyed, by, keys, by.len())?;
        let found = points(gateway, parts, keys.num_rows()).await?;
        let missing: BooleanArray = found.iter().map(|row| Some(row.is_none())).collect();
        if missing.true_count() == 0 {
            return Ok(found.into_iter().flatten().collect());
        }
        match insert(gateway, keyed, by, &filter_record_batch(keys, &missing).map_err(internal)?).await {
            Ok(()) if Instant::now() < deadline => {}
            Ok(()) => {
                let detail = "rows are deleted as fast as they are inserted; ask again";
                return Err(Problem::new(ErrorKind::Conflict, "rows_deleted", detail).at_least_partial());
            }
            // Whatever became of it, the next try finds out.
            Err(problem) if problem.is_unfinished() && Instant::now() < deadline => sleep(AGAIN).await,
            Err(problem) => return Err(problem),
        }
    }
}

async fn insert(
    gateway: &Gateway,
    keyed: &Arc<KeyedTable>,
    by: &By,
    keys: &RecordBatch,
) -> Result<(), Problem> {
    let table = keyed.table();
    let (columns, batch) = rows_of(table, by, keys)?;
    let mut grouping = targets::group(table, Some(&columns), &batch, gateway.env().now_millis())?;
    let rejects = grouping.as_mut().map(|grouping| grouping.take_rejects()).unwrap_or_default();
    if let Some(first) = rejects.told().next() {
        let detail = format!("a key names no partition that rows can be inserted into: {first}");
        let told = rejects.told().cloned().collect();
        return Err(Problem::new(ErrorKind::Rejected, "invalid_key", detail).rows(told, rejects.count()));
    }
    let columns = Some(columns.into());
    let keyed =
        Keyed { table: keyed.clone(), columns, deletes: None, targets: Targets::default(), if_absent: true };
    let rows = Rows { batch, originals: Originals::default(), keyed: Some(keyed) };
    write::write(gateway, table, rows, grouping, None).await.map(drop)
}

/// The rows that keys get: the columns that have a value, by position in the table, and their values.
fn rows_of(table: &Table, by: &By, keys: &RecordBatch) -> Result<(Vec<usize>, RecordBatch), Problem> {
    let schema = table.schema();
    let (mut columns, mut arrays) = (Vec::new(), Vec::new());
    for (column, array) in by.schema.columns().iter().zip(keys.columns()) {
        columns
            .push(schema.index_of_id(column.id).ok_or_else(|| internal("a key column is not in the table"))?);
        arrays.push(array.clone());
    }
    let first = UInt32Array::from(vec![0; keys.num_rows()]);
    for position in (0..schema.columns().len()).filter(|i| !columns.contains(i)).collect::<Vec<_>>() {
        if let Some(default) = schema.default_of(position) {
            columns.push(position);
            arrays.push(arrow::compute::take(default, &first, None).map_err(internal)?);
        }
    }
    let fields = columns.iter().map(|i| schema.arrow().field(*i).clone()).collect::<Vec<_>>();
    let arrays: Vec<ArrayRef> = arrays;
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).map_err(internal)?;
    Ok((columns, batch))
}
