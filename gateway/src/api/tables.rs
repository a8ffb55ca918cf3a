//! `/v1/databases/{database}/tables`: tables and their columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use wadi_model::evolve::SchemaChange;
use wadi_model::table::ColumnSpec;
use wadi_model::{Offset, Table, TableSpec};

use super::count;
use super::databases::json;
use super::parameters::InTable;
use crate::app::Gateway;
use crate::auto_partition;
use crate::places::{Scope, states_of};
use crate::problem::Problem;
use crate::request::{DatabasePath, Parameters, TablePath};

/// Most buckets whose statistics are shown one by one.
const TOLD_BUCKETS: usize = 4096;

/// A table as it is shown.
#[derive(Debug, Serialize)]
pub struct TableDescription {
    database: String,
    name: String,
    id: u64,
    kind: &'static str,
    schema_id: u16,
    columns: Vec<ColumnDescription>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    primary_key: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bucket_key: Vec<String>,
    buckets: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partition_by: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    auto_increment: Vec<String>,
    /// How rows of one key merge, in primary-key tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    merge_engine: Option<&'static str>,
    properties: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    created_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<Statistics>,
}

/// A column as it is shown.
#[derive(Debug, Serialize)]
struct ColumnDescription {
    id: u32,
    #[serde(flatten)]
    spec: ColumnSpec,
}

/// What is known of a table's rows.
#[derive(Debug, Serialize)]
struct Statistics {
    /// How many there are, see [`count`]; none where that is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// Rows of a primary-key table's changelog.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<usize>,
    /// Empty if they are more than [`TOLD_BUCKETS`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<BucketStatistics>,
}

/// What is known of a bucket's rows.
#[derive(Debug, Serialize)]
struct BucketStatistics {
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    bucket: u32,
    shard: u32,
    log_start: Offset,
    high_watermark: Offset,
}

impl TableDescription {
    fn of(table: &Table, statistics: Option<Statistics>) -> TableDescription {
        let names = |ids: &[_]| table.names_of(ids).into_iter().map(str::to_owned).collect();
        let column = |c: &wadi_model::Column| ColumnDescription {
            id: c.id.0,
            spec: ColumnSpec {
                comment: c.comment.clone(),
                default: c.default.clone(),
                ..ColumnSpec::of(&c.name, &c.data_type, c.nullable)
            },
        };
        TableDescription {
            database: table.name.database().to_string(),
            name: table.name.table().to_owned(),
            id: table.id.0,
            kind: if table.has_primary_key() { "primary_key" } else { "log" },
            schema_id: table.schema().id().0,
            columns: table.schema().columns().iter().map(column).collect(),
            primary_key: names(&table.primary_key),
            bucket_key: names(&table.bucket_key),
            buckets: table.buckets,
            partition_by: names(&table.partition_by),
            auto_increment: names(table.auto_increment.as_slice()),
            merge_engine: table.has_primary_key().then(|| table.options.merge_engine().name()),
            properties: table.options.all().clone(),
            comment: table.comment.clone(),
            created_at: table.created_at,
            statistics,
        }
    }
}

/// Lists the tables of a database.
#[utoipa::path(get, path = "/v1/databases/{database}/tables", tag = "tables", params(("database" = String, Path)),
    responses((status = 200, description = "Its tables"), (status = 404, description = "Does not exist")))]
pub async fn list(
    State(gateway): State<Gateway>,
    DatabasePath(database): DatabasePath,
) -> Result<Json<serde_json::Value>, Problem> {
    let tables = gateway.catalog().tables(&database)?;
    let tables: Vec<_> = tables.iter().map(|t| TableDescription::of(t, None)).collect();
    Ok(Json(serde_json::json!({ "tables": tables })))
}

/// Makes a table.
#[utoipa::path(post, path = "/v1/databases/{database}/tables", tag = "tables",
    params(("database" = String, Path), ("if_not_exists" = Option<bool>, Query, description = "Answer 200 instead of 409")),
    request_body(content = Object, description = "{name, columns:[{name,type,comment?,default?}], primary_key?, bucket_key?, buckets?, partition_by?, properties?}"),
    responses((status = 201, description = "Made"), (status = 409, description = "Exists already")))]
pub async fn create(
    State(gateway): State<Gateway>,
    DatabasePath(database): DatabasePath,
    mut parameters: Parameters,
    body: Result<Json<TableSpec>, JsonRejection>,
) -> Result<Response, Problem> {
    let if_not_exists = parameters.text("if_not_exists").is_some_and(|v| v != "false");
    parameters.finish()?;
    let spec = json(body)?;
    let name = wadi_model::TableName::new(database.clone(), &spec.name)?;
    let now = gateway.env().now_millis();
    match gateway.catalog().create_table(&database, &spec, now).await {
        Ok(table) => {
            auto_partition::prepare(gateway.catalog(), &table, now).await;
            Ok((StatusCode::CREATED, Json(TableDescription::of(&table, None))).into_response())
        }
        Err(error) => match gateway.catalog().table(&name) {
            Ok(table) if if_not_exists => Ok(Json(TableDescription::of(&table, None)).into_response()),
            _ => Err(error.into()),
        },
    }
}

/// Describes a table, with statistics of its rows.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}", tag = "tables",
    params(InTable),
    responses((status = 200, description = "The table"), (status = 404, description = "Does not exist")))]
pub async fn show(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
) -> Result<Json<TableDescription>, Problem> {
    let table = gateway.catalog().table(&name)?;
    let statistics = statistics(&gateway, &table).await?;
    Ok(Json(TableDescription::of(&table, Some(statistics))))
}

async fn statistics(gateway: &Gateway, table: &Arc<Table>) -> Result<Statistics, Problem> {
    let scope = Scope::of(gateway, table, None)?;
    let is_told = scope.bucket_count() <= TOLD_BUCKETS;
    let partitions = table.is_partitioned().then(|| scope.partitions().len());
    let (mut rows, mut changes, mut buckets) = (Some(0), 0, Vec::new());
    for (place, state) in states_of(gateway, &scope).await? {
        let (id, bounds) = (place.bucket, state.bounds);
        rows = rows.zip(count::of_bucket(table, &state)).map(|(rows, more)| rows + more);
        changes += bounds.high_watermark.0 - bounds.log_start.0;
        if is_told {
            buckets.push(BucketStatistics {
                partition: place.partition.as_ref().map(|p| p.name.clone()),
                bucket: id.bucket,
                shard: state.shard.0,
                log_start: bounds.log_start,
                high_watermark: bounds.high_watermark,
            });
        }
    }
    let changes = table.has_primary_key().then_some(changes);
    Ok(Statistics { rows, changes, partitions, buckets })
}

/// Changes of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlterTable {
    /// In order: `{"add_column": {…}}`, `{"rename_column": {"from","to"}}`, `{"drop_column": {"name"}}`,
    /// `{"widen_column": {"name","type"}}`.
    changes: Vec<SchemaChange>,
    /// Options and properties to set, or with null to take away.
    properties: BTreeMap<String, Option<String>>,
}

/// Changes a table's columns and options.
#[utoipa::path(patch, path = "/v1/databases/{database}/tables/{table}", tag = "tables",
    params(InTable),
    request_body(content = Object, description = "{changes:[{add_column|rename_column|drop_column|widen_column}], properties?}"),
    responses((status = 200, description = "The table now"), (status = 400, description = "Not allowed")))]
pub async fn alter(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    body: Result<Json<AlterTable>, JsonRejection>,
) -> Result<Json<TableDescription>, Problem> {
    let AlterTable { changes, properties } = json(body)?;
    let table = gateway.catalog().alter_table(&name, &changes, &properties).await?;
    auto_partition::prepare(gateway.catalog(), &table, gateway.env().now_millis()).await;
    Ok(Json(TableDescription::of(&table, None)))
}

/// Takes a table away.
#[utoipa::path(delete, path = "/v1/databases/{database}/tables/{table}", tag = "tables",
    params(InTable),
    responses((status = 204, description = "Gone"), (status = 404, description = "Does not exist")))]
pub async fn drop_table(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
) -> Result<StatusCode, Problem> {
    gateway.catalog().drop_table(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
