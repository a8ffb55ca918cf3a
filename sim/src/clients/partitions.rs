//! Partitions, which clients make through the catalog of a gateway when they write to them.
//!
//! Each gateway has the real catalog on its own faulty way to the meta store. Whoever asks, a name of a table stands for the same
//! partition for ever, or rows that were acked could not be found again.

use std::time::Duration;

use tokio::time::sleep;
use wadi_model::{Bucket, ErrorKind, Fault, PartitionId, TableId};

use super::Scene;
use crate::clock::Dice;

/// How many partitions a table may have.
const NAMES: u64 = 4;

/// A bucket to write to: one that is known, or one of a partition, which is made if it is not there. None if that cannot be said
/// now.
pub(super) async fn target(scene: &Scene, dice: &Dice) -> Option<Bucket> {
    let partitioned: Vec<_> = scene.tables.values().filter(|table| table.is_partitioned()).collect();
    if partitioned.is_empty() || dice.chance(0.7) {
        return Some(*dice.one_of(&scene.buckets()));
    }
    let table = *dice.one_of(&partitioned);
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
            scene.met(table.id, &name, partition);
            Some(Bucket { table: table.id, partition, bucket: number })
        }
        Ok(None) => {
            let what = format!("partition {name} of {} was promised and is not there", table.name);
            scene.checker.lock().violated("L4", what);
            None
        }
        Err(error) => {
            let error: wadi_meta::catalog::CatalogError = error;
            if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown) {
                let what = format!("partition {name} of {} cannot be made: {error}", table.name);
                scene.checker.lock().violated("L4", what);
            }
            None
        }
    }
}

impl Scene {
    /// Notes a partition that a gateway knows.
    fn met(&self, table: TableId, name: &str, partition: PartitionId) {
        let mut known = self.buckets.lock();
        let mut names = self.partitions.lock();
        if names.contains_key(&partition) {
            return;
        }
        let mut checker = self.checker.lock();
        let of_table = known.iter().filter(|bucket| bucket.table == table).map(|bucket| bucket.partition);
        if let Some(other) = of_table.into_iter().find(|id| names.get(id).is_some_and(|n| n == name)) {
            let what = format!("partition {name} of table {table} is {other}, and {partition} too");
            return checker.violated("L4", what);
        }
        names.insert(partition, name.to_owned());
        for bucket in 0..self.tables[&table].buckets {
            let bucket = Bucket { table, partition, bucket };
            if let Some(of) = self.keyed.get(&table) {
                checker.keyed(bucket, of.rules());
            }
            known.push(bucket);
        }
    }
}
