//! What is left of a dropped table: everything that may need its schema counts.

use wadi_meta::catalog::Dropped;
use wadi_model::TableSpec;

use super::*;

const GONE: TableId = TableId(9);

fn table(id: TableId) -> Dropped {
    Dropped { table: id, partition: None }
}

fn partition(id: u64) -> Dropped {
    Dropped { table: GONE, partition: Some(PartitionId(id)) }
}

fn part(world: &World, at: u64, rows: std::ops::Range<i64>) -> Part {
    let bucket = Bucket { table: GONE, partition: PartitionId(at), bucket: 0 };
    Part { bucket, ..world.part(0, rows) }
}

/// Of which of these something is left.
async fn remains(shard: &Shard) -> Vec<Dropped> {
    let asked = [table(GONE), table(TableId(77)), partition(4), partition(5)];
    shard.remains(&asked).await.unwrap()
}

#[tokio::test]
async fn a_dropped_table_is_left_until_its_last_object_is_deleted() {
    let world = world();
    let shard = world.open().await;
    let all = vec![table(GONE), partition(4)];
    assert_eq!(remains(&shard).await, []);
    for i in 0..3 {
        shard.append(world.part(0, i..i + 1)).await.unwrap();
        shard.append(part(&world, 4, i..i + 1)).await.unwrap();
        assert_eq!(remains(&shard).await, all, "at once");
    }
    settle(&shard).await;
    // No catalog knows it.
    assert_eq!(shard.trim().await.unwrap(), 1);
    settle(&shard).await;
    assert_eq!(remains(&shard).await, all, "log objects hold its rows");
    world.pack(&shard).await.unwrap();
    settle(&shard).await;
    assert_eq!(remains(&shard).await, all, "they are still there");
    world.delete(&shard).await;
    settle(&shard).await;
    assert_eq!(remains(&shard).await, []);
    let next = world.open().await;
    assert_eq!(remains(&next).await, []);
    assert_eq!(world.read_all(&next, 0, 0).await, [0, 1, 2]);
    // A write that was on its way for very long.
    next.append(part(&world, 4, 0..1)).await.unwrap();
    assert_eq!(remains(&next).await, all);
    assert_eq!(remains(&world.open().await).await, all);
}

#[tokio::test]
async fn rows_in_a_pack_that_others_share_count_until_it_is_merged() {
    let world = world();
    let spec = TableSpec::log("g", &[("id", "bigint"), ("n", "int"), ("name", "string")]);
    let gone = Table::create(GONE, "a.g".parse().unwrap(), &spec, 0).unwrap();
    world.tables.lock().push(Arc::new(gone));
    let shard = world.open().await;
    shard.append(world.part(0, 0..5)).await.unwrap();
    shard.append(part(&world, 0, 0..5)).await.unwrap();
    world.pack(&shard).await.unwrap();
    world.delete(&shard).await;
    world.dropped.lock().insert(GONE);
    settle(&shard).await;
    assert_eq!(shard.trim().await.unwrap(), 1);
    settle(&shard).await;
    assert_eq!(remains(&shard).await, [table(GONE)], "its rows lie beside those of another table");
    for i in 1..8 {
        shard.append(world.part(0, i * 5..i * 5 + 5)).await.unwrap();
        world.pack(&shard).await.unwrap();
    }
    let merged = world.pack(&shard).await.unwrap();
    assert_eq!(merged.packs[0].level, 1);
    settle(&shard).await;
    assert_eq!(remains(&shard).await, [table(GONE)], "the old packs are still there");
    assert_eq!(world.delete(&shard).await.packs.len(), 8);
    settle(&shard).await;
    assert_eq!(remains(&shard).await, [], "the new one has left it out");
    assert_eq!(world.read_all(&world.open().await, 0, 0).await, (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn producers_count_and_only_an_owner_answers() {
    let world = world();
    let shard = world.open().await;
    let stamp = world.stamped(0, 0..1, "p", 1).stamp;
    shard.append(Part { stamp, ..part(&world, 4, 0..1) }).await.unwrap();
    settle(&shard).await;
    assert_eq!(shard.trim().await.unwrap(), 1);
    world.pack(&shard).await.unwrap();
    world.delete(&shard).await;
    settle(&shard).await;
    assert_eq!(shard.bounds(&part(&world, 4, 0..1).bucket), Bounds::default());
    assert_eq!(remains(&shard).await, [table(GONE), partition(4)], "a compaction has to remove the producer");
    shard.claim().give_up();
    assert!(matches!(shard.remains(&[table(GONE)]).await, Err(PackError::NotOwned)));
}
