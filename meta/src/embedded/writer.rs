//! The one task that writes to the database.
//!
//! It handles one command at a time, to its end: once a batch is handed to SlateDB, it will become durable sooner or
//! later, so the next transaction must not be decided before. A caller may stop waiting; the writer does not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{FlushOptions, FlushType};
use slatedb::{CloseReason, Db, ErrorKind, WriteBatch};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::codec::{RECORD_KEY, Record, encode_step};
use super::session::Proof;
use crate::state::{Commit, Shared};
use crate::task::{self, Task};
use crate::{MetaError, MetaErrorKind, Op, Revision, SessionId, Txn, TxnOutcome};

/// After how many transactions the memtable is flushed, so that a start has few log objects to read.
const TXNS_PER_MEMTABLE: u32 = 256;
/// Bits of a revision below the epoch.
const COUNT_BITS: u32 = 24;

pub(super) type Reply<T> = oneshot::Sender<Result<T, MetaError>>;

/// What the writer is asked.
#[derive(Debug)]
pub(super) enum Command {
    Txn {
        txn: Txn,
        reply: Reply<TxnOutcome>,
    },
    /// Prove life, unless somebody has moved the deadline past `behind` meanwhile.
    Renew {
        behind: Instant,
        ttl: Duration,
        reply: Reply<()>,
    },
    StartSession {
        ttl: Duration,
        reply: Reply<SessionId>,
    },
    EndSession {
        id: SessionId,
        reply: Option<Reply<()>>,
    },
    Close {
        reply: Reply<()>,
    },
}

/// The state of the writer.
pub(super) struct Writer {
    db: Db,
    shared: Arc<Shared>,
    proof: Arc<Proof>,
    /// The longest that anybody rests on a proof.
    ttl: Duration,
    base: u64,
    last_session: u64,
    sessions: BTreeSet<SessionId>,
    txns_in_memtable: u32,
    memtable_flush: Option<Task>,
}

impl Writer {
    pub(super) fn new(db: Db, epoch: u64, ttl: Duration, shared: Arc<Shared>, proof: Arc<Proof>) -> Self {
        let base = epoch << COUNT_BITS;
        Self {
            db,
            shared,
            proof,
            ttl,
            base,
            last_session: base,
            sessions: BTreeSet::new(),
            txns_in_memtable: 0,
            memtable_flush: None,
        }
    }

    /// Ends all sessions of the past and says on storage that this process is here.
    pub(super) async fn start(&mut self) -> Result<(), MetaError> {
        let leftovers = self.shared.lock().deletes_of(|_| true);
        self.change(&leftovers, self.ttl).await
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut status = self.db.subscribe();
        loop {
            tokio::select! {
                command = inbox.recv() => match command {
                    Some(command) => self.handle(command).await,
                    None => return,
                },
                // So that an idle process, too, learns that it was fenced.
                changed = status.changed() => {
                    let reason = status.borrow_and_update().close_reason;
                    if let Some(reason) = reason {
                        self.shared.end(closed_by(reason));
                    }
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn handle(&mut self, command: Command) {
        match command {
            // Nobody waits any more: whoever gave up before the start was told that the outcome is unknown.
            Command::Txn { reply, .. } if reply.is_closed() => {}
            Command::Txn { txn, reply } => {
                let outcome = self.txn(&txn).await;
                let _ = reply.send(outcome);
            }
            Command::Renew { behind, ttl, reply } => {
                let result = if self.proof.deadline(ttl) > behind { Ok(()) } else { self.prove().await };
                let _ = reply.send(result);
            }
            Command::StartSession { ttl, reply } => {
                let result = self.start_session(ttl).await;
                let _ = reply.send(result);
            }
            Command::EndSession { id, reply } => {
                let result = self.end_session(id).await;
                match reply {
                    Some(reply) => drop(reply.send(result)),
                    None => drop(
                        result.inspect_err(|error| tracing::warn!(session = %id, %error, "ending a session")),
                    ),
                }
            }
            Command::Close { reply } => {
                let result = self.close().await;
                let _ = reply.send(result);
            }
        }
    }

    async fn txn(&mut self, txn: &Txn) -> Result<TxnOutcome, MetaError> {
        self.shared.check()?;
        let refusal = self.shared.lock().refusal(&txn.compares);
        if let Some(current) = refusal {
            self.confirm().await?;
            return Ok(TxnOutcome::Refused(current));
        }
        for op in &txn.ops {
            if let Op::Put { session: Some(id), .. } = op
                && !self.sessions.contains(id)
            {
                return Err(MetaError::session_lost(format!("session {id} has ended")));
            }
        }
        let Some(commit) = self.plan(&txn.ops) else {
            self.confirm().await?;
            return Ok(TxnOutcome::Committed(self.shared.lock().revision()));
        };
        let revision = commit.revision;
        match self.write(Some(commit), self.ttl).await {
            Ok(()) => Ok(TxnOutcome::Committed(revision)),
            // It may have become durable before the database failed, or was fenced; `Fenced` says more.
            Err(error) if error.kind() == MetaErrorKind::Fenced => Err(error),
            Err(error) => {
                Err(MetaError::unknown("a metadata transaction failed half way").with_source(error))
            }
        }
    }

    async fn start_session(&mut self, ttl: Duration) -> Result<SessionId, MetaError> {
        self.shared.check()?;
        if ttl > self.ttl {
            // A later process must know how long to wait before anybody rests on this TTL.
            self.write(None, ttl).await?;
            self.ttl = ttl;
        }
        self.last_session += 1;
        let id = SessionId(self.last_session);
        self.sessions.insert(id);
        Ok(id)
    }

    async fn end_session(&mut self, id: SessionId) -> Result<(), MetaError> {
        if !self.sessions.remove(&id) {
            return Ok(());
        }
        let deletes = self.shared.lock().deletes_of(|of| of == id);
        if deletes.is_empty() { Ok(()) } else { self.change(&deletes, self.ttl).await }
    }

    async fn close(&mut self) -> Result<(), MetaError> {
        self.shared.check()?;
        // Nobody may rest on this process any more before a later one reads that it needs not wait.
        self.shared.end(MetaError::closed());
        self.sessions.clear();
        let deletes = self.shared.lock().deletes_of(|_| true);
        let last = self.change_unchecked(&deletes, Duration::ZERO).await;
        let closed = self.db.close().await.map_err(|e| failure("closing the metadata database", e));
        last.and(closed)
    }

    /// Makes sure that what is in memory is still the truth.
    async fn confirm(&mut self) -> Result<(), MetaError> {
        if Instant::now() < self.proof.deadline(self.ttl) { Ok(()) } else { self.prove().await }
    }

    async fn prove(&mut self) -> Result<(), MetaError> {
        self.shared.check()?;
        self.write(None, self.ttl).await
    }

    fn plan(&self, ops: &[Op]) -> Option<Commit> {
        let state = self.shared.lock();
        let next = Revision(state.revision().0.max(self.base) + 1);
        state.plan(ops, next)
    }

    async fn change(&mut self, ops: &[Op], ttl: Duration) -> Result<(), MetaError> {
        self.shared.check()?;
        self.change_unchecked(ops, ttl).await
    }

    async fn change_unchecked(&mut self, ops: &[Op], ttl: Duration) -> Result<(), MetaError> {
        let commit = self.plan(ops);
        self.write(commit, ttl).await
    }

    /// Makes a change durable, then visible. Without a change, the record alone is the proof of life.
    async fn write(&mut self, commit: Option<Commit>, ttl: Duration) -> Result<(), MetaError> {
        let revision =
            commit.as_ref().map_or_else(|| self.shared.lock().revision(), |commit| commit.revision);
        let batch = batch(commit.as_ref(), &Record::new(revision, ttl))?;
        let sent = Instant::now();
        let durable = async {
            self.db.write(batch).await?;
            self.db.flush().await
        };
        if let Err(error) = durable.await {
            let error = failure("writing to the metadata database", error);
            // The batch may be in SlateDB's memory: memory and storage could disagree from here on.
            self.shared.end(error.clone());
            return Err(error);
        }
        if let Some(commit) = commit {
            self.shared.apply(commit);
        }
        self.proof.renew(sent);
        self.count_txn();
        Ok(())
    }

    fn count_txn(&mut self) {
        self.txns_in_memtable += 1;
        if self.txns_in_memtable < TXNS_PER_MEMTABLE {
            return;
        }
        self.txns_in_memtable = 0;
        let db = self.db.clone();
        // In the background: it may have to wait for a compaction, and transactions need not.
        self.memtable_flush = Some(task::spawn("meta-memtable-flush", async move {
            let memtable = FlushOptions { flush_type: FlushType::MemTable };
            if let Err(error) = db.flush_with_options(memtable).await {
                tracing::warn!(%error, "flushing the metadata memtable");
            }
        }));
    }
}

fn batch(commit: Option<&Commit>, record: &Record) -> Result<WriteBatch, MetaError> {
    let mut batch = WriteBatch::new();
    for step in commit.iter().flat_map(|commit| &commit.steps) {
        match encode_step(step) {
            (key, Some(row)) => batch.put_bytes(key, row),
            (key, None) => batch.delete(key),
        }
    }
    batch.put(RECORD_KEY, record.encode()?);
    Ok(batch)
}

/// What an error of the database means for the store.
pub(super) fn failure(doing: &str, error: slatedb::Error) -> MetaError {
    let kind = match error.kind() {
        ErrorKind::Closed(reason) => return closed_by(reason),
        ErrorKind::Unavailable => MetaErrorKind::Unavailable,
        _ => MetaErrorKind::Internal,
    };
    MetaError::new(kind, doing).with_source(error)
}

fn closed_by(reason: CloseReason) -> MetaError {
    match reason {
        CloseReason::Clean => MetaError::closed(),
        CloseReason::Fenced => MetaError::new(
            MetaErrorKind::Fenced,
            "another process has opened the metadata of this cluster and taken over: only one can run without etcd",
        ),
        _ => MetaError::internal("the metadata database failed"),
    }
}
