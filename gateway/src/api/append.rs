//! `POST …/append`: adds rows to a log table.

use axum::extract::{Request, State};
use axum::response::Response;
use wadi_model::ErrorKind;

use super::parameters::InTable;
use super::writing::{OnError, Received, Sorted};
use crate::app::Gateway;
use crate::problem::Problem;
use crate::request::{Parameters, RequestId, TablePath};
use crate::targets;

/// Adds rows to a log table.
#[utoipa::path(post, path = "/v1/databases/{database}/tables/{table}/append", tag = "rows",
    params(InTable,
        ("on_error" = Option<String>, Query, description = "fail (default), skip or dlq"),
        ("Idempotency-Key" = Option<String>, Header), ("Wadi-Producer-Id" = Option<String>, Header),
        ("Wadi-Sequence" = Option<u64>, Header)),
    request_body(content = Vec<u8>, content_type = "application/vnd.apache.arrow.stream",
        description = "Also application/x-ndjson, application/json, text/csv, application/vnd.apache.parquet"),
    responses((status = 200, description = "Durable and readable"), (status = 422, description = "Rows do not fit; nothing was written")))]
pub async fn append(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    id: RequestId,
    mut parameters: Parameters,
    request: Request,
) -> Result<Response, Problem> {
    let on_error = OnError::of(parameters.text("on_error").as_deref())?;
    parameters.finish()?;
    let table = gateway.catalog().table(&name)?;
    if table.has_primary_key() {
        let detail = format!(
            "table \"{name}\" has a primary key; rows are not appended to it but upserted (POST …/upsert)"
        );
        return Err(Problem::new(ErrorKind::Invalid, "wrong_table_kind", detail));
    }
    let schema = table.schema().clone();
    let received = Received::take(&gateway, table.clone(), "append".into(), on_error, id, request).await?;
    let now = gateway.env().now_millis();
    let sort_out = move |mut decoded| {
        let grouping = targets::assign(&table, None, &mut decoded, now)?;
        Ok(Sorted { decoded, keyed: None, grouping })
    };
    let sorted = received.sort_out(&gateway, schema, sort_out).await?;
    received.write(&gateway, sorted).await
}
