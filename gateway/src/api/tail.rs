//! `GET …/tail`: an endless stream over all buckets of a table.
//!
//! Each round reads what every bucket has from its cursor on, then waits until one of their shards moves or the catalog
//! changes: partitions may have come or gone ([`follow`]). A reader that is slower than the writers simply reads from
//! older places; nothing is buffered for it.
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
use wadi_meta::Revision;
use wadi_model::Table;
use wadi_store::route::{Changes, RouteError};
use wadi_store::shard::{LogAnswer, LogReadError};

use super::log::{AGAIN, Read, answer_format};
use super::parameters::{Chosen, InTable};
use crate::app::Gateway;
use crate::body::AnswerFormat;
use crate::problem::Problem;
use crate::request::{Parameters, TablePath};
use crate::rows::{Selection, Writer};
use cursor::Cursor;
use follow::Follow;

mod cursor;
mod follow;

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
        ("partition" = Option<String>, Query, description = "Only this partition; needed over 512 buckets"),
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
    let wanted = Wanted { columns: parameters.text("columns"), filter: parameters.text("filter") };
    let selection = wanted.selection(&table)?;
    let resumed = headers.get("last-event-id").and_then(|v| v.to_str().ok()).map(str::to_owned);
    // Clients that come back send the URL that they began with, too.
    let given = parameters.text("from");
    let from = resumed.or(given).unwrap_or_else(|| "latest".to_owned());
    let partition = parameters.text("partition");
    let left = parameters.number("limit", u64::MAX, u64::MAX)?;
    parameters.finish()?;
    let follow = Follow::start(&gateway, &table, partition.as_deref(), &from).await?;
    let rows = Rows { gateway, table, wanted, selection, follow, left, format };
    let mut response = Response::new(Body::from_stream(rows.stream()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect answers would make a stream of none.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
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
        Selection::of_log(&mut Parameters::from_iter(given), table)
    }
}

struct Rows {
    gateway: Gateway,
    table: Arc<Table>,
    wanted: Wanted,
    selection: Selection,
    follow: Follow,
    /// Rows until the stream ends.
    left: u64,
    format: AnswerFormat,
}

/// Why a stream ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the table or partition was dropped or changed so that this stream cannot go on")]
    Changed,
    #[error("{0:?}")]
    Failed(Problem),
}

impl Rows {
    fn stream(mut self) -> impl Stream<Item = Result<Bytes, End>> + Send + 'static {
        stream! {
            let cpu = self.gateway.host().context().cpu.clone();
            let mut writer = Writer::new(self.format, &self.selection.schema);
            match writer.begin() {
                Ok(head) => yield Ok(head),
                Err(problem) => return yield Err(End::Failed(problem)),
            }
            let events = self.format == AnswerFormat::EventStream;
            let mut told = self.follow.cursor();
            if events {
                yield Ok(cursor_event(&told));
            }
            let mut pulse = Instant::now();
            let mut catalog = self.gateway.catalog().changes();
            while self.left > 0 {
                catalog.borrow_and_update();
                match self.refresh().await {
                    Ok(true) => writer = Writer::new(self.format, &self.selection.schema),
                    Ok(false) => {}
                    Err(end) => return yield Err(end),
                }
                let dropped = self.follow.take_dropped();
                if !dropped.is_empty() && events {
                    for dropped in &dropped {
                        let dropped = serde_json::to_string(dropped).unwrap_or_default();
                        yield Ok(format!("event: partition_dropped\ndata: {dropped}\n\n").into());
                    }
                    told = self.follow.cursor();
                    yield Ok(cursor_event(&told));
                }
                if self.follow.is_over() {
                    // A stream that breaks off may lose its last event; who reads events was told, and needs no more.
                    if !events {
                        yield Err(End::Changed);
                    }
                    return;
                }
                let mut waiting = Vec::with_capacity(self.follow.bucket_count());
                let mut behind = false;
                for index in 0..self.follow.bucket_count() {
                    match self.round(index).await {
                        Ok(round) => {
                            if round.changed {
                                writer = Writer::new(self.format, &self.selection.schema);
                            }
                            behind |= round.behind;
                            waiting.extend(round.changes);
                            let Some(LogAnswer { pieces, share, .. }) = round.answer else { continue };
                            let found = !pieces.is_empty();
                            for piece in pieces {
                                self.left -= piece.rows() as u64;
                                match writer.send(&cpu, piece, share.clone()).await {
                                    Ok((next, bytes)) => {
                                        writer = next;
                                        yield Ok(bytes);
                                    }
                                    Err(problem) => return yield Err(End::Failed(problem)),
                                }
                            }
                            if found && events {
                                told = self.follow.cursor();
                                yield Ok(cursor_event(&told));
                            }
                            if self.left == 0 {
                                break;
                            }
                        }
                        Err(end) => return yield Err(end),
                    }
                }
                if !behind && self.left > 0 {
                    wait(waiting, &mut catalog).await;
                }
                if pulse.elapsed() < PULSE {
                    continue;
                }
                pulse = Instant::now();
                if events && told != self.follow.cursor() {
                    told = self.follow.cursor();
                    yield Ok(cursor_event(&told));
                } else if events {
                    yield Ok(Bytes::from_static(b": alive\n\n"));
                }
            }
            yield Ok(writer.end(&[]));
        }
    }

    /// Reads what one bucket has.
    async fn round(&mut self, index: usize) -> Result<Round, End> {
        // Partitions may have gone during this very round.
        let Some((place, offset)) = self.follow.at(index) else { return Ok(Round::default()) };
        let mut changes = self.gateway.route().changes(&place.bucket).await;
        changes.mark();
        let read = Read {
            table: &self.table,
            selection: &self.selection,
            place: &place,
            until: None,
            max_bytes: STEP_BYTES,
            max_rows: usize::try_from(self.left).unwrap_or(usize::MAX),
        };
        match read.once(&self.gateway, offset).await {
            Ok(answer) => {
                self.follow.advance(index, answer.next_offset);
                let behind = answer.next_offset < answer.bounds.high_watermark;
                Ok(Round { answer: Some(answer), behind, changed: false, changes: Some(changes) })
            }
            // The shard has moved, rows of a later schema version have come, or memory is short: look again.
            Err(RouteError::Said(
                LogReadError::NotOwned | LogReadError::Unavailable(_) | LogReadError::Overloaded,
            )) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                let changed = self.refresh_columns()?;
                Ok(Round { behind: true, changed, ..Round::default() })
            }
            Err(error) => Err(End::Failed(error.into())),
        }
    }

    /// Looks at the table and its partitions again. True if the columns changed and the stream can still go on.
    async fn refresh(&mut self) -> Result<bool, End> {
        let changed = self.refresh_columns()?;
        self.follow.refresh(&self.gateway).await.map_err(End::Failed)?;
        Ok(changed)
    }

    /// Looks at the table again. True if the columns changed and the stream can still go on.
    fn refresh_columns(&mut self) -> Result<bool, End> {
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
}

fn cursor_event(cursor: &Cursor) -> Bytes {
    format!("event: cursor\nid: {}\ndata:\n\n", cursor.write()).into()
}

#[derive(Default)]
struct Round {
    answer: Option<LogAnswer>,
    /// Whether the bucket has more.
    behind: bool,
    /// Whether the next rows have other columns than those before.
    changed: bool,
    changes: Option<Changes>,
}

/// Waits until one of the shards moves, the catalog changes, or a while.
async fn wait(mut changes: Vec<Changes>, catalog: &mut watch::Receiver<Revision>) {
    let nothing = changes.is_empty();
    let shards = changes.iter_mut().map(|c| c.next().boxed());
    let any = select_all(shards.chain([catalog.changed().map(drop).boxed()]));
    // Either way the buckets are looked at again.
    let _ = tokio::time::timeout(PULSE, any).await;
    if nothing {
        // A catalog that changes all the time must not keep an empty table busy.
        tokio::time::sleep(AGAIN).await;
    }
}
