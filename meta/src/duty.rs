//! Duties that one process of many does: who has the key does it, until its session ends.
//!
//! The key is put in the holder's session, so it is gone soon after the holder is. A holder that does not know yet that it
//! has lost the duty can do no harm if every change that it makes compares [`Duty::fence`].

use std::sync::Arc;
use std::time::Duration;

use crate::{Compare, MetaError, MetaErrorKind, MetaStore, Revision, Session, Txn, TxnOutcome};

#[cfg(test)]
mod tests;

/// How long a process waits for the holder to go before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

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
        let key = format!("duties/{name}");
        loop {
            let claim = Txn::new().when(Compare::absent(&key)).put_in(session.id(), &key, who.to_owned());
            let holder = match meta.txn(claim).await {
                Ok(TxnOutcome::Committed(created)) => return Ok(Duty { meta, key, created }),
                Ok(TxnOutcome::Refused(found)) => found.into_iter().flatten().next(),
                // It may have been done: the name tells.
                Err(error) if error.kind() == MetaErrorKind::Unknown => meta.get(&key).await?,
                Err(error) => return Err(error),
            };
            let Some(holder) = holder else { continue };
            if holder.value == who.as_bytes() {
                return Ok(Duty { meta, key, created: holder.created });
            }
            let change = async {
                match meta.watch(&key, holder.modified).await {
                    Ok(mut watch) => drop(watch.next().await),
                    Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
                }
            };
            // Looked at again after a while, in case the watch has missed it.
            let _ = tokio::time::timeout(LOOK_AGAIN, change).await;
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
