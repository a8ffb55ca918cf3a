//! `GET …/scan`: all rows that a table has now.
//!
//! The high watermarks are taken once, at the beginning; rows stream out bucket by bucket, a piece at a time. When
//! something fails in the middle the answer breaks off, so that no client takes a part for the whole.

use std::sync::Arc;

use async_stream::try_stream;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderValue, header};
use wadi_model::{Offset, Table};
use wadi_store::shard::{LogReadError, Piece};

use super::log::{AGAIN, Read, answer_format};
use super::parameters::{Chosen, InTable};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};
use crate::rows::{Selection, Writer};

/// Stored bytes that are read at once.
const STEP_BYTES: usize = 8 << 20;

const FORMATS: [AnswerFormat; 4] =
    [AnswerFormat::Json, AnswerFormat::ArrowStream, AnswerFormat::Ndjson, AnswerFormat::Csv];

/// Reads all rows of a table.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/scan", tag = "rows",
    params(InTable, Chosen, ("limit" = Option<u64>, Query, description = "At most so many rows")),
    responses((status = 200, description = "All rows as of the beginning of the call")))]
pub async fn scan(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let table = gateway.catalog().table(&name)?;
    let format = answer_format(&headers, &FORMATS)?;
    let selection = Selection::of(&mut parameters, &table)?;
    let limit = parameters.number("limit", u64::MAX, u64::MAX)?;
    parameters.finish()?;
    let mut ends = Vec::with_capacity(table.buckets as usize);
    for bucket in 0..table.buckets {
        let id = table.bucket(bucket);
        let shard = gateway.host().shard_of(&id, gateway.limits().patience).await?;
        ends.push(shard.bounds(&id));
    }
    let rows = Rows { gateway, table, selection, ends, limit, format };
    let mut response = Response::new(Body::from_stream(rows.stream()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    Ok(response)
}

struct Rows {
    gateway: Gateway,
    table: Arc<Table>,
    selection: Selection,
    ends: Vec<wadi_store::shard::Bounds>,
    limit: u64,
    format: AnswerFormat,
}

/// Why an answer broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BrokenOff(String);

impl Rows {
    fn stream(self) -> impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static {
        try_stream! {
            let broken = |problem: Problem| {
                tracing::warn!(?problem, "a scan broke off");
                BrokenOff(problem.code().to_owned())
            };
            let mut writer = Writer::new(self.format, &self.selection.schema);
            yield writer.begin().map_err(broken)?;
            let mut left = self.limit;
            for (bucket, bounds) in self.ends.iter().enumerate() {
                let mut offset = bounds.log_start;
                while left > 0 && offset < bounds.high_watermark {
                    let (pieces, next) = self.step(bucket as u32, offset, bounds.high_watermark, left).await.map_err(broken)?;
                    offset = next;
                    left -= pieces.iter().map(|p| p.rows() as u64).sum::<u64>();
                    for piece in &pieces {
                        yield writer.piece(piece).map_err(broken)?;
                    }
                }
            }
            yield writer.end(&[]);
        }
    }

    /// The next pieces of a bucket, at most `left` rows and none from `end` on.
    async fn step(
        &self,
        bucket: u32,
        offset: Offset,
        end: Offset,
        left: u64,
    ) -> Result<(Vec<Piece>, Offset), Problem> {
        let max_rows = usize::try_from(left).unwrap_or(usize::MAX);
        let (table, selection) = (self.table.as_ref(), &self.selection);
        let read = Read { table, selection, bucket, until: Some(end), max_bytes: STEP_BYTES, max_rows };
        let mut tries = 0;
        loop {
            let shard =
                self.gateway.host().shard_of(&table.bucket(bucket), self.gateway.limits().patience).await?;
            match read.once(&shard, offset).await {
                Ok(answer) => return Ok((answer.pieces, answer.next_offset)),
                Err(LogReadError::NotOwned) if tries < 500 => {
                    tries += 1;
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
