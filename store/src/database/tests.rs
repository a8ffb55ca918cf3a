//! Compaction of a database that another task writes, beside it and instead of it.

use std::sync::atomic::{AtomicI64, Ordering};

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use slatedb::Db;
use tokio::time::{Instant, sleep};
use wadi_meta::catalog::{Dropped, Drops};
use wadi_model::env::{Env, Source};
use wadi_model::{Bucket, Offset, PartitionId, TableId};

use super::*;
use crate::keys;

const SHARD: ShardId = ShardId(0);
const PATIENCE: Duration = Duration::from_secs(60);

struct Wall(Arc<AtomicI64>);

impl Source for Wall {
    fn now_millis(&self) -> i64 {
        // Alive, so that names differ; and in steps that a test chooses.
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        Env::default().random()
    }
}

/// A database with its writer, and a place to compact it from.
struct World {
    place: Place,
    db: Db,
    seq: u64,
    wall: Arc<AtomicI64>,
    clock: ShardClock,
}

impl World {
    async fn new() -> World {
        let wall = Arc::new(AtomicI64::new(1_000_000_000_000));
        let place = Place {
            objects: Arc::new(InMemory::new()),
            root: Path::from("w"),
            env: Env::new(Wall(wall.clone())),
            local: false,
        };
        let clock = ShardClock::new(place.env.clone(), 0);
        let db = Db::builder(database_path(&place.root, SHARD), place.objects.clone())
            .with_settings(Settings { manifest_poll_interval: Duration::from_millis(200), ..settings() })
            .with_system_clock(Arc::new(clock.clone()))
            .with_db_cache_disabled()
            .build()
            .await
            .unwrap();
        World { place, db, seq: 0, wall, clock }
    }

    /// Puts entries and makes a file of them.
    async fn file(&mut self, entries: impl IntoIterator<Item = (bytes::Bytes, String)>) {
        let mut batch = WriteBatch::new();
        batch.put(keys::applied::key(), self.seq.to_string());
        entries.into_iter().for_each(|(key, value)| batch.put(key, value));
        self.seq += 1;
        write(&self.db, batch, LogSeq(self.seq)).await.unwrap();
        flush(&self.db).await.unwrap();
    }

    /// Rows of a table, `count` of them, and its high watermark.
    async fn rows(&mut self, table: u64, partition: u64, count: u64) {
        let bucket = bucket(table, partition);
        let seq = self.seq;
        let rows = (0..count).map(|n| (keys::row::key(&bucket, &n.to_be_bytes()), format!("{n} at {seq}")));
        let more = [
            (keys::watermark::key(&bucket), seq.to_string()),
            (keys::index::key(&bucket, Offset(7)), "i".to_owned()),
            (keys::ids::key(&bucket), "n".to_owned()),
            (keys::producer::key(&bucket, "p"), "p".to_owned()),
        ];
        self.file(rows.chain(more)).await;
    }

    async fn compaction(&self, drops: Option<Drops>) -> Compaction {
        Compaction::start(&self.place, SHARD, drops, &CompactionMetrics::default()).await.unwrap()
    }

    async fn look(&self) -> Look {
        self.place.look(SHARD).await.unwrap().unwrap()
    }

    async fn until(&self, what: &str, holds: impl Fn(Look) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self.look().await) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.look().await);
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many files with entries there are.
    async fn files(&self) -> usize {
        let all: Vec<_> = self.place.objects.list(Some(&self.place.path(SHARD))).try_collect().await.unwrap();
        all.iter().filter(|object| object.location.as_ref().contains("/compacted/")).count()
    }

    /// The writer's entries, as it sees them once it knows the newest manifest.
    async fn count(&self, table: u64, partition: u64) -> usize {
        let deadline = Instant::now() + PATIENCE;
        let newest = self.look().await.manifest;
        while self.db.manifest().id() < newest {
            assert!(Instant::now() < deadline, "the writer does not see the compaction");
            sleep(Duration::from_millis(50)).await;
        }
        let mut count = 0;
        for prefix in keys::prefixes_of(TableId(table), Some(PartitionId(partition))) {
            let mut entries = self.db.scan_prefix(prefix, ..).await.unwrap();
            while entries.next().await.unwrap().is_some() {
                count += 1;
            }
        }
        count
    }
}

fn bucket(table: u64, partition: u64) -> Bucket {
    Bucket { table: TableId(table), partition: PartitionId(partition), bucket: 0 }
}

#[tokio::test]
async fn files_are_merged_beside_the_writer_also_by_a_clock_that_is_behind() {
    let mut world = World::new().await;
    for _ in 0..8 {
        world.rows(1, 0, 10).await;
    }
    assert_eq!(world.look().await, Look { level0: 8, runs: 0, ..world.look().await });
    // Whoever compacts is an hour behind the writer; and so is a third one behind the second.
    for hours in 1..=2 {
        let writer = world.wall.fetch_sub(3_600_000, Ordering::SeqCst);
        let mut compaction = world.compaction(None).await;
        tokio::select! {
            () = world.until("files of level 0 go", |look| look.level0 < LEVEL0_DUE && look.runs > 0) => {}
            why = compaction.ended() => panic!("round {hours}: {why}"),
        }
        compaction.stop().await;
        world.wall.store(writer, Ordering::SeqCst);
        assert_eq!(world.count(1, 0).await, 14);
        for _ in 0..4 {
            world.rows(1, 0, 10).await;
        }
    }
    assert!(world.clock.now_millis() > 0);
    world.db.close().await.unwrap();
}

#[tokio::test]
async fn a_second_compaction_ends_the_first_and_nothing_is_lost() {
    let mut world = World::new().await;
    let mut first = world.compaction(None).await;
    sleep(Duration::from_millis(100)).await;
    let second = world.compaction(None).await;
    for _ in 0..6 {
        world.rows(1, 0, 100).await;
    }
    let ended = tokio::time::timeout(PATIENCE, first.ended()).await.expect("the first must end");
    assert_eq!(ended, "another process compacts the shard now");
    world.until("files of level 0 go", |look| look.level0 < LEVEL0_DUE && look.runs > 0).await;
    // One that is dropped stops too, wherever it is; the next one takes its jobs up.
    drop(second);
    for _ in 0..6 {
        world.rows(1, 0, 100).await;
    }
    let third = world.compaction(None).await;
    world.until("files of level 0 go", |look| look.level0 < LEVEL0_DUE).await;
    third.stop().await;
    assert_eq!(world.count(1, 0).await, 104);
    let mut rows = world.db.scan_prefix(keys::row::range(&bucket(1, 0), b"").start, ..).await.unwrap();
    while let Some(row) = rows.next().await.unwrap() {
        assert!(row.value.ends_with(b"at 11"), "an old version of a row: {row:?}");
    }
}

#[tokio::test]
async fn entries_of_what_was_dropped_go_and_no_others() {
    let mut world = World::new().await;
    // Table 1 is dropped, and partition 2 of table 2. Both are in old runs and in new files.
    let dropped = [
        Dropped { table: TableId(1), partition: None },
        Dropped { table: TableId(2), partition: Some(PartitionId(2)) },
    ];
    let tables = [(1, 0), (1, 7), (2, 2), (2, 3), (3, 0), (3, 2)];
    for _ in 0..2 {
        for (table, partition) in tables {
            world.rows(table, partition, 5).await;
        }
    }
    let metrics = CompactionMetrics::default();
    let before = Compaction::start(&world.place, SHARD, None, &metrics).await.unwrap();
    world.until("runs are made", |look| look.level0 < LEVEL0_DUE).await;
    before.stop().await;
    assert_eq!(metrics.dropped.get(), 0);
    for (table, partition) in tables {
        world.rows(table, partition, 5).await;
        assert_eq!(world.count(table, partition).await, 9);
    }
    assert!(world.place.has_any(SHARD, &dropped).await.unwrap());

    // What is merged without the oldest run must not let older versions come back.
    let drops = Drops::fixed(dropped);
    let after = Compaction::start(&world.place, SHARD, Some(drops.clone()), &metrics).await.unwrap();
    world.until("files of level 0 go", |look| look.level0 < LEVEL0_DUE).await;
    while world.place.has_open_jobs(SHARD).await.unwrap() {
        sleep(Duration::from_millis(100)).await;
    }
    let look = world.look().await;
    assert!(look.level0 == 0 && look.runs > 1, "{look:?}");
    for (table, partition) in tables {
        let gone = drops.has(TableId(table), PartitionId(partition));
        assert_eq!(world.count(table, partition).await, if gone { 0 } else { 9 }, "{table}, {partition}");
    }
    assert!(world.place.compact_everything(SHARD).await.unwrap());
    after.stop().await;
    assert_eq!(world.look().await, Look { level0: 0, runs: 1, ..world.look().await });
    assert!(!world.place.has_any(SHARD, &dropped).await.unwrap());
    let kept = Dropped { table: TableId(2), partition: Some(PartitionId(3)) };
    assert!(world.place.has_any(SHARD, &[kept]).await.unwrap());
    for (table, partition) in tables {
        let gone = drops.has(TableId(table), PartitionId(partition));
        assert_eq!(world.count(table, partition).await, if gone { 0 } else { 9 }, "{table}, {partition}");
    }
    assert!(metrics.dropped.get() > 0 && metrics.files.get() > 0 && metrics.bytes.get() > 0);
    assert!(world.db.get(keys::applied::key()).await.unwrap().is_some());
}

#[tokio::test]
async fn files_that_were_merged_are_collected() {
    let mut world = World::new().await;
    for _ in 0..4 {
        world.rows(1, 0, 10).await;
    }
    let compaction = world.compaction(None).await;
    world.until("files of level 0 go", |look| look.level0 == 0).await;
    compaction.stop().await;
    assert_eq!(world.files().await, 5, "four, and what they became");
    world.place.collect_garbage(SHARD).await;
    assert_eq!(world.files().await, 5, "they are young");
    // An hour later, which is behind the compaction's checkpoint too. A file of level 0 is newer than they are.
    world.wall.fetch_add(3_600_000, Ordering::SeqCst);
    world.rows(1, 0, 10).await;
    world.place.collect_garbage(SHARD).await;
    assert_eq!(world.files().await, 2);
    assert_eq!(world.count(1, 0).await, 14);
}
