//! SlateDB's compaction of a shard's database, from outside its writer.
//!
//! A compaction of ours begins by claiming the database's compactor epoch, so whoever compacted it before is fenced: two at
//! once are safe, and the later one goes on. It is started where there is work and stopped when there is none: each
//! second that it runs costs some requests.
//!
//! Files that it writes are those that the writer would: block format, codec and filters are the writer's
//! (`super::CODEC`, the defaults for the rest). Its clock is not behind what the database has seen; see
//! [`Place::clock`].

use std::time::Duration;

use slatedb::CompactorBuilder;
use slatedb::compactor::{CompactionSpec, CompactionStatus, SourceId};
use slatedb::config::{CompactionWorkerOptions, CompactorOptions, GarbageCollectorDirectoryOptions};
use slatedb::config::{GarbageCollectorOptions, Settings};
use slatedb::{CloseReason, ErrorKind, GarbageCollectorBuilder};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wadi_meta::catalog::Drops;
use wadi_model::ShardId;

use super::CODEC;
use super::dropped::DroppedRows;
use super::metrics::CompactionMetrics;
use super::place::Place;
use crate::task;

/// How often a running compaction looks for work, and for what its jobs have done.
const POLL: Duration = Duration::from_secs(1);

/// The size of a file that is written. The more keys it has, the more memory it takes to write it (8 bytes a key for its filter,
/// twice while that grows) and to read one row of it (its whole index and filter: with rows of 100 bytes about 3 % of it).
const FILE_BYTES: usize = 64 << 20;

/// Compactions of one database at once: one of level 0, so that the writer goes on, beside one of sorted runs.
const AT_ONCE: usize = 2;

/// How often a request is tried again, with up to a second between, before the compaction ends with an error.
const RETRIES: u32 = 20;

/// How long a compaction may take to stop; what it leaves behind is taken up by the next one.
const STOPPING: Duration = Duration::from_secs(10);

/// So old is a file before it is collected, at least.
const LEAST_AGE: Duration = Duration::from_secs(300);

/// From so many files of level 0 on there is something to compact.
pub const LEVEL0_DUE: usize = 4;

/// A compaction that runs. It stops when it is dropped.
#[derive(Debug)]
pub struct Compaction {
    shard: ShardId,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), slatedb::Error>>,
}

impl Compaction {
    /// Begins to compact a database, which must exist. With `drops`, entries of what was dropped are left out.
    pub async fn start(
        place: &Place,
        shard: ShardId,
        drops: Option<Drops>,
        metrics: &CompactionMetrics,
    ) -> Result<Compaction, slatedb::Error> {
        let clock = place.clock(shard).await?;
        let mut builder = CompactorBuilder::new(place.path(shard), place.objects.clone())
            .with_options(options())
            .with_system_clock(Arc::new(clock))
            .with_seed(place.env.random())
            .with_metrics_recorder(metrics.recorder());
        if let Some(drops) = drops {
            builder = builder
                .with_compaction_filter_supplier(Arc::new(DroppedRows::new(drops, metrics.dropped.clone())));
        }
        let compactor = builder.build();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = task::spawn(async move {
            tokio::select! {
                biased;
                _ = stopped => compactor.stop().await,
                ended = compactor.run() => ended,
            }
        });
        Ok(Compaction { shard, stop: Some(stop), running })
    }

    /// Waits until it ends by itself, which is an error: another one has begun, or the object store is away.
    pub async fn ended(&mut self) -> String {
        match (&mut self.running).await {
            Ok(Ok(())) => "it was stopped".to_owned(),
            Ok(Err(error)) if error.kind() == ErrorKind::Closed(CloseReason::Fenced) => {
                "another process compacts the shard now".to_owned()
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Stops it. Jobs that it leaves behind are taken up by the next one.
    pub async fn stop(mut self) {
        self.stop = None;
        if self.running.is_finished() {
            // Whoever waited for its end knows how it ended, and it cannot be asked twice.
            return;
        }
        match tokio::time::timeout(STOPPING, &mut self.running).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => {
                tracing::debug!(shard = %self.shard, %error, "a compaction did not stop cleanly");
            }
            Ok(Err(error)) => {
                tracing::debug!(shard = %self.shard, %error, "a compaction did not stop cleanly");
            }
            Err(_) => tracing::debug!(shard = %self.shard, "a compaction did not stop in time"),
        }
    }
}

fn options() -> CompactorOptions {
    let worker = CompactionWorkerOptions {
        max_concurrent_compactions: AT_ONCE,
        compactions_poll_interval: POLL,
        min_filter_keys: Settings::default().min_filter_keys,
        compression_codec: Some(CODEC),
        // Memory: so much is read ahead of each of up to some dozens of files, in each range.
        max_fetch_tasks: 2,
        bytes_to_fetch: 1 << 20,
        max_subcompactions: 2,
        max_sst_size: FILE_BYTES,
        ..CompactionWorkerOptions::default()
    };
    CompactorOptions {
        poll_interval: POLL,
        max_concurrent_compactions: AT_ONCE,
        worker: Some(worker),
        object_store_max_retries: Some(RETRIES),
        ..CompactorOptions::default()
    }
}

impl Place {
    /// Whether a compaction was begun and not ended, also by one that is gone.
    pub async fn has_open_jobs(&self, shard: ShardId) -> Result<bool, slatedb::Error> {
        let compactions = self.admin(shard, self.wall()).read_compactions(None).await?;
        Ok(compactions.is_some_and(|all| all.recent_compactions().any(|job| job.active())))
    }

    /// Merges all files of a database into one sorted run, while a [`Compaction`] of it runs. False if that was not
    /// possible now, since some of them are being merged already.
    pub async fn compact_everything(&self, shard: ShardId) -> Result<bool, slatedb::Error> {
        let admin = self.admin(shard, Arc::new(self.clock(shard).await?));
        // Made by the first compaction of a database when it begins.
        while admin.read_compactions(None).await?.is_none() {
            tokio::time::sleep(POLL).await;
        }
        let Some(manifest) = admin.read_manifest(None).await? else { return Ok(true) };
        let files = manifest.l0().iter().map(|view| SourceId::SstView(view.id));
        let runs = manifest.compacted().iter().map(|run| SourceId::SortedRun(run.id));
        let sources: Vec<SourceId> = files.chain(runs).collect();
        if sources.is_empty() {
            return Ok(true);
        }
        // Into the oldest run, or the first there ever is.
        let into = manifest.compacted().iter().map(|run| run.id).min().unwrap_or(0);
        let job = admin.submit_compaction(CompactionSpec::new(sources, into)).await?;
        loop {
            tokio::time::sleep(2 * POLL).await;
            // Only the last one that ended is kept; by then ours may be forgotten, and whether it did its work shows elsewhere.
            let Some(now) = admin.read_compaction(job.id(), None).await? else { return Ok(true) };
            match now.status() {
                CompactionStatus::Completed => return Ok(true),
                CompactionStatus::Failed => return Ok(false),
                _ => {}
            }
        }
    }

    /// Deletes files of a database that nobody needs any more: merged ones, old manifests and old lists of compactions.
    ///
    /// By the system's clock, not one that is ahead of it: so nothing seems older than it is. Safe beside any
    /// writer, and beside a collector that was paused: names never return.
    pub async fn collect_garbage(&self, shard: ShardId) {
        let directory =
            || Some(GarbageCollectorDirectoryOptions { min_age: LEAST_AGE, ..Default::default() });
        let options = GarbageCollectorOptions {
            manifest_options: directory(),
            compacted_options: directory(),
            compactions_options: directory(),
            // The safety of files comes from the epoch; boundary files need a conditional update that a directory lacks.
            boundary_files_enabled: !self.local,
            object_store_max_retries: Some(RETRIES),
            ..GarbageCollectorOptions::default()
        };
        let collector = GarbageCollectorBuilder::new(self.path(shard), self.objects.clone())
            .with_options(options)
            .with_system_clock(self.wall())
            .with_seed(self.env.random())
            .build();
        collector.run_gc_once().await;
    }
}
