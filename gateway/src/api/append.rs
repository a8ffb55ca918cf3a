//! `POST …/append`: adds rows to a log table.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use serde::Serialize;
use tokio::time::Instant;
use wadi_model::reject::{Rejects, RowError};
use wadi_model::{ErrorKind, Table};
use wadi_store::context::Share;
use wadi_store::shard::Stamp;

use super::parameters::InTable;
use crate::app::Gateway;
use crate::body::encoding::{Encoding, ReceiveLimits, Room, receive};
use crate::body::{self, BodyError, BodyFormat, BodyLimits, Decoded};
use crate::problem::Problem;
use crate::request::{Parameters, RequestId, TablePath};
use crate::write::{self, Written, WrittenRange};
use rejected::Rejected;

mod rejected;
mod stamp;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// What to do with rows that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OnError {
    /// Refuse the request.
    Fail,
    /// Write the others.
    Skip,
    /// Write the others, and these into the table of rejected rows.
    Dlq,
}

impl OnError {
    fn of(given: Option<&str>) -> Result<OnError, Problem> {
        match given {
            None | Some("fail") => Ok(OnError::Fail),
            Some("skip") => Ok(OnError::Skip),
            Some("dlq") => Ok(OnError::Dlq),
            Some(other) => {
                let detail = format!("parameter \"on_error\" is \"{other}\"; write fail, skip or dlq");
                Err(Problem::new(ErrorKind::Invalid, "invalid_parameter", detail))
            }
        }
    }
}

/// The answer to a write: durable in the object store, and readable.
#[derive(Debug, Serialize)]
struct WriteAnswer {
    request_id: String,
    rows: u64,
    offsets: Vec<WrittenRange>,
    rejected_rows: u64,
    rejected: Vec<RowError>,
}

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
    RequestId(request_id): RequestId,
    mut parameters: Parameters,
    request: Request<axum::body::Body>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let on_error = OnError::of(parameters.text("on_error").as_deref())?;
    parameters.finish()?;
    let table = gateway.catalog().table(&name)?;
    if table.has_primary_key() {
        let detail = format!("table \"{name}\" has a primary key; rows are not appended to it but upserted");
        return Err(Problem::new(ErrorKind::Invalid, "wrong_table_kind", detail));
    }
    let (parts, body) = request.into_parts();
    let format = format_of(&parts.headers)?;
    let mark = stamp::Mark::of(&parts.headers)?;
    let (bytes, _share) = take_body(&gateway, &parts.headers, body).await?;
    let fingerprint = stamp::fingerprint("append", on_error, &bytes);
    let (decoded, bytes) = decode(&gateway, &table, format, bytes).await?;
    let decoding = began.elapsed();

    if on_error == OnError::Fail && !decoded.rejects.is_empty() {
        return Err(rows_rejected(&decoded));
    }
    let request = Decided { table, decoded, body: bytes, format, on_error, request_id: request_id.clone() };
    let (rows, rejects, written) = request.write(&gateway, mark.map(|mark| mark.stamp(fingerprint))).await?;
    Ok(answer(request_id, rows, rejects, written, decoding))
}

/// A decoded request on its way to the shards.
struct Decided {
    table: Arc<Table>,
    decoded: Decoded,
    body: Bytes,
    format: BodyFormat,
    on_error: OnError,
    request_id: String,
}

impl Decided {
    /// Writes it, also if the client leaves: half of a request must not depend on a connection.
    async fn write(
        self,
        gateway: &Gateway,
        stamp: Option<Stamp>,
    ) -> Result<(u64, Rejects, Written), Problem> {
        let gateway = gateway.clone();
        let done = wadi_store::task::spawn(async move { self.write_all(&gateway, stamp).await }).await;
        done.unwrap_or_else(|e| Err(Problem::new(ErrorKind::Internal, "internal", e.to_string())))
    }

    async fn write_all(
        self,
        gateway: &Gateway,
        stamp: Option<Stamp>,
    ) -> Result<(u64, Rejects, Written), Problem> {
        let with_rejects = self.on_error == OnError::Dlq && !self.decoded.rejects.is_empty();
        if with_rejects {
            let (decoded, request_id) = (&self.decoded, self.request_id.as_str());
            let rows = Rejected { decoded, body: &self.body, format: self.format, request_id };
            rows.write(gateway, &self.table, stamp.clone()).await?;
        }
        drop(self.body);
        let (rows, rejects) = (self.decoded.batch.num_rows() as u64, self.decoded.rejects);
        match write::write(gateway, &self.table, self.decoded.batch, stamp).await {
            Ok(written) => Ok((rows, rejects, written)),
            Err(problem) if with_rejects => Err(problem.at_least_partial()),
            Err(problem) => Err(problem),
        }
    }
}

fn format_of(headers: &HeaderMap) -> Result<BodyFormat, Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|v| v.to_str().unwrap_or("unreadable"));
    BodyFormat::of(given).map_err(Problem::from)
}

/// Receives the body, with shares of the memory for bodies that are held until the request ends.
async fn take_body(
    gateway: &Gateway,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<(Bytes, Vec<Share>), Problem> {
    let limits = gateway.limits();
    let given = headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap_or("unreadable"));
    let encoding = Encoding::of(given)?;
    let mut room = Room::within(gateway.bodies());
    let receive_limits = ReceiveLimits { max_sent: limits.body_sent, max_decoded: limits.body_decoded };
    let received = receive(body, encoding, receive_limits, &mut room).await?;
    // The columns that it becomes take about as much again.
    if !room.grow(received.bytes.len()) {
        return Err(BodyError::Overloaded.into());
    }
    Ok((received.bytes, room.into_shares()))
}

async fn decode(
    gateway: &Gateway,
    table: &Table,
    format: BodyFormat,
    bytes: Bytes,
) -> Result<(Decoded, Bytes), Problem> {
    let limits = BodyLimits {
        max_rows: gateway.limits().body_rows,
        max_batch_bytes: gateway.limits().body_decoded.saturating_mul(2),
        ..BodyLimits::default()
    };
    let (schema, body) = (table.schema().clone(), bytes.clone());
    let decoded =
        gateway.host().context().cpu.run(move || body::decode(format, body, &schema, &limits)).await;
    let panicked = || Problem::new(ErrorKind::Internal, "internal", "reading the body panicked");
    Ok((decoded.ok_or_else(panicked)??, bytes))
}

fn rows_rejected(decoded: &Decoded) -> Problem {
    let told: Vec<RowError> = decoded.rejects.told().cloned().collect();
    let first = told.first().map(|e| format!("; the first: {e}")).unwrap_or_default();
    let detail = format!(
        "{} of {} rows do not fit the table, and nothing was written{first}; with ?on_error=skip or ?on_error=dlq the \
         other rows are written",
        decoded.rejects.count(),
        decoded.rows
    );
    Problem::new(ErrorKind::Rejected, "rows_rejected", detail).rows(told, decoded.rejects.count())
}

fn answer(
    request_id: String,
    rows: u64,
    rejects: Rejects,
    written: Written,
    decoding: std::time::Duration,
) -> Response {
    let millis = |d: std::time::Duration| d.as_secs_f64() * 1000.0;
    let timing = format!(
        "decode;dur={:.1}, queue;dur={:.1}, put;dur={:.1}",
        millis(decoding),
        millis(written.queued),
        millis(written.put)
    );
    let rejected_rows = rejects.count();
    let rejected = rejects.told().cloned().collect();
    let answer = WriteAnswer { request_id, rows, offsets: written.offsets, rejected_rows, rejected };
    let mut response = Json(answer).into_response();
    if let Ok(timing) = HeaderValue::from_str(&timing) {
        response.headers_mut().insert(SERVER_TIMING, timing);
    }
    response
}
