//! The simulated meta store: the one in memory, behind a gateway's link.
//!
//! Sessions keep the trait's promises: the deadline is the memory store's own, on tokio's clock, and passes while the
//! gateway is paused or cut off, because no proof of life arrives from it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use wadi_meta::memory::MemoryStore;
use wadi_meta::{
    KeyValue, Listing, MetaError, MetaErrorKind, MetaStore, Revision, Session, SessionId, Txn, TxnOutcome,
    Watch,
};
use wadi_store::task;

use crate::faults::{Link, Reach};
use crate::trace::Trace;

/// How long a request to the meta store may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A gateway's view of the meta store. Clones are the same view.
#[derive(Clone, Debug)]
pub struct SimMeta {
    store: Arc<MemoryStore>,
    link: Link,
    trace: Trace,
    sessions: Arc<Mutex<Vec<SessionId>>>,
}

impl SimMeta {
    /// The view of the gateway behind `link`.
    pub fn new(store: Arc<MemoryStore>, link: Link, trace: Trace) -> SimMeta {
        SimMeta { store, link, trace, sessions: Arc::default() }
    }

    /// From now on no proof of life of this gateway arrives, or they arrive again.
    pub fn silence(&self, silent: bool) {
        for session in self.sessions.lock().iter() {
            self.store.pause(*session, silent);
        }
    }

    /// Ends the gateway's newest session early; the gateway does not know yet.
    pub fn expire(&self) {
        if let Some(session) = self.sessions.lock().last() {
            self.store.expire(*session);
        }
    }

    fn error(&self, kind: MetaErrorKind) -> MetaError {
        MetaError::new(kind, "simulated")
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.trace.note(self.link.name(), format_args!("meta {what}"));
    }

    /// The way to the store, and what may go wrong on it.
    async fn ask(&self, what: &str) -> Result<(), MetaError> {
        self.link.running().await;
        if self.link.reach() == Reach::NoMeta {
            self.note(format_args!("{what} silence"));
            self.link.silence(TIMEOUT).await;
            return Err(self.error(MetaErrorKind::Unavailable));
        }
        sleep(self.link.dice().latency(Duration::from_millis(2))).await;
        if self.link.dice().chance(self.link.rates().meta_refused) {
            self.trace.count("meta unavailable");
            self.note(format_args!("{what} unavailable"));
            self.answer().await;
            return Err(self.error(MetaErrorKind::Unavailable));
        }
        Ok(())
    }

    async fn answer(&self) {
        sleep(self.link.dice().latency(Duration::from_millis(2))).await;
        self.link.running().await;
    }

    /// A transaction whose answer is lost: done, not done, or done a little later.
    async fn lose(&self, txn: Txn) -> MetaError {
        self.trace.count("meta unknown");
        match self.link.dice().pick(0..3) {
            0 => self.note("txn lost"),
            1 => {
                let done = self.store.txn(txn).await;
                self.note(format_args!("txn {} and its answer lost", described(&done)));
            }
            _ => {
                let (this, after) = (self.clone(), self.link.dice().millis(1..800));
                self.note(format_args!("txn late by {after:?}"));
                drop(task::spawn(async move {
                    sleep(after).await;
                    let done = this.store.txn(txn).await;
                    this.note(format_args!("txn late {}", described(&done)));
                }));
            }
        }
        self.answer().await;
        self.error(MetaErrorKind::Unknown)
    }
}

fn described(done: &Result<TxnOutcome, MetaError>) -> String {
    match done {
        Ok(TxnOutcome::Committed(revision)) => format!("committed at {revision}"),
        Ok(TxnOutcome::Refused(_)) => "refused".into(),
        Err(error) => format!("failed: {error}"),
    }
}

#[async_trait]
impl MetaStore for SimMeta {
    async fn get(&self, key: &str) -> Result<Option<KeyValue>, MetaError> {
        self.ask("get").await?;
        let found = self.store.get(key).await;
        self.note(format_args!("get {key}"));
        self.answer().await;
        found
    }

    async fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        self.ask("list").await?;
        let found = self.store.list(prefix).await;
        self.note(format_args!("list {prefix}"));
        self.answer().await;
        found
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, MetaError> {
        self.ask("txn").await?;
        if self.link.dice().chance(self.link.rates().meta_unknown) {
            return Err(self.lose(txn).await);
        }
        let keys: Vec<String> = txn.ops.iter().map(|op| op.key().to_owned()).collect();
        let done = self.store.txn(txn).await;
        self.note(format_args!("txn {} {}", keys.join(","), described(&done)));
        self.answer().await;
        if self.link.reach() == Reach::NoMeta {
            self.link.silence(TIMEOUT).await;
            return Err(self.error(MetaErrorKind::Unknown));
        }
        done
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        self.ask("watch").await?;
        self.store.watch(prefix, after).await
    }

    async fn session(&self, ttl: Duration) -> Result<Arc<dyn Session>, MetaError> {
        self.ask("session").await?;
        let inner = self.store.session(ttl).await?;
        self.note(format_args!("session {}", inner.id()));
        self.sessions.lock().push(inner.id());
        if matches!(self.link.reach(), Reach::Paused | Reach::NoMeta | Reach::Dead) {
            self.store.pause(inner.id(), true);
        }
        self.answer().await;
        Ok(Arc::new(SimSession { inner, meta: self.clone() }))
    }

    async fn close(&self) -> Result<(), MetaError> {
        Ok(())
    }
}

/// A session whose holder may be paused.
#[derive(Debug)]
struct SimSession {
    inner: Arc<dyn Session>,
    meta: SimMeta,
}

#[async_trait]
impl Session for SimSession {
    fn id(&self) -> SessionId {
        self.inner.id()
    }

    fn deadline(&self) -> Instant {
        self.inner.deadline()
    }

    async fn hold(&self) -> Result<Instant, MetaError> {
        self.meta.link.running().await;
        self.inner.hold().await
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    async fn lost(&self) {
        self.inner.lost().await;
        self.meta.link.running().await;
    }

    async fn close(&self) -> Result<(), MetaError> {
        self.meta.ask("close").await?;
        self.meta.note(format_args!("close {}", self.inner.id()));
        let closed = self.inner.close().await;
        self.meta.answer().await;
        closed
    }
}
