//! A watch that goes on over lost connections and restarts of etcd.
//!
//! It remembers the last revision that it has yielded, or that etcd has confirmed as quiet, and starts again behind it.
//! If etcd has compacted that away, it lists the keys and says so with one [`WatchEvent::Reset`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use futures::StreamExt;

use super::{Etcd, MAX_MESSAGE, convert, within};
use crate::{Change, MetaError, MetaErrorKind, Revision, Watch, WatchEvent};

/// Waits between tries, doubled from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LAST_WAIT: Duration = Duration::from_secs(2);

pub(super) fn start(etcd: Arc<Etcd>, prefix: &str, after: Revision) -> Watch {
    let cursor = Cursor {
        etcd,
        prefix: prefix.to_owned(),
        after,
        stream: None,
        ready: VecDeque::new(),
        wait: FIRST_WAIT,
    };
    let events = futures::stream::unfold(Some(cursor), async |cursor| {
        let mut cursor = cursor?;
        match cursor.next().await {
            Ok(event) => Some((Ok(event), Some(cursor))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Watch::new(events.boxed())
}

struct Cursor {
    etcd: Arc<Etcd>,
    prefix: String,
    /// Everything up to here was taken from etcd.
    after: Revision,
    stream: Option<WatchStream>,
    /// Taken and not yet yielded.
    ready: VecDeque<WatchEvent>,
    wait: Duration,
}

impl Cursor {
    /// Fails only for what no other try can mend: keys that are not ours under our prefix.
    async fn next(&mut self) -> Result<WatchEvent, MetaError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            match self.advance().await {
                Ok(()) => {}
                Err(error) if error.kind() == MetaErrorKind::Internal => return Err(error),
                Err(error) => {
                    tracing::info!(prefix = %self.prefix, after = %self.after, %error, "a watch lost etcd; trying again");
                    self.stream = None;
                    tokio::time::sleep(self.wait).await;
                    self.wait = (2 * self.wait).min(LAST_WAIT);
                }
            }
        }
    }

    /// Connects, or takes one message.
    async fn advance(&mut self) -> Result<(), MetaError> {
        let Some(stream) = &mut self.stream else {
            self.stream = Some(self.connect().await?);
            return Ok(());
        };
        let Some(message) = stream.message().await.map_err(convert::error)? else {
            return Err(MetaError::unavailable("etcd closed the watch"));
        };
        self.wait = FIRST_WAIT;
        if message.compact_revision() > 0 {
            return self.reset().await;
        }
        if message.canceled() {
            return Err(MetaError::unavailable(format!("etcd ended the watch: {}", message.cancel_reason())));
        }
        self.take(&message)
    }

    async fn connect(&self) -> Result<WatchStream, MetaError> {
        let options = WatchOptions::new()
            .with_prefix()
            // Keeps a quiet watch ahead of compactions.
            .with_progress_notify()
            .with_start_revision(i64::try_from(self.after.0 + 1).unwrap_or(i64::MAX));
        let mut client = self.etcd.client.watch_client().max_decoding_message_size(MAX_MESSAGE);
        within(self.etcd.timeout, client.watch(self.etcd.keys.outer(&self.prefix), Some(options))).await
    }

    async fn reset(&mut self) -> Result<(), MetaError> {
        self.stream = None;
        let listing = self.etcd.list(&self.prefix).await?;
        self.after = listing.revision;
        self.ready.push_back(WatchEvent::Reset(listing));
        Ok(())
    }

    /// Splits a message into revisions. etcd never splits a revision over messages.
    fn take(&mut self, message: &WatchResponse) -> Result<(), MetaError> {
        let mut by_revision: Vec<(Revision, Vec<Change>)> = Vec::new();
        for event in message.events() {
            let Some(kv) = event.kv() else { continue };
            let revision = Revision(kv.mod_revision().unsigned_abs());
            let change = match event.event_type() {
                EventType::Put => Change::Put(self.etcd.keys.key_value(kv)?),
                EventType::Delete => Change::Delete { key: self.etcd.keys.inner(kv.key())? },
            };
            match by_revision.last_mut() {
                Some((last, changes)) if *last == revision => changes.push(change),
                _ => by_revision.push((revision, vec![change])),
            }
        }
        if by_revision.is_empty() && !message.created() {
            // A quiet prefix: etcd confirms that everything up to here was sent.
            self.after = self.after.max(Revision(convert::revision(message.header())?.unsigned_abs()));
        }
        for (revision, changes) in by_revision {
            self.after = revision;
            self.ready.push_back(WatchEvent::Changes { revision, changes });
        }
        Ok(())
    }
}
