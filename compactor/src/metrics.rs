//! What a compactor counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use wadi_store::database::CompactionMetrics;

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
            failures: Counter::default(),
            compaction: CompactionMetrics::new(own),
        };
        own.register("shards", "Shards that it works on", metrics.shards.clone());
        own.register("members", "Compactors that are alive", metrics.members.clone());
        own.register("compacting_shards", "Shards being compacted now", metrics.compacting.clone());
        own.register("sweeps", "Removals of dropped rows from a shard", metrics.sweeps.clone());
        own.register("collections", "Searches for files that nobody needs", metrics.collections.clone());
        own.register("pack_rounds", "Rounds of packing and merging", metrics.pack_rounds.clone());
        own.register("pack_read_bytes", "Bytes read to pack and merge", metrics.pack_read_bytes.clone());
        own.register("pack_written_bytes", "Bytes of packs written", metrics.pack_written_bytes.clone());
        own.register("trims", "Times that a shard's log was trimmed", metrics.trims.clone());
        own.register("deleted_objects", "Log objects and packs deleted", metrics.deleted.clone());
        own.register("orphans", "Packs deleted that no owner took", metrics.orphans.clone());
        own.register("failures", "Rounds of work that failed", metrics.failures.clone());
        metrics
    }
}
