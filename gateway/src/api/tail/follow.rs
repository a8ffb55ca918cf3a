//! What a tail follows: the buckets of all partitions that there are, or of the one that was named.
//!
//! A partition that is made while a tail runs is followed from its log start, so nothing of it is missed, wherever the
//! tail itself began. One that is dropped is followed no more, and the client is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use wadi_meta::catalog::Partitions;
use wadi_model::{ErrorKind, Offset, Partition, PartitionId, Table};

use super::cursor::Cursor;
use crate::api::offsets::At;
use crate::app::Gateway;
use crate::places::{Place, Scope};
use crate::problem::Problem;

/// Buckets that one stream may follow.
const MAX_BUCKETS: usize = 512;

/// A partition that is followed, with the next offset of each bucket.
#[derive(Debug)]
struct Line {
    partition: Option<Arc<Partition>>,
    offsets: Vec<Offset>,
}

/// The buckets that a tail follows.
#[derive(Debug)]
pub(super) struct Follow {
    table: Arc<Table>,
    /// Whether one partition was named.
    is_one: bool,
    lines: Vec<Line>,
    /// The partitions as they were when last looked at.
    seen: Arc<Partitions>,
    /// Dropped ones that the client was not told of yet.
    dropped: Vec<Dropped>,
}

/// A partition that is followed no more.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) struct Dropped {
    /// Not known of partitions that were dropped before the stream began.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<String>,
    partition_id: PartitionId,
}

impl Follow {
    /// Begins at a cursor, at a time, or at an end of the log.
    pub(super) async fn start(
        gateway: &Gateway,
        table: &Arc<Table>,
        named: Option<&str>,
        from: &str,
    ) -> Result<Follow, Problem> {
        let seen = gateway.catalog().partitions(table.id);
        let scope = Scope::of(gateway, table, named)?;
        check_size(scope.bucket_count())?;
        let mut known = BTreeMap::new();
        let at = match Cursor::read(from) {
            Some(cursor) => {
                known = offsets_of(cursor, table)?;
                // What the cursor does not know came later.
                At::Earliest
            }
            None => At::of(from)?,
        };
        let mut follow = Follow {
            table: table.clone(),
            is_one: named.is_some(),
            lines: Vec::new(),
            seen,
            dropped: Vec::new(),
        };
        for partition in scope.partitions() {
            let id = partition.as_ref().map_or(PartitionId::NONE, |p| p.id);
            let offsets = known.remove(&id).unwrap_or_default();
            follow.add(gateway, partition.clone(), offsets, at).await?;
        }
        if named.is_none() {
            follow.dropped.extend(known.into_keys().map(|id| Dropped { partition: None, partition_id: id }));
        }
        Ok(follow)
    }

    async fn add(
        &mut self,
        gateway: &Gateway,
        partition: Option<Arc<Partition>>,
        mut offsets: Vec<Offset>,
        at: At,
    ) -> Result<(), Problem> {
        let missing = offsets.len() as u32..self.table.buckets;
        let bucket = |bucket| Place::new(self.table.id, partition.clone(), bucket).bucket;
        let missing: Vec<_> = missing.map(bucket).collect();
        offsets.extend(at.offsets(gateway, &missing).await?);
        self.lines.push(Line { partition, offsets });
        Ok(())
    }

    /// Looks at the table's partitions again, if they have changed.
    pub(super) async fn refresh(&mut self, gateway: &Gateway) -> Result<(), Problem> {
        let now = gateway.catalog().partitions(self.table.id);
        if !self.table.is_partitioned() || Arc::ptr_eq(&now, &self.seen) {
            return Ok(());
        }
        let mut dropped = Vec::new();
        self.lines.retain(|line| match &line.partition {
            Some(p) if now.of_id(p.id).is_none() => {
                dropped.push(Dropped { partition: Some(p.name.clone()), partition_id: p.id });
                false
            }
            _ => true,
        });
        self.dropped.extend(dropped);
        if !self.is_one {
            let followed = |id| self.lines.iter().any(|l| l.partition.as_ref().is_some_and(|p| p.id == id));
            let new: Vec<_> = now.iter().filter(|p| !followed(p.id)).cloned().collect();
            check_size((self.lines.len() + new.len()) * self.table.buckets as usize)?;
            for partition in new {
                self.add(gateway, Some(partition), Vec::new(), At::Earliest).await?;
            }
        }
        self.seen = now;
        Ok(())
    }

    /// How many buckets are followed.
    pub(super) fn bucket_count(&self) -> usize {
        self.lines.len() * self.table.buckets as usize
    }

    /// A bucket of those that are followed, and where to go on in it.
    pub(super) fn at(&self, index: usize) -> Option<(Place, Offset)> {
        let buckets = self.table.buckets.max(1) as usize;
        let line = self.lines.get(index / buckets)?;
        let bucket = index % buckets;
        Some((Place::new(self.table.id, line.partition.clone(), bucket as u32), *line.offsets.get(bucket)?))
    }

    /// Goes on from there in a bucket.
    pub(super) fn advance(&mut self, index: usize, offset: Offset) {
        let buckets = self.table.buckets.max(1) as usize;
        if let Some(at) = self.lines.get_mut(index / buckets).and_then(|l| l.offsets.get_mut(index % buckets))
        {
            *at = offset;
        }
    }

    /// The partitions that are followed no more since this was last asked.
    pub(super) fn take_dropped(&mut self) -> Vec<Dropped> {
        std::mem::take(&mut self.dropped)
    }

    /// Whether the one partition that was named is gone.
    pub(super) fn is_over(&self) -> bool {
        self.is_one && self.lines.is_empty()
    }

    /// Where to go on later.
    pub(super) fn cursor(&self) -> Cursor {
        let line =
            |line: &Line| (line.partition.as_ref().map_or(PartitionId::NONE, |p| p.id), line.offsets.clone());
        Cursor { table: self.table.id, partitions: self.lines.iter().map(line).collect() }
    }
}

fn check_size(buckets: usize) -> Result<(), Problem> {
    if buckets <= MAX_BUCKETS {
        return Ok(());
    }
    let detail = format!(
        "one stream follows at most {MAX_BUCKETS} buckets, and these are {buckets}; name a partition with \
         \"partition\", or read buckets by log"
    );
    Err(Problem::new(ErrorKind::Invalid, "too_many_buckets", detail))
}

/// The offsets of a cursor, if it belongs to this table.
fn offsets_of(cursor: Cursor, table: &Table) -> Result<BTreeMap<PartitionId, Vec<Offset>>, Problem> {
    let fits = |offsets: &Vec<Offset>| offsets.len() <= table.buckets as usize;
    if cursor.table == table.id && cursor.partitions.values().all(fits) {
        return Ok(cursor.partitions);
    }
    let detail =
        format!("this cursor belongs to another table than the present \"{}\"; begin anew", table.name);
    Err(Problem::new(ErrorKind::Gone, "cursor_gone", detail))
}
