//! `POST …/upsert` and `POST …/delete`: rows of primary-key tables.
//!
//! A body of an upsert may have a column `_change_type` beside the table's own: `+I`, `+U` or nothing writes the row, `-D`
//! deletes it, `-U`, the row before an update, is passed over. So a changelog that was read can be written as it is.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, filter_record_batch};
use axum::extract::{Request, State};
use axum::response::Response;
use wadi_model::merge::{TargetColumns, Verb};
use wadi_model::options::DeleteBehavior;
use wadi_model::reject::{Rejects, RowError, preview};
use wadi_model::{Column, DataType, ErrorKind, FieldId, Schema, Table, TableName, system};
use wadi_store::keyed::KeyedTable;
use wadi_store::shard::Keyed;

use super::writing::{OnError, Received, Sorted};
use crate::app::Gateway;
use crate::body::Decoded;
use crate::problem::Problem;
use crate::request::{Parameters, RequestId, TablePath, split_names};
use crate::targets;

/// Writes rows of a primary-key table: those whose key is new are inserted, the others updated.
#[utoipa::path(post, path = "/v1/databases/{database}/tables/{table}/upsert", tag = "rows",
    params(("database" = String, Path), ("table" = String, Path),
        ("columns" = Option<String>, Query, description = "Partial update: only these columns are touched"),
        ("on_error" = Option<String>, Query, description = "fail (default), skip or dlq"),
        ("Idempotency-Key" = Option<String>, Header), ("Wadi-Producer-Id" = Option<String>, Header),
        ("Wadi-Sequence" = Option<u64>, Header)),
    request_body(content = Vec<u8>, content_type = "application/vnd.apache.arrow.stream",
        description = "Also application/x-ndjson, application/json, text/csv, application/vnd.apache.parquet"),
    responses((status = 200, description = "Durable and readable"), (status = 422, description = "Rows do not fit; nothing was written")))]
pub async fn upsert(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    id: RequestId,
    mut parameters: Parameters,
    request: Request,
) -> Result<Response, Problem> {
    let on_error = OnError::of(parameters.text("on_error").as_deref())?;
    let columns = parameters.text("columns");
    parameters.finish()?;
    let keyed = keyed_table(&gateway, &name)?;
    let targets = match &columns {
        Some(names) => Some(target_columns(keyed.table(), names, Verb::Upsert)?),
        None => None,
    };
    let intent = format!("upsert {}", columns.unwrap_or_default());
    let received = Received::take(&gateway, keyed.table().clone(), intent, on_error, id, request).await?;
    let changes = memchr::memmem::find(received.body(), system::CHANGE_TYPE.as_bytes()).is_some();
    let plan = Plan::upsert(keyed, targets, changes);
    write(&gateway, received, plan).await
}

/// Deletes rows of a primary-key table by their keys.
#[utoipa::path(post, path = "/v1/databases/{database}/tables/{table}/delete", tag = "rows",
    params(("database" = String, Path), ("table" = String, Path),
        ("columns" = Option<String>, Query, description = "Partial delete: these columns become null; a row goes when nothing but its key is left"),
        ("on_error" = Option<String>, Query, description = "fail (default), skip or dlq"),
        ("Idempotency-Key" = Option<String>, Header), ("Wadi-Producer-Id" = Option<String>, Header),
        ("Wadi-Sequence" = Option<u64>, Header)),
    request_body(content = Vec<u8>, content_type = "application/vnd.apache.arrow.stream",
        description = "The key columns of each row; also application/x-ndjson, application/json, text/csv, application/vnd.apache.parquet"),
    responses((status = 200, description = "Durable and readable"), (status = 422, description = "Keys do not fit; nothing was written")))]
pub async fn delete(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    id: RequestId,
    mut parameters: Parameters,
    request: Request,
) -> Result<Response, Problem> {
    let on_error = OnError::of(parameters.text("on_error").as_deref())?;
    let columns = parameters.text("columns");
    parameters.finish()?;
    let keyed = keyed_table(&gateway, &name)?;
    if keyed.engine().deletes() == DeleteBehavior::Disable {
        return Err(wadi_model::merge::MergeFault::DeleteDisabled.into());
    }
    let targets = match &columns {
        Some(names) => Some(target_columns(keyed.table(), names, Verb::Delete)?),
        None => None,
    };
    let intent = format!("delete {}", columns.unwrap_or_default());
    let received = Received::take(&gateway, keyed.table().clone(), intent, on_error, id, request).await?;
    write(&gateway, received, Plan::delete(keyed, targets)).await
}

/// The primary-key table of this name.
pub(super) fn keyed_table(gateway: &Gateway, name: &TableName) -> Result<Arc<KeyedTable>, Problem> {
    let table = gateway.catalog().table(name)?;
    if !table.has_primary_key() {
        let detail = format!(
            "table \"{name}\" has no primary key; rows are appended to it (POST …/append) and read by GET …/log"
        );
        return Err(Problem::new(ErrorKind::Invalid, "wrong_table_kind", detail));
    }
    Ok(gateway.host().context().tables.of(&table)?)
}

fn target_columns(table: &Table, names: &str, verb: Verb) -> Result<Arc<TargetColumns>, Problem> {
    let names = split_names(names);
    let targets = TargetColumns::new(table, names.iter().map(String::as_str), verb)?;
    Ok(Arc::new(targets))
}

async fn write(gateway: &Gateway, received: Received, plan: Plan) -> Result<Response, Problem> {
    let schema = plan.schema.clone();
    let now = gateway.env().now_millis();
    let sorted = received.sort_out(gateway, schema, move |decoded| plan.sort_out(decoded, now)).await?;
    received.write(gateway, sorted).await
}

/// How the rows of a body become changes.
struct Plan {
    keyed: Arc<KeyedTable>,
    /// Positions in the table of the columns that the rows have.
    columns: Vec<usize>,
    /// What the body is read as: those columns, and the change type if rows may carry one.
    schema: Schema,
    changes: bool,
    deletes: bool,
    targets: Option<Arc<TargetColumns>>,
}

impl Plan {
    fn upsert(keyed: Arc<KeyedTable>, targets: Option<Arc<TargetColumns>>, changes: bool) -> Plan {
        let table = keyed.table();
        let all = 0..table.schema().columns().len();
        let columns: Vec<usize> =
            all.filter(|i| targets.as_ref().is_none_or(|targets| targets.contains(*i))).collect();
        let schema = read_as(table, &columns, changes);
        Plan { columns, schema, changes, deletes: false, targets, keyed }
    }

    fn delete(keyed: Arc<KeyedTable>, targets: Option<Arc<TargetColumns>>) -> Plan {
        let table = keyed.table();
        let key = |id: &FieldId| table.schema().index_of_id(*id);
        let mut columns: Vec<usize> = table.primary_key.iter().filter_map(key).collect();
        columns.sort_unstable();
        let schema = read_as(table, &columns, false);
        Plan { columns, schema, changes: false, deletes: true, targets, keyed }
    }

    /// Says what each row is to do, and rejects those that cannot be written whatever is stored.
    fn sort_out(self, mut decoded: Decoded, now: i64) -> Result<Sorted, Problem> {
        let engine = self.keyed.engine();
        if self.changes {
            let misfits = self.misfits(&decoded.batch);
            decoded.also_reject(misfits).map_err(internal)?;
        }
        if engine.needs_check() && !self.deletes {
            let misfits = engine.check(&decoded.batch);
            decoded.also_reject(misfits).map_err(internal)?;
        }
        let table = self.keyed.table();
        let mut grouping = targets::assign(table, Some(&self.columns), &mut decoded, now)?;
        let mut deletes = self.deletes.then(|| BooleanBuffer::new_set(decoded.batch.num_rows()));
        if self.changes {
            // Last, since until here the rows stand where the body has them.
            let changes = decoded.batch.remove_column(decoded.batch.num_columns() - 1);
            let is = |wanted: &str| -> BooleanBuffer {
                changes.as_string::<i32>().iter().map(|change| change == Some(wanted)).collect()
            };
            let keep = BooleanArray::new(!&is("-U"), None);
            let deleted = filter(&BooleanArray::new(is("-D"), None), &keep).map_err(internal)?;
            decoded.batch = filter_record_batch(&decoded.batch, &keep).map_err(internal)?;
            if let Some(grouping) = &mut grouping {
                grouping.keep(keep.values());
            }
            deletes = Some(deleted.as_boolean().values().clone());
        }
        let columns = Some(self.columns.into());
        let keyed = Keyed { table: self.keyed, columns, deletes, targets: self.targets };
        Ok(Sorted { decoded, keyed: Some(keyed), grouping })
    }

    /// Rows whose change type is none, or that lack what only a deletion may lack.
    fn misfits(&self, batch: &RecordBatch) -> Rejects {
        let mut misfits = Rejects::default();
        let (changes, columns) = (batch.columns().last(), self.keyed.table().schema().columns());
        let changes = changes.map(|changes| changes.as_string::<i32>());
        let change = |row: usize| changes.filter(|c| c.is_valid(row)).map(|c| c.value(row));
        for row in 0..batch.num_rows() {
            if let Some(other) = change(row).filter(|c| !matches!(*c, "+A" | "+I" | "-U" | "+U" | "-D")) {
                misfits.add(row as u64, || RowError {
                    column: Some(system::CHANGE_TYPE.to_owned()),
                    expected: "+I, +U, -U or -D".to_owned(),
                    got: preview(other),
                    ..RowError::default()
                });
            }
        }
        for (at, position) in self.columns.iter().enumerate() {
            let (column, array) = (&columns[*position], batch.column(at));
            if column.nullable || array.null_count() == 0 {
                continue;
            }
            for row in (0..batch.num_rows()).filter(|row| array.is_null(*row)) {
                if !matches!(change(row), Some("-D" | "-U")) {
                    misfits.add(row as u64, || RowError {
                        column: Some(column.name.clone()),
                        expected: format!("{} not null", column.data_type),
                        got: "null".to_owned(),
                        ..RowError::default()
                    });
                }
            }
        }
        misfits
    }
}

/// The schema by which a body is read. With change types, only keys are needed in every row: deletions may lack the rest.
fn read_as(table: &Table, columns: &[usize], changes: bool) -> Schema {
    let of_table = columns.iter().map(|i| {
        let column = table.schema().columns()[*i].clone();
        let key = table.primary_key.contains(&column.id);
        Column { nullable: column.nullable || (changes && !key), ..column }
    });
    let change = changes.then(|| Column {
        id: FieldId(u32::MAX),
        name: system::CHANGE_TYPE.to_owned(),
        data_type: DataType::String,
        nullable: true,
        comment: None,
        default: None,
    });
    Schema::new(table.schema().id(), of_table.chain(change).collect())
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Internal, "internal", error.to_string())
}
