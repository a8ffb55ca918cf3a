//! `GET …/tail`: an endless stream over all buckets of a table.
//!
//! Each round reads what every bucket has from its cursor on, then waits until one of their shards moves. A reader that
//! is slower than the writers simply reads from older places; nothing is buffered for it.
//!
//! Server-sent events carry cursors: one before the first row, one behind the rows of each read, one when rows that do not
//! match were passed over. What came since the last cursor comes again after it, in whatever order; a client that wants
//! no row twice shows rows when their cursor has come. Between rows there is a sign of life.

use std::sync::Arc;
use std::time::Duration;

use async_stream::stream;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures::future::select_all;
use futures::{FutureExt, Stream};
use http::{HeaderMap, HeaderValue, header};
use tokio::sync::watch;
use tokio::time::Instant;
use wadi_model::{ErrorKind, LogSeq, Table};
use wadi_store::shard::{LogReadError, Piece};

use super::log::{AGAIN, Read, answer_format};
use super::offsets::At;
use super::parameters::{Chosen, InTable};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::body::write::JsonRows;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};
use crate::rows::{Selection, Writer};
use cursor::Cursor;

mod cursor;

/// Buckets that one stream may follow.
const MAX_BUCKETS: u32 = 512;

/// Stored bytes that are read from a bucket in one round.
const STEP_BYTES: usize = 1 << 20;

/// How often a sign of life is sent, and the table looked at again.
const PULSE: Duration = Duration::from_secs(10);

const FORMATS: [AnswerFormat; 3] =
    [AnswerFormat::Ndjson, AnswerFormat::EventStream, AnswerFormat::ArrowStream];

/// Streams rows as they become durable.
#[utoipa::path(get, path = "/v1/databases/{database}/tables/{table}/tail", tag = "rows",
    params(InTable, Chosen,
        ("from" = Option<String>, Query, description = "earliest, latest (default), a time in RFC 3339, or a cursor"),
        ("limit" = Option<u64>, Query, description = "End after so many rows")),
    responses((status = 200, description = "NDJSON, server-sent events whose ids are cursors, or an Arrow stream")))]
pub async fn tail(
    State(gateway): State<Gateway>,
    TablePath(name): TablePath,
    mut parameters: Parameters,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let table = gateway.catalog().table(&name)?;
    let format = answer_format(&headers, &FORMATS)?;
    if table.buckets > MAX_BUCKETS {
        let detail = format!(
            "one stream follows at most {MAX_BUCKETS} buckets; read the buckets of this table by log"
        );
        return Err(Problem::new(ErrorKind::Invalid, "too_many_buckets", detail));
    }
    let wanted = Wanted { columns: parameters.text("columns"), filter: parameters.text("filter") };
    let selection = wanted.selection(&table)?;
    let resumed = headers.get("last-event-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
    // Clients that come back send the URL that they began with, too.
    let given = parameters.text("from");
    let from = resumed.or(given).unwrap_or_else(|| "latest".to_owned());
    let left = parameters.number("limit", u64::MAX, u64::MAX)?;
    parameters.finish()?;
    let cursor = start(&gateway, &table, &from).await?;
    let rows = Rows { gateway, table, wanted, selection, cursor, left, format };
    let mut response = Response::new(Body::from_stream(rows.stream()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect answers would make a stream of none.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

async fn start(gateway: &Gateway, table: &Table, from: &str) -> Result<Cursor, Problem> {
    if let Some(cursor) = Cursor::read(from) {
        return cursor.checked(table);
    }
    let at = At::of(from)?;
    let mut offsets = Vec::with_capacity(table.buckets as usize);
    for bucket in 0..table.buckets {
        offsets.push(at.offset(gateway, table, bucket).await?);
    }
    Ok(Cursor { table: table.id, offsets })
}

/// The columns and rows asked for, as they were written, to be read again under a later schema version.
struct Wanted {
    columns: Option<String>,
    filter: Option<String>,
}

impl Wanted {
    fn selection(&self, table: &Table) -> Result<Selection, Problem> {
        let pairs = [("columns", &self.columns), ("filter", &self.filter)];
        let given = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        Selection::of(&mut Parameters::from_iter(given), table)
    }
}

struct Rows {
    gateway: Gateway,
    table: Arc<Table>,
    wanted: Wanted,
    selection: Selection,
    cursor: Cursor,
    /// Rows until the stream ends.
    left: u64,
    format: AnswerFormat,
}

/// Why a stream ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the table was dropped or changed so that this stream cannot go on")]
    Changed,
    #[error("{0:?}")]
    Failed(Problem),
}

impl Rows {
    fn stream(mut self) -> impl Stream<Item = Result<Bytes, End>> + Send + 'static {
        stream! {
            let mut writer = Writer::new(self.format, &self.selection.schema);
            match writer.begin() {
                Ok(head) => yield Ok(head),
                Err(problem) => return yield Err(End::Failed(problem)),
            }
            let events = self.format == AnswerFormat::EventStream;
            let mut told = self.cursor.clone();
            if events {
                yield Ok(cursor_event(&told));
            }
            let mut pulse = Instant::now();
            while self.left > 0 {
                let mut waiting = Vec::with_capacity(self.cursor.offsets.len());
                let mut behind = false;
                for bucket in 0..self.cursor.offsets.len() {
                    match self.round(bucket).await {
                        Ok(round) => {
                            if round.changed {
                                writer = Writer::new(self.format, &self.selection.schema);
                            }
                            behind |= round.behind;
                            waiting.extend(round.changes);
                            for piece in &round.pieces {
                                self.left -= piece.rows() as u64;
                                yield self.write(&mut writer, piece).map_err(End::Failed);
                            }
                            if !round.pieces.is_empty() && events {
                                told = self.cursor.clone();
                                yield Ok(cursor_event(&told));
                            }
                            if self.left == 0 {
                                break;
                            }
                        }
                        Err(problem) => return yield Err(End::Failed(problem)),
                    }
                }
                if !behind && self.left > 0 {
                    wait(waiting).await;
                }
                if pulse.elapsed() < PULSE {
                    continue;
                }
                pulse = Instant::now();
                if events && told != self.cursor {
                    told = self.cursor.clone();
                    yield Ok(cursor_event(&told));
                } else if events {
                    yield Ok(Bytes::from_static(b": alive\n\n"));
                }
                match self.refresh() {
                    Ok(true) => writer = Writer::new(self.format, &self.selection.schema),
                    Ok(false) => {}
                    Err(end) => return yield Err(end),
                }
            }
            yield Ok(writer.end(&[]));
        }
    }

    /// Reads what one bucket has.
    async fn round(&mut self, bucket: usize) -> Result<Round, Problem> {
        let id = self.table.bucket(bucket as u32);
        let shard = self.gateway.host().shard_of(&id, self.gateway.limits().patience).await?;
        let mut changes = shard.changes();
        changes.borrow_and_update();
        let read = Read {
            table: &self.table,
            selection: &self.selection,
            bucket: bucket as u32,
            until: None,
            max_bytes: STEP_BYTES,
            max_rows: usize::try_from(self.left).unwrap_or(usize::MAX),
        };
        match read.once(&shard, self.cursor.offsets[bucket]).await {
            Ok(answer) => {
                self.cursor.offsets[bucket] = answer.next_offset;
                let behind = answer.next_offset < answer.bounds.high_watermark;
                Ok(Round { pieces: answer.pieces, behind, changed: false, changes: Some(changes) })
            }
            // The shard has moved, or rows of a later schema version have come: look again.
            Err(LogReadError::NotOwned | LogReadError::Unavailable(_)) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let changed = self.refresh().map_err(|end| match end {
                    End::Failed(problem) => problem,
                    End::Changed => Problem::new(ErrorKind::Gone, "table_changed", end.to_string()),
                })?;
                Ok(Round { pieces: Vec::new(), behind: true, changed, changes: None })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Looks at the table again. True if the columns changed and the stream can still go on.
    fn refresh(&mut self) -> Result<bool, End> {
        let now = self.gateway.catalog().table(&self.table.name).map_err(|_| End::Changed)?;
        if now.id != self.table.id {
            return Err(End::Changed);
        }
        if now.schema().id() == self.table.schema().id() {
            return Ok(false);
        }
        let selection = self.wanted.selection(&now).map_err(|_| End::Changed)?;
        let same = selection.schema == self.selection.schema;
        if !same && self.format == AnswerFormat::ArrowStream {
            return Err(End::Changed);
        }
        (self.table, self.selection) = (now, selection);
        Ok(!same)
    }

    fn write(&self, writer: &mut Writer, piece: &Piece) -> Result<Bytes, Problem> {
        if self.format != AnswerFormat::EventStream {
            return writer.piece(piece);
        }
        let rows = JsonRows::new(&writer.batch(piece)?)?;
        let mut out = Vec::new();
        for row in 0..rows.len() {
            out.extend_from_slice(b"data: ");
            rows.write_row(row, &mut out);
            out.extend_from_slice(b"\n\n");
        }
        Ok(out.into())
    }
}

fn cursor_event(cursor: &Cursor) -> Bytes {
    format!("event: cursor\nid: {}\ndata:\n\n", cursor.write()).into()
}

struct Round {
    pieces: Vec<Piece>,
    /// Whether the bucket has more.
    behind: bool,
    /// Whether the next rows have other columns than those before.
    changed: bool,
    changes: Option<watch::Receiver<LogSeq>>,
}

/// Waits until one of the shards moves, or a while.
async fn wait(mut changes: Vec<watch::Receiver<LogSeq>>) {
    if changes.is_empty() {
        return tokio::time::sleep(AGAIN).await;
    }
    let any = select_all(changes.iter_mut().map(|c| c.changed().boxed()));
    // Either way the buckets are looked at again.
    let _ = tokio::time::timeout(PULSE, any).await;
}
