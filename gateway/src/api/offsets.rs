//! `GET …/offsets`: where the logs of all buckets begin, end, or were at a time.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use wadi_model::{ErrorKind, Offset, Table};

use super::parameters::InTable;
use crate::app::Gateway;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};

/// A point in the logs of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// The first offset that is kept.
    Earliest,
    /// The high watermark.
    Latest,
    /// The first offset flushed at this time or later, in milliseconds since 1970.
    Time(i64),
}

impl At {
    /// Reads `earliest`, `latest` or a time.
    pub(super) fn of(text: &str) -> Result<At, Problem> {
        match text {
            "earliest" => Ok(At::Earliest),
            "latest" => Ok(At::Latest),
            time => match chrono::DateTime::parse_from_rfc3339(time) {
                Ok(time) => Ok(At::Time(time.timestamp_millis())),
                Err(_) => {
                    let detail = format!(
                        "\"{time}\" is no point in the log; write earliest, latest or a time like 2013-01-01T10:00:00Z"
                    );
                    Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail))
                }
            },
        }
    }

    /// The offset of this point in one bucket.
    pub(super) async fn offset(
        self,
        gateway: &Gateway,
        table: &Table,
        bucket: u32,
    ) -> Result<Offset, Problem> {
        let id = table.bucket(bucket);
        let shard = gateway.host().shard_of(&id, gateway.limits().patience).await?;
        Ok(match self {
            At::Earliest => shard.bounds(&id).log_start,
            At::Latest => shard.bounds(&id).high_watermark,
            At::Time(time) => shard.offset_at(&id, time).await?,
        })
    }
}

/// Offsets of all buckets.
#[derive(Debug, Serialize)]
pub struct Offsets {
    offsets: Vec<BucketOffset>,
}

#[derive(Debug, Serialize)]
struct BucketOffset {
    partition: String,
    bucket: u32,
    offset: Offset,
}

/// Tells offsets of all buckets.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/offsets", tag = "rows",
    params(InTable,
        ("at" = Option<String>, Query, description = "earliest, latest (default) or a time in RFC 3339")),
    responses((status = 200, description = "One offset for each bucket")))]
pub async fn offsets(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
) -> Result<Json<Offsets>, Problem> {
    let at = At::of(parameters.text("at").as_deref().unwrap_or("latest"))?;
    parameters.finish()?;
    let table = gateway.catalog().table(&name)?;
    let mut offsets = Vec::with_capacity(table.buckets as usize);
    for bucket in 0..table.buckets {
        let offset = at.offset(&gateway, &table, bucket).await?;
        offsets.push(BucketOffset { partition: String::new(), bucket, offset });
    }
    Ok(Json(Offsets { offsets }))
}
