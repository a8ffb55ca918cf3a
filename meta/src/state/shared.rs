//! The state as many tasks see it: behind a lock, with a signal for the watches.

use std::sync::Arc;

use futures::StreamExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::{Commit, State};
use crate::{MetaError, Revision, Watch, WatchEvent};

/// The visible state of a store. The lock is held for memory operations only, never over an await.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Counts whatever a watch may have to look at.
    changed: watch::Sender<u64>,
    /// How often live watches were made to start over.
    resets: watch::Sender<u64>,
    /// Set once, when the store can go on no more.
    end: watch::Sender<Option<MetaError>>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            changed: watch::Sender::new(0),
            resets: watch::Sender::new(0),
            end: watch::Sender::new(None),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn apply(&self, commit: Commit) {
        self.state.lock().apply(commit);
        self.wake();
    }

    /// Makes every live watch start over with a listing.
    pub(crate) fn reset_watches(&self) {
        self.resets.send_modify(|count| *count += 1);
        self.wake();
    }

    /// Ends the store; the first reason stays.
    pub(crate) fn end(&self, reason: MetaError) {
        self.end.send_if_modified(|end| {
            let first = end.is_none();
            end.get_or_insert(reason);
            first
        });
        self.wake();
    }

    /// Fails with the reason if the store has ended.
    pub(crate) fn check(&self) -> Result<(), MetaError> {
        self.end.borrow().clone().map_or(Ok(()), Err)
    }

    /// Returns when the store has ended.
    pub(crate) async fn ended(&self) {
        // Fails only without a sender, and the sender is in self.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: Revision) -> Watch {
        let cursor = Cursor {
            changed: self.changed.subscribe(),
            resets: *self.resets.borrow(),
            shared: Arc::clone(self),
            prefix: prefix.to_owned(),
            after,
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
}

/// Where one watch is.
struct Cursor {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
    resets: u64,
    prefix: String,
    after: Revision,
}

impl Cursor {
    async fn next(&mut self) -> Result<WatchEvent, MetaError> {
        loop {
            // Seen before looking: a change from here on wakes the wait below.
            self.changed.borrow_and_update();
            if let Some(event) = self.look() {
                self.after = event.revision();
                return Ok(event);
            }
            self.shared.check()?;
            if self.changed.changed().await.is_err() {
                return Err(MetaError::closed());
            }
        }
    }

    fn look(&mut self) -> Option<WatchEvent> {
        let resets = *self.shared.resets.borrow();
        let state = self.shared.lock();
        if resets != self.resets || !state.remembers(self.after) {
            self.resets = resets;
            return Some(WatchEvent::Reset(state.list(&self.prefix)));
        }
        match state.next_change(&self.prefix, self.after) {
            Some((revision, changes)) => Some(WatchEvent::Changes { revision, changes }),
            None => {
                // Never backwards: a caller may wait for a revision that is still to come.
                self.after = self.after.max(state.revision());
                None
            }
        }
    }
}
