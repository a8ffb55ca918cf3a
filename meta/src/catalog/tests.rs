use wadi_model::Fault;

use super::*;
use crate::memory::MemoryStore;

async fn catalog() -> Catalog {
    let catalog = Catalog::open(Arc::new(MemoryStore::new())).await.unwrap();
    catalog.create_database(&"nyc".parse().unwrap(), None, 1).await.unwrap();
    catalog
}

fn spec(name: &str) -> TableSpec {
    TableSpec::log(name, &[("id", "bigint"), ("name", "string")])
}

#[tokio::test]
async fn a_change_is_seen_at_once_where_it_was_made_and_soon_elsewhere() {
    let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
    let here = Catalog::open(meta.clone()).await.unwrap();
    let there = Catalog::open(meta).await.unwrap();
    let nyc = "nyc".parse().unwrap();
    here.create_database(&nyc, None, 1).await.unwrap();
    let table = here.create_table(&nyc, &spec("flights"), 2).await.unwrap();
    assert_eq!(here.table(&table.name).unwrap(), table);
    let mut revision = there.seen.revision.subscribe();
    while there.table(&table.name).is_err() {
        revision.changed().await.unwrap();
    }
}

#[tokio::test]
async fn ids_are_never_used_again() {
    let catalog = catalog().await;
    let nyc = "nyc".parse().unwrap();
    let first = catalog.create_table(&nyc, &spec("t"), 1).await.unwrap();
    catalog.drop_table(&first.name).await.unwrap();
    assert!(matches!(catalog.table(&first.name), Err(CatalogError::TableNotFound { .. })));
    let second = catalog.create_table(&nyc, &spec("t"), 1).await.unwrap();
    assert!(second.id > first.id);
}

#[tokio::test]
async fn tables_made_at_once_get_ids_of_their_own() {
    let catalog = catalog().await;
    let nyc: DatabaseName = "nyc".parse().unwrap();
    let make = |i: usize| {
        let (catalog, nyc) = (catalog.clone(), nyc.clone());
        async move { catalog.create_table(&nyc, &spec(&format!("t{i}")), 1).await.unwrap().id }
    };
    let ids = futures::future::join_all((0..8).map(make)).await;
    assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 8);
}

#[tokio::test]
async fn mistakes_are_named() {
    let catalog = catalog().await;
    let nyc = "nyc".parse().unwrap();
    catalog.create_table(&nyc, &spec("flights"), 1).await.unwrap();
    let error = catalog.table(&"nyc.fligths".parse().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "table \"nyc.fligths\" does not exist; did you mean \"nyc.flights\"?");
    let error = catalog.table(&"nyk.flights".parse().unwrap()).unwrap_err();
    assert_eq!(error.code(), "database_not_found");
    let error = catalog.create_table(&nyc, &spec("flights"), 1).await.unwrap_err();
    assert_eq!(error.code(), "table_exists");
    let error = catalog.drop_database(&nyc).await.unwrap_err();
    assert_eq!(error.code(), "database_not_empty");
    let error = catalog.create_database(&nyc, None, 1).await.unwrap_err();
    assert_eq!(error.code(), "database_exists");
}

#[tokio::test]
async fn changes_of_columns_and_options_make_a_new_version() {
    let catalog = catalog().await;
    let table = catalog.create_table(&"nyc".parse().unwrap(), &spec("t"), 1).await.unwrap();
    let change = SchemaChange::RenameColumn { from: "name".into(), to: "title".into() };
    let options = [("table.log.ttl".to_owned(), Some("1d".to_owned()))].into();
    let altered = catalog.alter_table(&table.name, &[change], &options).await.unwrap();
    assert_eq!(altered.schema().id().0, 2);
    assert_eq!(catalog.table(&table.name).unwrap(), altered);
}

#[tokio::test]
async fn an_empty_database_can_go() {
    let catalog = catalog().await;
    let nyc = "nyc".parse().unwrap();
    let table = catalog.create_table(&nyc, &spec("t"), 1).await.unwrap();
    catalog.drop_table(&table.name).await.unwrap();
    catalog.drop_database(&nyc).await.unwrap();
    assert!(catalog.databases().is_empty());
}
