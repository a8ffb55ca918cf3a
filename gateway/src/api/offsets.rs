//! `GET …/offsets`: where the logs of all buckets begin, end, or were at a time.

use axum::Json;
use axum::extract::State;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use wadi_model::{Bucket, ErrorKind, Offset};

use super::parameters::InTable;
use crate::app::Gateway;
use crate::places::Scope;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};

/// Buckets in which a time is looked for at once.
const PARALLEL: usize = 16;

/// Most buckets that one answer tells.
const MAX_BUCKETS: usize = 65_536;

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

    /// The offset of this point in each of these buckets.
    pub(super) async fn offsets(self, gateway: &Gateway, buckets: &[Bucket]) -> Result<Vec<Offset>, Problem> {
        let (route, patience) = (gateway.route(), gateway.limits().patience);
        if let At::Time(time) = self {
            let mut asked = Vec::with_capacity(buckets.len());
            for bucket in buckets {
                asked.push(route.offset_at(*bucket, time, patience));
            }
            return Ok(stream::iter(asked).buffered(PARALLEL).try_collect().await?);
        }
        let states = route.states(buckets, patience).await?;
        Ok(states
            .into_iter()
            .map(|state| match self {
                At::Earliest => state.bounds.log_start,
                _ => state.bounds.high_watermark,
            })
            .collect())
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
    params(InTable, ("partition" = Option<String>, Query, description = "Only of this partition"),
        ("at" = Option<String>, Query, description = "earliest, latest (default) or a time in RFC 3339")),
    responses((status = 200, description = "One offset for each bucket")))]
pub async fn offsets(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
) -> Result<Json<Offsets>, Problem> {
    let at = At::of(parameters.text("at").as_deref().unwrap_or("latest"))?;
    let partition = parameters.text("partition");
    parameters.finish()?;
    let table = gateway.catalog().table(&name)?;
    let scope = Scope::of(&gateway, &table, partition.as_deref())?;
    if scope.bucket_count() > MAX_BUCKETS {
        let detail =
            format!("one answer tells at most {MAX_BUCKETS} buckets; name a partition with \"partition\"");
        return Err(Problem::new(ErrorKind::Invalid, "too_many_buckets", detail));
    }
    let mut offsets = Vec::with_capacity(scope.bucket_count());
    let places: Vec<_> = scope.places().collect();
    let buckets: Vec<Bucket> = places.iter().map(|place| place.bucket).collect();
    for (place, offset) in places.iter().zip(at.offsets(&gateway, &buckets).await?) {
        offsets.push(BucketOffset {
            partition: place.partition_name().to_owned(),
            bucket: place.bucket.bucket,
            offset,
        });
    }
    Ok(Json(Offsets { offsets }))
}
