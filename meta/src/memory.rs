//! The store of tests and of the simulation: everything in memory, nothing random, no time but tokio's.
//!
//! It behaves as etcd does, sessions included: a session proves its life three times per TTL, from a task of the process
//! that holds it, and the store ends it one TTL after the last proof. Under tokio's paused clock all of this is exact.
//! The hooks ([`MemoryStore::expire`], [`MemoryStore::pause`], [`MemoryStore::compact`], [`MemoryStore::reset_watches`])
//! make happen at once what takes bad luck with etcd.

mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::session::{LeasedSession, validate_ttl};
use crate::state::{Shared, State};
use crate::task::{self, Task};
use crate::txn::validate_key;
use crate::{
    KeyValue, Listing, MetaError, MetaStore, Op, Revision, Session, SessionId, Txn, TxnOutcome, Watch,
};

/// A [`MetaStore`] in memory. Clones of an [`Arc`] of it are the processes of one cluster.
#[derive(Debug)]
pub struct MemoryStore {
    server: Arc<Server>,
    _reaper: Task,
}

impl MemoryStore {
    /// An empty store. Needs a tokio runtime, for the task that ends sessions.
    pub fn new() -> Self {
        let server = Arc::new(Server::default());
        let reaper = task::spawn("meta-memory-reaper", reap(Arc::clone(&server)));
        Self { server, _reaper: reaper }
    }

    /// Ends a session now, as etcd may do early; its holder does not know yet.
    pub fn expire(&self, session: SessionId) {
        if let Some(lease) = self.server.sessions.lock().live.get_mut(&session) {
            lease.expires = Instant::now();
        }
        self.server.expire_due();
    }

    /// From now on no proof of life of this session arrives (true), or they arrive again (false).
    pub fn pause(&self, session: SessionId, paused: bool) {
        if let Some(lease) = self.server.sessions.lock().live.get_mut(&session) {
            lease.paused = paused;
        }
    }

    /// Forgets the history: a watch that starts behind, or has not caught up, gets a reset.
    pub fn compact(&self) {
        self.server.shared.lock().compact();
    }

    /// Makes every live watch start over with a reset, as after a long disconnect.
    pub fn reset_watches(&self) {
        self.server.shared.reset_watches();
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl MetaStore for MemoryStore {
    async fn get(&self, key: &str) -> Result<Option<KeyValue>, MetaError> {
        validate_key(key)?;
        self.server.ready()?;
        Ok(self.server.shared.lock().get(key))
    }

    async fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        self.server.ready()?;
        Ok(self.server.shared.lock().list(prefix))
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, MetaError> {
        txn.validate()?;
        self.server.ready()?;
        self.server.txn(&txn)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        self.server.ready()?;
        Ok(self.server.shared.watch(prefix, after))
    }

    async fn session(&self, ttl: Duration) -> Result<Arc<dyn Session>, MetaError> {
        validate_ttl(ttl)?;
        self.server.ready()?;
        let (proof, id) = (Instant::now(), self.server.grant(ttl));
        Ok(LeasedSession::start(Arc::clone(&self.server), id, ttl, proof))
    }

    async fn close(&self) -> Result<(), MetaError> {
        self.server.end_sessions(|_| true);
        self.server.shared.end(MetaError::closed());
        Ok(())
    }
}

/// What stands for the etcd server.
#[derive(Debug)]
struct Server {
    shared: Arc<Shared>,
    sessions: Mutex<Sessions>,
    /// Wakes the reaper when a session may end earlier than it knows.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Sessions {
    last: u64,
    live: BTreeMap<SessionId, ServerLease>,
}

#[derive(Debug)]
struct ServerLease {
    ttl: Duration,
    expires: Instant,
    paused: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self { shared: Shared::new(State::default()), sessions: Mutex::default(), sooner: Notify::new() }
    }
}

impl Server {
    /// Before every call: whatever should have ended by now has ended.
    fn ready(&self) -> Result<(), MetaError> {
        self.expire_due();
        self.shared.check()
    }

    fn txn(&self, txn: &Txn) -> Result<TxnOutcome, MetaError> {
        // Held to the end, so that no session ends between the check and the put.
        let sessions = self.sessions.lock();
        let state = self.shared.lock();
        if let Some(current) = state.refusal(&txn.compares) {
            return Ok(TxnOutcome::Refused(current));
        }
        for op in &txn.ops {
            if let Op::Put { session: Some(id), .. } = op
                && !sessions.live.contains_key(id)
            {
                return Err(MetaError::session_lost(format!("session {id} has ended")));
            }
        }
        let Some(commit) = state.plan(&txn.ops, Revision(state.revision().0 + 1)) else {
            return Ok(TxnOutcome::Committed(state.revision()));
        };
        drop(state);
        let revision = commit.revision;
        self.shared.apply(commit);
        Ok(TxnOutcome::Committed(revision))
    }

    fn grant(&self, ttl: Duration) -> SessionId {
        let mut sessions = self.sessions.lock();
        sessions.last += 1;
        let id = SessionId(sessions.last);
        sessions.live.insert(id, ServerLease { ttl, expires: Instant::now() + ttl, paused: false });
        self.sooner.notify_one();
        id
    }

    /// Takes a proof of life. `None` if it did not arrive, false if the session has ended.
    fn keep_alive(&self, id: SessionId) -> Option<bool> {
        self.expire_due();
        let mut sessions = self.sessions.lock();
        match sessions.live.get_mut(&id) {
            Some(lease) if lease.paused => None,
            Some(lease) => {
                lease.expires = Instant::now() + lease.ttl;
                Some(true)
            }
            None => Some(false),
        }
    }

    fn expire_due(&self) {
        let now = Instant::now();
        self.end_sessions(|lease| lease.expires <= now);
    }

    fn end_session(&self, id: SessionId) {
        if let Some(lease) = self.sessions.lock().live.get_mut(&id) {
            lease.expires = Instant::now();
        }
        self.expire_due();
    }

    fn end_sessions(&self, over: impl Fn(&ServerLease) -> bool) {
        let mut sessions = self.sessions.lock();
        let ended: Vec<SessionId> =
            sessions.live.iter().filter(|(_, lease)| over(lease)).map(|(id, _)| *id).collect();
        for id in ended {
            sessions.live.remove(&id);
            let state = self.shared.lock();
            let commit = state.plan(&state.deletes_of(|of| of == id), Revision(state.revision().0 + 1));
            drop(state);
            if let Some(commit) = commit {
                self.shared.apply(commit);
            }
        }
    }

    fn next_expiry(&self) -> Option<Instant> {
        self.sessions.lock().live.values().map(|lease| lease.expires).min()
    }
}

/// Ends sessions when their time has come, so that watches see it though nobody calls.
async fn reap(server: Arc<Server>) {
    loop {
        server.expire_due();
        match server.next_expiry() {
            Some(next) => tokio::select! {
                biased;
                () = tokio::time::sleep_until(next) => {}
                () = server.sooner.notified() => {}
            },
            None => server.sooner.notified().await,
        }
    }
}

#[cfg(test)]
mod tests;
