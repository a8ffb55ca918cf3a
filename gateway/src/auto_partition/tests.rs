use std::sync::atomic::{AtomicI64, Ordering};

use wadi_meta::memory::MemoryStore;
use wadi_model::TableSpec;
use wadi_model::env::Source;
use wadi_model::partition::MAX_PARTITIONS;
use wadi_store::task::Owned;

use super::*;

const DAY: i64 = 86_400_000;
const MINUTE: i64 = 60_000;

/// Wall time that the tests move.
#[derive(Debug, Clone)]
struct Clock(Arc<AtomicI64>);

impl Source for Clock {
    fn now_millis(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        // Each call another number, so that names differ.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::SeqCst)
    }
}

struct World {
    meta: Arc<dyn MetaStore>,
    catalog: Catalog,
    clock: Clock,
}

impl World {
    async fn new(now: &str) -> World {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let catalog = Catalog::open(meta.clone()).await.unwrap();
        catalog.create_database(&"d".parse().unwrap(), None, 0).await.unwrap();
        let now = chrono::DateTime::parse_from_rfc3339(now).unwrap().timestamp_millis();
        World { meta, catalog, clock: Clock(Arc::new(AtomicI64::new(now))) }
    }

    async fn table(&self, name: &str, options: &[(&str, &str)]) -> Arc<Table> {
        let mut spec = TableSpec::log(name, &[("day", "string")]);
        spec.partition_by = vec!["day".into()];
        spec.properties = options
            .iter()
            .map(|(name, value)| (format!("table.auto-partition.{name}"), (*value).to_owned()))
            .collect();
        self.catalog.create_table(&"d".parse().unwrap(), &spec, 0).await.unwrap()
    }

    /// A gateway that does the duty if it gets it; gone when it is dropped.
    async fn gateway(&self) -> (Owned, watch::Sender<bool>) {
        let around = Surroundings {
            meta: self.meta.clone(),
            catalog: Catalog::open(self.meta.clone()).await.unwrap(),
            env: Env::new(self.clock.clone()),
            interval: Duration::from_secs(600),
            lease_ttl: Duration::from_secs(10),
        };
        let stop = watch::Sender::new(false);
        (Owned::spawn(serve(around, stop.subscribe())), stop)
    }

    /// Lets time pass, on both clocks.
    async fn pass(&self, millis: i64) {
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(millis as u64)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    fn names(&self, table: &Table) -> Vec<String> {
        self.catalog.partitions(table.id).iter().map(|p| p.name.clone()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn partitions_come_and_go_with_the_days_whoever_has_the_duty() {
    let world = World::new("2026-03-01T00:00:00Z").await;
    let table = world.table("t", &[("enabled", "true"), ("num-retention", "1")]).await;
    let (first, _a) = world.gateway().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (_second, _b) = world.gateway().await;
    world.pass(MINUTE).await;
    assert_eq!(world.names(&table), ["20260301"], "tomorrow's comes after the table's own delay");
    world.pass(DAY - MINUTE).await;
    assert_eq!(world.names(&table), ["20260301", "20260302"]);
    world.pass(DAY).await;
    assert_eq!(world.names(&table), ["20260302", "20260303"]);
    // The holder crashes; the other one goes on.
    drop(first);
    world.pass(DAY).await;
    world.pass(DAY).await;
    assert_eq!(world.names(&table), ["20260304", "20260305"]);
}

#[tokio::test(start_paused = true)]
async fn who_stops_gives_the_duty_back_at_once() {
    let world = World::new("2026-03-01T00:00:00Z").await;
    let (_first, stop) = world.gateway().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let holder = world.meta.get("duties/auto-partition").await.unwrap().unwrap();
    let (_second, _b) = world.gateway().await;
    stop.send_replace(true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = world.meta.get("duties/auto-partition").await.unwrap().unwrap();
    assert_ne!(next.created, holder.created);
}

#[tokio::test(start_paused = true)]
async fn tables_that_are_made_or_changed_are_looked_at_soon() {
    let world = World::new("2026-03-01T12:00:00Z").await;
    let (_gateway, _stop) = world.gateway().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let table = world.table("t", &[("time-format", "yyyy-MM-dd")]).await;
    let names = ["2026-02-01".to_owned(), "2026-02-27".to_owned()];
    world.catalog.ensure_partitions(&table, &names, 0, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.names(&table), names, "nothing happens by itself where it is off");
    let on = [("table.auto-partition.enabled".to_owned(), Some("true".to_owned()))];
    world.catalog.alter_table(&table.name, &[], &on.into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let names = world.names(&table);
    assert_eq!(names[..2], ["2026-02-27".to_owned(), "2026-03-01".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_fails_holds_up_no_other() {
    let world = World::new("2026-03-01T12:00:00Z").await;
    let full = world.table("a", &[("enabled", "true"), ("num-retention", "0")]).await;
    let day = |n: usize| format!("2{:03}{:02}{:02}", n / 336, n % 336 / 28 + 1, n % 28 + 1);
    let names: Vec<String> = (0..MAX_PARTITIONS).map(day).collect();
    world.catalog.ensure_partitions(&full, &names, 0, None).await.unwrap();
    let other = world.table("b", &[("enabled", "true")]).await;
    let (_gateway, _stop) = world.gateway().await;
    world.pass(MINUTE).await;
    assert_eq!(world.names(&full).len(), MAX_PARTITIONS);
    assert_eq!(world.names(&other)[0], "20260301");
}

#[tokio::test(start_paused = true)]
async fn a_new_table_has_its_partitions_at_once() {
    let world = World::new("2026-03-01T12:00:00Z").await;
    let table = world.table("t", &[("enabled", "true"), ("num-precreate", "3")]).await;
    prepare(&world.catalog, &table, world.clock.now_millis()).await;
    assert_eq!(world.names(&table), ["20260301", "20260302", "20260303"]);
    let plain = world.table("u", &[]).await;
    prepare(&world.catalog, &plain, world.clock.now_millis()).await;
    assert!(world.names(&plain).is_empty());
}
