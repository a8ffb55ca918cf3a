//! The catalog forgets what was dropped, once nothing of it is left in the shards.
//!
//! Until then its entries are needed: a takeover may replay rows of it, which takes the schema, and compactions take away only what is named.
//! Whoever forgets knows that nothing is left; this only removes the keys.

use super::{DROPPED, Dropped, partitions};
use crate::{Compare, MetaError, MetaStore, Revision, Txn, TxnOutcome};

/// Keys that go in one transaction.
const AT_ONCE: usize = 100;

/// Removes all keys of what was dropped at revision `at`, and these others, while `fence` holds. Says whether that is done: not if the fence
/// does not hold any more, or if others were faster.
///
/// The key that names the drop goes last, so that a removal that ends in the middle is done again.
///
/// # Errors
///
/// Whatever the store says; it may be done then, and may be tried again.
pub async fn forget(
    meta: &dyn MetaStore,
    dropped: Dropped,
    at: Revision,
    others: impl IntoIterator<Item = String>,
    fence: &Compare,
) -> Result<bool, MetaError> {
    let table = dropped.table;
    let name = match dropped.partition {
        None => format!("{DROPPED}{table}"),
        Some(partition) => format!("{}{table}/{partition}", partitions::DROPPED),
    };
    let mut keys: Vec<String> = others.into_iter().collect();
    if dropped.partition.is_none() {
        // Nobody adds to them: every change of a table's partitions compares that the table is there.
        for kind in [partitions::PARTITIONS, partitions::DROPPED] {
            keys.extend(
                meta.list(&format!("{kind}{table}/")).await?.entries.into_iter().map(|entry| entry.key),
            );
        }
        keys.push(format!("{}{table}", partitions::COUNTS));
    }
    keys.push(name.clone());
    for some in keys.chunks(AT_ONCE) {
        let unchanged = Compare::created(&name, at);
        let txn = some.iter().fold(Txn::new().when(fence.clone()).when(unchanged), Txn::delete);
        if let TxnOutcome::Refused(_) = meta.txn(txn).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wadi_model::{Table, TableSpec};

    use super::super::{Catalog, Drops};
    use super::*;
    use crate::memory::MemoryStore;

    struct World {
        meta: Arc<dyn MetaStore>,
        catalog: Catalog,
        fence: Compare,
    }

    impl World {
        async fn new() -> World {
            let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
            let catalog = Catalog::open(meta.clone()).await.unwrap();
            catalog.create_database(&"d".parse().unwrap(), None, 0).await.unwrap();
            let outcome = meta.txn(Txn::new().put("duty", "mine")).await.unwrap();
            let TxnOutcome::Committed(at) = outcome else { panic!("{outcome:?}") };
            World { meta, catalog, fence: Compare::created("duty", at) }
        }

        async fn table(&self, name: &str) -> Arc<Table> {
            let mut spec = TableSpec::log(name, &[("a", "bigint"), ("day", "string")]);
            spec.partition_by = vec!["day".into()];
            self.catalog.create_table(&"d".parse().unwrap(), &spec, 0).await.unwrap()
        }

        async fn partitions(&self, table: &Table, count: usize) {
            let names: Vec<String> = (0..count).map(|n| format!("p{n}")).collect();
            self.catalog.ensure_partitions(table, &names, 0, None).await.unwrap();
        }

        /// All keys but those of ids and the duty.
        async fn keys(&self) -> Vec<String> {
            let keys = self.meta.list("").await.unwrap().entries.into_iter().map(|entry| entry.key);
            keys.filter(|key| key != "ids/table" && key != "duty").collect()
        }

        /// What was dropped, the newest last.
        async fn drops(&self) -> Vec<(Revision, Dropped)> {
            Drops::open(self.meta.clone()).await.unwrap().since(Revision(0))
        }

        async fn forget(&self, (at, dropped): (Revision, Dropped), others: &[&str]) -> bool {
            let others = others.iter().map(|other| other.to_string());
            forget(self.meta.as_ref(), dropped, at, others, &self.fence).await.unwrap()
        }
    }

    #[tokio::test]
    async fn all_keys_of_a_dropped_table_go_and_no_others() {
        let world = World::new().await;
        let kept = world.table("kept").await;
        world.partitions(&kept, 3).await;
        world.catalog.drop_partition(&kept, "p1", None).await.unwrap();
        let before = world.keys().await;
        // More than go in one transaction.
        let gone = world.table("gone").await;
        world.partitions(&gone, 250).await;
        for name in ["p0", "p1"] {
            world.catalog.drop_partition(&gone, name, None).await.unwrap();
        }
        world.meta.txn(Txn::new().put("ids/auto/x", "1").put("ids/auto/y", "1")).await.unwrap();
        world.catalog.drop_table(&gone.name).await.unwrap();
        let drop = *world.drops().await.last().unwrap();
        assert_eq!(drop.1, Dropped { table: gone.id, partition: None });
        // The same name again is another table.
        let again = world.table("gone").await;
        world.partitions(&again, 1).await;

        assert!(world.forget(drop, &["ids/auto/x"]).await);
        let new: Vec<String> = world.keys().await.into_iter().filter(|key| !before.contains(key)).collect();
        let id = again.id;
        let wanted = [
            format!("catalog/partitions/{id}/p0"),
            "catalog/tables/d.gone".into(),
            "ids/auto/y".into(),
            format!("partitions/{id}"),
        ];
        assert_eq!(new, wanted);
        for key in &before {
            assert!(world.meta.get(key).await.unwrap().is_some(), "{key} is another's");
        }
        assert_eq!(world.catalog.table_by_id(gone.id, gone.schema().id()).await.unwrap(), None);
        assert_eq!(world.catalog.table(&again.name).unwrap(), again);
        // A second try finds nothing to do.
        assert!(!world.forget(drop, &[]).await);
    }

    #[tokio::test]
    async fn a_dropped_partition_goes_alone() {
        let world = World::new().await;
        let table = world.table("t").await;
        world.partitions(&table, 2).await;
        world.catalog.drop_partition(&table, "p0", None).await.unwrap();
        let [drop] = world.drops().await[..] else { panic!("one was dropped") };
        let before = world.keys().await;
        assert!(world.forget(drop, &[]).await);
        let gone: Vec<String> = {
            let now = world.keys().await;
            before.into_iter().filter(|key| !now.contains(key)).collect()
        };
        let partition = drop.1.partition.unwrap();
        assert_eq!(gone, [format!("catalog/dropped-partitions/{}/{partition}", table.id)]);
        assert_eq!(world.drops().await, []);
    }

    #[tokio::test]
    async fn who_has_lost_the_duty_forgets_nothing() {
        let mut world = World::new().await;
        let table = world.table("t").await;
        world.partitions(&table, 2).await;
        world.catalog.drop_table(&table.name).await.unwrap();
        let [drop] = world.drops().await[..] else { panic!("one was dropped") };
        let before = world.keys().await;
        let held = std::mem::replace(&mut world.fence, Compare::created("duty", Revision(1)));
        assert!(!world.forget(drop, &[]).await);
        world.fence = held;
        assert!(!world.forget((Revision(1), drop.1), &[]).await, "another drop");
        assert_eq!(world.keys().await, before);
        assert!(world.forget(drop, &[]).await);
    }
}
