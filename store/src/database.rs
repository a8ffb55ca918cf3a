//! Opening a shard's SlateDB, always with the same settings.
//!
//! Its own WAL is off: the shard log is the WAL, and the database is its fold up to a log position. Every write
//! carries that position as its `seqnum`, so that `last_l0_seq` of the manifest says where replay begins.

use std::sync::Arc;
use std::time::Duration;

use slatedb::admin::AdminBuilder;
use slatedb::config::{
    CompactionWorkerOptions, CompactorOptions, CompressionCodec, FlushOptions, FlushType,
    GarbageCollectorDirectoryOptions, GarbageCollectorOptions, Settings, WriteOptions,
};
use slatedb::{CloseReason, Db, ErrorKind, WriteBatch};
use wadi_model::{LogSeq, ShardId};

use crate::clock::ShardClock;
use crate::context::Context;
use crate::log::database_path;

/// How often a database looks at the store by itself.
const POLL: Duration = Duration::from_secs(60);

/// What the manifest says before anybody fences it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManifestView {
    /// The writer epoch to be claimed after.
    pub epoch: u64,
    /// Up to which log position the database is durable.
    pub last_l0_seq: LogSeq,
    /// The highest time it has seen, in milliseconds since 1970.
    pub clock: i64,
}

/// Reads the newest manifest. A shard that was never opened has none.
pub async fn read_manifest(context: &Context, shard: ShardId) -> Result<ManifestView, slatedb::Error> {
    let path = database_path(&context.root, shard);
    let admin = AdminBuilder::new(path, context.objects.clone()).with_seed(context.env.random()).build();
    Ok(admin.read_manifest(None).await?.map_or_else(ManifestView::default, |m| ManifestView {
        epoch: m.writer_epoch(),
        last_l0_seq: LogSeq(m.last_l0_seq()),
        clock: m.last_l0_clock_tick(),
    }))
}

/// The newest time that an open database has seen, in milliseconds since 1970: of rows, of its files' names, and of its
/// compactions' names. SlateDB refuses to write anything older, and closes itself over it.
pub async fn newest_time(context: &Context, shard: ShardId, db: &Db) -> Result<i64, slatedb::Error> {
    let manifest = db.manifest();
    let files = manifest.all_sst_views().map(|view| view.sst.id.value());
    let compacted = [manifest.last_compacted_l0_sst_view_id(), manifest.last_compacted_l0_sst_id()];
    let files = files.chain(compacted.into_iter().flatten()).map(|name| name.timestamp_ms());
    let path = database_path(&context.root, shard);
    let admin = AdminBuilder::new(path, context.objects.clone()).with_seed(context.env.random()).build();
    let compactions = admin.read_compactions(None).await?;
    let jobs = compactions.iter().flat_map(|c| c.recent_compactions()).map(|job| job.id().timestamp_ms());
    let names = files.chain(jobs).max().unwrap_or(0);
    Ok(manifest.last_l0_clock_tick().max(i64::try_from(names).unwrap_or(i64::MAX)))
}

/// Opens the database as the writer after epoch `expected`; whoever was the writer before is fenced.
pub async fn open(
    context: &Context,
    shard: ShardId,
    expected: u64,
    clock: &ShardClock,
) -> Result<Db, slatedb::Error> {
    let path = database_path(&context.root, shard);
    let builder = Db::builder(path, context.objects.clone())
        .with_settings(settings(context))
        .with_expected_epoch(expected)
        .with_system_clock(Arc::new(clock.clone()))
        .with_seed(context.env.random());
    let builder = match &context.block_cache {
        Some(cache) => builder.with_db_cache(cache.clone(), u64::from(shard.0)),
        None => builder.with_db_cache_disabled(),
    };
    builder.build().await
}

/// The size at which SlateDB flushes a memtable by itself.
pub const MEMTABLE_BYTES: usize = 32 << 20;

fn settings(context: &Context) -> Settings {
    // The safety of files comes from the epoch; boundary files need a conditional update that a directory lacks.
    let gc = |interval| GarbageCollectorDirectoryOptions {
        interval: Some(Duration::from_secs(interval)),
        min_age: Duration::from_secs(300),
        ..GarbageCollectorDirectoryOptions::default()
    };
    Settings {
        wal_enabled: false,
        flush_interval: None,
        manifest_poll_interval: POLL,
        l0_sst_size_bytes: MEMTABLE_BYTES,
        max_unflushed_bytes: 3 * MEMTABLE_BYTES,
        l0_max_ssts: 32,
        l0_max_ssts_per_key: 32,
        compression_codec: Some(CompressionCodec::Zstd),
        // Until the compactor worker exists, each owner compacts its own shards. Its two halves look for work once a
        // minute: each look costs requests, on every shard, also where nothing happens.
        compactor_options: Some(CompactorOptions {
            poll_interval: POLL,
            worker: Some(CompactionWorkerOptions {
                compactions_poll_interval: POLL,
                ..CompactionWorkerOptions::default()
            }),
            ..CompactorOptions::default()
        }),
        garbage_collector_options: Some(GarbageCollectorOptions {
            manifest_options: Some(gc(600)),
            compacted_options: Some(gc(600)),
            compactions_options: Some(gc(600)),
            boundary_files_enabled: !context.local,
            ..GarbageCollectorOptions::default()
        }),
        ..Settings::default()
    }
}

/// Writes a group of changes that brings the database to log position `seq`.
pub async fn write(db: &Db, batch: WriteBatch, seq: LogSeq) -> Result<(), slatedb::Error> {
    #[allow(clippy::needless_update, reason = "with `--cfg dst` there is another field")]
    let options = WriteOptions { seqnum: seq.0, ..WriteOptions::default() };
    db.write_with_options(batch, &options).await.map(drop)
}

/// Makes all written groups durable, so that a takeover replays only what comes after.
pub async fn flush(db: &Db) -> Result<(), slatedb::Error> {
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await
}

/// Whether the error says that another writer has taken the database.
pub fn is_fenced(error: &slatedb::Error) -> bool {
    matches!(error.kind(), ErrorKind::Closed(CloseReason::Fenced))
}
