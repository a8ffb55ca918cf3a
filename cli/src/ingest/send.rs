//! Sends the pieces of one source, several at a time, and notes what is acked.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{StreamExt, unfold};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use wadi_client::{ArrowCompression, Client, OnError, WriteAnswer, WriteKey, WriteOptions};
use wadi_model::TableName;
use wadi_model::reject::RowError;

use super::journal::{Acked, Journal};
use super::piece::{Piece, Pieces};
use super::progress::Progress;
use crate::failure::Failure;
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
}

impl Sender {
    /// Sends all pieces that are not acked yet. An error ends the run; what is acked by then is in the journal.
    pub(crate) async fn send(
        &self,
        pieces: Pieces,
        acked: BTreeMap<u64, Acked>,
        mut journal: Option<Journal>,
        progress: &mut Progress,
    ) -> Result<Outcome, Failure> {
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
            let done = self.send_all(cut, &acked, &mut journal, progress, &mut outcome);
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
        if let (false, Some(journal)) = (outcome.stopped, &mut journal) {
            journal.done()?;
        }
        Ok(outcome)
    }

    async fn send_all(
        &self,
        cut: mpsc::Receiver<Result<Piece, Failure>>,
        acked: &BTreeMap<u64, Acked>,
        journal: &mut Option<Journal>,
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
        let fresh = unfold(cut, |mut cut| async { cut.recv().await.map(|piece| (piece, cut)) });
        // `buffered` keeps the order, and so is the window that the module's text promises.
        let steps = fresh.take_until(stopped).map(|piece| self.step(piece, acked)).buffered(self.concurrency);
        let mut steps = std::pin::pin!(steps);
        while let Some(step) = steps.next().await {
            match step? {
                Step::Known(piece) => progress.skip(&piece),
                Step::Sent(sent) => {
                    let acked = Acked { rows: sent.answer.rows, rejected: sent.answer.rejected_rows };
                    if let Some(journal) = journal {
                        journal.acked(sent.number, acked)?;
                    }
                    progress.acked(sent.units, acked.rows, sent.raw_bytes);
                    outcome.add(sent);
                }
            }
        }
        outcome.stopped = *self.stop.borrow();
        Ok(())
    }

    async fn step(
        &self,
        piece: Result<Piece, Failure>,
        acked: &BTreeMap<u64, Acked>,
    ) -> Result<Step, Failure> {
        let piece = piece?;
        if acked.contains_key(&piece.number) {
            return Ok(Step::Known(piece));
        }
        self.send_one(piece).await.map(Step::Sent)
    }

    async fn send_one(&self, piece: Piece) -> Result<Sent, Failure> {
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
            Err(error) => return Err(in_file(error, &place)),
        };
        answer.rejected = answer.rejected.iter().map(|e| place.in_file(e)).collect();
        Ok(Sent { number, units, raw_bytes, wire_bytes, latency, answer })
    }
}

/// An error with its rows' places in the file instead of in the piece.
fn in_file(error: wadi_client::ClientError, place: &super::piece::Place) -> Failure {
    let rows: Vec<RowError> =
        error.problem().map(|p| p.errors.iter().map(|e| place.in_file(e)).collect()).unwrap_or_default();
    let shown: Vec<String> = rows.iter().take(3).map(|row| row.to_string()).collect();
    let failure = Failure::from(error);
    if shown.is_empty() { failure } else { failure.hint(shown.join("\n  ")) }
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
