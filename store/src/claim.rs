//! A gateway's hold on one shard.
//!
//! Before every ack and every linearizable read two things must hold: the session's local deadline is ahead, and this
//! claim is still the shard's current one in this process (F1, K3). A claim that was lost never comes back; whoever
//! wants the shard again claims anew, with a new token.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use wadi_meta::Session;
use wadi_model::{ShardId, Token};

/// A claim of a shard. Clones are the same claim.
#[derive(Clone, Debug)]
pub struct Claim {
    shard: ShardId,
    token: Token,
    session: Arc<dyn Session>,
    given_up: Arc<AtomicBool>,
}

impl Claim {
    /// A claim that was just made in the meta store.
    pub fn new(shard: ShardId, token: Token, session: Arc<dyn Session>) -> Claim {
        Claim { shard, token, session, given_up: Arc::default() }
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The session that it stands on.
    pub fn session(&self) -> &dyn Session {
        self.session.as_ref()
    }

    /// Ends the claim in this process, for ever.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    /// Whether acks and reads may be given right now.
    pub fn is_live(&self) -> bool {
        !self.given_up.load(Ordering::SeqCst)
            && !self.session.is_lost()
            && Instant::now() < self.session.deadline()
    }

    /// Makes sure of the session, which may take a request to the meta store, and says whether the claim is live.
    pub async fn hold(&self) -> bool {
        !self.given_up.load(Ordering::SeqCst) && self.session.hold().await.is_ok() && self.is_live()
    }
}
