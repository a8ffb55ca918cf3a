//! `GET …/log`: one bucket's rows from an offset on.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use tokio::time::Instant;
use wadi_model::{ErrorKind, Offset, Table};
use wadi_store::route::RouteError;
use wadi_store::shard::{LogAnswer, LogRead, LogReadError, Piece};

use super::parameters::{Chosen, InTable};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::places::{Place, Scope, name_a_partition};
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};
use crate::rows::{Selection, Writer};

/// Rows of an answer in text, if the client does not say. Answers in Arrow are as long as their bytes allow.
const MAX_ROWS: u64 = 100_000;

/// Most rows of one answer.
const MOST_ROWS: u64 = 10_000_000;

/// Before a shard that has just moved is looked for again.
pub(super) const AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

const FORMATS: [AnswerFormat; 4] =
    [AnswerFormat::Json, AnswerFormat::ArrowStream, AnswerFormat::Ndjson, AnswerFormat::Csv];

/// How to answer, from the `Accept` header.
pub(super) fn answer_format(headers: &HeaderMap, offered: &[AnswerFormat]) -> Result<AnswerFormat, Problem> {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    AnswerFormat::choose(accept, offered).map_err(Problem::from)
}

/// The place that `partition=` and `bucket=` name; a table of one bucket needs no number.
fn place_of(gateway: &Gateway, parameters: &mut Parameters, table: &Arc<Table>) -> Result<Place, Problem> {
    let named = parameters.text("partition");
    let bucket = bucket_of(parameters, table)?;
    if table.is_partitioned() && named.is_none() {
        return Err(name_a_partition(table, &gateway.catalog().partitions(table.id)));
    }
    let scope = Scope::of(gateway, table, named.as_deref())?;
    Ok(Place::new(table.id, scope.partitions().first().cloned().flatten(), bucket))
}

/// The bucket that `bucket=` names; a table of one bucket needs none.
pub(super) fn bucket_of(parameters: &mut Parameters, table: &Table) -> Result<u32, Problem> {
    let invalid = |detail| Problem::new(ErrorKind::Invalid, "invalid_parameter", detail);
    let buckets = table.buckets;
    match parameters.text("bucket") {
        None if buckets == 1 => Ok(0),
        None => {
            Err(invalid(format!("table \"{}\" has {buckets} buckets; name one with \"bucket\"", table.name)))
        }
        Some(text) => {
            let bucket = text.parse().ok().filter(|b| *b < buckets);
            bucket.ok_or_else(|| {
                invalid(format!("bucket \"{text}\" does not exist; there are 0 to {}", buckets - 1))
            })
        }
    }
}

/// Reads a bucket's log.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/log", tag = "rows",
    params(InTable, Chosen, ("bucket" = Option<u32>, Query), ("partition" = Option<String>, Query, description = "Needed in partitioned tables"),
        ("offset" = Option<u64>, Query, description = "From here on; default 0"), ("max_bytes" = Option<u64>, Query),
        ("max_rows" = Option<u64>, Query, description = "Default 100,000; in Arrow as many as max_bytes allows"),
        ("wait_ms" = Option<u64>, Query, description = "Wait so long for the first row")),
    responses((status = 200, description = "Rows; Wadi-Next-Offset, Wadi-High-Watermark, Wadi-Log-Start tell where they stand"),
        (status = 410, description = "The offset is out of range")))]
pub async fn log(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let table = gateway.catalog().table(&name)?;
    let format = answer_format(&headers, &FORMATS)?;
    let selection = Selection::of_log(&mut parameters, &table)?;
    let place = place_of(&gateway, &mut parameters, &table)?;
    let offset = Offset(parameters.number("offset", 0, u64::MAX)?);
    let most = gateway.limits().read_bytes as u64;
    let max_bytes = parameters.number("max_bytes", most, most)?.max(1) as usize;
    let default_rows = if format == AnswerFormat::ArrowStream { MOST_ROWS } else { MAX_ROWS };
    let max_rows = parameters.number("max_rows", default_rows, MOST_ROWS)?.max(1) as usize;
    let wait = parameters.number("wait_ms", 0, gateway.limits().wait.as_millis() as u64)?;
    parameters.finish()?;

    let read = Read { table: &table, selection: &selection, place: &place, until: None, max_bytes, max_rows };
    let answer =
        read.wait_for(&gateway, offset, Instant::now() + std::time::Duration::from_millis(wait)).await?;
    let (schema, more) = (selection.schema.clone(), ends(&answer));
    let body = if format == AnswerFormat::ArrowStream && answer.pieces.iter().all(Piece::is_stored) {
        // Bytes pass through as they are; handing them to another thread would be all the work there is.
        encode(format, &schema, answer)
    } else {
        let cpu = gateway.host().context().cpu.clone();
        let panicked = || Err(Problem::new(ErrorKind::Internal, "internal", "writing rows panicked"));
        cpu.run(move || encode(format, &schema, answer)).await.unwrap_or_else(panicked)
    }?;
    let length: usize = body.iter().map(Bytes::len).sum();
    let mut response =
        Response::new(Body::from_stream(stream::iter(body.into_iter().map(Ok::<_, Infallible>))));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    let names = ["wadi-next-offset", "wadi-high-watermark", "wadi-log-start"];
    for (name, (_, value)) in names.into_iter().zip(more) {
        headers.insert(name, HeaderValue::from(value));
    }
    Ok(response)
}

/// Where an answer stands.
fn ends(answer: &LogAnswer) -> [(&'static str, u64); 3] {
    [
        ("next_offset", answer.next_offset.0),
        ("high_watermark", answer.bounds.high_watermark.0),
        ("log_start", answer.bounds.log_start.0),
    ]
}

/// The answer's bytes, in pieces that are sent one after the other.
fn encode(
    format: AnswerFormat,
    schema: &arrow::datatypes::SchemaRef,
    answer: LogAnswer,
) -> Result<Vec<Bytes>, Problem> {
    let mut writer = Writer::new(format, schema);
    let mut body = Vec::with_capacity(answer.pieces.len() + 2);
    body.push(writer.begin()?);
    for piece in &answer.pieces {
        body.push(writer.piece(piece)?);
    }
    body.push(writer.end(&ends(&answer)));
    Ok(body.into_iter().map(|bytes| answer.share.hold(bytes)).collect())
}

/// Reads of one bucket.
pub(super) struct Read<'a> {
    pub table: &'a Arc<Table>,
    pub selection: &'a Selection,
    pub place: &'a Place,
    pub until: Option<Offset>,
    pub max_bytes: usize,
    pub max_rows: usize,
}

impl Read<'_> {
    /// Reads once.
    pub(super) async fn once(
        &self,
        gateway: &Gateway,
        offset: Offset,
    ) -> Result<LogAnswer, RouteError<LogReadError>> {
        let request = LogRead {
            table: self.table,
            bucket: self.place.bucket,
            partition: self.place.partition_name(),
            offset,
            columns: self.selection.columns.clone(),
            system: self.selection.system.clone(),
            filter: self.selection.filter.as_ref(),
            until: self.until,
            max_bytes: self.max_bytes,
            max_rows: self.max_rows,
        };
        gateway.route().read(&request, gateway.limits().patience).await
    }

    /// Reads until there is a row, or the deadline has come. Waiting holds no thread.
    async fn wait_for(
        &self,
        gateway: &Gateway,
        offset: Offset,
        deadline: Instant,
    ) -> Result<LogAnswer, Problem> {
        let mut offset = offset;
        loop {
            self.place.check(gateway, self.table)?;
            let mut changes = gateway.route().changes(&self.place.bucket).await;
            changes.mark();
            let answer = self.once(gateway, offset).await.map_err(out_of_range)?;
            let found = answer.pieces.iter().any(|p| p.rows() > 0);
            if found || Instant::now() >= deadline {
                return Ok(answer);
            }
            offset = answer.next_offset;
            if offset < answer.bounds.high_watermark {
                continue;
            }
            // It would keep its share of the read budget.
            drop(answer);
            // In time or not: the next round looks again.
            let _ = tokio::time::timeout_at(deadline, changes.next()).await;
        }
    }
}

fn out_of_range(error: RouteError<LogReadError>) -> Problem {
    let bounds = match &error {
        RouteError::Said(LogReadError::OutOfRange { bounds, .. }) => Some(*bounds),
        _ => None,
    };
    let problem = Problem::from(error);
    match bounds {
        Some(b) => problem.with("log_start", b.log_start).with("high_watermark", b.high_watermark),
        None => problem,
    }
}
