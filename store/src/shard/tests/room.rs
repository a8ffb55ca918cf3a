//! Shards that have less memory for their databases than they write.

use super::setup::World;
use super::*;

/// Each write waits until the one before is flushed, and the last one does not keep the shard from being given up.
#[tokio::test]
async fn a_shard_without_room_for_a_memtable_goes_on_and_is_released() {
    let world = World::with(|settings| {
        settings.memtable_bytes = 1;
        settings.group_interval = Duration::from_millis(1);
    });
    let shard = world.open().await;
    for i in 0..20 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
    }
    let released = tokio::time::timeout(Duration::from_secs(30), shard.release()).await;
    released.expect("it waits for room that only itself can make");
    assert_eq!(world.context.memtables.used(), 0);
    assert_eq!(world.read_all(&world.open().await, 0, 0).await, (0..20).collect::<Vec<_>>());
}
