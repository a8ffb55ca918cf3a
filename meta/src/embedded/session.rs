//! Proof of life of this process, and the sessions that rest on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::writer::Command;
use super::{Inner, Late};
use crate::session::margin;
use crate::{MetaError, Session, SessionId};

/// When this process last proved that it has the store.
#[derive(Debug)]
pub(super) struct Proof {
    /// The moment before the last durable write was sent. `None`: a file lock proves it all the time.
    sent: Option<Mutex<Instant>>,
    /// Whether a renewal ahead of time was asked for.
    asked: AtomicBool,
}

impl Proof {
    pub(super) fn local() -> Self {
        Self { sent: None, asked: AtomicBool::new(false) }
    }

    pub(super) fn remote(sent: Instant) -> Self {
        Self { sent: Some(Mutex::new(sent)), asked: AtomicBool::new(false) }
    }

    /// Takes a write that is durable now and was sent after `sent`.
    pub(super) fn renew(&self, sent: Instant) {
        if let Some(last) = &self.sent {
            let mut last = last.lock();
            *last = (*last).max(sent);
        }
        self.asked.store(false, Ordering::Relaxed);
    }

    /// Until when whoever rests on it with this TTL may act.
    pub(super) fn deadline(&self, ttl: Duration) -> Instant {
        let sent = self.sent.as_ref().map_or_else(Instant::now, |sent| *sent.lock());
        sent + ttl - margin(ttl)
    }

    /// True once per proof.
    pub(super) fn ask_early(&self) -> bool {
        !self.asked.swap(true, Ordering::Relaxed)
    }
}

/// A session of the embedded store. It lives as long as the process has the store.
#[derive(Debug)]
pub(super) struct EmbeddedSession {
    inner: Arc<Inner>,
    id: SessionId,
    ttl: Duration,
    ended: watch::Sender<bool>,
}

impl EmbeddedSession {
    pub(super) fn new(inner: Arc<Inner>, id: SessionId, ttl: Duration) -> Self {
        Self { inner, id, ttl, ended: watch::Sender::new(false) }
    }
}

impl Drop for EmbeddedSession {
    fn drop(&mut self) {
        // Nobody is left who could close it, and nothing else would end it before the process does.
        let _ = self.inner.commands.send(Command::EndSession { id: self.id, reply: None });
    }
}

#[async_trait]
impl Session for EmbeddedSession {
    fn id(&self) -> SessionId {
        self.id
    }

    fn deadline(&self) -> Instant {
        self.inner.proof.deadline(self.ttl)
    }

    async fn hold(&self) -> Result<Instant, MetaError> {
        let deadline = self.inner.hold(self.ttl).await?;
        if *self.ended.borrow() {
            return Err(MetaError::session_lost(format!("session {} was closed", self.id)));
        }
        Ok(deadline)
    }

    fn is_lost(&self) -> bool {
        *self.ended.borrow() || self.inner.shared.check().is_err()
    }

    async fn lost(&self) {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            // Fails only without a sender, and the sender is in self.
            _ = ended.wait_for(|ended| *ended) => {}
            () = self.inner.shared.ended() => {}
        }
    }

    async fn close(&self) -> Result<(), MetaError> {
        self.ended.send_replace(true);
        if self.inner.shared.check().is_err() {
            return Ok(());
        }
        let end = |reply| Command::EndSession { id: self.id, reply: Some(reply) };
        self.inner.call(end).await.map_err(Late::unknown)?
    }
}
