//! Clients: producers that send until they know, and readers that follow buckets.
//!
//! A client has no part in the faults of gateways, but it meets them: its request hangs while a gateway is paused, is
//! never answered by one that crashed, and may be given up by the client itself. What it may conclude from each answer
//! is written down here; the checker holds the store to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use wadi_compactor::CompactorMetrics;
use wadi_meta::catalog::Catalog;
use wadi_model::options::ChangelogImage;
use wadi_model::{Bucket, PartitionId, ShardId, Table, TableId, TableSpec};
use wadi_store::keyed::KeyedTable;

use crate::checker::Checker;
use crate::checker::kept::Keeps;
use crate::checker::keyed::Rules;
use crate::clock::Dice;
use crate::gateway::{Gateway, Life};
use crate::trace::Trace;
use crate::worker::Worker;
use crate::world::Flaw;

pub use drops::drop_things;
pub use producer::{Kind, produce, send_one};
pub use reader::{follow, read_to_end, scan_all};
pub(crate) use rows::{COLUMNS, GROUP_COLUMN, ID_COLUMN, KEYED_COLUMNS, PARTITION_COLUMN};

mod door;
mod drops;
mod keyed;
mod pages;
mod partitions;
mod producer;
mod reader;
mod rows;

/// How long a client waits where nothing fails.
const CALM_PATIENCE: Duration = Duration::from_secs(20);

/// What all clients share.
#[derive(Debug)]
pub struct Scene {
    /// The gateways.
    pub gateways: Vec<Gateway>,
    /// The compactors.
    pub workers: Vec<Worker>,
    /// What they count.
    pub compactors: CompactorMetrics,
    /// The catalog as it is, without faults.
    pub catalog: Catalog,
    /// All tables that there ever were.
    pub tables: RwLock<BTreeMap<TableId, SceneTable>>,
    /// All buckets of them that are known, with those of partitions that were made on the way.
    pub buckets: Mutex<Vec<Bucket>>,
    /// Buckets of what was dropped, or was tried to be.
    pub dropped: Mutex<Vec<Bucket>>,
    /// The partitions that were made, and their names.
    pub partitions: Mutex<BTreeMap<PartitionId, String>>,
    /// How far the clocks of gateways are apart at most.
    pub skew: Duration,
    /// Whether nothing fails, so that nothing may be refused.
    pub calm: bool,
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
    /// What is broken on purpose.
    pub flaw: Option<Flaw>,
    /// Whether sessions may end early in this run, so that reads may be stale for a while.
    pub early_expiry: bool,
    /// How long a read may miss what was acked: no time at all, or as long as an owner lives that does not know yet that
    /// its session has ended early.
    pub staleness: Duration,
}

/// A table, and what of it is known besides.
#[derive(Clone, Debug)]
pub struct SceneTable {
    /// The table.
    pub table: Arc<Table>,
    /// What it was made of.
    pub spec: TableSpec,
    /// If it has a primary key.
    pub keyed: Option<KeyedScene>,
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

    /// Whether each bucket knows how many rows it has.
    pub(crate) fn is_counted(&self) -> bool {
        self.table.table().options.changelog_image() != ChangelogImage::Wal
    }

    fn has_groups(&self) -> bool {
        rows::position(self.table.table(), GROUP_COLUMN).is_some()
    }
}

impl Scene {
    /// The table of a bucket. All buckets are of known tables.
    pub fn table(&self, bucket: &Bucket) -> Arc<Table> {
        self.tables.read()[&bucket.table].table.clone()
    }

    /// What is known of a bucket's table, if that has a primary key.
    pub fn keyed(&self, bucket: &Bucket) -> Option<KeyedScene> {
        self.tables.read().get(&bucket.table).and_then(|known| known.keyed.clone())
    }

    /// How long the rows of a bucket's log are kept; `None` if that is longer than any run, as the default is.
    pub fn ttl(&self, bucket: &Bucket) -> Option<Duration> {
        self.table(bucket).options.log_ttl().filter(|ttl| *ttl < Duration::from_secs(24 * 3600))
    }

    /// Adds a table that was made. Keys of a primary-key table are below `keys`.
    pub fn add_table(&self, table: &Arc<Table>, spec: TableSpec, keys: u64) -> Result<(), String> {
        let keyed = table.has_primary_key().then(|| KeyedTable::new(table.clone()));
        let keyed = keyed.transpose().map_err(|e| e.to_string())?;
        let keyed = keyed.map(|prepared| KeyedScene { table: Arc::new(prepared), keys });
        self.tables.write().insert(table.id, SceneTable { table: table.clone(), spec, keyed });
        if !table.is_partitioned() {
            self.add_buckets(table, PartitionId::NONE);
        }
        Ok(())
    }

    /// Adds the buckets of a table, or of a partition of it.
    fn add_buckets(&self, table: &Table, partition: PartitionId) {
        let (mut known, mut checker) = (self.buckets.lock(), self.checker.lock());
        let buckets = (0..table.buckets).map(|bucket| Bucket { table: table.id, partition, bucket });
        for bucket in buckets {
            if let Some(of) = self.keyed(&bucket) {
                checker.keyed(bucket, of.rules());
            }
            checker.keeps(bucket, Keeps { ttl: self.ttl(&bucket), skew: self.skew });
            known.push(bucket);
        }
    }

    /// Whether a bucket was dropped, or that was tried.
    fn is_gone(&self, bucket: &Bucket) -> bool {
        self.checker.lock().is_gone(bucket)
    }

    /// How many gateways live and stay.
    pub fn lives(&self) -> usize {
        self.gateways
            .iter()
            .filter_map(Gateway::life)
            .filter(|l| !l.is_closing() && !l.host.is_leaving())
            .count()
    }

    /// How far ahead of true time a gateway's clock is to be, in milliseconds.
    pub fn draw_clock(&self, dice: &Dice) -> i64 {
        let most = self.skew.as_millis() as u64;
        dice.pick(0..most.max(1)) as i64 - most as i64 / 2
    }

    /// A gateway that is asked by its route, and how long that may look for the owner; mostly there is one.
    fn door(&self, dice: &Dice) -> Option<(Life, Duration)> {
        if !self.calm && dice.chance(0.3) {
            return None;
        }
        let lives: Vec<Life> = self.gateways.iter().filter_map(Gateway::life).collect();
        let lives: Vec<Life> = lives.into_iter().filter(|life| !life.is_closing()).collect();
        let patience = if self.calm { CALM_PATIENCE } else { dice.millis(50..9_000) };
        (!lives.is_empty()).then(|| (dice.one_of(&lives).clone(), patience))
    }

    /// Notes that a route refused something. Where nothing fails none may, whoever comes and goes.
    fn refused(&self, bucket: &Bucket, who: &str, what: &str, why: &dyn std::fmt::Display) {
        self.trace.count("refused by routes");
        if self.calm {
            let what = format!("{who} was refused {what} of {bucket}, though nothing failed: {why}");
            self.checker.lock().violated_in(bucket, "V1", what);
        }
    }

    /// A gateway to send to: mostly one that says it has the bucket, sometimes any.
    pub fn gateway_for(&self, bucket: &Bucket, dice: &Dice) -> Option<Life> {
        let shard = bucket.shard(self.shards);
        let lives: Vec<Life> = self.gateways.iter().filter_map(Gateway::life).collect();
        let lives: Vec<Life> = lives.into_iter().filter(|life| !life.is_closing()).collect();
        let owners: Vec<&Life> = lives.iter().filter(|life| life.has(shard)).collect();
        if owners.is_empty() || dice.chance(0.1) {
            return (!lives.is_empty()).then(|| dice.one_of(&lives).clone());
        }
        Some((*dice.one_of(&owners)).clone())
    }

    /// What each gateway says of a shard.
    pub fn places(&self, shard: ShardId) -> String {
        let place = |gateway: &Gateway| {
            let life = gateway.life()?;
            let status = life.host.status().into_iter().find(|s| s.shard == shard)?;
            let note = if status.open { "open".to_owned() } else { status.note.unwrap_or_default() };
            Some(format!("{}: {note}", life.link.name()))
        };
        self.gateways.iter().filter_map(place).collect::<Vec<_>>().join("; ")
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
