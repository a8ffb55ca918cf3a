//! A session is an etcd lease.
//!
//! Each proof of life goes over a stream of its own, so that a sick connection to one member costs one round, not the
//! session. etcd may keep a lease longer than its time: it restarts the time of all leases when its leader changes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::convert::{lease_of, session_of};
use super::{Etcd, within};
use crate::session::{LeaseServer, LeasedSession};
use crate::{MetaError, SessionId};

/// Starts a session.
pub(super) async fn start(etcd: &Arc<Etcd>, ttl: Duration) -> Result<Arc<LeasedSession<Etcd>>, MetaError> {
    // etcd counts in seconds, and may grant more than is asked for; never less.
    let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
    let proof = Instant::now();
    let grant = within(etcd.timeout, etcd.client.lease_client().grant(seconds, None)).await?;
    Ok(LeasedSession::start(Arc::clone(etcd), session_of(grant.id()), ttl, proof))
}

#[async_trait]
impl LeaseServer for Etcd {
    async fn prove(&self, id: SessionId, timeout: Duration) -> Result<bool, MetaError> {
        let lease = lease_of(id);
        let mut client = self.client.lease_client();
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

    async fn end(&self, id: SessionId) -> Result<(), MetaError> {
        let revoke = async {
            match self.client.lease_client().revoke(lease_of(id)).await {
                // It has ended already.
                Err(etcd_client::Error::GRpcStatus(status)) if status.code() == tonic::Code::NotFound => {
                    Ok(())
                }
                other => other.map(|_| ()),
            }
        };
        within(self.timeout, revoke).await
    }
}
