//! `GET …/count`: how many rows a table has now, without reading them.
//!
//! Of a log table the ends of its logs say it; of a primary-key table each bucket keeps a count, which is a fold of its changelog.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use wadi_model::options::CHANGELOG_IMAGE;
use wadi_model::{ErrorKind, Table};
use wadi_store::route::State as BucketState;

use super::parameters::InTable;
use crate::app::Gateway;
use crate::places::{Scope, states_of};
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};

/// How many rows there are.
#[derive(Debug, Serialize)]
pub struct Count {
    rows: u64,
    /// Whether rows whose time is over may be among them.
    upper_bound: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionCount>,
}

#[derive(Debug, Serialize)]
struct PartitionCount {
    partition: String,
    rows: u64,
}

/// Counts the rows of a table.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/count", tag = "rows",
    params(InTable, ("partition" = Option<String>, Query, description = "Only of this partition")),
    responses((status = 200, description = "{rows, upper_bound, partitions?}: how many rows there are; with upper_bound there may be fewer, as the table has a time to live for rows"),
        (status = 409, description = "The table's changelog does not tell new rows from others")))]
pub async fn count(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
) -> Result<Json<Count>, Problem> {
    let partition = parameters.text("partition");
    parameters.finish()?;
    let table = gateway.catalog().table(&name)?;
    let scope = Scope::of(&gateway, &table, partition.as_deref())?;
    let mut partitions: Vec<PartitionCount> = Vec::new();
    let mut rows = 0;
    for (place, state) in states_of(&gateway, &scope).await? {
        let found = of_bucket(&table, &state).ok_or_else(|| not_counted(&table))?;
        rows += found;
        if let Some(partition) = &place.partition {
            match partitions.last_mut().filter(|last| last.partition == partition.name) {
                Some(last) => last.rows += found,
                None => partitions.push(PartitionCount { partition: partition.name.clone(), rows: found }),
            }
        }
    }
    Ok(Json(Count { rows, upper_bound: table.options.row_ttl().is_some(), partitions }))
}

/// The rows of one bucket; `None` if nobody counted them.
pub(super) fn of_bucket(table: &Table, state: &BucketState) -> Option<u64> {
    if table.has_primary_key() {
        return state.count;
    }
    Some(state.bounds.high_watermark.0.saturating_sub(state.bounds.log_start.0))
}

fn not_counted(table: &Table) -> Problem {
    let detail = format!(
        "the rows of \"{}\" are not counted: with {CHANGELOG_IMAGE} = wal and the default merge engine its changelog does not \
         tell new rows from others; scan it, or make a table with the full changelog",
        table.name
    );
    Problem::new(ErrorKind::Conflict, "rows_not_counted", detail)
}
