//! What compactions of shard databases count.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};
use slatedb::compactor::stats::{BYTES_COMPACTED, SSTS_WRITTEN};
use slatedb_common::metrics::{
    CounterFn, GaugeFn, HistogramFn, MetricsRecorder, NoopMetricsRecorder, UpDownCounterFn,
};

/// Counters of all compactions of a process. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct CompactionMetrics {
    /// Bytes that were merged.
    pub bytes: Counter,
    /// Files that were written.
    pub files: Counter,
    /// Entries of dropped tables and partitions that were left out.
    pub dropped: Counter,
}

impl CompactionMetrics {
    /// Metrics that are shown in `registry`, under the prefix that it has.
    pub fn new(registry: &mut Registry) -> CompactionMetrics {
        let metrics = CompactionMetrics::default();
        registry.register_with_unit(
            "compacted",
            "Merged from shard databases",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "compacted_files",
            "Files written by compactions of shard databases",
            metrics.files.clone(),
        );
        registry.register(
            "dropped_entries",
            "Entries of dropped tables and partitions left out of shard databases",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// Counts what SlateDB says of a compaction.
    pub(super) fn recorder(&self) -> Arc<dyn MetricsRecorder> {
        Arc::new(Recorder { metrics: self.clone(), others: NoopMetricsRecorder::new() })
    }
}

struct Recorder {
    metrics: CompactionMetrics,
    others: NoopMetricsRecorder,
}

struct Counted(Counter);

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        self.0.inc_by(value);
    }
}

impl MetricsRecorder for Recorder {
    fn register_counter(&self, name: &str, about: &str, labels: &[(&str, &str)]) -> Arc<dyn CounterFn> {
        match name {
            BYTES_COMPACTED => Arc::new(Counted(self.metrics.bytes.clone())),
            SSTS_WRITTEN => Arc::new(Counted(self.metrics.files.clone())),
            _ => self.others.register_counter(name, about, labels),
        }
    }

    fn register_gauge(&self, name: &str, about: &str, labels: &[(&str, &str)]) -> Arc<dyn GaugeFn> {
        self.others.register_gauge(name, about, labels)
    }

    fn register_up_down_counter(
        &self,
        name: &str,
        about: &str,
        labels: &[(&str, &str)],
    ) -> Arc<dyn UpDownCounterFn> {
        self.others.register_up_down_counter(name, about, labels)
    }

    fn register_histogram(
        &self,
        name: &str,
        about: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
    ) -> Arc<dyn HistogramFn> {
        self.others.register_histogram(name, about, labels, bounds)
    }
}
