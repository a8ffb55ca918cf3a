//! What a compactor counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use wadi_store::database::CompactionMetrics;

/// What still has to be done for the shards of a compactor, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DebtLabels {
    kind: &'static str,
}

/// The bytes that wait for one work on one shard, as a part of what is shown. They are taken off when the work ends.
#[derive(Debug)]
pub(crate) struct Debt {
    shown: Gauge,
    bytes: i64,
}

impl Debt {
    /// So much it is now.
    pub(crate) fn set(&mut self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.shown.inc_by(bytes.saturating_sub(self.bytes));
        self.bytes = bytes;
    }

    /// What is shown, of all shards.
    #[cfg(test)]
    pub(crate) fn total(&self) -> i64 {
        self.shown.get()
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        self.shown.dec_by(self.bytes);
    }
}

/// Counters of a compactor. Clones count together.
#[derive(Clone, Debug)]
pub struct CompactorMetrics {
    /// Shards that it works on.
    pub shards: Gauge,
    /// Compactors that are alive, this one among them.
    pub members: Gauge,
    /// Shards that are being compacted now.
    pub compacting: Gauge,
    /// Times that the rows of dropped tables and partitions were removed from a shard.
    pub sweeps: Counter,
    /// Searches for files that nobody needs.
    pub collections: Counter,
    /// Rounds of packing and merging that owners took.
    pub pack_rounds: Counter,
    /// Bytes read for them.
    pub pack_read_bytes: Counter,
    /// Bytes written for them.
    pub pack_written_bytes: Counter,
    /// Times that a shard's log was trimmed.
    pub trims: Counter,
    /// Log objects and packs that nobody needed any more, deleted.
    pub deleted: Counter,
    /// Packs that no owner took, deleted.
    pub orphans: Counter,
    /// Drops that were forgotten, since nothing was left of them.
    pub forgotten: Counter,
    /// Bytes that wait to be packed or merged, of the shards that it works on.
    debt: Family<DebtLabels, Gauge>,
    /// Rounds of works that failed. They are tried again.
    pub failures: Counter,
    /// What its compactions did.
    pub compaction: CompactionMetrics,
}

impl CompactorMetrics {
    /// Metrics that are shown in `registry` under `wadi_compactor_…`.
    pub fn new(registry: &mut Registry) -> CompactorMetrics {
        let own = registry.sub_registry_with_prefix("wadi_compactor");
        let metrics = CompactorMetrics {
            shards: Gauge::default(),
            members: Gauge::default(),
            compacting: Gauge::default(),
            sweeps: Counter::default(),
            collections: Counter::default(),
            pack_rounds: Counter::default(),
            pack_read_bytes: Counter::default(),
            pack_written_bytes: Counter::default(),
            trims: Counter::default(),
            deleted: Counter::default(),
            orphans: Counter::default(),
            forgotten: Counter::default(),
            debt: Family::default(),
            failures: Counter::default(),
            compaction: CompactionMetrics::new(own),
        };
        own.register("shards", "Shards that it works on", metrics.shards.clone());
        own.register("members", "Compactors that are alive", metrics.members.clone());
        own.register("compacting_shards", "Shards being compacted now", metrics.compacting.clone());
        own.register("sweeps", "Removals of dropped rows from a shard", metrics.sweeps.clone());
        own.register("collections", "Searches for files that nobody needs", metrics.collections.clone());
        own.register("pack_rounds", "Rounds of packing and merging", metrics.pack_rounds.clone());
        own.register_with_unit(
            "pack_read",
            "Bytes read to pack and merge",
            Unit::Bytes,
            metrics.pack_read_bytes.clone(),
        );
        own.register_with_unit(
            "pack_written",
            "Bytes of packs written",
            Unit::Bytes,
            metrics.pack_written_bytes.clone(),
        );
        own.register("trims", "Times that a shard's log was trimmed", metrics.trims.clone());
        own.register("deleted_objects", "Log objects and packs deleted", metrics.deleted.clone());
        own.register("orphans", "Packs deleted that no owner took", metrics.orphans.clone());
        own.register(
            "forgotten_drops",
            "Drops of which nothing was left, forgotten",
            metrics.forgotten.clone(),
        );
        let about = "Waiting to be packed or merged, of the shards that it works on";
        own.register_with_unit("debt", about, Unit::Bytes, metrics.debt.clone());
        own.register("failures", "Rounds of work that failed", metrics.failures.clone());
        metrics
    }

    /// A part of the debt in the shards' logs: bytes that no pack holds yet.
    pub(crate) fn log_debt(&self) -> Debt {
        self.debt_of("log")
    }

    /// A part of the debt in the shards' databases: bytes in files of level 0.
    pub(crate) fn level0_debt(&self) -> Debt {
        self.debt_of("level0")
    }

    fn debt_of(&self, kind: &'static str) -> Debt {
        Debt { shown: self.debt.get_or_create(&DebtLabels { kind }).clone(), bytes: 0 }
    }
}
