//! A session is an etcd lease.
//!
//! A task of ours proves life three times per TTL, each time on a stream of its own, so that a sick connection to one
//! member costs one round, not the session. The deadline counts from before a proof was sent and never comes back once it
//! has passed, though etcd may keep the lease longer: it restarts the time of all leases when its leader changes. etcd may
//! also end a lease early; this is known here at the next proof, and harmless, because the object store fences writes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior};

use super::convert::{lease_of, session_of};
use super::{Etcd, within};
use crate::session::Lease;
use crate::task::{self, Task};
use crate::{MetaError, Session, SessionId};

#[derive(Debug)]
pub(super) struct EtcdSession {
    etcd: Arc<Etcd>,
    id: SessionId,
    lease: Arc<Lease>,
    _keeper: Task,
}

impl EtcdSession {
    pub(super) async fn start(etcd: Arc<Etcd>, ttl: Duration) -> Result<Arc<Self>, MetaError> {
        // etcd counts in seconds, and may grant more than is asked for; never less.
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let proof = Instant::now();
        let grant = within(etcd.timeout, etcd.client.lease_client().grant(seconds, None)).await?;
        let id = session_of(grant.id());
        let lease = Arc::new(Lease::new(ttl, proof));
        let keeper =
            task::spawn("meta-etcd-session", keep_alive(Arc::clone(&etcd), id, Arc::clone(&lease), ttl / 3));
        Ok(Arc::new(Self { etcd, id, lease, _keeper: keeper }))
    }
}

async fn keep_alive(etcd: Arc<Etcd>, id: SessionId, lease: Arc<Lease>, every: Duration) {
    let mut rounds = tokio::time::interval_at(Instant::now() + every, every);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let proof = Instant::now();
        match prove(&etcd, id, every).await {
            Ok(true) if lease.renew(proof) => {}
            Ok(_) => {
                tracing::warn!(session = %id, "the etcd lease has ended");
                return lease.end();
            }
            Err(error) if lease.is_lost() => {
                tracing::warn!(session = %id, %error, "no proof of life reached etcd in time");
                return lease.end();
            }
            Err(error) => tracing::info!(session = %id, %error, "a proof of life failed; trying again"),
        }
    }
}

/// Proves life once. False if etcd says that the lease has ended.
async fn prove(etcd: &Etcd, id: SessionId, timeout: Duration) -> Result<bool, MetaError> {
    let lease = lease_of(id);
    let mut client = etcd.client.lease_client();
    let round = within(timeout, async {
        match client.keep_alive(lease).await {
            Ok(_) => Ok(true),
            // The client has one error for an ended lease and for a broken stream: ask.
            Err(etcd_client::Error::LeaseKeepAliveError(_)) => {
                Ok(client.time_to_live(lease, None).await?.ttl() > 0)
            }
            Err(error) => Err(error),
        }
    });
    round.await
}

#[async_trait]
impl Session for EtcdSession {
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
        let revoke = async {
            match self.etcd.client.lease_client().revoke(lease_of(self.id)).await {
                // It has ended already.
                Err(etcd_client::Error::GRpcStatus(status)) if status.code() == tonic::Code::NotFound => {
                    Ok(())
                }
                other => other.map(|_| ()),
            }
        };
        within(self.etcd.timeout, revoke).await
    }
}
