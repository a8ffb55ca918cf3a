//! Who is there: processes of one kind announce themselves, each by a key in its own session.
//!
//! The key is gone soon after the process is. Who follows a kind sees the members that the meta store knows now; one that
//! has just died is among them until its session has run out, so nothing may rest on a member being alive.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::followed::{Entries, Followed};
use crate::{MetaError, MetaErrorKind, MetaStore, Session, Txn};

/// The members of one kind, as this process sees them. Clones see the same.
#[derive(Clone, Debug)]
pub struct Members(Followed);

/// Announces this process as `who` for as long as its session lives, with what it says of itself. Announcing again replaces that.
///
/// # Errors
///
/// Whatever the store says.
pub async fn announce(
    meta: &dyn MetaStore,
    session: &dyn Session,
    kind: &str,
    who: &str,
    says: impl Into<Bytes>,
) -> Result<(), MetaError> {
    let (key, says) = (format!("{kind}/{who}"), says.into());
    match meta.txn(Txn::new().put_in(session.id(), &key, says.clone())).await {
        Ok(_) => Ok(()),
        // It may have been done. A key of an earlier session of this process would go with that session.
        Err(error) if error.kind() == MetaErrorKind::Unknown => {
            meta.txn(Txn::new().put_in(session.id(), &key, says)).await.map(drop)
        }
        Err(error) => Err(error),
    }
}

impl Members {
    /// Begins to follow a kind. Nobody is seen until the store has answered.
    pub fn follow(meta: Arc<dyn MetaStore>, kind: &str) -> Members {
        Members(Followed::start(meta, format!("{kind}/")))
    }

    /// The members now.
    pub fn now(&self) -> BTreeSet<String> {
        self.look(|entries| entries.map(|entries| entries.keys().cloned().collect()).unwrap_or_default())
    }

    /// Looks at the members and what they say; `None` as long as nothing is known.
    pub fn look<T>(&self, look: impl FnOnce(Option<&Entries>) -> T) -> T {
        self.0.look(look)
    }

    /// Whether nobody is there, for all that this process knows; false as long as it knows nothing.
    pub fn nobody(&self) -> bool {
        self.look(|entries| entries.is_some_and(Entries::is_empty))
    }

    /// Waits until the members are known for the first time, or others than at the last wait of this handle.
    pub async fn changed(&mut self) {
        self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn members_come_and_go_with_their_sessions() {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let ttl = Duration::from_secs(10);
        let (a, b) = (meta.session(ttl).await.unwrap(), meta.session(ttl).await.unwrap());
        announce(meta.as_ref(), a.as_ref(), "workers", "a", "").await.unwrap();
        let mut members = Members::follow(meta.clone(), "workers");
        assert!(!members.nobody(), "nothing is known yet");
        members.changed().await;
        assert_eq!(members.now(), BTreeSet::from(["a".to_owned()]));
        announce(meta.as_ref(), b.as_ref(), "workers", "b", "").await.unwrap();
        // Another kind that begins alike.
        announce(meta.as_ref(), b.as_ref(), "workers-of-others", "c", "").await.unwrap();
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
