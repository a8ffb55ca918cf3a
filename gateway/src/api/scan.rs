//! `GET …/scan`: all rows that a table has now.
//!
//! The high watermarks are taken once, at the beginning; rows stream out partition by partition and bucket by bucket, a
//! piece at a time. When something fails in the middle the answer breaks off, so that no client takes a part for the
//! whole. Of a primary-key table each bucket is read as it was at one point in time, see [`keyed`]; it can be read in pages
//! too, see [`pages`].

use std::sync::Arc;

use async_stream::try_stream;
use axum::body::Body;
use axum::extract::{OriginalUri, State};
use axum::response::Response;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, HeaderValue, header};
use wadi_model::{Offset, Table};
use wadi_store::route::RouteError;
use wadi_store::shard::{Bounds, LogAnswer, LogReadError};

use super::log::{Read, answer_format};
use super::parameters::{Chosen, InTable};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::places::{Place, Scope, states_of};
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};
use crate::rows::{Selection, Writer};

mod keyed;
mod pages;
mod token;

pub(crate) use pages::Scans;

/// Stored bytes that are read at once.
const STEP_BYTES: usize = 8 << 20;

const FORMATS: [AnswerFormat; 4] =
    [AnswerFormat::Json, AnswerFormat::ArrowStream, AnswerFormat::Ndjson, AnswerFormat::Csv];

/// Reads all rows of a table.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/scan", tag = "rows",
    params(InTable, Chosen, ("partition" = Option<String>, Query, description = "Only of this partition"),
        ("limit" = Option<u64>, Query, description = "At most so many rows"),
        ("page_size" = Option<u64>, Query, description = "Of a primary-key table: answer with the first page of at most so many rows; a page may have fewer, or none"),
        ("page_token" = Option<String>, Query, description = "Go on where a page ended: its Wadi-Next-Page-Token; with page_size alone, all else was said with the first page")),
    responses((status = 200, description = "All rows as of the beginning of the call, or a page of them; Wadi-Next-Page-Token tells where the next page begins, Wadi-High-Watermarks from where on the log of each bucket goes on"),
        (status = 410, description = "scan_expired: begin again; the scan rested for 10 minutes, is an hour old, or its shard has moved"),
        (status = 429, description = "too_many_scans: too many are open")))]
pub async fn scan(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    OriginalUri(uri): OriginalUri,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let table = gateway.catalog().table(&name)?;
    let format = answer_format(&headers, &FORMATS)?;
    if let Some(asked) = pages::Asked::of(&mut parameters)? {
        if let Some(address) = asked.elsewhere(&gateway) {
            return gateway.forward().get(&address, &uri, &headers).await;
        }
        return asked.answer(&gateway, table, parameters, format).await;
    }
    let selection = Selection::of_rows(&mut parameters, &table)?;
    let limit = parameters.number("limit", u64::MAX, u64::MAX)?;
    let partition = parameters.text("partition");
    parameters.finish()?;
    let scope = Scope::of(&gateway, &table, partition.as_deref())?;
    if table.has_primary_key() {
        let marks = pages::marks_of(&gateway, &scope).await?;
        let rows = keyed::Rows::of(gateway, table, scope, selection, limit, format)?;
        let mut response = streamed(rows.stream(), format);
        pages::tell_marks(&mut response, &marks);
        return Ok(response);
    }
    let states = states_of(&gateway, &scope).await?.into_iter().map(|(place, state)| (place, state.bounds));
    let ends = states.filter(|(_, bounds)| bounds.log_start < bounds.high_watermark).collect();
    let rows = Rows { gateway, table, selection, ends, limit, format };
    Ok(streamed(rows.stream(), format))
}

fn streamed(
    rows: impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static,
    format: AnswerFormat,
) -> Response {
    let mut response = Response::new(Body::from_stream(rows));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

struct Rows {
    gateway: Gateway,
    table: Arc<Table>,
    selection: Selection,
    /// The buckets that have rows.
    ends: Vec<(Place, Bounds)>,
    limit: u64,
    format: AnswerFormat,
}

/// Why an answer broke off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BrokenOff(String);

impl BrokenOff {
    fn of(problem: Problem) -> BrokenOff {
        tracing::warn!(?problem, "a scan broke off");
        BrokenOff(problem.code().to_owned())
    }
}

impl Rows {
    fn stream(self) -> impl Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static {
        try_stream! {
            let cpu = self.gateway.host().context().cpu.clone();
            let mut writer = Writer::new(self.format, &self.selection.schema);
            yield writer.begin().map_err(BrokenOff::of)?;
            let mut left = self.limit;
            for (place, bounds) in &self.ends {
                let mut offset = bounds.log_start;
                while left > 0 && offset < bounds.high_watermark {
                    let answer = self.step(place, offset, bounds.high_watermark, left).await.map_err(BrokenOff::of)?;
                    let LogAnswer { pieces, share, next_offset, .. } = answer;
                    offset = next_offset;
                    left -= pieces.iter().map(|p| p.rows() as u64).sum::<u64>();
                    for piece in pieces {
                        let bytes;
                        (writer, bytes) = writer.send(&cpu, piece, share.clone()).await.map_err(BrokenOff::of)?;
                        yield bytes;
                    }
                }
            }
            yield writer.end(&[]);
        }
    }

    /// The next pieces of a bucket, at most `left` rows and none from `end` on.
    async fn step(
        &self,
        place: &Place,
        offset: Offset,
        end: Offset,
        left: u64,
    ) -> Result<LogAnswer, Problem> {
        let max_rows = usize::try_from(left).unwrap_or(usize::MAX);
        let (table, selection) = (&self.table, &self.selection);
        let read = Read { table, selection, place, until: Some(end), max_bytes: STEP_BYTES, max_rows };
        let mut tries = 0;
        loop {
            match read.once(&self.gateway, offset).await {
                Ok(answer) => return Ok(answer),
                // It has waited a while already.
                Err(RouteError::Said(LogReadError::Overloaded)) if tries < 5 => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
