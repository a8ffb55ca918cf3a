use wadi_model::{DatabaseName, Fault, TableSpec};

use super::*;
use crate::MetaStore;
use crate::memory::MemoryStore;

async fn catalog() -> (Arc<MemoryStore>, Catalog, Arc<Table>) {
    let meta = Arc::new(MemoryStore::new());
    let catalog = Catalog::open(meta.clone()).await.unwrap();
    let nyc: DatabaseName = "nyc".parse().unwrap();
    catalog.create_database(&nyc, None, 1).await.unwrap();
    let table = catalog.create_table(&nyc, &spec("t"), 1).await.unwrap();
    (meta, catalog, table)
}

fn spec(name: &str) -> TableSpec {
    let mut spec = TableSpec::log(name, &[("n", "bigint"), ("region", "string")]);
    spec.partition_by = vec!["region".into()];
    spec
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn listed(catalog: &Catalog, table: &Table) -> Vec<String> {
    catalog.partitions(table.id).iter().map(|p| p.name.clone()).collect()
}

#[tokio::test]
async fn partitions_are_made_once_listed_and_dropped() {
    let (_, catalog, table) = catalog().await;
    let made = catalog.ensure_partitions(&table, &names(&["eu", "us"]), 5, None).await.unwrap();
    assert!(made.values().all(|asked| asked.is_new && asked.partition.created_at == 5));
    assert_eq!(listed(&catalog, &table), ["eu", "us"]);
    let again = catalog.ensure_partitions(&table, &names(&["eu", "asia"]), 6, None).await.unwrap();
    assert_eq!((again["eu"].is_new, again["asia"].is_new), (false, true));
    assert_eq!(again["eu"].partition, made["eu"].partition);
    catalog.drop_partition(&table, "eu", None).await.unwrap();
    assert_eq!(listed(&catalog, &table), ["asia", "us"]);
    let error = catalog.partition(&table, "uss").unwrap_err();
    assert_eq!(error.code(), "partition_not_found");
    assert_eq!(
        error.to_string(),
        "partition \"uss\" of table \"nyc.t\" does not exist; did you mean \"us\"?; there are \"us\", \"asia\""
    );
    assert_eq!(catalog.drop_partition(&table, "eu", None).await.unwrap_err().code(), "partition_not_found");
}

#[tokio::test]
async fn ids_are_shared_with_tables_and_never_return() {
    let (meta, catalog, table) = catalog().await;
    let first = catalog.ensure_partitions(&table, &names(&["eu"]), 1, None).await.unwrap();
    catalog.drop_partition(&table, "eu", None).await.unwrap();
    let second = catalog.ensure_partitions(&table, &names(&["eu"]), 1, None).await.unwrap();
    let other = catalog.create_table(&"nyc".parse().unwrap(), &spec("u"), 1).await.unwrap();
    let ids = [table.id.0, first["eu"].partition.id.0, second["eu"].partition.id.0, other.id.0];
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let dropped = meta.list(DROPPED).await.unwrap().entries;
    let state: Partition = decode(&dropped[0]).unwrap();
    assert_eq!((dropped.len(), state.state), (1, PartitionState::Dropping));
}

#[tokio::test]
async fn the_limit_holds_however_many_make_them() {
    let (meta, here, table) = catalog().await;
    let there = Catalog::open(meta.clone()).await.unwrap();
    let most: Vec<String> = (0..MAX_PARTITIONS - 2).map(|i| format!("p{i}")).collect();
    here.ensure_partitions(&table, &most, 1, None).await.unwrap();
    let make = async |catalog: &Catalog, name: &str| {
        catalog.ensure_partitions(&table, &names(&[name]), 1, None).await.map_err(|e| e.code().to_owned())
    };
    let outcomes = futures::future::join_all([
        make(&here, "a"),
        make(&there, "b"),
        make(&here, "c"),
        make(&there, "d"),
        make(&there, "e"),
    ]);
    let outcomes = outcomes.await;
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 2, "{outcomes:?}");
    assert!(outcomes.iter().flat_map(|o| o.as_ref().err()).all(|code| *code == "too_many_partitions"));
    let in_store = meta.list(&format!("{PARTITIONS}{}/", table.id)).await.unwrap().entries.len();
    assert_eq!(in_store, MAX_PARTITIONS);
    here.drop_partition(&table, "p0", None).await.unwrap();
    make(&here, "z").await.unwrap();
}

#[tokio::test]
async fn many_who_want_the_same_partition_get_the_same_one() {
    let (meta, here, table) = catalog().await;
    let there = Catalog::open(meta).await.unwrap();
    let asks = (0..20).map(|i| {
        let (catalog, table) = (if i % 2 == 0 { here.clone() } else { there.clone() }, table.clone());
        async move {
            catalog.ensure_partitions(&table, &names(&["eu"]), 1, None).await.unwrap().remove("eu").unwrap()
        }
    });
    let asked = futures::future::join_all(asks).await;
    assert!(asked.iter().all(|a| a.partition == asked[0].partition));
    assert_eq!(asked.iter().filter(|a| a.is_new).count(), 1);
}

#[tokio::test]
async fn bad_names_make_nothing() {
    let (meta, catalog, table) = catalog().await;
    let error = catalog.ensure_partitions(&table, &names(&["ok", "not ok"]), 1, None).await.unwrap_err();
    assert_eq!(error.code(), "invalid_partition");
    assert!(meta.list(PARTITIONS).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn partitions_go_with_their_table() {
    let (meta, catalog, table) = catalog().await;
    catalog.ensure_partitions(&table, &names(&["eu"]), 1, None).await.unwrap();
    catalog.drop_table(&table.name).await.unwrap();
    assert!(listed(&catalog, &table).is_empty());
    let made = catalog.ensure_partitions(&table, &names(&["us"]), 1, None).await.unwrap_err();
    assert_eq!(made.code(), "table_not_found");
    let again = catalog.create_table(&"nyc".parse().unwrap(), &spec("t"), 1).await.unwrap();
    assert!(listed(&catalog, &again).is_empty());
    // Nor do they come back with a process that reads everything anew.
    let later = Catalog::open(meta).await.unwrap();
    assert!(listed(&later, &table).is_empty());
    let made = catalog.ensure_partitions(&table, &names(&["us"]), 1, None).await.unwrap_err();
    assert_eq!(made.code(), "table_not_found");
}

#[tokio::test]
async fn other_processes_see_them_soon_and_lost_leases_change_nothing() {
    let (meta, here, table) = catalog().await;
    let there = Catalog::open(meta.clone()).await.unwrap();
    let mut changes = there.changes();
    here.ensure_partitions(&table, &names(&["eu"]), 1, None).await.unwrap();
    while there.partition(&table, "eu").is_err() {
        changes.changed().await.unwrap();
    }
    let lost = Compare::present("duties/none");
    let made = here.ensure_partitions(&table, &names(&["us"]), 1, Some(&lost)).await.unwrap_err();
    assert_eq!(made.code(), "contended");
    assert_eq!(here.drop_partition(&table, "eu", Some(&lost)).await.unwrap_err().code(), "contended");
    assert_eq!(listed(&here, &table), ["eu"]);
}
