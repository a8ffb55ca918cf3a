//! Buckets of dropped tables, whose entries a compaction has removed while the log goes on with them.

use wadi_meta::catalog::{Dropped, Drops};

use super::setup::World;
use super::*;
use crate::database::{Compaction, CompactionMetrics};

/// A shard whose rows are in its database's files up to a point and in the log behind it; of bucket 0's entries the database
/// has none any more.
async fn swept() -> World {
    let world = World::with(|settings| settings.memtable_objects = 1);
    let shard = world.open().await;
    for bucket in [0, 1] {
        shard.append(world.part(bucket, 0..3)).await.unwrap();
    }
    let durable = || shard.database().manifest().last_l0_seq();
    let confirmed = shard.changes().borrow().0;
    while durable() < confirmed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let place = world.context.place();
    let drops = Drops::fixed([Dropped { table: world.table.id, partition: None }]);
    let compaction =
        Compaction::start(&place, ShardId(0), Some(drops), &CompactionMetrics::default()).await.unwrap();
    assert!(place.compact_everything(ShardId(0)).await.unwrap());
    compaction.stop().await;
    // Acked, and a second away from being applied.
    shard.append(world.part(0, 3..5)).await.unwrap();
    shard.abandon("a crash").await;
    shard.ended().await;
    world
}

#[tokio::test]
async fn a_dropped_bucket_goes_on_where_the_log_says() {
    let world = swept().await;
    world.dropped.lock().insert(world.table.id);
    let shard = world.open().await;
    assert_eq!(shard.bounds(&world.bucket(0)), Bounds { log_start: Offset(3), high_watermark: Offset(5) });
    assert_eq!(world.read(&shard, 0, 3).await, [3, 4]);
}

#[tokio::test]
async fn a_bucket_that_was_not_dropped_must_not_lose_its_watermark() {
    let world = swept().await;
    world.tables.lock().push(world.table.clone());
    let error = take_over(&world.context, &world.claim().await).await.unwrap_err();
    assert!(
        matches!(&error, TakeoverError::Damaged(why) if why.contains("offset 3 instead of 0")),
        "{error}"
    );
}
