//! The shard: its log in the object store, its state in SlateDB, and who may write it.
//!
//! A gateway's [`host::Host`] claims shards in the meta store and takes them over ([`shard::takeover`]); each open
//! [`shard::Shard`] has one actor that orders appends, flushes them as log objects and acknowledges what is durable.
//! Reads go past the actor: tail memory, then cached ranges of log objects.
//!
//! This is the only crate that opens shard databases, so that every process uses the same settings and codecs.

pub mod block_cache;
pub mod claim;
pub mod clock;
pub mod cluster;
pub mod container;
pub mod context;
pub mod database;
pub mod disk_cache;
pub mod doctor;
#[cfg(feature = "flaws")]
pub mod flaws;
#[cfg(not(feature = "flaws"))]
mod flaws;
pub mod host;
pub mod identity;
pub mod ids;
pub mod keyed;
pub mod keys;
pub mod log;
pub mod memtables;
pub mod metadata;
pub mod metrics;
pub mod objects;
pub mod open;
pub mod owners;
pub mod pack;
pub mod route;
pub mod secret;
pub mod segments;
pub mod settings;
pub mod shard;
pub mod stored;
pub mod task;
pub mod trace;
pub mod versions;

pub use context::Context;
pub use settings::Settings;
