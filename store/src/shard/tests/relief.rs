//! A shard whose database nobody else compacts.

use super::setup::World;
use super::*;

#[tokio::test]
async fn a_shard_goes_on_behind_what_its_database_holds_uncompacted() {
    let world = World::with(|settings| {
        settings.memtable_objects = 1;
        settings.group_interval = Duration::from_millis(1);
    });
    let shard = world.open().await;
    let began = tokio::time::Instant::now();
    // Twice as many files as stop a writer.
    for i in 0..64 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
        let confirmed = *shard.changes().borrow();
        while shard.database().manifest().last_l0_seq() < confirmed.0 {
            // A database by itself looks once a minute whether it has room again.
            assert!(began.elapsed() < Duration::from_secs(45), "stuck after {i} files");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    assert!(world.context.metrics.compaction.files.get() > 0);
    assert_eq!(world.read_all(&world.open().await, 0, 0).await, (0..64).collect::<Vec<_>>());
}
