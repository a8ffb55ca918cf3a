//! What the shards of a process count.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::database::CompactionMetrics;

/// Counters of all shards of a process. Clones count together.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    /// Rows acked.
    pub acked_rows: Counter,
    /// Raw bytes of rows acked.
    pub acked_bytes: Counter,
    /// Log objects written.
    pub log_objects: Counter,
    /// Their bytes.
    pub log_object_bytes: Counter,
    /// Seconds from a part's arrival in its shard to its ack.
    pub ack_seconds: Histogram,
    /// Seconds of them that it waited for its object's PUT to begin.
    pub queue_seconds: Histogram,
    /// Seconds of a log object's PUT, retries included.
    pub put_seconds: Histogram,
    /// Bytes accepted and not yet acked.
    pub unflushed_bytes: Gauge,
    /// Shards owned and open.
    pub owned_shards: Gauge,
    /// Takeovers that ended with an open shard.
    pub takeovers: Counter,
    /// Seconds from a shard's claim until it is open.
    pub takeover_seconds: Histogram,
    /// Shards given up because an outcome was unknown or the lease was lost.
    pub poisoned: Counter,
    /// Ranged GETs of log objects.
    pub log_gets: Counter,
    /// Their bytes.
    pub log_get_bytes: Counter,
    /// Segments found in memory or on the local disk.
    pub segment_hits: Counter,
    /// Those of them that the local disk had.
    pub segment_disk_hits: Counter,
    /// Segments that the local disk had and did not give, or not rightly.
    pub segment_disk_errors: Counter,
    /// Segments that had to be read.
    pub segment_misses: Counter,
    /// Compactions by this gateway, where no compactor is alive.
    pub compaction: CompactionMetrics,
}

impl StoreMetrics {
    /// Metrics that are shown in `registry` under `wadi_store_…`.
    pub fn new(registry: &mut Registry) -> StoreMetrics {
        let latency = || Histogram::new(exponential_buckets(0.001, 2.0, 14));
        let metrics = StoreMetrics {
            acked_rows: Counter::default(),
            acked_bytes: Counter::default(),
            log_objects: Counter::default(),
            log_object_bytes: Counter::default(),
            ack_seconds: latency(),
            queue_seconds: latency(),
            put_seconds: latency(),
            unflushed_bytes: Gauge::default(),
            owned_shards: Gauge::default(),
            takeovers: Counter::default(),
            takeover_seconds: latency(),
            poisoned: Counter::default(),
            log_gets: Counter::default(),
            log_get_bytes: Counter::default(),
            segment_hits: Counter::default(),
            segment_disk_hits: Counter::default(),
            segment_disk_errors: Counter::default(),
            segment_misses: Counter::default(),
            compaction: CompactionMetrics::new(registry.sub_registry_with_prefix("wadi_store")),
        };
        let store = registry.sub_registry_with_prefix("wadi_store");
        store.register("acked_rows", "Rows acked", metrics.acked_rows.clone());
        store.register_with_unit("acked", "Raw bytes acked", Unit::Bytes, metrics.acked_bytes.clone());
        store.register("log_objects", "Log objects written", metrics.log_objects.clone());
        store.register_with_unit(
            "log_object",
            "Bytes of log objects written",
            Unit::Bytes,
            metrics.log_object_bytes.clone(),
        );
        store.register_with_unit("ack", "From arrival to ack", Unit::Seconds, metrics.ack_seconds.clone());
        let about = "From arrival to the beginning of the PUT";
        store.register_with_unit("queue", about, Unit::Seconds, metrics.queue_seconds.clone());
        store.register_with_unit("put", "Log object PUTs", Unit::Seconds, metrics.put_seconds.clone());
        store.register_with_unit(
            "unflushed",
            "Accepted and not yet acked",
            Unit::Bytes,
            metrics.unflushed_bytes.clone(),
        );
        store.register("owned_shards", "Shards owned and open", metrics.owned_shards.clone());
        store.register("takeovers", "Shards taken over", metrics.takeovers.clone());
        store.register_with_unit(
            "takeover",
            "From claim to open shard",
            Unit::Seconds,
            metrics.takeover_seconds.clone(),
        );
        store.register("poisoned_shards", "Shards given up in doubt", metrics.poisoned.clone());
        store.register("log_gets", "Ranged GETs of log objects", metrics.log_gets.clone());
        store.register_with_unit(
            "log_get",
            "Bytes of those GETs",
            Unit::Bytes,
            metrics.log_get_bytes.clone(),
        );
        store.register("segment_hits", "Segments found in a cache", metrics.segment_hits.clone());
        store.register(
            "segment_disk_hits",
            "Segments found on the local disk",
            metrics.segment_disk_hits.clone(),
        );
        store.register(
            "segment_disk_errors",
            "Segments that the local disk had and did not give",
            metrics.segment_disk_errors.clone(),
        );
        store.register("segment_misses", "Segments read from the store", metrics.segment_misses.clone());
        metrics
    }
}
