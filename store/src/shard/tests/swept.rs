//! Buckets that the owner has forgotten, while the log goes on with them.

use super::setup::World;
use super::*;
use crate::log::{object_path, read_object};

/// A shard that has forgotten its buckets, and then took a write to bucket 0. Its table is not dropped any more.
async fn swept() -> World {
    let world = World::with(|settings| settings.memtable_objects = 1);
    world.tables.lock().push(world.table.clone());
    let shard = world.open().await;
    for bucket in [0, 1] {
        shard.append(world.part(bucket, 0..3)).await.unwrap();
    }
    let mut confirmed = shard.changes();
    let confirmed = confirmed.borrow_and_update().0;
    while shard.database().manifest().last_l0_seq() < confirmed {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world.dropped.lock().insert(world.table.id);
    while shard.bounds(&world.bucket(0)) != Bounds::default() {
        shard.trim().await.unwrap();
    }
    world.dropped.lock().clear();
    // Acked, and a second away from being applied.
    let late = shard.append(world.part(0, 3..5)).await.unwrap();
    assert_eq!(late.base_offset, Offset(3));
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
async fn a_dropped_bucket_with_several_chunks_in_its_first_object_is_replayed() {
    let world = World::with(|settings| {
        (settings.linger, settings.linger_small) = (Duration::from_millis(50), Duration::from_millis(50));
    });
    let shard = world.open().await;
    // A shard that was idle flushes at once; behind that what comes waits for the linger.
    shard.append(world.part(1, 0..1)).await.unwrap();
    let other = Part { compression: LogCompression::None, ..world.part(0, 3..5) };
    let (one, two) = futures::join!(shard.append(world.part(0, 0..3)), shard.append(other));
    assert_eq!((one.unwrap().base_offset, two.unwrap().base_offset), (Offset(0), Offset(3)));
    let path = object_path(&world.context.root, ShardId(0), LogSeq(3));
    let object = read_object(world.context.objects.as_ref(), &path).await.unwrap().unwrap();
    assert_eq!(object.footer.chunks.len(), 2, "both are in one object");
    shard.abandon("a crash").await;
    shard.ended().await;
    world.dropped.lock().insert(world.table.id);
    let next = world.open().await;
    assert_eq!(next.bounds(&world.bucket(0)).high_watermark, Offset(5));
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
