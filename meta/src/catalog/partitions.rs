//! The partitions of tables, as part of the catalog.
//!
//! | key | value |
//! | --- | --- |
//! | `catalog/partitions/<table id>/<name>` | [`Partition`] |
//! | `catalog/dropped-partitions/<table id>/<id>` | [`Partition`], until nothing of it is left in the shards |
//! | `partitions/<table id>` | how many there are |
//!
//! Every change of a table's partitions changes its count too, and compares that nobody else has: so the limit holds,
//! and what was listed just before is what there is. A table that is dropped takes its partitions along: their entries
//! lie under an id that never returns, until its rows are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use wadi_model::partition::{MAX_PARTITIONS, PartitionState};
use wadi_model::{Partition, PartitionId, Table, TableId, suggest};

use super::{Catalog, CatalogError, Changed, IDS, TABLES, TRIES, decode, encode};
use crate::{Compare, KeyValue, Txn};

#[cfg(test)]
mod tests;

pub(super) const PARTITIONS: &str = "catalog/partitions/";
pub(super) const DROPPED: &str = "catalog/dropped-partitions/";
pub(super) const COUNTS: &str = "partitions/";

/// Partitions that are made in one transaction.
const AT_ONCE: usize = 100;

/// Names that an error tells.
const TOLD: usize = 5;

/// The partitions of one table at one moment.
#[derive(Clone, Debug, Default)]
pub struct Partitions {
    by_name: BTreeMap<String, Arc<Partition>>,
    by_id: BTreeMap<PartitionId, Arc<Partition>>,
}

impl Partitions {
    /// The partition of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Partition>> {
        self.by_name.get(name)
    }

    /// The partition of this id.
    pub fn of_id(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        self.by_id.get(&id)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Partition>> {
        self.by_name.values()
    }

    /// Some of them, as an error tells them.
    pub fn told(&self) -> String {
        let names: Vec<String> = self.by_name.keys().rev().take(TOLD).map(|n| format!("\"{n}\"")).collect();
        match self.by_name.len() {
            0 => "the table has no partitions yet".to_owned(),
            count if count <= TOLD => format!("there are {}", names.join(", ")),
            count => format!("there are {count}, among them {}", names.join(", ")),
        }
    }

    fn put(&mut self, partition: Partition) {
        let partition = Arc::new(partition);
        self.remove(&partition.name);
        self.by_id.insert(partition.id, partition.clone());
        self.by_name.insert(partition.name.clone(), partition);
    }

    fn remove(&mut self, name: &str) {
        if let Some(gone) = self.by_name.remove(name) {
            self.by_id.remove(&gone.id);
        }
    }
}

/// The partitions of all tables.
#[derive(Debug, Default)]
pub(super) struct AllPartitions(BTreeMap<TableId, Arc<Partitions>>);

impl AllPartitions {
    pub(super) fn of(&self, table: TableId) -> Arc<Partitions> {
        self.0.get(&table).cloned().unwrap_or_default()
    }

    pub(super) fn put(&mut self, found: &KeyValue) -> Result<(), CatalogError> {
        let partition: Partition = decode(found)?;
        Arc::make_mut(self.0.entry(partition.table).or_default()).put(partition);
        Ok(())
    }

    /// Takes the partition away whose key ends so.
    pub(super) fn delete(&mut self, key: &str) {
        let Some((table, name)) = key.split_once('/') else { return };
        if let Some(partitions) = table.parse().ok().and_then(|id| self.0.get_mut(&TableId(id))) {
            Arc::make_mut(partitions).remove(name);
        }
    }

    /// Forgets the partitions of tables that are gone.
    pub(super) fn keep(&mut self, is_there: impl Fn(TableId) -> bool) {
        self.0.retain(|table, _| is_there(*table));
    }
}

/// A partition that was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The partition.
    pub partition: Arc<Partition>,
    /// Whether it was made by this call.
    pub is_new: bool,
}

impl Catalog {
    /// The partitions of a table.
    pub fn partitions(&self, table: TableId) -> Arc<Partitions> {
        self.seen.content.read().partitions.of(table)
    }

    /// A partition of a table.
    pub fn partition(&self, table: &Table, name: &str) -> Result<Arc<Partition>, CatalogError> {
        let partitions = self.partitions(table.id);
        partitions.named(name).cloned().ok_or_else(|| not_found(table, name, &partitions))
    }

    /// The partitions of these names, by name; those that are missing are made. `now` is in milliseconds since 1970;
    /// with a `lease` nothing is made once that is lost. One request at a time asks the store; who waited for it
    /// mostly finds what it wanted.
    pub async fn ensure_partitions(
        &self,
        table: &Table,
        names: &[String],
        now: i64,
        lease: Option<&Compare>,
    ) -> Result<BTreeMap<String, Asked>, CatalogError> {
        if let Some(known) = self.known(table.id, names) {
            return Ok(known);
        }
        let _turn = self.seen.making.lock().await;
        if let Some(known) = self.known(table.id, names) {
            return Ok(known);
        }
        for name in names {
            table.check_partition(name, Some(now))?;
        }
        let mut attempted = Vec::new();
        let mut tries = 0;
        while tries < TRIES {
            let place = self.place(table).await?;
            let found = self.known_in(&place.partitions, names, &attempted);
            let missing: Vec<&String> = names.iter().filter(|name| !found.contains_key(*name)).collect();
            if missing.is_empty() {
                self.wait_for(place.newest).await;
                return Ok(found);
            }
            if place.partitions.by_name.len() + missing.len() > MAX_PARTITIONS {
                return Err(CatalogError::TooManyPartitions { table: table.name.clone() });
            }
            let (outcome, ids) =
                self.make(table, &place, &missing[..missing.len().min(AT_ONCE)], now, lease).await?;
            match outcome {
                Changed::Done => attempted.extend(ids),
                // Whether it was done shows when the partitions are listed again.
                Changed::Unknown(_) => {
                    tries += 1;
                    attempted.extend(ids);
                }
                Changed::Refused(_) => tries += 1,
            }
        }
        Err(CatalogError::Contended)
    }

    /// Takes a partition away from its users. Its rows go later. With a `lease` nothing is done once that is lost.
    pub async fn drop_partition(
        &self,
        table: &Table,
        name: &str,
        lease: Option<&Compare>,
    ) -> Result<(), CatalogError> {
        let _turn = self.seen.making.lock().await;
        for _ in 0..TRIES {
            let place = self.place(table).await?;
            let Some(found) = place.partitions.named(name) else {
                return Err(not_found(table, name, &place.partitions));
            };
            let partition = Partition { state: PartitionState::Dropping, ..found.as_ref().clone() };
            let key = key_of(table.id, name);
            let dropped = format!("{DROPPED}{}/{}", table.id, partition.id);
            let value = encode(&partition)?;
            let count = place.partitions.by_name.len() as u64 - 1;
            let txn = || {
                let txn = place.unchanged(lease).put(&place.count_key, encode(&count)?);
                Ok(txn.put(&dropped, value.clone()).delete(&key))
            };
            match self.change(&key, txn).await? {
                Changed::Done | Changed::Unknown(None) => return Ok(()),
                Changed::Refused(_) | Changed::Unknown(Some(_)) => {}
            }
        }
        Err(CatalogError::Contended)
    }

    fn known(&self, table: TableId, names: &[String]) -> Option<BTreeMap<String, Asked>> {
        let known = self.known_in(&self.partitions(table), names, &[]);
        names.iter().all(|name| known.contains_key(name)).then_some(known)
    }

    fn known_in(&self, all: &Partitions, names: &[String], new: &[PartitionId]) -> BTreeMap<String, Asked> {
        let asked = |name: &String| {
            let partition = all.named(name)?.clone();
            let is_new = new.contains(&partition.id);
            Some((name.clone(), Asked { partition, is_new }))
        };
        names.iter().filter_map(asked).collect()
    }

    /// Makes partitions; also says which ids it gave them.
    async fn make(
        &self,
        table: &Table,
        place: &Place,
        names: &[&String],
        now: i64,
        lease: Option<&Compare>,
    ) -> Result<(Changed, Vec<PartitionId>), CatalogError> {
        let last = self.meta.get(IDS).await?;
        let first = last.as_ref().map_or(Ok(0), decode::<u64>)? + 1;
        let unchanged = match &last {
            Some(last) => Compare::modified(IDS, last.modified),
            None => Compare::absent(IDS),
        };
        let ids: Vec<PartitionId> = (first..).take(names.len()).map(PartitionId).collect();
        let count = (place.partitions.by_name.len() + names.len()) as u64;
        let txn = || {
            let mut txn = place.unchanged(lease).when(unchanged).put(&place.count_key, encode(&count)?);
            txn = txn.put(IDS, encode(&(first + names.len() as u64 - 1))?);
            for (id, name) in ids.iter().zip(names) {
                let (name, state) = ((*name).clone(), PartitionState::Active);
                let partition = Partition { id: *id, table: table.id, name, created_at: now, state };
                txn = txn.put(key_of(table.id, &partition.name), encode(&partition)?);
            }
            Ok(txn)
        };
        Ok((self.change(&place.count_key, txn).await?, ids))
    }

    /// Reads what a change of a table's partitions rests on.
    async fn place(&self, table: &Table) -> Result<Place, CatalogError> {
        let key = format!("{TABLES}{}", table.name);
        let gone = || CatalogError::TableNotFound { name: table.name.clone(), nearest: None };
        let found = self.meta.get(&key).await?.ok_or_else(gone)?;
        if decode::<Table>(&found)?.id != table.id {
            return Err(gone());
        }
        let count_key = format!("{COUNTS}{}", table.id);
        let count = match self.meta.get(&count_key).await? {
            Some(count) => Compare::modified(&count_key, count.modified),
            None => Compare::absent(&count_key),
        };
        // Listed after the count was read: if that does not change, neither does this.
        let listing = self.meta.list(&format!("{PARTITIONS}{}/", table.id)).await?;
        let mut partitions = Partitions::default();
        let mut newest = found.created;
        for entry in &listing.entries {
            newest = newest.max(entry.modified);
            partitions.put(decode(entry)?);
        }
        Ok(Place { table: Compare::created(&key, found.created), count, count_key, partitions, newest })
    }
}

/// What a change of a table's partitions rests on.
struct Place {
    /// The table is still that one.
    table: Compare,
    /// Nobody has changed its partitions.
    count: Compare,
    count_key: String,
    partitions: Partitions,
    /// When the youngest of them was made.
    newest: crate::Revision,
}

impl Place {
    fn unchanged(&self, lease: Option<&Compare>) -> Txn {
        let txn = Txn::new().when(self.table.clone()).when(self.count.clone());
        match lease {
            Some(lease) => txn.when(lease.clone()),
            None => txn,
        }
    }
}

fn key_of(table: TableId, name: &str) -> String {
    format!("{PARTITIONS}{table}/{name}")
}

fn not_found(table: &Table, name: &str, partitions: &Partitions) -> CatalogError {
    let names = partitions.by_name.keys().map(String::as_str);
    CatalogError::PartitionNotFound {
        table: table.name.clone(),
        name: name.chars().take(wadi_model::name::MAX_NAME).collect(),
        nearest: suggest::nearest(name, names).map(str::to_owned),
        known: partitions.told(),
    }
}
