//! Where rows lie: buckets with the names of their partitions, and which of them a request means.

use std::sync::Arc;

use wadi_meta::catalog::Partitions;
use wadi_model::{Bucket, ErrorKind, Partition, PartitionId, Table, TableId};
use wadi_store::route::State;

use crate::app::Gateway;
use crate::problem::Problem;

/// A bucket, with its partition in tables that have some.
#[derive(Clone, Debug)]
pub struct Place {
    /// The bucket.
    pub bucket: Bucket,
    /// Its partition.
    pub partition: Option<Arc<Partition>>,
}

impl Place {
    /// A bucket of a table or of one of its partitions.
    pub fn new(table: TableId, partition: Option<Arc<Partition>>, bucket: u32) -> Place {
        let id = partition.as_ref().map_or(PartitionId::NONE, |p| p.id);
        Place { bucket: Bucket { table, partition: id, bucket }, partition }
    }

    /// The partition's name; empty without partitions.
    pub fn partition_name(&self) -> &str {
        self.partition.as_ref().map_or("", |p| &p.name)
    }

    /// Checks that the partition was not dropped since it was looked up.
    pub fn check(&self, gateway: &Gateway, table: &Table) -> Result<(), Problem> {
        match &self.partition {
            Some(partition) if gateway.catalog().partitions(table.id).of_id(partition.id).is_none() => {
                // Another one may have its name by now; this one is gone all the same.
                gateway.catalog().partition(table, &partition.name)?;
                Err(dropped(table, &partition.name))
            }
            _ => Ok(()),
        }
    }
}

/// The answer to who reads a partition that was dropped meanwhile.
fn dropped(table: &Table, name: &str) -> Problem {
    let detail = format!(
        "partition \"{name}\" of table \"{}\" was dropped; there is a new one of this name",
        table.name
    );
    Problem::new(ErrorKind::Gone, "partition_dropped", detail)
}

/// The partitions that a read goes over: those of the table, the one that is named, or the table itself.
#[derive(Clone, Debug)]
pub struct Scope {
    table: Arc<Table>,
    partitions: Vec<Option<Arc<Partition>>>,
}

impl Scope {
    /// All partitions, or the one of this name.
    pub fn of(gateway: &Gateway, table: &Arc<Table>, named: Option<&str>) -> Result<Scope, Problem> {
        let partitions = match named {
            Some(name) => match gateway.catalog().partition(table, name) {
                Ok(partition) => vec![Some(partition)],
                Err(error) => {
                    // Says what is wrong with a name that no partition can have.
                    table.check_partition(name, None)?;
                    return Err(error.into());
                }
            },
            None if table.is_partitioned() => {
                gateway.catalog().partitions(table.id).iter().cloned().map(Some).collect()
            }
            None => vec![None],
        };
        Ok(Scope { table: table.clone(), partitions })
    }

    /// The partitions; one `None` for a table without any.
    pub fn partitions(&self) -> &[Option<Arc<Partition>>] {
        &self.partitions
    }

    /// How many buckets there are.
    pub fn bucket_count(&self) -> usize {
        self.partitions.len() * self.table.buckets as usize
    }

    /// All buckets, by partition and number.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let of = |partition: &Option<Arc<Partition>>| {
            let (table, partition) = (self.table.id, partition.clone());
            (0..self.table.buckets).map(move |bucket| Place::new(table, partition.clone(), bucket))
        };
        self.partitions.iter().flat_map(of)
    }
}

/// The places of a read, and how their buckets are.
pub async fn states_of(gateway: &Gateway, scope: &Scope) -> Result<Vec<(Place, State)>, Problem> {
    let places: Vec<Place> = scope.places().collect();
    let buckets: Vec<Bucket> = places.iter().map(|place| place.bucket).collect();
    let states = gateway.route().states(&buckets, gateway.limits().patience).await?;
    Ok(places.into_iter().zip(states).collect())
}

/// The answer to who must name a partition and does not.
pub fn name_a_partition(table: &Table, partitions: &Partitions) -> Problem {
    let detail = format!(
        "table \"{}\" is partitioned by {}; name a partition with \"partition\" ({})",
        table.name,
        table.names_of(&table.partition_by).join(", "),
        partitions.told()
    );
    Problem::new(ErrorKind::Invalid, "partition_needed", detail)
}
