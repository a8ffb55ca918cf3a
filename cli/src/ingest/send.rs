//! Sends the pieces of one source, several at a time, and notes what is acked.
//!
//! After a failure no more pieces are begun, but those under way are waited for: what becomes of them must be in the
//! journal, so that a later run knows what is written.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{StreamExt, unfold};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use wadi_client::{ArrowCompression, Client, ClientError, OnError, WriteAnswer, WriteKey, WriteOptions};
use wadi_model::TableName;
use wadi_model::reject::RowError;

use super::journal::{Acked, Journal};
use super::piece::{Piece, Pieces};
use super::progress::Progress;
use crate::failure::{Failure, shown};
use crate::latency::Latencies;
use crate::task::blocking;

#[cfg(test)]
mod tests;

/// Rejected rows that are kept to be shown.
const KEPT_REJECTS: usize = 10;

/// Most pieces that are under way. A bucket remembers 64 requests; this stays well below.
pub(crate) const MAX_CONCURRENCY: usize = 32;

/// What is done with the rows of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Added to a log table.
    Append,
    /// Inserted into a primary-key table or updated: these columns of them, or all if none is named.
    Upsert(Vec<String>),
    /// Deleted from it: these columns, or the rows.
    Delete(Vec<String>),
}

impl std::fmt::Display for Intent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (verb, columns) = match self {
            Intent::Append => ("append", &[][..]),
            Intent::Upsert(columns) => ("upsert", &columns[..]),
            Intent::Delete(columns) => ("delete", &columns[..]),
        };
        f.write_str(verb)?;
        if columns.is_empty() { Ok(()) } else { write!(f, " {}", columns.join(",")) }
    }
}

/// How pieces are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) client: Client,
    pub(crate) table: TableName,
    pub(crate) intent: Intent,
    pub(crate) producer: String,
    pub(crate) on_error: OnError,
    pub(crate) compression: ArrowCompression,
    /// 1 to [`MAX_CONCURRENCY`].
    pub(crate) concurrency: usize,
    /// Becomes true when no more pieces shall be begun.
    pub(crate) stop: watch::Receiver<bool>,
}

/// What became of a source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Rows written by this run and by those that it continues.
    pub(crate) rows: u64,
    /// Rows among them that earlier runs have written.
    pub(crate) rows_before: u64,
    pub(crate) rejected: u64,
    /// The first rejected rows of this run, by their place in the file.
    pub(crate) rejects: Vec<RowError>,
    /// Bytes of this run before compression.
    pub(crate) raw_bytes: u64,
    /// Bytes of this run on the wire.
    pub(crate) wire_bytes: u64,
    pub(crate) latencies: Latencies,
    /// Not all was sent, because the user wanted it to stop.
    pub(crate) stopped: bool,
}

/// What was done with a piece.
enum Step {
    /// An earlier run has sent it.
    Known(Piece),
    Sent(Sent),
}

/// A piece that is durable.
struct Sent {
    number: u64,
    units: u64,
    raw_bytes: u64,
    wire_bytes: u64,
    latency: Duration,
    answer: WriteAnswer,
    hash: Option<u64>,
}

/// A piece that is not durable, or not certainly.
struct Unsent {
    failure: Failure,
    /// The piece, if certainly nothing of it was written.
    refused: Option<u64>,
}

impl From<Failure> for Unsent {
    fn from(failure: Failure) -> Unsent {
        Unsent { failure, refused: None }
    }
}

impl Sender {
    /// Sends all pieces that are not acked yet. An error ends the run; what is acked by then is in the journal.
    pub(crate) async fn send(
        &self,
        pieces: Pieces,
        acked: BTreeMap<u64, Acked>,
        journal: Option<Journal>,
        progress: &mut Progress,
    ) -> Result<Outcome, Failure> {
        let journal = RefCell::new(journal);
        let mut outcome = Outcome::default();
        for before in acked.values() {
            outcome.rows += before.rows;
            outcome.rejected += before.rejected;
        }
        outcome.rows_before = outcome.rows;
        // One piece waits while the reader makes the next; the rest of the memory is in the requests under way.
        let (to_send, cut) = mpsc::channel::<Result<Piece, Failure>>(1);
        let reader = blocking(move || {
            for piece in pieces {
                // The other end is gone when the run has failed or stopped.
                if to_send.blocking_send(piece).is_err() {
                    break;
                }
            }
            Ok(())
        });
        {
            let done = self.send_all(cut, &acked, &journal, progress, &mut outcome);
            tokio::pin!(reader, done);
            tokio::select! {
                // A reader that still waits for standard input is not waited for: it ends with the process.
                done = &mut done => done?,
                read = &mut reader => {
                    read?;
                    done.await?;
                }
            }
        }
        if !outcome.stopped {
            note(&journal, Journal::done)?;
        }
        Ok(outcome)
    }

    async fn send_all(
        &self,
        cut: mpsc::Receiver<Result<Piece, Failure>>,
        acked: &BTreeMap<u64, Acked>,
        journal: &RefCell<Option<Journal>>,
        progress: &mut Progress,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let mut stop = self.stop.clone();
        let stopped = async move {
            // An error means that nobody can stop the run any more.
            if stop.wait_for(|stop| *stop).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let failing = Cell::new(false);
        let fresh = unfold(cut, |mut cut| async {
            let piece = cut.recv().await?;
            (!failing.get()).then_some((piece, cut))
        });
        // `buffered` keeps the order, and so is the window that the module's text promises.
        let step = |piece| self.step(piece, acked, journal);
        let steps = fresh.take_until(stopped).map(step).buffered(self.concurrency);
        let mut steps = std::pin::pin!(steps);
        let mut first: Option<Failure> = None;
        while let Some(step) = steps.next().await {
            match step {
                Ok(Step::Known(piece)) => progress.skip(&piece),
                Ok(Step::Sent(sent)) => {
                    let (rows, rejected) = (sent.answer.rows, sent.answer.rejected_rows);
                    let acked = Acked { rows, rejected, hash: sent.hash };
                    note(journal, |journal| journal.acked(sent.number, acked))?;
                    progress.acked(sent.units, acked.rows, sent.raw_bytes);
                    outcome.add(sent);
                }
                Err(Unsent { failure, refused }) => {
                    failing.set(true);
                    first.get_or_insert(failure);
                    if let Some(piece) = refused {
                        note(journal, |journal| journal.refused(piece))?;
                    }
                }
            }
        }
        outcome.stopped = *self.stop.borrow();
        first.map_or(Ok(()), Err)
    }

    async fn step(
        &self,
        piece: Result<Piece, Failure>,
        acked: &BTreeMap<u64, Acked>,
        journal: &RefCell<Option<Journal>>,
    ) -> Result<Step, Unsent> {
        let piece = piece?;
        match acked.get(&piece.number) {
            Some(acked) if acked.hash == piece.hash() => return Ok(Step::Known(piece)),
            Some(_) => return Err(rewritten(&piece).into()),
            None => {}
        }
        note(journal, |journal| journal.sent(piece.number))?;
        self.send_one(piece).await.map(Step::Sent)
    }

    async fn send_one(&self, piece: Piece) -> Result<Sent, Unsent> {
        let hash = piece.hash();
        let Piece { number, place, rows, raw_bytes, units, content } = piece;
        let compression = self.compression;
        let body = blocking(move || content.encode(compression)).await?;
        let wire_bytes = body.len() as u64;
        let key = WriteKey::Producer { id: self.producer.clone(), sequence: number };
        let options = WriteOptions { key, on_error: self.on_error };
        let begun = Instant::now();
        let (client, table) = (&self.client, &self.table);
        let answer = match &self.intent {
            Intent::Append => client.append(table, body, &options).await,
            Intent::Upsert(columns) => client.upsert(table, columns, body, &options).await,
            Intent::Delete(columns) => client.delete(table, columns, body, &options).await,
        };
        let latency = begun.elapsed();
        let mut answer = match answer {
            Ok(answer) => answer,
            // By the window, only what was acked before can be too old: an earlier run whose journal is lost.
            Err(error) if error.code() == Some("sequence_too_old") => {
                WriteAnswer { rows, ..WriteAnswer::default() }
            }
            Err(error) => {
                let refused = is_refusal(&error).then_some(number);
                return Err(Unsent { failure: in_file(error, &place), refused });
            }
        };
        answer.rejected = answer.rejected.iter().map(|e| place.in_file(e)).collect();
        Ok(Sent { number, units, raw_bytes, wire_bytes, latency, answer, hash })
    }
}

fn note(
    journal: &RefCell<Option<Journal>>,
    what: impl FnOnce(&mut Journal) -> Result<(), Failure>,
) -> Result<(), Failure> {
    journal.borrow_mut().as_mut().map_or(Ok(()), what)
}

/// Whether the server has judged the request itself, and written nothing. An error of several attempts says only what
/// became of the last.
fn is_refusal(error: &ClientError) -> bool {
    let judged = |status| matches!(status, 400 | 404 | 413 | 415 | 422);
    match error {
        ClientError::Problem(p) => {
            judged(p.status) && p.code != "key_reused" && p.side_effects.as_deref() == Some("none")
        }
        _ => false,
    }
}

/// The file has changed in what was sent already.
fn rewritten(piece: &Piece) -> Failure {
    let from = piece.place.lines.map_or_else(String::new, |lines| format!(", from line {} on,", lines + 1));
    Failure::new(format!(
        "rows that an earlier run has sent{from} are other rows now, so this run cannot continue it"
    ))
    .hint("--again sends all rows anew")
}

/// An error with its rows' places in the file instead of in the piece, and the flags of this command instead of the API's.
fn in_file(error: ClientError, place: &super::piece::Place) -> Failure {
    let problem = error.problem().cloned().unwrap_or_default();
    let rows: Vec<RowError> = problem.errors.iter().map(|e| place.in_file(e)).collect();
    let failure = Failure::from(error);
    match problem.code.as_str() {
        "rows_rejected" => {
            let count = problem.errors_total.unwrap_or(rows.len() as u64);
            let flags = "--on-error skip writes the other rows; --on-error dlq also keeps these in <table>__rejected";
            failure
                .say(format!("{count} rows of a request do not fit the table, and nothing of the request was written"))
                .hint(shown(&rows))
                .also(flags)
                .rows(rows)
        }
        "key_reused" => failure.hint(
            "an earlier run has sent these rows with another --on-error or --compression; do as it did, or send all rows \
             anew with --again",
        ),
        _ if rows.is_empty() => failure,
        _ => failure.hint(shown(&rows)).rows(rows),
    }
}

impl Outcome {
    fn add(&mut self, sent: Sent) {
        self.rows += sent.answer.rows;
        self.rejected += sent.answer.rejected_rows;
        let room = KEPT_REJECTS.saturating_sub(self.rejects.len());
        self.rejects.extend(sent.answer.rejected.into_iter().take(room));
        self.raw_bytes += sent.raw_bytes;
        self.wire_bytes += sent.wire_bytes;
        self.latencies.add(sent.latency);
    }

    /// Takes in what became of another source.
    pub(crate) fn merge(&mut self, other: Outcome) {
        self.rows += other.rows;
        self.rows_before += other.rows_before;
        self.rejected += other.rejected;
        let room = KEPT_REJECTS.saturating_sub(self.rejects.len());
        self.rejects.extend(other.rejects.into_iter().take(room));
        self.raw_bytes += other.raw_bytes;
        self.wire_bytes += other.wire_bytes;
        self.latencies.extend(other.latencies);
        self.stopped |= other.stopped;
    }
}
