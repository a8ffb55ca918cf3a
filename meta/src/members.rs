//! Who is there: processes of one kind announce themselves, each by a key in its own session.
//!
//! The key is gone soon after the process is. Who follows a kind sees the members that the meta store knows now; one that
//! has just died is among them until its session has run out, so nothing may rest on a member being alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::{Change, MetaError, MetaErrorKind, MetaStore, Session, Txn, WatchEvent, task};

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The members of one kind, as this process sees them. Clones see the same.
#[derive(Clone, Debug)]
pub struct Members {
    /// Nothing until the store has answered once.
    seen: watch::Receiver<Option<BTreeSet<String>>>,
    _follower: Arc<task::Task>,
}

/// Announces this process as `who` for as long as its session lives. `who` is chosen anew for each session.
///
/// # Errors
///
/// Whatever the store says.
pub async fn announce(
    meta: &dyn MetaStore,
    session: &dyn Session,
    kind: &str,
    who: &str,
) -> Result<(), MetaError> {
    let key = format!("{kind}/{who}");
    match meta.txn(Txn::new().put_in(session.id(), &key, Vec::new())).await {
        Ok(_) => Ok(()),
        // It may have been done: the name is ours alone.
        Err(error) if error.kind() == MetaErrorKind::Unknown => match meta.get(&key).await? {
            Some(_) => Ok(()),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

impl Members {
    /// Begins to follow a kind. Nobody is seen until the store has answered.
    pub fn follow(meta: Arc<dyn MetaStore>, kind: &str) -> Members {
        let (tell, seen) = watch::channel(None);
        let follower = task::spawn("members", follow(meta, format!("{kind}/"), tell));
        Members { seen, _follower: Arc::new(follower) }
    }

    /// The members now.
    pub fn now(&self) -> BTreeSet<String> {
        self.seen.borrow().clone().unwrap_or_default()
    }

    /// Whether nobody is there, for all that this process knows; false as long as it knows nothing.
    pub fn nobody(&self) -> bool {
        self.seen.borrow().as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Waits until the members are known for the first time, or others than at the last wait of this handle.
    pub async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            // The meta store is closed: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Follows a prefix until the store is closed.
async fn follow(meta: Arc<dyn MetaStore>, prefix: String, tell: watch::Sender<Option<BTreeSet<String>>>) {
    loop {
        match watch_once(meta.as_ref(), &prefix, &tell).await {
            Err(error) if matches!(error.kind(), MetaErrorKind::Closed | MetaErrorKind::Fenced) => {
                // Who waits goes on waiting; the process ends for its own reasons.
                return std::future::pending().await;
            }
            Err(error) => tracing::warn!(prefix, %error, "members cannot be followed; trying again"),
            Ok(()) => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Lists and watches until the watch ends.
async fn watch_once(
    meta: &dyn MetaStore,
    prefix: &str,
    tell: &watch::Sender<Option<BTreeSet<String>>>,
) -> Result<(), MetaError> {
    let name = |key: &str| key.trim_start_matches(prefix).to_owned();
    let listing = meta.list(prefix).await?;
    let mut watch = meta.watch(prefix, listing.revision).await?;
    let mut members: BTreeSet<String> = listing.entries.iter().map(|entry| name(&entry.key)).collect();
    loop {
        tell.send_if_modified(|seen| {
            let changed = seen.as_ref() != Some(&members);
            *seen = Some(members.clone());
            changed
        });
        match watch.next().await? {
            WatchEvent::Reset(all) => members = all.entries.iter().map(|entry| name(&entry.key)).collect(),
            WatchEvent::Changes { changes, .. } => {
                for change in changes {
                    match change {
                        Change::Put(put) => drop(members.insert(name(&put.key))),
                        Change::Delete { key } => drop(members.remove(&name(&key))),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn members_come_and_go_with_their_sessions() {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let ttl = Duration::from_secs(10);
        let (a, b) = (meta.session(ttl).await.unwrap(), meta.session(ttl).await.unwrap());
        announce(meta.as_ref(), a.as_ref(), "workers", "a").await.unwrap();
        let mut members = Members::follow(meta.clone(), "workers");
        assert!(!members.nobody(), "nothing is known yet");
        members.changed().await;
        assert_eq!(members.now(), BTreeSet::from(["a".to_owned()]));
        announce(meta.as_ref(), b.as_ref(), "workers", "b").await.unwrap();
        // Another kind that begins alike.
        announce(meta.as_ref(), b.as_ref(), "workers-of-others", "c").await.unwrap();
        members.changed().await;
        assert_eq!(members.now(), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        // As a crash would.
        drop(a);
        members.changed().await;
        assert_eq!(members.now(), BTreeSet::from(["b".to_owned()]));
        b.close().await.unwrap();
        members.changed().await;
        assert!(members.nobody());
    }
}
