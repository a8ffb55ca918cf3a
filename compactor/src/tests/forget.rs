//! The catalog forgets a drop when nothing is left of it, and not before.

use std::collections::BTreeSet;

use wadi_meta::Txn;
use wadi_model::Table;
use wadi_store::ids::counter_key;

use super::*;

struct Scene {
    world: World,
    owners: Arc<Known>,
    catalog: Catalog,
    gone: Arc<Table>,
    kept: Arc<Table>,
    /// All keys of the catalog before the table was made.
    before: BTreeSet<String>,
    databases: Vec<Db>,
}

/// A table with partitions, dropped; two shards.
async fn dropped() -> Scene {
    let mut world = World::new(2);
    let owners = Arc::new(Known::default());
    world.owners = Some(owners.clone());
    let catalog = Catalog::open(world.meta.clone()).await.unwrap();
    let database = "d".parse().unwrap();
    catalog.create_database(&database, None, 0).await.unwrap();
    let mut spec = TableSpec::log("kept", &[("a", "bigint"), ("day", "string")]);
    spec.partition_by = vec!["day".into()];
    let names = ["x", "y"].map(str::to_owned);
    let kept = catalog.create_table(&database, &spec, 0).await.unwrap();
    catalog.ensure_partitions(&kept, &names, 0, None).await.unwrap();
    world.meta.txn(Txn::new().put(counter_key(kept.id), "1")).await.unwrap();
    let before = keys(&world).await;
    spec.name = "gone".into();
    let gone = catalog.create_table(&database, &spec, 0).await.unwrap();
    catalog.ensure_partitions(&gone, &names, 0, None).await.unwrap();
    world.meta.txn(Txn::new().put(counter_key(gone.id), "1")).await.unwrap();
    catalog.drop_partition(&gone, "x", None).await.unwrap();
    catalog.drop_table(&gone.name).await.unwrap();
    let databases = vec![world.database().await];
    Scene { world, owners, catalog, gone, kept, before, databases }
}

/// The keys of catalog, partitions and ids.
async fn keys(world: &World) -> BTreeSet<String> {
    let all = world.meta.list("").await.unwrap().entries.into_iter().map(|entry| entry.key);
    all.filter(|key| ["catalog/", "partitions/", "ids/"].iter().any(|kind| key.starts_with(kind))).collect()
}

impl Scene {
    /// How many keys there are of what was dropped.
    async fn left(&self) -> usize {
        keys(&self.world).await.difference(&self.before).count()
    }
}

/// Far longer than it takes.
const LONG: Duration = Duration::from_secs(1_000);

#[tokio::test(start_paused = true)]
async fn a_drop_is_forgotten_when_all_say_twice_that_nothing_is_left() {
    let mut scene = dropped().await;
    let (table, owners) = (Dropped { table: scene.gone.id, partition: None }, scene.owners.clone());
    let all = scene.left().await;
    // Both drops, the partition that was there, the count and the counter.
    assert_eq!(all, 5);
    let (compactor, metrics) = scene.world.compactor().await;
    sleep(LONG).await;
    assert_eq!((scene.left().await, owners.0.lock().asked), (all, 0), "one shard was not swept");
    scene.databases.push(scene.world.database_of(ShardId(1)).await);

    owners.0.lock().left = vec![table];
    sleep(LONG).await;
    assert!(owners.0.lock().asked > 10);
    assert_eq!(scene.left().await, all - 1, "the partition alone is forgotten");
    assert_eq!(metrics.forgotten.get(), 1);
    let all = all - 1;

    owners.0.lock().left = Vec::new();
    owners.0.lock().silent = true;
    sleep(LONG).await;
    assert_eq!(scene.left().await, all, "one owner does not answer");

    *owners.0.lock() = Told { flickers: true, ..Told::default() };
    sleep(LONG).await;
    assert_eq!(scene.left().await, all, "something comes back each time");

    // Its successor begins anew.
    drop(compactor);
    *owners.0.lock() = Told::default();
    let (next, again) = scene.world.compactor().await;
    let began = Instant::now();
    until("it is forgotten", async || scene.left().await == 0).await;
    assert!(began.elapsed() >= FORGET_DELAY, "too early: {:?}", began.elapsed());
    assert_eq!(keys(&scene.world).await, scene.before);
    assert_eq!((metrics.failures.get(), again.failures.get(), again.forgotten.get()), (0, 0, 1));

    // Nothing of it is asked any more, and what lives is as it was.
    let asked = owners.0.lock().asked;
    sleep(LONG).await;
    assert_eq!(owners.0.lock().asked, asked);
    assert_eq!(scene.catalog.table(&scene.kept.name).unwrap(), scene.kept);
    assert_eq!(scene.catalog.partitions(scene.kept.id).iter().len(), 2);
    let spec = TableSpec::log("gone", &[("a", "bigint")]);
    let fresh = scene.catalog.create_table(scene.gone.name.database(), &spec, 0).await.unwrap();
    assert!(fresh.id > scene.gone.id);
    sleep(LONG).await;
    assert_eq!(scene.catalog.table(&fresh.name).unwrap(), fresh);
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn compactors_that_die_again_and_again_lose_nothing() {
    let mut scene = dropped().await;
    scene.databases.push(scene.world.database_of(ShardId(1)).await);
    let all = scene.left().await;
    // Killed at any time around the moment when it would forget.
    for seconds in [1, 60, 99, 101, 119] {
        let (compactor, _) = scene.world.compactor().await;
        sleep(Duration::from_secs(seconds)).await;
        drop(compactor);
        let left = scene.left().await;
        assert_eq!(left, all, "after {seconds} s");
        assert!(scene.before.is_subset(&keys(&scene.world).await));
    }
    let (compactor, metrics) = scene.world.compactor().await;
    until("it is forgotten", async || scene.left().await == 0).await;
    assert_eq!(keys(&scene.world).await, scene.before);
    assert_eq!(metrics.failures.get(), 0);
    compactor.stop().await;
}
