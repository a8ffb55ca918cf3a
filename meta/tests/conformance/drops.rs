//! Dropped tables are forgotten, on every store.

use std::collections::BTreeSet;

use wadi_meta::catalog::{Catalog, Dropped, Drops, forget};
use wadi_meta::duty::Duty;
use wadi_meta::{MetaStore, Revision};
use wadi_model::{DatabaseName, TableSpec};

use crate::fixture::Fixture;

async fn keys(store: &dyn MetaStore) -> BTreeSet<String> {
    let all = store.list("").await.unwrap().entries.into_iter().map(|entry| entry.key);
    all.filter(|key| key != "ids/table").collect()
}

pub(crate) async fn a_forgotten_table_leaves_no_key_and_others_stay(fixture: Fixture) {
    let store = fixture.store.clone();
    let catalog = Catalog::open(store.clone()).await.unwrap();
    let database: DatabaseName = "d".parse().unwrap();
    catalog.create_database(&database, None, 0).await.unwrap();
    let session = store.session(std::time::Duration::from_secs(30)).await.unwrap();
    let duty = Duty::try_take(&store, session.as_ref(), "forget", "me").await.unwrap().unwrap();
    let mut spec = TableSpec::log("kept", &[("a", "bigint"), ("day", "string")]);
    spec.partition_by = vec!["day".into()];
    let kept = catalog.create_table(&database, &spec, 0).await.unwrap();
    catalog.ensure_partitions(&kept, &["x".to_owned()], 0, None).await.unwrap();
    let before = keys(&*store).await;

    spec.name = "gone".into();
    let gone = catalog.create_table(&database, &spec, 0).await.unwrap();
    // More keys than one transaction takes.
    let names: Vec<String> = (0..150).map(|n| format!("p{n}")).collect();
    catalog.ensure_partitions(&gone, &names, 0, None).await.unwrap();
    catalog.drop_partition(&gone, "p0", None).await.unwrap();
    catalog.drop_table(&gone.name).await.unwrap();
    let drops = Drops::open(store.clone()).await.unwrap().since(Revision(0));
    let whole = Dropped { table: gone.id, partition: None };
    let (at, _) = drops.into_iter().find(|(_, dropped)| *dropped == whole).unwrap();
    let dropped = keys(&*store).await;
    assert_eq!(dropped.difference(&before).count(), 152, "149 partitions, their count, and two drops");

    let fence = duty.fence();
    let other = wadi_meta::Compare::created(fence.key(), at);
    assert!(!forget(&*store, whole, at, None, &other).await.unwrap(), "another has the duty");
    assert_eq!(keys(&*store).await, dropped);
    assert!(forget(&*store, whole, at, None, &fence).await.unwrap());
    assert_eq!(keys(&*store).await, before);
    assert!(!forget(&*store, whole, at, None, &fence).await.unwrap(), "it is done");
    let again = catalog.create_table(&database, &spec, 0).await.unwrap();
    assert!(again.id > gone.id);
}
