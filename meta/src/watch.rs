//! Watching the keys of a prefix.

use std::fmt;

use futures::StreamExt;
use futures::stream::BoxStream;

use crate::{KeyValue, Listing, MetaError, Revision};

/// One key's part in a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key was put; it holds this since the revision of the event.
    Put(KeyValue),
    /// The key was deleted, or its session ended.
    Delete {
        /// The key.
        key: String,
    },
}

impl Change {
    /// The key that changed.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(kv) => &kv.key,
            Self::Delete { key } => key,
        }
    }
}

/// What a watch yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// All that one transaction, or the end of one session, changed under the prefix.
    Changes {
        /// The revision of all of them.
        revision: Revision,
        /// In no particular order; at least one; no key twice.
        changes: Vec<Change>,
    },
    /// Changes were skipped, because the store no longer remembers them: this is all there is now. Keys that the watcher
    /// knows and the listing has not were deleted.
    Reset(Listing),
}

impl WatchEvent {
    /// The revision that the watch has reached with this event.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Changes { revision, .. } => *revision,
            Self::Reset(listing) => listing.revision,
        }
    }
}

/// The changes of a prefix, in order, each once. It reconnects by itself; dropping it ends it.
pub struct Watch {
    events: BoxStream<'static, Result<WatchEvent, MetaError>>,
}

impl Watch {
    pub(crate) fn new(events: BoxStream<'static, Result<WatchEvent, MetaError>>) -> Self {
        Self { events }
    }

    /// Waits for the next event. Nothing is lost when the wait is dropped.
    ///
    /// # Errors
    ///
    /// `Fenced`, `Closed` or `Internal` when the store can yield no more; the watch is then over.
    pub async fn next(&mut self) -> Result<WatchEvent, MetaError> {
        match self.events.next().await {
            Some(event) => event,
            None => Err(MetaError::closed()),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
