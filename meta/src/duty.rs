//! Duties that one process of many does: who has the key does it, until its session ends.
//!
//! The key is put in the holder's session, so it is gone soon after the holder is. A holder that does not know yet that it
//! has lost the duty can do no harm if every change that it makes compares [`Duty::fence`].

use std::sync::Arc;
use std::time::Duration;

use crate::{Compare, KeyValue, MetaError, MetaErrorKind, MetaStore, Revision, Session, Txn, TxnOutcome};

#[cfg(test)]
mod tests;

/// How long a process waits for the holder to go before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What the keys of all duties begin with.
pub const DUTIES: &str = "duties/";

/// What became of a claim.
enum Claim {
    Ours(Duty),
    /// Somebody else has it, unless it was just given back.
    Theirs(Option<KeyValue>),
}

/// A duty that this process has.
#[derive(Debug)]
pub struct Duty {
    meta: Arc<dyn MetaStore>,
    key: String,
    created: Revision,
}

impl Duty {
    /// Waits until the duty of this name is ours. `who` names this process and is chosen anew for each session. Dropping
    /// the wait leaves at most a key that ends with the session.
    ///
    /// # Errors
    ///
    /// `SessionLost` if the session ended meanwhile; whatever the store says.
    pub async fn take(
        meta: Arc<dyn MetaStore>,
        session: &dyn Session,
        name: &str,
        who: &str,
    ) -> Result<Duty, MetaError> {
        loop {
            let holder = match Duty::claim(&meta, session, name, who).await? {
                Claim::Ours(duty) => return Ok(duty),
                Claim::Theirs(None) => continue,
                Claim::Theirs(Some(holder)) => holder,
            };
            let change = async {
                match meta.watch(&holder.key, holder.modified).await {
                    Ok(mut watch) => drop(watch.next().await),
                    Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
                }
            };
            // Looked at again after a while, in case the watch has missed it.
            let _ = tokio::time::timeout(LOOK_AGAIN, change).await;
        }
    }

    /// The duty of this name, if nobody has it. See [`Duty::take`].
    ///
    /// # Errors
    ///
    /// As [`Duty::take`].
    pub async fn try_take(
        meta: &Arc<dyn MetaStore>,
        session: &dyn Session,
        name: &str,
        who: &str,
    ) -> Result<Option<Duty>, MetaError> {
        match Duty::claim(meta, session, name, who).await? {
            Claim::Ours(duty) => Ok(Some(duty)),
            Claim::Theirs(_) => Ok(None),
        }
    }

    async fn claim(
        meta: &Arc<dyn MetaStore>,
        session: &dyn Session,
        name: &str,
        who: &str,
    ) -> Result<Claim, MetaError> {
        let key = format!("{DUTIES}{name}");
        let ours = |key, created| Claim::Ours(Duty { meta: meta.clone(), key, created });
        let claim = Txn::new().when(Compare::absent(&key)).put_in(session.id(), &key, who.to_owned());
        let holder = match meta.txn(claim).await {
            Ok(TxnOutcome::Committed(created)) => return Ok(ours(key, created)),
            Ok(TxnOutcome::Refused(found)) => found.into_iter().flatten().next(),
            // It may have been done: the name tells.
            Err(error) if error.kind() == MetaErrorKind::Unknown => meta.get(&key).await?,
            Err(error) => return Err(error),
        };
        match holder {
            Some(holder) if holder.value == who.as_bytes() => Ok(ours(key, holder.created)),
            holder => Ok(Claim::Theirs(holder)),
        }
    }

    /// Holds as long as the duty is ours: to be compared by every change that is made in its course.
    pub fn fence(&self) -> Compare {
        Compare::created(&self.key, self.created)
    }

    /// Gives the duty back at once.
    ///
    /// # Errors
    ///
    /// Whatever the store says; the duty then ends with the session.
    pub async fn give_back(self) -> Result<(), MetaError> {
        self.meta.txn(Txn::new().when(self.fence()).delete(&self.key)).await.map(drop)
    }
}
