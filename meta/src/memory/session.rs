//! The holder's side of a session of the memory store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::Server;
use crate::session::Lease;
use crate::task::{self, Task};
use crate::{MetaError, Session, SessionId};

#[derive(Debug)]
pub(super) struct MemorySession {
    id: SessionId,
    server: Arc<Server>,
    lease: Arc<Lease>,
    _keeper: Task,
}

impl MemorySession {
    pub(super) fn start(server: &Arc<Server>, ttl: Duration) -> Arc<dyn Session> {
        let lease = Arc::new(Lease::new(ttl, Instant::now()));
        let id = server.grant(ttl);
        let keeper = task::spawn(
            "meta-memory-session",
            keep_alive(Arc::clone(server), id, Arc::clone(&lease), ttl / 3),
        );
        Arc::new(Self { id, server: Arc::clone(server), lease, _keeper: keeper })
    }
}

async fn keep_alive(server: Arc<Server>, id: SessionId, lease: Arc<Lease>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let proof = Instant::now();
        match server.keep_alive(id) {
            Some(true) if lease.renew(proof) => {}
            None if !lease.is_lost() => {}
            _ => break lease.end(),
        }
    }
}

#[async_trait]
impl Session for MemorySession {
    fn id(&self) -> SessionId {
        self.id
    }

    fn deadline(&self) -> Instant {
        self.lease.deadline()
    }

    async fn hold(&self) -> Result<Instant, MetaError> {
        self.lease.hold(self.id)
    }

    fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    async fn lost(&self) {
        self.lease.lost().await;
    }

    async fn close(&self) -> Result<(), MetaError> {
        self.lease.end();
        self.server.end_session(self.id);
        Ok(())
    }
}
