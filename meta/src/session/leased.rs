//! A session that a server keeps, and may end: its holder proves life three times per TTL, from a task of its own.
//!
//! The deadline counts from before a proof was sent and never comes back once it has passed, though the server may keep
//! the lease longer. The server may also end it early; this is known here at the next proof, and harmless, because the
//! object store fences writes.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior};

use super::Lease;
use crate::task::{self, Task};
use crate::{MetaError, Session, SessionId};

/// The server's side, as the holder reaches it.
#[async_trait]
pub(crate) trait LeaseServer: Debug + Send + Sync + 'static {
    /// Proves life once, within `timeout`. False if the server says that the session has ended.
    async fn prove(&self, id: SessionId, timeout: Duration) -> Result<bool, MetaError>;

    /// Ends the session.
    async fn end(&self, id: SessionId) -> Result<(), MetaError>;
}

/// A session kept by an `S`.
#[derive(Debug)]
pub(crate) struct LeasedSession<S> {
    server: Arc<S>,
    id: SessionId,
    lease: Arc<Lease>,
    _keeper: Task,
}

impl<S: LeaseServer> LeasedSession<S> {
    /// The session `id` that the server has just started; `proof` is the moment before that was asked for.
    pub(crate) fn start(server: Arc<S>, id: SessionId, ttl: Duration, proof: Instant) -> Arc<Self> {
        let lease = Arc::new(Lease::new(ttl, proof));
        let keeper = task::spawn("meta-session", keep(Arc::clone(&server), id, Arc::clone(&lease), ttl / 3));
        Arc::new(Self { server, id, lease, _keeper: keeper })
    }
}

async fn keep<S: LeaseServer>(server: Arc<S>, id: SessionId, lease: Arc<Lease>, every: Duration) {
    let mut rounds = tokio::time::interval_at(Instant::now() + every, every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let proof = Instant::now();
        match server.prove(id, every).await {
            Ok(true) if lease.renew(proof) => {}
            Ok(_) => {
                tracing::warn!(session = %id, "the session has ended");
                return lease.end();
            }
            Err(error) if lease.is_lost() => {
                tracing::warn!(session = %id, %error, "no proof of life arrived in time");
                return lease.end();
            }
            Err(error) => tracing::info!(session = %id, %error, "a proof of life failed; trying again"),
        }
    }
}

#[async_trait]
impl<S: LeaseServer> Session for LeasedSession<S> {
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
        self.server.end(self.id).await
    }
}
