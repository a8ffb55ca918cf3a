//! Sessions: what a process may still believe about itself, and what others will believe about it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{MetaError, SessionId};

pub(crate) use leased::{LeaseServer, LeasedSession};

mod leased;

/// Shortest and longest time to live of a session.
const TTL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// A sign of life of this process. Keys that are put in it vanish when it ends.
///
/// Dropping the last handle without [`Session::close`] is what a crash does: the session ends by itself, in its time.
#[async_trait]
pub trait Session: Debug + Send + Sync {
    /// Its name, for [`Txn::put_in`](crate::Txn::put_in).
    fn id(&self) -> SessionId;

    /// Until when this process may act as the holder of the session's keys, on the local monotonic clock: the moment
    /// *before* the last request that proved life was sent, plus the TTL, minus a margin. Others see the keys vanish
    /// later than that, whatever the network does, unless the store ends the session early.
    ///
    /// With etcd (and in memory), a deadline that has passed stays in the past: the session is lost. With the embedded
    /// store, [`Session::hold`] may move it on, because nobody else can have held the keys meanwhile.
    fn deadline(&self) -> Instant;

    /// Confirms that the session lives, and returns its deadline, which was ahead when this was checked. Cheap while the
    /// deadline is ahead. Call it before every ack and every linearizable read.
    ///
    /// # Errors
    ///
    /// `SessionLost` or `Fenced`, for ever; `Unavailable` if it could not be confirmed in time.
    async fn hold(&self) -> Result<Instant, MetaError>;

    /// Whether the session has ended for good, as far as this process knows.
    fn is_lost(&self) -> bool;

    /// Returns when the session has ended for good.
    async fn lost(&self);

    /// Ends the session; its keys vanish at once. Closing twice is fine.
    ///
    /// # Errors
    ///
    /// `Unavailable` or `Unknown` if the store did not confirm: the session is ended here, and the keys vanish after the TTL.
    async fn close(&self) -> Result<(), MetaError>;
}

/// How much earlier than the TTL the holder stops, for clocks that run at slightly different speed.
pub(crate) fn margin(ttl: Duration) -> Duration {
    (ttl / 5).min(Duration::from_secs(2))
}

/// Checks the TTL that a caller asks for.
pub(crate) fn validate_ttl(ttl: Duration) -> Result<(), MetaError> {
    if TTL.contains(&ttl) {
        return Ok(());
    }
    Err(MetaError::invalid(format!(
        "a session's time to live is {ttl:?}; it must be {:?} to {:?}",
        TTL.start(),
        TTL.end()
    )))
}

/// The client's side of a lease that others can end: a deadline that only moves on while it is ahead.
#[derive(Debug)]
pub(crate) struct Lease {
    ttl: Duration,
    deadline: Mutex<Instant>,
    ended: watch::Sender<bool>,
}

impl Lease {
    /// `proof` is the moment before the request that started it was sent.
    pub(crate) fn new(ttl: Duration, proof: Instant) -> Self {
        Self { ttl, deadline: Mutex::new(proof + ttl - margin(ttl)), ended: watch::Sender::new(false) }
    }

    pub(crate) fn deadline(&self) -> Instant {
        *self.deadline.lock()
    }

    pub(crate) fn is_lost(&self) -> bool {
        *self.ended.borrow() || Instant::now() >= self.deadline()
    }

    /// Takes a proof of life whose request was sent after `proof`. False if it came too late.
    pub(crate) fn renew(&self, proof: Instant) -> bool {
        let mut deadline = self.deadline.lock();
        if *self.ended.borrow() || Instant::now() >= *deadline {
            return false;
        }
        *deadline = (*deadline).max(proof + self.ttl - margin(self.ttl));
        true
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    pub(crate) fn hold(&self, id: SessionId) -> Result<Instant, MetaError> {
        let deadline = self.deadline();
        if *self.ended.borrow() || Instant::now() >= deadline {
            return Err(MetaError::session_lost(format!("session {id} has ended")));
        }
        Ok(deadline)
    }

    pub(crate) async fn lost(&self) {
        let mut ended = self.ended.subscribe();
        while !self.is_lost() {
            tokio::select! {
                biased;
                // The sender lives in self, so this fails never.
                _ = ended.changed() => {}
                () = tokio::time::sleep_until(self.deadline()) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
