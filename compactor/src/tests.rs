//! Compactors on a cluster in memory, in paused time: who has which shard, and what they do to databases.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use slatedb::config::{FlushOptions, FlushType, WriteOptions};
use slatedb::{Db, WriteBatch};
use tokio::time::{Instant, sleep};
use wadi_meta::catalog::{Catalog, Dropped};
use wadi_meta::memory::MemoryStore;
use wadi_model::env::{Env, Source};
use wadi_model::{Bucket, LogSeq, PartitionId, ShardId, TableId, TableSpec};
use wadi_store::database::LEVEL0_DUE;
use wadi_store::host::COMPACTORS;
use wadi_store::keys;
use wadi_store::log::database_path;
use wadi_store::secret::ClusterSecret;
use wadi_store::shard::{Deletable, PackError, Round};
use wadi_store::stored::PackName;
use wadi_store::task::Cpu;

use super::*;

mod debt;
mod forget;

const PATIENCE: Duration = Duration::from_secs(600);
const SHARD: ShardId = ShardId(0);
const FORGET_DELAY: Duration = Duration::from_secs(100);

/// Wall time that stands still with the test's.
struct Paused {
    began: Instant,
    random: AtomicU64,
}

impl Source for Paused {
    fn now_millis(&self) -> i64 {
        1_000_000_000_000 + self.began.elapsed().as_millis() as i64
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst)
    }
}

struct World {
    place: Place,
    meta: Arc<dyn MetaStore>,
    shards: u32,
    /// If there are any.
    owners: Option<Arc<Known>>,
}

/// Owners that say what they are told to say.
#[derive(Debug, Default)]
struct Known(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    unpacked: u64,
    left: Vec<Dropped>,
    /// Something is left every second time that it is asked.
    flickers: bool,
    silent: bool,
    asked: u64,
}

#[async_trait]
impl Owners for Known {
    async fn next_round(&self, _: ShardId) -> Result<Option<Round>, PackError> {
        Ok(None)
    }

    async fn commit_packs(&self, _: ShardId, _: Round, _: Vec<PackName>) -> Result<(), PackError> {
        Ok(())
    }

    async fn trim(&self, _: ShardId) -> Result<usize, PackError> {
        Ok(0)
    }

    async fn deletable(&self, _: ShardId, _: LogSeq) -> Result<Deletable, PackError> {
        Ok(Deletable::default())
    }

    async fn note_deleted(&self, _: ShardId, _: Deletable) -> Result<(), PackError> {
        Ok(())
    }

    async fn known_packs(&self, _: ShardId, packs: Vec<PackName>) -> Result<Vec<PackName>, PackError> {
        Ok(packs)
    }

    async fn unpacked_bytes(&self, _: ShardId) -> Result<u64, PackError> {
        Ok(self.0.lock().unpacked)
    }

    async fn remains(&self, shard: ShardId, dropped: Vec<Dropped>) -> Result<Vec<Dropped>, PackError> {
        let mut told = self.0.lock();
        if told.silent && shard.0 != 0 {
            return Err(PackError::NotOwned);
        }
        told.asked += u64::from(shard == SHARD);
        if told.flickers && told.asked.is_multiple_of(2) {
            return Ok(dropped);
        }
        Ok(dropped.into_iter().filter(|one| told.left.contains(one)).collect())
    }
}

impl World {
    fn new(shards: u32) -> World {
        let env = Env::new(Paused { began: Instant::now(), random: AtomicU64::new(7) });
        let place = Place { objects: Arc::new(InMemory::new()), root: Path::from("w"), env, local: false };
        World { place, meta: Arc::new(MemoryStore::new()), shards, owners: None }
    }

    async fn compactor(&self) -> (Compactor, CompactorMetrics) {
        let settings = Settings {
            interval: Duration::from_secs(10),
            sweep_delay: Duration::from_secs(30),
            sweep_interval: Duration::from_secs(60),
            forget_delay: FORGET_DELAY,
            forget_interval: Duration::from_secs(20),
            ..Settings::default()
        };
        let metrics = CompactorMetrics::new(&mut Registry::default());
        let (place, meta) = (self.place.clone(), self.meta.clone());
        let tables = Arc::new(Catalog::open(meta.clone()).await.unwrap());
        let maker = Maker { place, cpu: Cpu::inline(), tables };
        // No gateway runs, so nobody owns anything.
        let secret = ClusterSecret::of(meta.as_ref(), &self.place.env).await.unwrap();
        let owners: Arc<dyn Owners> = match &self.owners {
            Some(known) => known.clone(),
            None => Arc::new(owners::RemoteOwners::new(meta.clone(), secret)),
        };
        let ground = Ground::new(maker, self.shards, meta, owners, settings, metrics.clone());
        (Compactor::start(ground).await.unwrap(), metrics)
    }

    async fn database(&self) -> Db {
        self.database_of(SHARD).await
    }

    async fn database_of(&self, shard: ShardId) -> Db {
        let settings = slatedb::Settings {
            wal_enabled: false,
            flush_interval: None,
            compactor_options: None,
            garbage_collector_options: None,
            ..slatedb::Settings::default()
        };
        let path = database_path(&self.place.root, shard);
        Db::builder(path, self.place.objects.clone()).with_settings(settings).build().await.unwrap()
    }

    async fn level0(&self) -> usize {
        self.place.look(SHARD).await.unwrap().unwrap().level0
    }
}

/// Makes a file with rows of these tables.
async fn file(db: &Db, seq: u64, tables: &[TableId]) {
    let mut batch = WriteBatch::new();
    for table in tables {
        let bucket = Bucket { table: *table, partition: PartitionId(0), bucket: 0 };
        for row in 0..100_u64 {
            batch.put(keys::row::key(&bucket, &row.to_be_bytes()), format!("{row} of {seq}"));
        }
        batch.put(keys::watermark::key(&bucket), "w");
    }
    #[allow(clippy::needless_update, reason = "with `--cfg dst` there is another field")]
    let options = WriteOptions { seqnum: seq, ..WriteOptions::default() };
    db.write_with_options(batch, &options).await.unwrap();
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(100)).await;
    }
}

fn shards(all: &[&CompactorMetrics]) -> Vec<i64> {
    all.iter().map(|metrics| metrics.shards.get()).collect()
}

#[tokio::test(start_paused = true)]
async fn compactors_share_the_shards_and_follow_one_another() {
    let world = World::new(8);
    let (first, a) = world.compactor().await;
    until("one takes all", async || shards(&[&a]) == [8]).await;
    let (second, b) = world.compactor().await;
    until("two take half each", async || shards(&[&a, &b]) == [4, 4]).await;
    let (third, c) = world.compactor().await;
    until("three take three at most", async || {
        let held = shards(&[&a, &b, &c]);
        held.iter().sum::<i64>() == 8 && held.iter().all(|held| *held <= 3)
    })
    .await;
    assert_eq!(a.members.get(), 3);

    // A crash: its session runs out.
    drop(first);
    until("the others take over", async || shards(&[&b, &c]) == [4, 4]).await;
    // In good order: no waiting for a session.
    let before = Instant::now();
    second.stop().await;
    until("the last one has all", async || shards(&[&c]) == [8]).await;
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert_eq!(shards(&[&b]), [0]);
    third.stop().await;
    assert!(world.meta.list("duties/").await.unwrap().entries.is_empty());
    assert!(world.meta.list(COMPACTORS).await.unwrap().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_database_is_compacted_and_its_files_are_collected_by_whoever_is_left() {
    let world = World::new(1);
    let db = world.database().await;
    let (first, a) = world.compactor().await;
    until("the shard is taken", async || shards(&[&a]) == [1]).await;
    let (second, b) = world.compactor().await;
    for seq in 1..=6 {
        file(&db, seq, &[TableId(1)]).await;
    }
    // Killed while it compacts.
    until("it compacts", async || a.compacting.get() == 1).await;
    drop(first);
    until("files of level 0 go", async || world.level0().await < LEVEL0_DUE).await;
    until("it stops where there is nothing to do", async || shards(&[&b]) == [1] && b.compacting.get() == 0)
        .await;
    for seq in 7..=10 {
        file(&db, seq, &[TableId(1)]).await;
    }
    until("and again", async || world.level0().await < LEVEL0_DUE).await;
    until("garbage is collected", async || b.collections.get() > 0).await;
    assert!(b.compaction.files.get() > 0);
    assert_eq!(b.failures.get(), 0);
    second.stop().await;
    // What it holds is right.
    let db = {
        db.close().await.unwrap();
        world.database().await
    };
    let bucket = Bucket { table: TableId(1), partition: PartitionId(0), bucket: 0 };
    for row in 0..100_u64 {
        let value = db.get(keys::row::key(&bucket, &row.to_be_bytes())).await.unwrap();
        assert_eq!(value, Some(format!("{row} of 10").into()));
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_dropped_table_leave_a_database_that_nobody_writes() {
    let world = World::new(1);
    let catalog = Catalog::open(world.meta.clone()).await.unwrap();
    let name = "d".parse().unwrap();
    catalog.create_database(&name, None, 0).await.unwrap();
    let mut tables = Vec::new();
    for table in ["gone", "kept"] {
        let spec = TableSpec::log(table, &[("a", "bigint")]);
        tables.push(catalog.create_table(&name, &spec, 0).await.unwrap());
    }
    let db = world.database().await;
    for seq in 1..=2 {
        file(&db, seq, &[tables[0].id, tables[1].id]).await;
    }
    let [gone, kept] = [0, 1].map(|n: usize| [Dropped { table: tables[n].id, partition: None }]);
    let (compactor, metrics) = world.compactor().await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(metrics.compaction.files.get(), 0, "two files are no reason to compact");
    let dropped_at = Instant::now();
    catalog.drop_table(&tables[0].name).await.unwrap();
    until("the rows go", async || !world.place.has_any(SHARD, &gone).await.unwrap()).await;
    assert!(dropped_at.elapsed() >= Duration::from_secs(30), "too early: {:?}", dropped_at.elapsed());
    assert!(world.place.has_any(SHARD, &kept).await.unwrap());
    until("it is noted", async || world.meta.get("sweeps/0").await.unwrap().is_some()).await;
    assert_eq!(metrics.sweeps.get(), 1);
    // The newest version of each; its high watermark is not a compactor's to remove.
    assert_eq!(metrics.compaction.dropped.get(), 100);

    // A table of which there is nothing costs no compaction, here and for the next holder.
    let files = metrics.compaction.files.get();
    let spec = TableSpec::log("empty", &[("a", "bigint")]);
    let empty = catalog.create_table(&name, &spec, 0).await.unwrap();
    catalog.drop_table(&empty.name).await.unwrap();
    let before = world.meta.get("sweeps/0").await.unwrap().unwrap().value;
    until("it is noted", async || world.meta.get("sweeps/0").await.unwrap().unwrap().value != before).await;
    compactor.stop().await;
    let (compactor, again) = world.compactor().await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!((metrics.compaction.files.get(), again.compaction.files.get()), (files, 0));
    assert_eq!((metrics.failures.get(), again.failures.get()), (0, 0));
    compactor.stop().await;
}
