//! A compaction leaves out what belongs to dropped tables and partitions.
//!
//! Only what the catalog names as dropped goes. An older version of an entry must not come back, so an entry becomes a
//! tombstone as long as there may be older files below, and vanishes only where there are none. With the entries go their
//! high watermarks: replay knows what to do about a bucket that has none (`shard/replay/swept.rs`).

use async_trait::async_trait;
use prometheus_client::metrics::counter::Counter;
use slatedb::{
    CompactionFilter, CompactionFilterDecision, CompactionFilterError, CompactionFilterSupplier,
    CompactionJobContext, RowEntry, ValueDeletable,
};
use wadi_meta::catalog::Drops;
use wadi_model::{PartitionId, TableId};

use crate::keys;

/// Makes a filter for each compaction.
pub(super) struct DroppedRows {
    drops: Drops,
    dropped: Counter,
}

impl DroppedRows {
    pub(super) fn new(drops: Drops, dropped: Counter) -> DroppedRows {
        DroppedRows { drops, dropped }
    }
}

#[async_trait]
impl CompactionFilterSupplier for DroppedRows {
    async fn create_compaction_filter(
        &self,
        context: &CompactionJobContext,
    ) -> Result<Box<dyn CompactionFilter>, CompactionFilterError> {
        Ok(Box::new(Filter {
            // Most compactions meet nothing that was dropped, and must not pay for looking.
            drops: (!self.drops.is_empty()).then(|| self.drops.clone()),
            is_last: context.is_dest_last_run,
            last: None,
            count: 0,
            dropped: self.dropped.clone(),
        }))
    }
}

struct Filter {
    drops: Option<Drops>,
    /// Whether there is nothing below what this compaction writes.
    is_last: bool,
    /// The answer for the last partition: entries of one lie side by side.
    last: Option<((TableId, PartitionId), bool)>,
    count: u64,
    dropped: Counter,
}

impl Filter {
    fn is_dropped(&mut self, key: &[u8]) -> bool {
        let Some(drops) = &self.drops else { return false };
        let Some(bucket) = keys::bucket_of(key) else { return false };
        let partition = (bucket.table, bucket.partition);
        match self.last {
            Some((last, answer)) if last == partition => answer,
            _ => {
                let answer = drops.has(bucket.table, bucket.partition);
                self.last = Some((partition, answer));
                answer
            }
        }
    }
}

#[async_trait]
impl CompactionFilter for Filter {
    async fn filter(&mut self, entry: &RowEntry) -> Result<CompactionFilterDecision, CompactionFilterError> {
        if !self.is_dropped(&entry.key) {
            return Ok(CompactionFilterDecision::Keep);
        }
        if self.is_last {
            self.count += 1;
            return Ok(CompactionFilterDecision::Drop);
        }
        if matches!(entry.value, ValueDeletable::Tombstone) {
            return Ok(CompactionFilterDecision::Keep);
        }
        self.count += 1;
        Ok(CompactionFilterDecision::Modify(ValueDeletable::Tombstone))
    }

    async fn on_compaction_end(&mut self) -> Result<(), CompactionFilterError> {
        self.dropped.inc_by(self.count);
        Ok(())
    }
}
