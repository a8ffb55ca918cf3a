//! Partitions, which clients make through the catalog of a gateway when they write to them.
//!
//! Each gateway has the real catalog on its own faulty way to the meta store. Whoever asks, a name of a table stands for the same
//! partition until that is dropped, or rows that were acked could not be found again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use wadi_model::{Bucket, ErrorKind, Fault, PartitionId, Table};

use super::Scene;
use crate::clock::Dice;

/// How many partitions a table may have.
const NAMES: u64 = 4;

/// A bucket to write to: one that is known, or one of a partition, which is made if it is not there. None if that cannot be said
/// now.
pub(super) async fn target(scene: &Scene, dice: &Dice) -> Option<Bucket> {
    let partitioned: Vec<_> =
        scene.live_tables().into_iter().filter(|table| table.is_partitioned()).collect();
    if partitioned.is_empty() || dice.chance(0.7) {
        let buckets = scene.buckets();
        return (!buckets.is_empty()).then(|| *dice.one_of(&buckets));
    }
    let table = dice.one_of(&partitioned);
    let (name, number) = (format!("p{}", dice.pick(0..NAMES)), dice.pick(0..u64::from(table.buckets)) as u32);
    let lives: Vec<_> = scene.gateways.iter().filter_map(|gateway| gateway.life()).collect();
    if lives.is_empty() {
        sleep(dice.millis(50..300)).await;
        return None;
    }
    let life = dice.one_of(&lives);
    let made = async {
        life.link.running().await;
        let catalog = life.catalog().await?;
        let mut made = catalog.ensure_partitions(table, std::slice::from_ref(&name), 0, None).await?;
        Ok(made.remove(&name))
    };
    let made = tokio::select! {
        biased;
        () = life.link.died() => return None,
        made = made => made,
        () = sleep(Duration::from_secs(9)) => return None,
    };
    match made {
        Ok(Some(asked)) => {
            let partition = asked.partition.id;
            if asked.is_new {
                scene.trace.count("partitions made");
            }
            scene.met(table, &name, partition);
            Some(Bucket { table: table.id, partition, bucket: number })
        }
        Ok(None) => {
            let what = format!("partition {name} of {} was promised and is not there", table.name);
            scene.checker.lock().violated_in(&table.bucket(0), "L4", what);
            None
        }
        Err(error) => {
            let error: wadi_meta::catalog::CatalogError = error;
            if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown) {
                let what = format!("partition {name} of {} cannot be made: {error}", table.name);
                scene.checker.lock().violated_in(&table.bucket(0), "L4", what);
            }
            None
        }
    }
}

impl Scene {
    /// The tables that nobody has begun to drop.
    pub(super) fn live_tables(&self) -> Vec<Arc<Table>> {
        let tables: Vec<_> = self.tables.read().values().map(|known| known.table.clone()).collect();
        let checker = self.checker.lock();
        tables.into_iter().filter(|table| !checker.is_gone(&table.bucket(0))).collect()
    }

    /// Notes a partition that a gateway knows.
    fn met(&self, table: &Table, name: &str, partition: PartitionId) {
        if self.partitions.lock().contains_key(&partition) {
            return;
        }
        let of_table = self.buckets().into_iter().filter(|bucket| bucket.table == table.id);
        let other = of_table
            .map(|bucket| bucket.partition)
            .find(|id| self.partitions.lock().get(id).is_some_and(|known| known == name));
        if let Some(other) = other {
            let what = format!("partition {name} of {} is {other}, and {partition} too", table.name);
            return self.checker.lock().violated_in(&table.bucket(0), "L4", what);
        }
        self.partitions.lock().insert(partition, name.to_owned());
        // A table that is dropped takes its partitions along.
        if !self.is_gone(&table.bucket(0)) {
            self.add_buckets(table, partition);
        }
    }
}
