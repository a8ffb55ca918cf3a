//! Packing, merging, trimming and deleting, by the owner's word, against what was appended.

use std::collections::BTreeMap;

use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use proptest::prelude::*;
use wadi_model::options::{LOG_TTL, TableOptions};
use wadi_model::{PartitionId, Table, TableId};

use super::super::packs::{Deletable, Inputs, PackError, Round};
use super::*;
use crate::keys::index;
use crate::pack::Made;
use crate::stored::{FINAL, PackName, StoredObject};

mod remains;
mod retention;

/// Everything is due at once, and durable soon.
fn world() -> World {
    let world = World::with(|settings| {
        settings.group_interval = Duration::from_millis(1);
        settings.memtable_interval = Duration::from_millis(50);
        settings.pack_interval = Duration::ZERO;
    });
    world.tables.lock().push(world.table.clone());
    world
}

impl World {
    async fn make(&self, round: &Round) -> Made {
        self.context.maker().make(ShardId(0), round).await.unwrap()
    }

    /// Does the next round, if one is due.
    async fn pack(&self, shard: &Shard) -> Option<Made> {
        settle(shard).await;
        let round = shard.next_round().await.unwrap()?;
        let made = self.make(&round).await;
        shard.commit_packs(round, made.packs.clone()).await.unwrap();
        Some(made)
    }

    /// Deletes what may be deleted, without any grace.
    async fn delete(&self, shard: &Shard) -> Deletable {
        settle(shard).await;
        let gone = shard.deletable(LogSeq(0)).await.unwrap();
        let log = gone.log.iter().map(|seq| StoredObject::log(&self.context.root, ShardId(0), *seq).path);
        let pack = |name: &PackName| StoredObject::pack(&self.context.root, ShardId(0), name).path;
        for path in log.chain(gone.packs.iter().map(pack)) {
            self.context.objects.delete(&path).await.unwrap();
        }
        shard.note_deleted(gone.clone()).await.unwrap();
        gone
    }

    async fn objects(&self, of: &str) -> Vec<String> {
        let listed: Vec<_> = self.context.objects.list(None).try_collect().await.unwrap();
        let paths = listed.into_iter().map(|meta| meta.location.to_string());
        paths.filter(|path| path.contains(&format!("/{of}/"))).collect()
    }

    fn set_ttl(&self, ttl: &str) {
        self.set_options(&[(LOG_TTL, ttl)]);
    }

    fn set_options(&self, options: &[(&str, &str)]) {
        let mut table = Table::clone(&self.table);
        let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        table.options = TableOptions::new(options.collect()).unwrap();
        *self.tables.lock() = vec![Arc::new(table)];
    }
}

/// Waits until the database is durable up to what was acked.
async fn settle(shard: &Shard) {
    let mut progress = shard.shared.progress.subscribe();
    let confirmed = *shard.shared.confirmed.borrow();
    progress.wait_for(|p| p.flushed >= confirmed).await.unwrap();
}

#[tokio::test]
async fn packed_rows_are_read_as_before() {
    let world = world();
    let shard = world.open().await;
    for i in 0..40 {
        shard.append(world.part((i % 3) as u32, i * 5..i * 5 + 5)).await.unwrap();
    }
    let mut before = Vec::new();
    for bucket in 0..3 {
        before.push(world.read_all(&shard, bucket, 0).await);
    }
    assert!(shard.unpacked_bytes() > 40);
    let made = world.pack(&shard).await.unwrap();
    assert_eq!(shard.unpacked_bytes(), 0);
    assert_eq!(made.packs.len(), 1, "three small buckets share a pack");
    assert_eq!(world.pack(&shard).await, None, "the command alone is no reason for another round");
    // A new owner has no tail in memory, so it reads the pack.
    let next = world.open().await;
    assert_eq!(next.unpacked_bytes(), 0);
    let gets = world.context.metrics.log_gets.get();
    for (bucket, rows) in before.iter().enumerate() {
        assert_eq!(&world.read_all(&next, bucket as u32, 0).await, rows);
        assert_eq!(world.read(&next, bucket as u32, 7).await, rows[7..]);
    }
    assert!(world.context.metrics.log_gets.get() - gets <= 3, "a bucket's rows are one chunk of one object");
    assert_eq!(next.append(world.part(0, 0..1)).await.unwrap().base_offset, Offset(70));
    assert!(next.unpacked_bytes() > 0);
}

#[tokio::test]
async fn large_chunks_of_a_pack_are_read_together() {
    let world = world();
    let shard = world.open().await;
    // Chunks of more than a mebibyte, which a pack keeps as they are.
    let rows = 60_000;
    for i in 0..6 {
        shard.append(world.part(0, i * rows..(i + 1) * rows)).await.unwrap();
    }
    let reads = async |shard: &Shard| {
        let gets = world.context.metrics.log_gets.get();
        let all = world.read(shard, 0, 0).await;
        assert!(all.into_iter().eq(0..6 * rows));
        world.context.metrics.log_gets.get() - gets
    };
    let unpacked = reads(&world.open().await).await;
    assert!(unpacked >= 6, "each chunk lies in an object of its own: {unpacked}");
    let owner = world.open().await;
    world.pack(&owner).await.unwrap();
    let packed = reads(&world.open().await).await;
    assert!(3 * packed <= unpacked, "{packed} requests instead of {unpacked}");
}

#[tokio::test]
async fn times_find_their_offset_in_a_pack_too() {
    let world = world();
    let shard = world.open().await;
    for (time, rows) in [(1000, 0..4), (2000, 4..6), (3000, 6..7)] {
        world.set_time(time);
        shard.append(world.part(0, rows)).await.unwrap();
    }
    world.pack(&shard).await.unwrap();
    let next = world.open().await;
    for (time, offset) in [(0, 0), (1000, 0), (1001, 4), (2000, 4), (2001, 6), (3000, 6), (3001, 7)] {
        let found = next.offset_at(&world.bucket(0), time).await.unwrap();
        assert_eq!(found, Offset(offset), "at {time}");
    }
}

#[tokio::test]
async fn what_is_packed_may_be_deleted_and_only_that() {
    let world = world();
    let shard = world.open().await;
    for i in 0..10 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
    }
    settle(&shard).await;
    assert!(shard.deletable(LogSeq(0)).await.unwrap().is_empty(), "nothing is packed yet");
    let early = Deletable { log: vec![LogSeq(2)], packs: Vec::new() };
    assert!(matches!(shard.note_deleted(early).await, Err(PackError::Refused(_))));
    world.pack(&shard).await.unwrap();
    let gone = world.delete(&shard).await;
    assert_eq!(
        gone.log,
        (2..=11).map(LogSeq).collect::<Vec<_>>(),
        "all but the fence at 1 and the command at 12"
    );
    let next = world.open().await;
    assert_eq!(world.read_all(&next, 0, 0).await, (0..10).collect::<Vec<_>>());
    assert!(world.delete(&next).await.is_empty());
}

#[tokio::test]
async fn holdings_tell_what_is_live_and_what_is_dead() {
    let world = world();
    world.set_time(1_000);
    let shard = world.open().await;
    for i in 0..3 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
    }
    settle(&shard).await;
    let held = shard.holdings().await.unwrap();
    assert_eq!((held.log, held.deletable), (vec![LogSeq(2), LogSeq(3), LogSeq(4)], LogSeq(0)));
    let made = world.pack(&shard).await.unwrap();
    settle(&shard).await;
    let held = shard.holdings().await.unwrap();
    assert_eq!((held.live, held.dead), (made.packs.clone(), Vec::new()));
    assert_eq!((held.deletable, held.flushed), (LogSeq(4), LogSeq(5)));
    world.delete(&shard).await;
    world.set_ttl("1ms");
    world.set_time(9_000_000);
    shard.trim().await.unwrap();
    settle(&shard).await;
    let held = shard.holdings().await.unwrap();
    assert_eq!((held.live, held.dead), (Vec::new(), made.packs));
    assert!(!held.log.contains(&LogSeq(4)), "reported as deleted");
}

#[tokio::test]
async fn shared_packs_are_merged_and_large_buckets_leave_them() {
    let world = world();
    let shard = world.open().await;
    let mut rows = 0;
    for round in 0..8 {
        // Random names do not compress, so bucket 0 grows to more than a pack of its own needs.
        let part = world.part(0, rows..rows + 1);
        let big = Part { rows: incompressible(round, 25_000), ..part };
        shard.append(big).await.unwrap();
        shard.append(world.part(1, rows..rows + 3)).await.unwrap();
        rows += 3;
        let made = world.pack(&shard).await.unwrap();
        assert_eq!(made.packs.len(), 1);
        assert_eq!(made.packs[0].level, 0);
    }
    let made = world.pack(&shard).await.unwrap();
    let levels: Vec<u32> = made.packs.iter().map(|name| name.level).collect();
    assert_eq!(levels, [FINAL, 1], "bucket 0 has left, bucket 1 is still small");
    assert_eq!(world.delete(&shard).await.packs.len(), 8);
    let next = world.open().await;
    assert_eq!(world.read_all(&next, 1, 0).await, (0..24).collect::<Vec<_>>());
    let all = world.read_all(&next, 0, 0).await;
    assert_eq!(all.len(), 8 * 25_000);
    assert!(all.is_sorted());
    assert_eq!(world.objects("pack").await.len(), 2);
}

/// Rows whose names are random, of about 100 bytes each.
fn incompressible(round: i64, rows: i64) -> RecordBatch {
    let mut state = 0x1234_5678_u64 + round as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    };
    let name: arrow::array::StringArray =
        (0..rows).map(|_| Some((0..6).map(|_| format!("{:016x}", next())).collect::<String>())).collect();
    let id = Int64Array::from_iter_values(round * rows..(round + 1) * rows);
    let n: arrow::array::Int32Array = (0..rows).map(|i| Some(i as i32)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(id) as _, true),
        ("n", Arc::new(n) as _, true),
        ("name", Arc::new(name) as _, true),
    ])
    .unwrap()
}

#[tokio::test]
async fn packs_that_lack_rows_are_refused() {
    let world = world();
    let shard = world.open().await;
    for i in 0..6 {
        shard.append(world.part((i % 2) as u32, i..i + 1)).await.unwrap();
    }
    settle(&shard).await;
    let round = shard.next_round().await.unwrap().unwrap();
    let Inputs::Log(log) = &round.inputs else { panic!("{round:?}") };
    for left_out in 0..log.len() {
        let mut fewer = log.clone();
        fewer.remove(left_out);
        let made = world.make(&Round { inputs: Inputs::Log(fewer), ..round.clone() }).await;
        let refused = shard.commit_packs(round.clone(), made.packs).await.unwrap_err();
        assert!(matches!(refused, PackError::Refused(_)), "{refused}");
    }
    assert!(matches!(shard.commit_packs(round.clone(), Vec::new()).await, Err(PackError::Refused(_))));
    let twice = world.make(&round).await.packs.into_iter().chain(world.make(&round).await.packs).collect();
    assert!(matches!(shard.commit_packs(round.clone(), twice).await, Err(PackError::Refused(_))));
    let made = world.make(&round).await;
    shard.commit_packs(round.clone(), made.packs.clone()).await.unwrap();
    shard.commit_packs(round.clone(), made.packs).await.expect("the same again is no change");
    let again = world.make(&round).await;
    assert!(matches!(shard.commit_packs(round, again.packs).await, Err(PackError::Stale(_))));
}

#[tokio::test]
async fn a_round_of_an_owner_before_is_stale() {
    let world = world();
    let old = world.open().await;
    old.append(world.part(0, 0..5)).await.unwrap();
    settle(&old).await;
    let round = old.next_round().await.unwrap().unwrap();
    let made = world.make(&round).await;
    let new = world.open().await;
    settle(&new).await;
    let refused = new.commit_packs(round.clone(), made.packs.clone()).await.unwrap_err();
    assert!(matches!(refused, PackError::Stale(_)), "{refused}");
    assert!(old.commit_packs(round, made.packs).await.is_err(), "the old owner cannot write any more");
    assert!(world.pack(&new).await.is_some());
    assert_eq!(world.read_all(&world.open().await, 0, 0).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn expired_rows_leave_and_no_others() {
    let world = world();
    world.set_ttl("1h");
    let shard = world.open().await;
    const HOUR: i64 = 3_600_000;
    for i in 0..6 {
        world.set_time(i * HOUR / 2);
        shard.append(world.part(0, i..i + 1)).await.unwrap();
        if i == 2 {
            world.pack(&shard).await.unwrap();
        }
    }
    settle(&shard).await;
    world.set_time(2 * HOUR + 1);
    // Rows 0 to 2 are older than an hour: 0, 0.5 and 1 h against 1 h and 1 ms.
    assert_eq!(shard.trim().await.unwrap(), 1);
    assert_eq!(shard.trim().await.unwrap(), 0, "and then there is nothing to do");
    assert_eq!(shard.bounds(&world.bucket(0)).log_start, Offset(3));
    assert!(matches!(world.try_read(&shard, 0, 2).await, Err(LogReadError::OutOfRange { .. })));
    assert_eq!(world.delete(&shard).await.packs.len(), 1, "nobody needs the pack any more");
    let next = world.open().await;
    assert_eq!(next.bounds(&world.bucket(0)).log_start, Offset(3));
    assert_eq!(world.read_all(&next, 0, 3).await, [3, 4, 5]);
    world.set_time(9 * HOUR);
    settle(&next).await;
    assert_eq!(next.trim().await.unwrap(), 1);
    assert_eq!(next.bounds(&world.bucket(0)), Bounds { log_start: Offset(6), high_watermark: Offset(6) });
    assert_eq!(next.append(world.part(0, 6..7)).await.unwrap().base_offset, Offset(6));
    assert_eq!(world.read_all(&next, 0, 6).await, [6]);
}

#[tokio::test]
async fn buckets_of_dropped_tables_go_as_a_whole() {
    let world = world();
    let shard = world.open().await;
    let other = Bucket { table: TableId(9), partition: PartitionId(4), bucket: 0 };
    for i in 0..4 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
        shard.append(Part { bucket: other, ..world.part(0, i..i + 1) }).await.unwrap();
    }
    settle(&shard).await;
    assert_eq!(shard.trim().await.unwrap(), 1, "table 9 is in no catalog");
    assert_eq!(shard.bounds(&other), Bounds::default());
    // A write that was on its way.
    let late = shard.append(Part { bucket: other, ..world.part(0, 4..5) }).await.unwrap();
    assert_eq!(late.base_offset, Offset(4));
    let next = world.open().await;
    assert_eq!(world.read_all(&next, 0, 0).await, [0, 1, 2, 3]);
    settle(&next).await;
    assert_eq!(next.trim().await.unwrap(), 1);
    let made = world.pack(&next).await.unwrap();
    assert_eq!(made.packs.len(), 1);
    assert_eq!(world.read_all(&world.open().await, 0, 0).await, [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_write_that_lands_right_behind_a_drop_is_known_to_the_next_owner() {
    // So long a group waits that the command and the write are in one.
    let world = World::with(|settings| {
        settings.group_interval = Duration::from_millis(300);
        settings.memtable_interval = Duration::from_millis(50);
    });
    let shard = world.open().await;
    let dropped = Bucket { table: TableId(9), partition: PartitionId(4), bucket: 0 };
    let part = |rows| Part { bucket: dropped, ..world.part(0, rows) };
    shard.append(part(0..4)).await.unwrap();
    settle(&shard).await;
    let write = async {
        while shard.bounds(&dropped) != Bounds::default() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shard.append(part(4..5)).await.unwrap()
    };
    let (trimmed, late) = futures::join!(shard.trim(), write);
    assert_eq!((trimmed.unwrap(), late.base_offset), (1, Offset(4)));
    settle(&shard).await;
    let next = world.open().await;
    assert_eq!(next.bounds(&dropped).high_watermark, Offset(5), "its rows are found, and so removed");
    settle(&next).await;
    assert_eq!(next.trim().await.unwrap(), 1);
}

/// What may happen to a shard.
#[derive(Clone, Debug)]
enum Step {
    Append { bucket: u32, rows: i64 },
    Pack,
    Trim { ttl: i64 },
    TrimTo { bytes: u64 },
    Delete,
    Crash,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3u32, 1..40i64).prop_map(|(bucket, rows)| Step::Append { bucket, rows }),
        4 => Just(Step::Pack),
        1 => (1..60i64).prop_map(|ttl| Step::Trim { ttl }),
        1 => (0..6_000u64).prop_map(|bytes| Step::TrimTo { bytes }),
        1 => Just(Step::Delete),
        1 => Just(Step::Crash),
        1 => Just(Step::Release),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_order_of_work_keeps_what_is_to_be_kept(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = world();
            let mut shard = world.open().await;
            // When each row of each bucket was flushed.
            let mut written: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
            let mut now = 1_000;
            for step in steps {
                now += 10;
                world.set_time(now);
                match step {
                    Step::Append { bucket, rows } => {
                        let times = written.entry(bucket).or_default();
                        let first = times.len() as i64;
                        let appended = shard.append(world.part(bucket, first..first + rows)).await.unwrap();
                        assert_eq!(appended.base_offset.0 as i64, first);
                        times.extend(std::iter::repeat_n(now, rows as usize));
                    }
                    Step::Pack => drop(world.pack(&shard).await),
                    Step::Trim { ttl } => {
                        world.set_ttl(&format!("{ttl}ms"));
                        settle(&shard).await;
                        shard.trim().await.unwrap();
                    }
                    Step::TrimTo { bytes } => {
                        settle(&shard).await;
                        for (bucket, limit) in [(0, bytes), (1, bytes / 2), (2, bytes / 3)] {
                            retention::trim_to(&world, &shard, bucket, limit).await;
                        }
                    }
                    Step::Delete => drop(world.delete(&shard).await),
                    Step::Crash => shard = world.open().await,
                    Step::Release => {
                        shard.release().await;
                        shard = world.open().await;
                    }
                }
                for (bucket, times) in &written {
                    let bounds = shard.bounds(&world.bucket(*bucket));
                    let start = bounds.log_start.0 as usize;
                    assert_eq!(bounds.high_watermark.0 as usize, times.len());
                    // The shortest life that a table ever had is one millisecond, so only rows of this moment are sure to be kept;
                    // trimming to a size looks for itself.
                    assert!(times[start.min(times.len())..].len() >= times.iter().filter(|t| **t == now).count());
                    let rows = world.read_all(&shard, *bucket, start as u64).await;
                    assert_eq!(rows, (start as i64..times.len() as i64).collect::<Vec<_>>());
                }
            }
            // What nobody needs is gone in the end (T4).
            while world.pack(&shard).await.is_some() {}
            world.set_ttl("1ms");
            world.set_time(now + 1_000);
            shard.trim().await.unwrap();
            // A second time, as the first one's commands are durable only now.
            world.delete(&shard).await;
            world.delete(&shard).await;
            assert_eq!(world.objects("pack").await, Vec::<String>::new());
        });
    }
}
