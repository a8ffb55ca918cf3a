//! What all shards of a process share: the object store, settings, budgets and caches.

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::db_cache::DbCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wadi_model::env::Env;

use crate::database::Place;
use crate::ids::IdSource;
use crate::keyed::KeyedTables;
use crate::memtables::Memtables;
use crate::metrics::StoreMetrics;
use crate::objects::Health;
use crate::pack::Maker;
use crate::segments::SegmentCache;
use crate::settings::Settings;
use crate::task::Cpu;

/// The surroundings of a shard. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The object store.
    pub objects: Arc<dyn ObjectStore>,
    /// How it is.
    pub health: Health,
    /// The cluster's root in it.
    pub root: Path,
    /// Wall time and randomness.
    pub env: Env,
    /// Settings of all shards.
    pub settings: Arc<Settings>,
    /// Where CPU work runs.
    pub cpu: Cpu,
    /// The budget of bytes accepted and not yet acked.
    pub memory: Memory,
    /// The budget of bytes that log reads hold at once, until clients have taken the answers.
    pub reads: Memory,
    /// The budget of what SlateDB has in memory.
    pub memtables: Memtables,
    /// Parts of log objects.
    pub segments: SegmentCache,
    /// SlateDB's blocks of all shards; `None` runs without a cache, for simulations.
    pub block_cache: Option<Arc<dyn DbCache>>,
    /// The primary-key tables that its shards have met.
    pub tables: KeyedTables,
    /// Where ids of auto-increment columns come from.
    pub ids: Arc<dyn IdSource>,
    /// What is counted.
    pub metrics: StoreMetrics,
    /// Whether the object store is a local directory, which knows no conditional update.
    pub local: bool,
}

impl Context {
    /// Where the shards' databases are.
    pub fn place(&self) -> Place {
        let (objects, root, env) = (self.objects.clone(), self.root.clone(), self.env.clone());
        Place { objects, root, env, local: self.local }
    }

    /// What packs of its shards are made with.
    pub fn maker(&self) -> Maker {
        Maker { place: self.place(), cpu: self.cpu.clone(), tables: self.tables.source().clone() }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("root", &self.root).finish_non_exhaustive()
    }
}

/// A budget of bytes, counted in KiB so that it fits a semaphore.
#[derive(Clone, Debug)]
pub struct Memory {
    free: Arc<Semaphore>,
    total: u32,
}

/// A share of a [`Memory`], given back when dropped.
#[derive(Debug)]
pub struct Share(#[allow(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Share {
    /// The bytes, which now hold the share too, until their last clone or slice is dropped.
    pub fn hold(self: &Arc<Share>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _share: self.clone() })
    }
}

struct Held {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Memory {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Memory {
        let total = u32::try_from(bytes / 1024).unwrap_or(u32::MAX >> 1);
        Memory { free: Arc::new(Semaphore::new(total as usize)), total }
    }

    fn kib(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.total)
    }

    /// A share, if there is room for it now.
    pub fn try_take(&self, bytes: usize) -> Option<Share> {
        self.free.clone().try_acquire_many_owned(self.kib(bytes)).ok().map(Share)
    }

    /// A share, once there is room for it.
    pub async fn take(&self, bytes: usize) -> Option<Share> {
        self.free.clone().acquire_many_owned(self.kib(bytes)).await.ok().map(Share)
    }

    /// Bytes that are taken now.
    pub fn used(&self) -> usize {
        (self.total as usize).saturating_sub(self.free.available_permits()) * 1024
    }
}
