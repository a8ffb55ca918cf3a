//! The keys under a prefix as this process sees them: read once, then followed in the background.
//!
//! What is seen may be late, by as long as the way from the store takes, or for as long as the store cannot be reached. Who rests a
//! decision on it must be safe when it is old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Change, KeyValue, Listing, MetaError, MetaErrorKind, MetaStore, WatchEvent, task};

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Keys, by what stands behind the prefix.
pub type Entries = BTreeMap<String, KeyValue>;

/// The keys under a prefix. Clones see the same.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Nothing until the store has answered once.
    seen: watch::Receiver<Option<Entries>>,
    _follower: Arc<task::Task>,
}

impl Followed {
    /// Begins to follow a prefix. Nothing is seen until the store has answered.
    pub fn start(meta: Arc<dyn MetaStore>, prefix: impl Into<String>) -> Followed {
        let (tell, seen) = watch::channel(None);
        let follower = task::spawn("follower", follow(meta, prefix.into(), tell));
        Followed { seen, _follower: Arc::new(follower) }
    }

    /// Looks at the keys, without holding them up for long; `None` as long as nothing is known.
    pub fn look<T>(&self, look: impl FnOnce(Option<&Entries>) -> T) -> T {
        look(self.seen.borrow().as_ref())
    }

    /// Only changes from now on are waited for.
    pub fn mark(&mut self) {
        self.seen.mark_unchanged();
    }

    /// Waits until the keys are known for the first time, or are others than at the last wait of this handle.
    pub async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            // The meta store is closed: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Follows a prefix until the store is closed.
async fn follow(meta: Arc<dyn MetaStore>, prefix: String, tell: watch::Sender<Option<Entries>>) {
    loop {
        match watch_once(meta.as_ref(), &prefix, &tell).await {
            Err(error) if matches!(error.kind(), MetaErrorKind::Closed | MetaErrorKind::Fenced) => {
                // Who waits goes on waiting; the process ends for its own reasons.
                return std::future::pending().await;
            }
            Err(error) => tracing::warn!(prefix, %error, "keys cannot be followed; trying again"),
            Ok(()) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Lists and watches until the watch ends.
async fn watch_once(
    meta: &dyn MetaStore,
    prefix: &str,
    tell: &watch::Sender<Option<Entries>>,
) -> Result<(), MetaError> {
    let name = |key: &str| key.strip_prefix(prefix).unwrap_or(key).to_owned();
    let all = |listing: Listing| -> Entries {
        listing.entries.into_iter().map(|entry| (name(&entry.key), entry)).collect()
    };
    let listing = meta.list(prefix).await?;
    let mut watch = meta.watch(prefix, listing.revision).await?;
    replace(tell, all(listing));
    loop {
        match watch.next().await? {
            WatchEvent::Reset(listing) => replace(tell, all(listing)),
            WatchEvent::Changes { changes, .. } => tell.send_modify(|seen| {
                let entries = seen.get_or_insert_default();
                for change in changes {
                    match change {
                        Change::Put(put) => drop(entries.insert(name(&put.key), put)),
                        Change::Delete { key } => drop(entries.remove(&name(&key))),
                    }
                }
            }),
        }
    }
}

fn replace(tell: &watch::Sender<Option<Entries>>, all: Entries) {
    tell.send_if_modified(|seen| {
        let changed = seen.as_ref() != Some(&all);
        *seen = Some(all);
        changed
    });
}
