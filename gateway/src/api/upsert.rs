//! `POST …/upsert` and `POST …/delete`: rows of primary-key tables.
//!
//! A body of an upsert may have a column `_change_type` beside the table's own: `+I`, `+U` or nothing writes the row, `-D`
//! deletes it, `-U`, the row before an update, is passed over. So a changelog that was read can be written as it is. In a
//! partial update `-D` is a partial delete of the same columns.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use plan::Plan;
use wadi_model::merge::MergeFault;
use wadi_model::options::DeleteBehavior;
use wadi_model::{ErrorKind, TableName, system};
use wadi_store::keyed::KeyedTable;

use super::writing::{OnError, Received};
use crate::app::Gateway;
use crate::problem::Problem;
use crate::request::{Parameters, RequestId, TablePath, split_names};

mod plan;

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
    let names = columns.as_deref().map(split_names);
    let plan = Plan::upsert(keyed.clone(), names.as_deref())?;
    let intent = format!("upsert {}", columns.unwrap_or_default());
    let received = Received::take(&gateway, keyed.table().clone(), intent, on_error, id, request).await?;
    let changes = memchr::memmem::find(received.body(), system::CHANGE_TYPE.as_bytes()).is_some();
    let plan = if changes { plan.with_changes() } else { plan };
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
        return Err(MergeFault::DeleteDisabled.into());
    }
    let names = columns.as_deref().map(split_names);
    let plan = Plan::delete(keyed.clone(), names.as_deref())?;
    let intent = format!("delete {}", columns.unwrap_or_default());
    let received = Received::take(&gateway, keyed.table().clone(), intent, on_error, id, request).await?;
    write(&gateway, received, plan).await
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

async fn write(gateway: &Gateway, received: Received, plan: Plan) -> Result<Response, Problem> {
    let schema = plan.schema().clone();
    let now = gateway.env().now_millis();
    let sorted = received.sort_out(gateway, schema, move |decoded| plan.sort_out(decoded, now)).await?;
    received.write(gateway, sorted).await
}

fn internal(error: impl std::fmt::Display) -> Problem {
    Problem::new(ErrorKind::Internal, "internal", error.to_string())
}
