//! The trait that the rest of Wadi sees.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{KeyValue, Listing, MetaError, Revision, Session, Txn, TxnOutcome, Watch};

/// Keys and values with transactions, watches and sessions. Every call ends within a bounded time.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync {
    /// What the key holds. Sees every transaction that was committed before the call.
    async fn get(&self, key: &str) -> Result<Option<KeyValue>, MetaError>;

    /// All keys that start with `prefix` (all keys, if it is empty), as they were at one moment not before the call.
    async fn list(&self, prefix: &str) -> Result<Listing, MetaError>;

    /// Does all of `txn` or nothing of it.
    ///
    /// # Errors
    ///
    /// `Unknown` if it may have been done, or may still be done; `SessionLost` if a session of a put has ended;
    /// `Invalid` if it breaks a limit. After `Fenced`, too, nobody knows whether it was done.
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, MetaError>;

    /// The changes of keys that start with `prefix`, later than `after`: the revision of a [`Listing`], or of the last
    /// event of an earlier watch.
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError>;

    /// Starts a session: a sign of life of this process, that others miss `ttl` after it stops.
    async fn session(&self, ttl: Duration) -> Result<Arc<dyn Session>, MetaError>;

    /// Ends the sessions that this store keeps itself and lets go of it; later calls fail `Closed`. For etcd, close each
    /// session.
    ///
    /// A store that is dropped without it ends as in a crash: a later start may have to wait for the TTL.
    async fn close(&self) -> Result<(), MetaError>;
}
