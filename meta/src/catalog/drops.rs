//! Tables and partitions that were dropped for good, and of which something may be left in the shards.
//!
//! Who removes what is left asks here, and may take away only what is named: an id that is not known may be one that is
//! newer than what this process has seen. Ids are never used again, so an id that was named stays right for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use wadi_model::{PartitionId, TableId};

use super::{DROPPED, partitions};
use crate::{Change, KeyValue, MetaError, MetaErrorKind, MetaStore, Revision, WatchEvent, task};

/// What the keys of both kinds begin with.
const PREFIX: &str = "catalog/dropped";

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Something that was dropped: a whole table, or one partition of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dropped {
    /// The table.
    pub table: TableId,
    /// The partition, or all there ever was of the table.
    pub partition: Option<PartitionId>,
}

/// What was dropped, and when. Clones see the same.
#[derive(Clone, Debug)]
pub struct Drops {
    known: Arc<RwLock<Known>>,
    _follower: Option<Arc<task::Task>>,
}

type Known = BTreeMap<Dropped, Revision>;

impl Drops {
    /// Reads what was dropped, and begins to follow it.
    pub async fn open(meta: Arc<dyn MetaStore>) -> Result<Drops, MetaError> {
        let listing = meta.list(PREFIX).await?;
        let known: Arc<RwLock<Known>> = Arc::new(RwLock::new(all(&listing.entries)));
        let follower = task::spawn("drops", follow(meta, known.clone(), listing.revision));
        Ok(Drops { known, _follower: Some(Arc::new(follower)) })
    }

    /// These and no others, for tests.
    pub fn fixed(dropped: impl IntoIterator<Item = Dropped>) -> Drops {
        let known = dropped.into_iter().map(|dropped| (dropped, Revision(1))).collect();
        Drops { known: Arc::new(RwLock::new(known)), _follower: None }
    }

    /// Whether the rows of this table and partition are certainly nobody's any more.
    pub fn has(&self, table: TableId, partition: PartitionId) -> bool {
        let known = self.known.read();
        [None, Some(partition)].into_iter().any(|partition| known.contains_key(&Dropped { table, partition }))
    }

    /// Whether nothing was dropped.
    pub fn is_empty(&self) -> bool {
        self.known.read().is_empty()
    }

    /// What was dropped after `revision`, in order, each with the revision of its drop.
    pub fn since(&self, revision: Revision) -> Vec<(Revision, Dropped)> {
        let known = self.known.read();
        let newer = known.iter().filter(|(_, at)| **at > revision);
        let mut newer: Vec<_> = newer.map(|(dropped, at)| (*at, *dropped)).collect();
        newer.sort_unstable();
        newer
    }
}

fn all(entries: &[KeyValue]) -> Known {
    entries.iter().filter_map(|entry| Some((read(&entry.key)?, entry.created))).collect()
}

/// What a key names.
fn read(key: &str) -> Option<Dropped> {
    if let Some(table) = key.strip_prefix(DROPPED) {
        return Some(Dropped { table: TableId(table.parse().ok()?), partition: None });
    }
    let (table, partition) = key.strip_prefix(partitions::DROPPED)?.split_once('/')?;
    let partition = Some(PartitionId(partition.parse().ok()?));
    Some(Dropped { table: TableId(table.parse().ok()?), partition })
}

/// Follows the keys until the store is closed.
async fn follow(meta: Arc<dyn MetaStore>, known: Arc<RwLock<Known>>, mut revision: Revision) {
    loop {
        match meta.watch(PREFIX, revision).await {
            Ok(mut watch) => {
                while let Ok(event) = watch.next().await {
                    revision = event.revision();
                    take(&known, event);
                }
            }
            Err(error) if matches!(error.kind(), MetaErrorKind::Closed | MetaErrorKind::Fenced) => return,
            Err(error) => tracing::warn!(%error, "drops cannot be followed; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn take(known: &RwLock<Known>, event: WatchEvent) {
    match event {
        WatchEvent::Reset(listing) => *known.write() = all(&listing.entries),
        WatchEvent::Changes { changes, .. } => {
            let mut known = known.write();
            for change in changes {
                match (read(change.key()), &change) {
                    (Some(dropped), Change::Put(put)) => drop(known.insert(dropped, put.created)),
                    (Some(dropped), Change::Delete { .. }) => drop(known.remove(&dropped)),
                    (None, _) => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wadi_model::TableSpec;

    use super::*;
    use crate::catalog::Catalog;
    use crate::memory::MemoryStore;

    fn spec(partitioned: bool) -> TableSpec {
        let mut spec = TableSpec::log("t", &[("a", "bigint"), ("day", "string")]);
        if partitioned {
            spec.partition_by = vec!["day".into()];
        }
        spec
    }

    async fn until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_dropped_is_named() {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let catalog = Catalog::open(meta.clone()).await.unwrap();
        let name = "d".parse().unwrap();
        catalog.create_database(&name, None, 0).await.unwrap();
        let days = catalog.create_table(&name, &spec(true), 0).await.unwrap();
        let names = ["1", "2"].map(str::to_owned);
        let made = catalog.ensure_partitions(&days, &names, 0, None).await.unwrap();
        let (one, two) = (made["1"].partition.id, made["2"].partition.id);
        let drops = Drops::open(meta.clone()).await.unwrap();
        assert!(drops.is_empty() && !drops.has(days.id, one) && !drops.has(TableId(99), PartitionId(0)));

        catalog.drop_partition(&days, "1", None).await.unwrap();
        until(|| drops.has(days.id, one)).await;
        assert!(!drops.has(days.id, two), "the other partition lives");
        let [(at, first)] = drops.since(Revision(0))[..] else { panic!("one was dropped") };
        assert_eq!(first, Dropped { table: days.id, partition: Some(one) });
        assert_eq!(drops.since(at), []);

        catalog.drop_table(&days.name).await.unwrap();
        until(|| drops.has(days.id, two)).await;
        let [(later, second)] = drops.since(at)[..] else { panic!("one was dropped since") };
        assert_eq!(second, Dropped { table: days.id, partition: None });
        assert!(later > at);
        // The same from what is stored.
        let again = Drops::open(meta).await.unwrap();
        assert_eq!(again.since(Revision(0)), drops.since(Revision(0)));
    }

    #[test]
    fn keys_that_are_no_drops_name_nothing() {
        for key in
            ["catalog/dropped/", "catalog/dropped/x", "catalog/dropped-partitions/1", "catalog/tables/a.b"]
        {
            assert_eq!(read(key), None, "{key}");
        }
    }
}
