//! One run: a cluster, its clients, and everything that goes wrong, all made of one seed.
//!
//! The run has three acts. In the first, gateways crash, pause, are cut off and lose their sessions, while the object
//! store and the meta store fail in their own ways. Then everything heals, and all that clients still want must be
//! answered in time (V1). At last everything is read, comes to rest (see [`settle`](crate::settle)), is read once more from cold, and
//! the checker judges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use object_store::path::Path;
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep, timeout_at};
use wadi_compactor::CompactorMetrics;
use wadi_meta::catalog::Catalog;
use wadi_meta::memory::MemoryStore;
use wadi_model::env::Env;
use wadi_model::name::InvalidName;
use wadi_model::options::{AUTO_INCREMENT_CACHE, CHANGELOG_IMAGE, LOG_TTL};
use wadi_model::{Bucket, DatabaseName, Table, TableSpec};
use wadi_store::cluster::Cluster;
use wadi_store::metrics::StoreMetrics;
use wadi_store::settings::Settings;
use wadi_store::task;

use crate::checker::Checker;
use crate::clients::{
    self, COLUMNS, GROUP_COLUMN, ID_COLUMN, KEYED_COLUMNS, Kind, PARTITION_COLUMN, Scene, Shared,
};
use crate::clock::{Dice, SimSource};
use crate::director::direct;
use crate::gateway::{Gateway, Ground};
use crate::objects;
use crate::owners::Hosts;
use crate::peers::Net;
use crate::report::Report;
use crate::settle::settle;
use crate::trace::Trace;
use crate::worker::Worker;

/// What a run is like, apart from its seed.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// How long things go wrong.
    pub trouble: Duration,
    /// Whether each line of the trace is printed.
    pub verbose: bool,
    /// Nothing fails: gateways only come, and go in good order. Then nothing may be refused.
    pub calm: bool,
    /// Something that is broken on purpose, to see whether it is found.
    pub flaw: Option<Flaw>,
}

/// What may be broken on purpose. Nobody who judges knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The clock of one gateway is an hour ahead, so that its rows expire at once (R1).
    FastClock,
    /// Nobody trims (R1, the other way round).
    NoRetention,
    /// Nobody deletes (T4).
    NoDeletion,
    /// Nobody sweeps out what was dropped (T4).
    NoSweep,
    /// A pack that is needed gets lost (T4).
    LosesPack,
    /// Each page of a scan shows the time at which it was read (K1).
    PagesOfManyTimes,
    /// A fault in the code itself.
    #[cfg(feature = "flaws")]
    Code(wadi_store::flaws::Flaw),
}

impl Flaw {
    /// Whether compactors make packs of a part of their rounds, which owners must not take.
    pub(crate) fn shortens_rounds(self) -> bool {
        #[cfg(feature = "flaws")]
        return self == Flaw::Code(wadi_store::flaws::Flaw::TakesAnyPack);
        #[cfg(not(feature = "flaws"))]
        false
    }
}

/// After healing, everything that clients want must be answered in this time (V1). It includes the time to live of a
/// session whose gateway has just crashed.
const HEALED_WITHIN: Duration = Duration::from_secs(10);

/// Runs a seed.
///
/// # Errors
/// When the runtime cannot be built, or the cluster cannot be made.
pub fn run(seed: u64, script: Script) -> Result<Report, String> {
    #[cfg(feature = "flaws")]
    wadi_store::flaws::set(match script.flaw {
        Some(Flaw::Code(flaw)) => Some(flaw),
        _ => None,
    });
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    // Which of several waiting tasks a watch channel wakes first is one of tokio's own random choices.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    builder.build().map_err(|e| e.to_string())?.block_on(play(seed, script))
}

async fn play(seed: u64, script: Script) -> Result<Report, String> {
    let dice = Dice::new(seed);
    let trace = Trace::new(script.verbose);
    let (ground, tables) = ground(&dice.fork("ground"), trace.clone(), script).await?;
    let scene = Arc::new(scene(&dice.fork("scene"), &ground, tables)?);
    let readers: Vec<_> = (0..2)
        .map(|n| {
            let name = format!("reader{n}");
            let dice = dice.fork(&name);
            task::spawn(clients::follow(scene.clone(), name, dice))
        })
        .collect();
    let producers = start_producers(&scene, &dice);

    let drops = task::spawn(clients::drop_things(scene.clone(), ground.meta.clone(), dice.fork("drops")));

    direct(&scene, &ground, &dice.fork("director"), script.trouble).await;
    scene.draining.store(true, Ordering::Relaxed);
    ground.net.heal();
    scene.gateways.iter().for_each(Gateway::heal);
    scene.workers.iter().for_each(Worker::heal);
    trace.note("DIRECTOR", "healed");
    await_recovery(&scene, producers, drops, &dice.fork("probes")).await;

    scene.over.store(true, Ordering::Relaxed);
    for reader in readers {
        // A reader ends after its current read.
        let _ = reader.await;
    }
    read_all(&scene, &dice.fork("first reads")).await;
    // Later the world ends, and with it every shard that is open.
    let poisoned = ground.metrics.poisoned.get();
    if script.calm && poisoned > 0 {
        scene
            .checker
            .lock()
            .violated("V1", format!("{poisoned} shards were given up in doubt, though nothing failed"));
    }
    let slept = settle(&scene, &ground, &dice.fork("settle")).await;
    if let Some(ends) = read_all(&scene, &dice.fork("judge")).await {
        scene.checker.lock().finish(&ends);
    }
    if let Err(why) = ground.bucket.check_logs().await {
        scene.checker.lock().violated("F1", why);
    }
    let checker = scene.checker.lock();
    Ok(Report {
        seed,
        simulated: trace.start().elapsed().saturating_sub(slept),
        operations: trace.operations(),
        hash: trace.hash(),
        events: trace.counts(),
        takeovers: ground.metrics.takeovers.get(),
        poisoned,
        compacted: scene.compactors.compaction.files.get(),
        packed: scene.compactors.pack_rounds.get(),
        deleted: scene.compactors.deleted.get(),
        orphans: scene.compactors.orphans.get(),
        trims: scene.compactors.trims.get(),
        sweeps: scene.compactors.sweeps.get(),
        relieved: ground.metrics.compaction.files.get(),
        counts: checker.counts,
        violations: checker.violations().to_vec(),
    })
}

/// The stores and settings of a seed.
async fn ground(dice: &Dice, trace: Trace, script: Script) -> Result<(Ground, Vec<Made>), String> {
    let bucket = objects::Bucket::new(trace.clone());
    let linger = dice.millis(5..60);
    let settings = Settings {
        linger,
        linger_small: linger * dice.pick(1..5) as u32,
        // Below the time that V1 allows, so that a crash just before healing is over in time.
        lease_ttl: Duration::from_secs(4),
        put_budget: Duration::from_secs(2),
        // Small enough that groups, memtable flushes and reads past the tail happen all the time.
        tail_bytes: *dice.one_of(&[0, 20 << 10, 64 << 20]),
        own_chunk_bytes: *dice.one_of(&[8 << 10, 256 << 10]),
        group_objects: dice.pick(1..20) as usize,
        group_interval: dice.millis(50..1500),
        memtable_objects: dice.pick(4..200),
        memtable_interval: dice.millis(1_000..20_000),
        memtable_bytes: *dice.fork("memtables").one_of(&[10 << 10, 512 << 20]),
        row_cache_bytes: *dice.one_of(&[0, 3_000, 64 << 20]),
        pack_interval: dice.fork("packs").millis(500..8_000),
        unwell_after: dice.fork("unwell").millis(3_000..30_000),
        ..Settings::default()
    };
    settings.validate().map_err(|e| e.to_string())?;
    let env = Env::new(SimSource::new(trace.start(), Arc::default(), dice.fork("cluster")));
    let shards = dice.pick(2..5) as u32;
    let root = Path::from("w");
    let cluster =
        Cluster::fresh(shards, &env).create(bucket.raw(), &root).await.map_err(|e| e.to_string())?;
    let meta = Arc::new(MemoryStore::new());
    let catalog = Catalog::open(meta.clone()).await.map_err(|e| e.to_string())?;
    let made = tables(&dice.fork("tables"), &catalog).await?;
    let ground = Ground {
        cluster,
        bucket,
        catalog,
        flaw: script.flaw,
        meta,
        settings: Arc::new(settings),
        calm: script.calm,
        hosts: Hosts::default(),
        net: Net::new(trace.clone()),
        latency: dice.millis(4..40),
        metrics: StoreMetrics::new(&mut Registry::default()),
        trace,
        dice: dice.fork("gateways"),
    };
    Ok((ground, made))
}

/// A table, and what it was made of.
type Made = (Arc<Table>, TableSpec);

/// Makes the tables, before anything goes wrong.
async fn tables(dice: &Dice, catalog: &Catalog) -> Result<Vec<Made>, String> {
    let database: DatabaseName = "a".parse().map_err(|e: InvalidName| e.to_string())?;
    catalog.create_database(&database, None, 0).await.map_err(|e| e.to_string())?;
    let mut tables = Vec::new();
    let retention = dice.fork("retention");
    // The first is a log table, the second has a primary key.
    for number in 1..=dice.pick(2..5) {
        let keyed = number == 2 || number > 2 && dice.chance(0.5);
        let with_ids = keyed && dice.chance(0.4);
        let in_groups = keyed && dice.chance(0.6);
        // Some buckets are there from the beginning.
        let partitioned = number > 1 && dice.chance(0.4);
        let columns = if keyed { KEYED_COLUMNS.as_slice() } else { &COLUMNS };
        let of_kind = [
            with_ids.then_some(ID_COLUMN),
            in_groups.then_some(GROUP_COLUMN),
            partitioned.then_some(PARTITION_COLUMN),
        ];
        let columns: Vec<_> = columns.iter().copied().chain(of_kind.into_iter().flatten()).collect();
        let mut spec = TableSpec::log(&format!("t{number}"), &columns);
        spec.buckets = Some(dice.pick(1..4) as u32);
        if partitioned {
            spec.partition_by = vec![PARTITION_COLUMN.0.into()];
        }
        if keyed {
            let group = in_groups.then_some(GROUP_COLUMN.0);
            let partition = partitioned.then_some(PARTITION_COLUMN.0);
            spec.primary_key = group.into_iter().chain(["k"]).chain(partition).map(String::from).collect();
            spec.bucket_key = group.into_iter().map(String::from).collect();
            if dice.chance(0.25) {
                spec.properties.insert(CHANGELOG_IMAGE.into(), "wal".into());
            }
        }
        if with_ids {
            spec.auto_increment = vec![ID_COLUMN.0.into()];
            let cache = dice.one_of(&["1", "7", "100", "100000"]).to_string();
            spec.properties.insert(AUTO_INCREMENT_CACHE.into(), cache);
        }
        if retention.chance(0.5) {
            spec.properties.insert(LOG_TTL.into(), format!("{}ms", retention.pick(5_000..15_000)));
        }
        let table = catalog.create_table(&database, &spec, 0).await.map_err(|e| e.to_string())?;
        tables.push((table, spec));
    }
    Ok(tables)
}

fn scene(dice: &Dice, ground: &Ground, tables: Vec<Made>) -> Result<Scene, String> {
    let keys: Vec<u64> = tables.iter().map(|_| *dice.one_of(&[6, 60, 400])).collect();
    let clocks = dice.fork("clocks");
    // Mostly as clocks are that somebody sets; now and then further apart than rows are kept, which they then need not be.
    let skew: u64 = if clocks.chance(0.85) { clocks.pick(1..4_000) } else { clocks.pick(4_000..120_000) };
    let gateway = |n: usize| {
        let fast = n == 0 && ground.flaw == Some(Flaw::FastClock);
        let ahead = clocks.pick(0..skew) as i64 - skew as i64 / 2;
        Gateway::new(ground.clone(), n, ahead + if fast { 3_600_000 } else { 0 })
    };
    let live = dice.pick(2..4) as usize;
    let gateways: Vec<Gateway> = (0..live + dice.pick(0..3) as usize).map(gateway).collect();
    gateways.iter().take(live).for_each(Gateway::start);
    let early_expiry = dice.chance(0.6) && !ground.calm;
    let compactors = CompactorMetrics::new(&mut Registry::default());
    let workers = workers(&dice.fork("workers"), ground, &compactors);
    let scene = Scene {
        gateways,
        workers,
        compactors,
        catalog: ground.catalog.clone(),
        tables: RwLock::default(),
        buckets: Mutex::default(),
        dropped: Mutex::default(),
        partitions: Mutex::default(),
        shards: ground.cluster.shards,
        skew: Duration::from_millis(skew),
        calm: ground.calm,
        checker: Mutex::new(Checker::new(ground.trace.clone())),
        flaw: ground.flaw,
        trace: ground.trace.clone(),
        draining: AtomicBool::new(false),
        over: AtomicBool::new(false),
        early_expiry,
        staleness: if early_expiry { ground.settings.lease_ttl } else { Duration::ZERO },
    };
    for ((table, spec), keys) in tables.into_iter().zip(keys) {
        scene.add_table(&table, spec, keys)?;
    }
    Ok(scene)
}

/// Compactors: none, so that gateways help themselves, or up to two.
fn workers(dice: &Dice, ground: &Ground, metrics: &CompactorMetrics) -> Vec<Worker> {
    let worker =
        |n: u64| Worker::new(ground.clone(), n as usize, dice.pick(0..4000) as i64 - 2000, metrics.clone());
    let workers: Vec<Worker> = (0..dice.pick(0..3)).map(worker).collect();
    workers.iter().for_each(Worker::start);
    workers
}

fn start_producers(scene: &Shared, dice: &Dice) -> Vec<tokio::task::JoinHandle<()>> {
    let dice = dice.fork("producers");
    let producer = |n: u64| {
        let (name, kind) = (format!("p{n}"), *dice.one_of(&[Kind::Sequenced, Kind::Keyed, Kind::Bare]));
        let sequence = Arc::new(AtomicU64::new(0));
        let workers: Vec<_> = (0..dice.pick(1..4))
            .map(|worker| {
                let (scene, name, sequence) = (scene.clone(), name.clone(), sequence.clone());
                let dice = dice.fork(&format!("{name}.{worker}"));
                task::spawn(async move { clients::produce(scene, name, kind, &sequence, dice).await })
            })
            .collect();
        workers
    };
    (0..dice.pick(3..6)).flat_map(producer).collect()
}

/// V1: open requests end, and every bucket takes a row.
async fn await_recovery(
    scene: &Shared,
    producers: Vec<tokio::task::JoinHandle<()>>,
    drops: tokio::task::JoinHandle<()>,
    dice: &Dice,
) {
    let deadline = Instant::now() + HEALED_WITHIN;
    let buckets = scene.buckets();
    let probes = buckets.iter().enumerate().map(|(n, bucket)| {
        let dice = dice.fork(&format!("{n}"));
        async move {
            let acked = scene.checker.lock().acked_end(bucket);
            while timeout_at(deadline, clients::send_one(scene, &dice, *bucket, 1, None)).await.is_ok() {
                let is_done = {
                    let checker = scene.checker.lock();
                    checker.acked_end(bucket) > acked || checker.is_gone(bucket)
                };
                if is_done {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
            let what = format!(
                "{bucket} takes no rows {HEALED_WITHIN:?} after healing: {}",
                scene.places(bucket.shard(scene.shards))
            );
            scene.checker.lock().violated("V1", what);
        }
    });
    futures::future::join_all(probes).await;
    for producer in producers.into_iter().chain([drops]) {
        let abort = producer.abort_handle();
        if timeout_at(deadline, producer).await.is_err() {
            abort.abort();
            let what = format!("a request has no definite answer {HEALED_WITHIN:?} after healing");
            scene.checker.lock().violated("V1", what);
        }
    }
}

/// Reads everything that is there, and gives the ends of all logs. If a bucket cannot be read the run is V1's already.
async fn read_all(scene: &Scene, dice: &Dice) -> Option<BTreeMap<Bucket, u64>> {
    // Only a read that never ends reaches it: without caches, a slow store takes a minute for all of them.
    let deadline = Instant::now() + Duration::from_secs(300);
    let mut ends = BTreeMap::new();
    for bucket in &scene.buckets() {
        match timeout_at(deadline, clients::read_to_end(scene, *bucket, dice)).await {
            Ok(end) => drop(ends.insert(*bucket, end)),
            Err(_) => {
                scene.checker.lock().violated("V1", format!("{bucket} cannot be read to its end"));
                return None;
            }
        }
        if scene.keyed(bucket).is_some()
            && timeout_at(deadline, clients::scan_all(scene, *bucket, dice)).await.is_err()
        {
            scene.checker.lock().violated("V1", format!("the rows of {bucket} cannot be scanned"));
            return None;
        }
    }
    Some(ends)
}

#[cfg(test)]
mod tests;
