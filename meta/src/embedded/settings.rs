//! How the metadata database runs: small, and silent while nothing changes.

use std::time::Duration;

use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
    GarbageCollectorScheduleOptions, Settings,
};

/// How often the database looks at the bucket by itself. Each look is a few GETs and no PUT.
const POLL: Duration = Duration::from_secs(60);
/// How often it looks for files to delete. Each time it lists four folders.
const COLLECT: Duration = Duration::from_secs(3600);

/// The settings of the database; `local` says that the object store is a directory.
pub(super) fn settings(local: bool) -> Settings {
    Settings {
        // The writer flushes after each transaction; a timer would only add latency.
        flush_interval: None,
        // All rows are in our memory too, and are few: small memtables cost nothing.
        l0_sst_size_bytes: 2 << 20,
        max_unflushed_bytes: 16 << 20,
        // How soon an idle process finds that a later one has taken over. Writes find it at once.
        manifest_poll_interval: POLL,
        // Memtables are flushed every few hundred transactions, so eight L0s take long to come, and compacting them in
        // the background, within the minute, takes milliseconds. Without a compactor the ninth flush would wait for ever.
        compactor_options: Some(CompactorOptions {
            poll_interval: POLL,
            max_concurrent_compactions: 1,
            worker: Some(CompactionWorkerOptions {
                max_concurrent_compactions: 1,
                compactions_poll_interval: POLL,
                max_fetch_tasks: 1,
                max_subcompactions: 1,
                ..CompactionWorkerOptions::default()
            }),
            ..CompactorOptions::default()
        }),
        garbage_collector_options: Some(collector(local)),
        ..Settings::default()
    }
}

fn collector(local: bool) -> GarbageCollectorOptions {
    let files = Some(GarbageCollectorDirectoryOptions {
        interval: Some(COLLECT),
        ..GarbageCollectorDirectoryOptions::default()
    });
    GarbageCollectorOptions {
        manifest_options: files,
        wal_options: files,
        // Fences stay: they are empty, one per start, and stop a writer that slept through everything since.
        wal_fence_options: None,
        compacted_options: files,
        compactions_options: files,
        detach_options: Some(GarbageCollectorScheduleOptions { interval: Some(COLLECT) }),
        // They need conditional overwrites, which a directory has not; there the file lock keeps old writers out.
        boundary_files_enabled: !local,
        ..GarbageCollectorOptions::default()
    }
}
