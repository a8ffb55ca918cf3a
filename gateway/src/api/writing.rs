//! What the calls that write rows have in common: they receive a body, decode it, write it, and say what became of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde::Serialize;
use tokio::time::Instant;
use tracing::Instrument;
use wadi_model::partition::Grouping;
use wadi_model::reject::{Rejects, RowError};
use wadi_model::{ErrorKind, Schema, Table};
use wadi_store::context::Share;
use wadi_store::shard::{Keyed, Stamp};
use wadi_store::trace::TARGET;

use crate::app::Gateway;
use crate::body::encoding::{Encoding, ReceiveLimits, Room, receive};
use crate::body::{self, BodyError, BodyFormat, BodyLimits, Decoded};
use crate::problem::Problem;
use crate::request::RequestId;
use crate::trace;
use crate::write::{self, Rows, Written, WrittenRange};
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
    pub(super) fn of(given: Option<&str>) -> Result<OnError, Problem> {
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

/// Rows, and where and how they are to be written.
pub(super) struct Sorted {
    /// The rows.
    pub decoded: Decoded,
    /// Of a primary-key table, what they are to do.
    pub keyed: Option<Keyed>,
    /// Of a table with partitions, which of them they go to.
    pub grouping: Option<Grouping>,
}

/// A write whose body has been received.
pub(super) struct Received {
    table: Arc<Table>,
    /// What is asked for: verb and parameters.
    intent: String,
    on_error: OnError,
    request_id: String,
    mark: Option<stamp::Mark>,
    format: BodyFormat,
    body: Bytes,
    began: Instant,
    _shares: Vec<Share>,
}

impl Received {
    /// Receives the body of a write to a table.
    pub(super) async fn take(
        gateway: &Gateway,
        table: Arc<Table>,
        intent: String,
        on_error: OnError,
        RequestId(request_id): RequestId,
        request: Request,
    ) -> Result<Received, Problem> {
        let began = Instant::now();
        let (parts, body) = request.into_parts();
        let format = format_of(&parts.headers)?;
        let mark = stamp::Mark::of(&parts.headers)?;
        let span = tracing::debug_span!(target: TARGET, "receive");
        let (body, _shares) = take_body(gateway, &parts.headers, body).instrument(span).await?;
        Ok(Received { table, intent, on_error, request_id, mark, format, body, began, _shares })
    }

    /// The body, decompressed.
    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }

    /// Reads the body as rows of these columns, and does `then` with them; both are CPU work.
    pub(super) async fn decode<T: Send + 'static>(
        &self,
        gateway: &Gateway,
        schema: Schema,
        then: impl FnOnce(Decoded) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.decode_by(gateway, move |format, body, limits| {
            then(body::decode(format, body, &schema, limits)?)
        })
        .await
    }

    /// Does `work` with the body, its format and the limits of its rows; it is CPU work.
    pub(super) async fn decode_by<T: Send + 'static>(
        &self,
        gateway: &Gateway,
        work: impl FnOnce(BodyFormat, Bytes, &BodyLimits) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let limits = BodyLimits {
            max_rows: gateway.limits().body_rows,
            max_batch_bytes: gateway.limits().body_decoded.saturating_mul(2),
            ..BodyLimits::default()
        };
        let (format, body) = (self.format, self.body.clone());
        let span = tracing::debug_span!(target: TARGET, "decode");
        let decoded = gateway.host().context().cpu.run(move || work(format, body, &limits));
        let decoded = decoded.instrument(span).await;
        let panicked = || Problem::new(ErrorKind::Internal, "internal", "reading the body panicked");
        decoded.unwrap_or_else(|| Err(panicked()))
    }

    /// Reads the body as rows of these columns, sorts out what they are to do, and tells the lines of those that do not fit.
    pub(super) async fn sort_out(
        &self,
        gateway: &Gateway,
        schema: Schema,
        sort_out: impl FnOnce(Decoded) -> Result<Sorted, Problem> + Send + 'static,
    ) -> Result<Sorted, Problem> {
        let (format, body) = (self.format, self.body.clone());
        let work = move |decoded| {
            let mut sorted = sort_out(decoded)?;
            sorted.decoded.tell_lines(format, &body);
            Ok(sorted)
        };
        self.decode(gateway, schema, work).await
    }

    /// Writes the rows, also if the client leaves: half of a request must not depend on a connection.
    pub(super) async fn write(self, gateway: &Gateway, rows: Sorted) -> Result<Response, Problem> {
        if self.on_error == OnError::Fail && !rows.decoded.rejects.is_empty() {
            return Err(rows_rejected(&rows.decoded));
        }
        let gateway = gateway.clone();
        let work = async move { self.write_all(&gateway, rows).await };
        let done = wadi_store::task::spawn(trace::carry(work)).await;
        done.unwrap_or_else(|e| Err(Problem::new(ErrorKind::Internal, "internal", e.to_string())))
    }

    async fn write_all(self, gateway: &Gateway, rows: Sorted) -> Result<Response, Problem> {
        let Sorted { decoded, keyed, grouping } = rows;
        let decoding = self.began.elapsed();
        let fingerprint = || stamp::fingerprint(&self.intent, self.on_error, &self.body);
        let stamp: Option<Stamp> = self.mark.map(|mark| mark.stamp(fingerprint()));
        let with_rejects = self.on_error == OnError::Dlq && !decoded.rejects.is_empty();
        if with_rejects {
            let (body, format, request_id) = (&self.body, self.format, self.request_id.as_str());
            let rows = Rejected { decoded: &decoded, body, format, request_id };
            rows.write(gateway, &self.table, stamp.clone()).await?;
        }
        drop(self.body);
        let Decoded { batch, originals, rejects, .. } = decoded;
        let count = batch.num_rows() as u64;
        let rows = Rows { batch, originals, keyed };
        match write::write(gateway, &self.table, rows, grouping, stamp).await {
            Ok(written) => Ok(answer(self.request_id, count, rejects, written, decoding)),
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
