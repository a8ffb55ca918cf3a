//! `/v1/databases/{database}/tables/{table}/partitions`: the partitions of a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use wadi_meta::catalog::CatalogError;
use wadi_model::partition::{InvalidPartition, SEPARATOR};
use wadi_model::{ErrorKind, Partition, Table, TableName};

use super::databases::json;
use crate::app::Gateway;
use crate::places::name_a_partition;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};

/// A partition as it is shown.
#[derive(Debug, Serialize)]
struct PartitionDescription {
    name: String,
    /// By partition column.
    values: BTreeMap<String, String>,
    id: u64,
    created_at: i64,
}

impl PartitionDescription {
    fn of(table: &Table, partition: &Partition) -> PartitionDescription {
        let columns = table.names_of(&table.partition_by).into_iter().map(str::to_owned);
        PartitionDescription {
            name: partition.name.clone(),
            values: columns.zip(partition.name.split(SEPARATOR).map(str::to_owned)).collect(),
            id: partition.id.0,
            created_at: partition.created_at,
        }
    }
}

/// Lists the partitions of a table.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/partitions", tag = "partitions",
    params(("database" = String, Path), ("table" = String, Path)),
    responses((status = 200, description = "Its partitions, by name"), (status = 404, description = "Does not exist")))]
pub async fn list(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    parameters: Parameters,
) -> Result<Json<serde_json::Value>, Problem> {
    parameters.finish()?;
    let table = partitioned(&gateway, &name)?;
    let partitions = gateway.catalog().partitions(table.id);
    let partitions: Vec<_> = partitions.iter().map(|p| PartitionDescription::of(&table, p)).collect();
    Ok(Json(serde_json::json!({ "partitions": partitions })))
}

/// A partition to be made, by its name or by the values of its columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatePartition {
    /// The values, with `$` between them.
    #[serde(default)]
    name: Option<String>,
    /// The values as they are spelled in names, by column.
    #[serde(default)]
    values: Option<BTreeMap<String, String>>,
}

impl CreatePartition {
    fn name(&self, table: &Table) -> Result<String, Problem> {
        match (&self.name, &self.values) {
            (Some(name), None) => Ok(name.clone()),
            (None, Some(values)) => {
                let columns = table.names_of(&table.partition_by);
                if let Some(stray) = values.keys().find(|name| !columns.contains(&name.as_str())) {
                    let columns = columns.join(", ");
                    return Err(invalid(format!(
                        "column \"{stray}\" is none of the partition columns {columns}"
                    )));
                }
                if let Some((column, value)) = values.iter().find(|(_, value)| value.contains(SEPARATOR)) {
                    return Err(invalid(format!(
                        "the value \"{}\" of column \"{column}\" has a \"$\" in it",
                        value.escape_debug()
                    )));
                }
                Ok(table.partition_name(|column| values.get(column).map(String::as_str))?)
            }
            _ => Err(invalid("give either \"name\" or \"values\"".to_owned())),
        }
    }
}

fn invalid(detail: String) -> Problem {
    Problem::new(ErrorKind::Invalid, "invalid_partition", detail)
}

/// Makes a partition.
#[utoipa::path(post, path = "/v1/databases/{database}/tables/{table}/partitions", tag = "partitions",
    params(("database" = String, Path), ("table" = String, Path), ("if_not_exists" = Option<bool>, Query, description = "Answer 200 instead of 409")),
    request_body(content = Object, description = "{name} such as \"20261101$cn\", or {values: {day: \"20261101\", country: \"cn\"}}"),
    responses((status = 201, description = "Made"), (status = 400, description = "No partition of this table can have this name, or it is expired"), (status = 409, description = "Exists already, or there are too many")))]
pub async fn create(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
    body: Result<Json<CreatePartition>, JsonRejection>,
) -> Result<Response, Problem> {
    let if_not_exists = parameters.text("if_not_exists").is_some_and(|v| v != "false");
    parameters.finish()?;
    let wanted = json(body)?;
    let table = partitioned(&gateway, &name)?;
    let name = wanted.name(&table)?;
    let now = gateway.env().now_millis();
    let mut asked =
        gateway.catalog().ensure_partitions(&table, std::slice::from_ref(&name), now, None).await?;
    let Some(asked) = asked.remove(&name) else {
        return Err(Problem::new(
            ErrorKind::Internal,
            "internal",
            "the partition was neither found nor made",
        ));
    };
    let status = match asked.is_new {
        true => StatusCode::CREATED,
        false if if_not_exists => StatusCode::OK,
        false => return Err(CatalogError::PartitionExists { table: table.name.clone(), name }.into()),
    };
    Ok((status, Json(PartitionDescription::of(&table, &asked.partition))).into_response())
}

/// Takes a partition away with its rows.
#[utoipa::path(delete, path = "/v1/databases/{database}/tables/{table}/partitions", tag = "partitions",
    params(("database" = String, Path), ("table" = String, Path), ("partition" = String, Query, description = "Its name")),
    responses((status = 204, description = "Gone"), (status = 404, description = "Does not exist")))]
pub async fn drop_partition(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
) -> Result<StatusCode, Problem> {
    let partition = parameters.text("partition");
    parameters.finish()?;
    let table = partitioned(&gateway, &name)?;
    let Some(partition) = partition else {
        return Err(name_a_partition(&table, &gateway.catalog().partitions(table.id)));
    };
    gateway.catalog().drop_partition(&table, &partition, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The partitioned table of this name.
fn partitioned(gateway: &Gateway, name: &TableName) -> Result<Arc<Table>, Problem> {
    let table = gateway.catalog().table(name)?;
    if !table.is_partitioned() {
        return Err(InvalidPartition::NotPartitioned { table: name.to_string() }.into());
    }
    Ok(table)
}
