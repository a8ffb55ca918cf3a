//! Clients: producers that send until they know, and readers that follow buckets.
//!
//! A client has no part in the faults of gateways, but it meets them: its request hangs while a gateway is paused, is
//! never answered by one that crashed, and may be given up by the client itself. What it may conclude from each answer
//! is written down here; the checker holds the store to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use wadi_compactor::CompactorMetrics;
use wadi_model::{Bucket, PartitionId, Table};
use wadi_store::keyed::KeyedTable;

use crate::checker::Checker;
use crate::checker::keyed::Rules;
use crate::clock::Dice;
use crate::gateway::{Gateway, Life};
use crate::trace::Trace;
use crate::worker::Worker;

pub use producer::{Kind, produce, send_one};
pub use reader::{follow, read_to_end, scan_all};
pub(crate) use rows::{COLUMNS, GROUP_COLUMN, ID_COLUMN, KEYED_COLUMNS, PARTITION_COLUMN};

mod keyed;
mod partitions;
mod producer;
mod reader;
mod rows;

/// What all clients share.
#[derive(Debug)]
pub struct Scene {
    /// The gateways.
    pub gateways: Vec<Gateway>,
    /// The compactors.
    pub workers: Vec<Worker>,
    /// What they count.
    pub compactors: CompactorMetrics,
    /// The tables that are written to.
    pub tables: BTreeMap<wadi_model::TableId, Arc<Table>>,
    /// Those with a primary key.
    pub keyed: BTreeMap<wadi_model::TableId, KeyedScene>,
    /// All buckets of them that are known, with those of partitions that were made on the way.
    pub buckets: Mutex<Vec<Bucket>>,
    /// The partitions that were made, and their names.
    pub partitions: Mutex<BTreeMap<PartitionId, String>>,
    /// Number of shards.
    pub shards: u32,
    /// What judges.
    pub checker: Mutex<Checker>,
    /// The trace.
    pub trace: Trace,
    /// Set when producers begin no more requests.
    pub draining: AtomicBool,
    /// Set when readers stop.
    pub over: AtomicBool,
    /// Whether sessions may end early in this run, so that reads may be stale for a while.
    pub early_expiry: bool,
    /// How long a read may miss what was acked: no time at all, or as long as an owner lives that does not know yet that
    /// its session has ended early.
    pub staleness: Duration,
}

/// A primary-key table.
#[derive(Clone, Debug)]
pub struct KeyedScene {
    /// The table.
    pub table: Arc<KeyedTable>,
    /// Keys are below this.
    pub keys: u64,
}

impl KeyedScene {
    /// Whether its rows get ids.
    pub(crate) fn has_ids(&self) -> bool {
        self.table.auto_increment().is_some()
    }

    /// What the checker must know of its buckets.
    pub(crate) fn rules(&self) -> Rules {
        Rules { wal: !self.table.shows_before(), auto: self.has_ids() }
    }

    fn has_groups(&self) -> bool {
        rows::position(self.table.table(), GROUP_COLUMN).is_some()
    }
}

impl Scene {
    /// The table of a bucket. All buckets are of known tables.
    pub fn table(&self, bucket: &Bucket) -> &Arc<Table> {
        &self.tables[&bucket.table]
    }

    /// A gateway to send to: mostly one that says it has the bucket, sometimes any.
    pub fn gateway_for(&self, bucket: &Bucket, dice: &Dice) -> Option<Life> {
        let shard = bucket.shard(self.shards);
        let lives: Vec<Life> = self.gateways.iter().filter_map(Gateway::life).collect();
        let owners: Vec<&Life> = lives.iter().filter(|life| life.has(shard)).collect();
        if owners.is_empty() || dice.chance(0.1) {
            return (!lives.is_empty()).then(|| dice.one_of(&lives).clone());
        }
        Some((*dice.one_of(&owners)).clone())
    }

    /// All buckets that are known.
    pub fn buckets(&self) -> Vec<Bucket> {
        self.buckets.lock().clone()
    }

    /// The name of a bucket's partition; empty in tables without any.
    pub fn partition(&self, bucket: &Bucket) -> String {
        self.partitions.lock().get(&bucket.partition).cloned().unwrap_or_default()
    }

    fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// A shared scene.
pub type Shared = Arc<Scene>;
