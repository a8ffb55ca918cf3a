//! Metadata and leases: one trait, [`MetaStore`], and three stores behind it.
//!
//! What lives here is small and changes slowly: databases, tables, schemas, partitions, shard owners, addresses of
//! gateways, lake pointers, tokens, quotas. Nothing is written per batch of rows. The catalogue and the claims of shards
//! are built on top of the trait; this crate knows only keys, values and sessions.
//!
//! | store | for | sessions live by |
//! | --- | --- | --- |
//! | [`EtcdStore`](etcd::EtcdStore) | clusters | an etcd lease, kept alive in the background |
//! | [`EmbeddedStore`](embedded::EmbeddedStore) | one process, on a directory or a bucket | the process: a file lock, or a conditional write |
//! | [`MemoryStore`](memory::MemoryStore) | tests and simulation | tokio time |
//!
//! What holds for all three, and is checked by one conformance suite (`tests/`):
//!
//! * [`MetaStore::txn`] is atomic over all its keys, and all its changes carry one [`Revision`]. A revision grows with
//!   every change and is never used twice, not even by a process that lost the store to another.
//! * Reads are linearizable: a process that has lost the store answers no read from its own memory.
//! * A watch yields each change of its prefix once and in order, or says that it skipped some ([`WatchEvent::Reset`]).
//! * A key that was put in a session is gone soon after the session has ended. The holder of the session knows earlier:
//!   [`Session::deadline`] lies before the end that others see.

pub mod catalog;
pub mod duty;
pub mod embedded;
mod error;
pub mod etcd;
pub mod followed;
pub mod members;
pub mod memory;
mod session;
mod state;
mod store;
mod task;
mod txn;
mod types;
mod watch;

pub use error::{MetaError, MetaErrorKind};
pub use session::Session;
pub use store::MetaStore;
pub use txn::{Compare, MAX_KEY, MAX_OPS, MAX_TXN_BYTES, MAX_VALUE, Op, Txn, TxnOutcome};
pub use types::{KeyValue, Listing, Revision, SessionId};
pub use watch::{Change, Watch, WatchEvent};
