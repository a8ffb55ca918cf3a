//! Which partitions the rows of a write go to, and the partitions that are made for them.
//!
//! Rows are grouped once, when they are decoded, so that rows without a partition are rejected like others that do not
//! fit. When the rest is written, partitions that do not exist yet are made, unless the table forbids that
//! (`table.dynamic-create-partition.enabled`): then nothing is written. A partition that was made stays, whatever
//! becomes of the rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use wadi_model::options::DYNAMIC_PARTITION;
use wadi_model::partition::Grouping;
use wadi_model::{ErrorKind, Partition, Table, TableId};

use crate::app::Gateway;
use crate::body::Decoded;
use crate::everywhere;
use crate::places::Place;
use crate::problem::Problem;

/// Groups decoded rows by partition; those without one join the rejected. The first columns of the rows are those at these
/// positions of the table, or all of them. CPU work.
pub fn assign(
    table: &Table,
    columns: Option<&[usize]>,
    decoded: &mut Decoded,
    now: i64,
) -> Result<Option<Grouping>, Problem> {
    let Some(mut grouping) = group(table, columns, &decoded.batch, now)? else { return Ok(None) };
    decoded
        .also_reject(grouping.take_rejects())
        .map_err(|e| Problem::new(ErrorKind::Internal, "internal", e.to_string()))?;
    Ok(Some(grouping))
}

/// Groups rows by partition; `None` for a table without partitions. The first columns of the rows are those at these positions
/// of the table, or all of them. CPU work.
pub fn group(
    table: &Table,
    given: Option<&[usize]>,
    rows: &RecordBatch,
    now: i64,
) -> Result<Option<Grouping>, Problem> {
    if !table.is_partitioned() {
        return Ok(None);
    }
    // Partition columns are part of the key, and so of all rows.
    let at = |i: &usize| given.map_or(Some(*i), |given| given.iter().position(|g| g == i));
    let positions: Vec<usize> = table.partition_columns().iter().filter_map(at).collect();
    let columns: Vec<ArrayRef> = positions.into_iter().map(|i| rows.column(i).clone()).collect();
    Ok(Some(Grouping::of(table, &columns, Some(now))?))
}

/// The partitions of the rows of a write.
#[derive(Debug)]
pub struct Targets {
    /// One `None` for a table without partitions.
    partitions: Vec<Option<Arc<Partition>>>,
    /// For each row the place of its partition.
    of_rows: Vec<u32>,
}

impl Targets {
    /// Finds or makes the partitions of rows that were grouped before.
    pub async fn of(
        gateway: &Gateway,
        table: &Table,
        grouping: Option<Grouping>,
    ) -> Result<Targets, Problem> {
        let Some(grouping) = grouping else {
            return Ok(Targets { partitions: vec![None], of_rows: Vec::new() });
        };
        let names = grouping.names();
        if !table.options.creates_partitions() {
            let known = gateway.catalog().partitions(table.id);
            let missing: Vec<&str> =
                names.iter().filter(|name| known.named(name).is_none()).map(String::as_str).collect();
            if let Some(first) = missing.first() {
                return Err(none_is_made(table, first, missing.len()));
            }
        }
        let mut found =
            gateway.catalog().ensure_partitions(table, names, gateway.env().now_millis(), None).await?;
        if found.values().any(|asked| asked.is_new) {
            // Whoever has the answer finds its rows at every gateway.
            everywhere::seen(gateway).await;
        }
        let partitions = names.iter().map(|name| found.remove(name).map(|asked| asked.partition)).collect();
        Ok(Targets { partitions, of_rows: grouping.of_rows().to_vec() })
    }

    /// The place of all rows in this bucket, if they have one partition, or none.
    pub fn one(&self, table: &Table, bucket: u32) -> Option<Place> {
        match self.partitions.as_slice() {
            [partition] => Some(Place::new(table.id, partition.clone(), bucket)),
            _ => None,
        }
    }

    /// The places of rows whose buckets (of so many) are given, and for each row which place is its own.
    pub fn split(&self, table: TableId, buckets: u32, of_rows: &[u32]) -> (Vec<Place>, Vec<u32>) {
        const UNKNOWN: u32 = u32::MAX;
        let mut places = Vec::new();
        // At most 1000 partitions of 4096 buckets: 16 MiB for a moment.
        let mut known = vec![UNKNOWN; self.partitions.len() * buckets as usize];
        let place = |(row, bucket): (usize, &u32)| {
            let target = if self.partitions.len() == 1 { 0 } else { self.of_rows[row] as usize };
            let place = &mut known[target * buckets as usize + *bucket as usize];
            if *place == UNKNOWN {
                *place = places.len() as u32;
                places.push(Place::new(table, self.partitions[target].clone(), *bucket));
            }
            *place
        };
        let of_rows = of_rows.iter().enumerate().map(place).collect();
        (places, of_rows)
    }
}

/// The answer where writes make no partitions.
fn none_is_made(table: &Table, name: &str, missing: usize) -> Problem {
    let (database, own) = (table.name.database(), table.name.table());
    let others = if missing > 1 { format!(" (and {} more)", missing - 1) } else { String::new() };
    let detail = format!(
        "partition \"{name}\"{others} of table \"{}\" does not exist, and writes to this table make none \
         ({DYNAMIC_PARTITION} = false); make it first: POST /v1/databases/{database}/tables/{own}/partitions, or \
         wadi partition create {} '{name}'",
        table.name, table.name
    );
    Problem::new(ErrorKind::NotFound, "partition_not_found", detail)
}
