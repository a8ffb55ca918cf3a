//! Tables and partitions are dropped while everybody uses them, and made again under the same name.
//!
//! From the moment at which a drop is sent nobody can say what of the old rows is there, so they are judged no more. A drop whose outcome
//! is not known is sent again until the old one is gone; it names the very entry that it means, so that it never takes what
//! somebody has made meanwhile. Then the name is free: a table is made again here, a partition by whoever writes to it next.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use wadi_meta::catalog::{Catalog, CatalogError};
use wadi_meta::{Compare, MetaStore};
use wadi_model::{Bucket, PartitionId, Table};

use super::{Scene, SceneTable, Shared};
use crate::clock::Dice;
use crate::gateway::{Gateway, Life};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(9);

/// Drops something now and then, until the scene drains. What was begun is ended.
pub async fn drop_things(scene: Shared, meta: Arc<dyn MetaStore>, dice: Dice) {
    while !scene.draining() {
        sleep(dice.millis(2_000..9_000)).await;
        if scene.draining() {
            return;
        }
        let buckets = scene.buckets();
        if buckets.is_empty() {
            continue;
        }
        let bucket = *dice.one_of(&buckets);
        if bucket.partition != PartitionId::NONE && dice.chance(0.7) {
            drop_partition(&scene, meta.as_ref(), bucket, &dice).await;
        } else if dice.chance(0.4) {
            drop_table(&scene, bucket, &dice).await;
        }
    }
}

async fn drop_partition(scene: &Scene, meta: &dyn MetaStore, bucket: Bucket, dice: &Dice) {
    let (table, name) = (scene.table(&bucket), scene.partition(&bucket));
    let key = format!("catalog/partitions/{}/{name}", table.id);
    let Ok(Some(entry)) = meta.get(&key).await else { return };
    let meant = Compare::created(key, entry.created);
    scene.forget(&table, Some(bucket.partition));
    scene.trace.note("DROPS", format_args!("partition {name} ({}) of {}", bucket.partition, table.name));
    while is_kept(scene, &bucket).await {
        call(scene, dice, async |catalog| catalog.drop_partition(&table, &name, Some(&meant)).await).await;
    }
    scene.trace.count("partitions dropped");
}

async fn drop_table(scene: &Scene, bucket: Bucket, dice: &Dice) {
    let Some(SceneTable { table, spec, keyed }) = scene.tables.read().get(&bucket.table).cloned() else {
        return;
    };
    let first = table.bucket(0);
    scene.forget(&table, None);
    scene.trace.note("DROPS", format_args!("table {} ({})", table.name, table.id));
    while is_kept(scene, &first).await {
        call(scene, dice, async |catalog| catalog.drop_table(&table.name).await).await;
    }
    scene.trace.count("tables dropped");
    sleep(dice.millis(0..3_000)).await;
    let database = table.name.database();
    let made = loop {
        let made = call(scene, dice, async |catalog| catalog.create_table(database, &spec, 0).await).await;
        match made {
            Some(Ok(made)) => break made,
            // Made by a try whose answer was lost: nobody else makes tables.
            Some(Err(CatalogError::TableExists { name })) => {
                if let Ok(made) = scene.catalog.table(&name).map(|made| (made.id != table.id).then_some(made))
                    && let Some(made) = made
                {
                    break made;
                }
            }
            _ => {}
        }
    };
    if let Err(why) = scene.add_table(&made, spec, keyed.map_or(0, |keyed| keyed.keys)) {
        scene.checker.lock().violated("client", why);
    }
}

/// Whether the catalog as it is still has a bucket. Also a transaction that comes late has taken effect some time after.
async fn is_kept(scene: &Scene, bucket: &Bucket) -> bool {
    sleep(Duration::from_millis(100)).await;
    scene.catalog.kept(bucket).await.is_ok_and(|kept| kept.is_some())
}

/// Asks the catalog of some gateway. `None` without an answer.
async fn call<T>(
    scene: &Scene,
    dice: &Dice,
    question: impl AsyncFnOnce(&Catalog) -> Result<T, CatalogError>,
) -> Option<Result<T, CatalogError>> {
    let lives: Vec<Life> = scene.gateways.iter().filter_map(Gateway::life).collect();
    if lives.is_empty() {
        sleep(dice.millis(50..300)).await;
        return None;
    }
    let life = dice.one_of(&lives);
    let answer = async {
        life.link.running().await;
        question(life.catalog().await?).await
    };
    tokio::select! {
        biased;
        () = life.link.died() => None,
        answer = answer => Some(answer),
        () = sleep(PATIENCE) => None,
    }
}

impl Scene {
    /// Writes no more to a table, or to one partition of it, and judges it no more.
    fn forget(&self, table: &Table, partition: Option<PartitionId>) {
        self.checker.lock().dropped(table.id, partition);
        let goes =
            |bucket: &Bucket| bucket.table == table.id && partition.is_none_or(|id| bucket.partition == id);
        let mut buckets = self.buckets.lock();
        self.dropped.lock().extend(buckets.iter().filter(|bucket| goes(bucket)));
        buckets.retain(|bucket| !goes(bucket));
    }
}
