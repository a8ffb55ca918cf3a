//! A shard's SlateDB, always with the same settings: opened by its owner, [compacted](Compaction) and cleaned from outside.
//!
//! Its own WAL is off: the shard log is the WAL, and the database is its fold up to a log position. Every write
//! carries that position as its `seqnum`, so that `last_l0_seq` of the manifest says where replay begins.

use std::sync::Arc;
use std::time::Duration;

use slatedb::config::{CompressionCodec, FlushOptions, FlushType, ScanOptions, Settings, WriteOptions};
use slatedb::db_cache::CacheTarget;
use slatedb::{BlockCachePolicy, CloseReason, Db, ErrorKind, WriteBatch};
use wadi_model::{LogSeq, ShardId};

use crate::clock::ShardClock;
use crate::context::Context;
use crate::log::database_path;

pub use compaction::{Compaction, LEVEL0_DUE};
pub use metrics::CompactionMetrics;
pub use place::{Look, Place};

mod compaction;
mod dropped;
mod metrics;
mod place;
#[cfg(test)]
mod tests;

/// How files are compressed, whoever writes them.
const CODEC: CompressionCodec = CompressionCodec::Zstd;

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
    let manifest = context.place().manifest(shard).await?;
    Ok(manifest.map_or_else(ManifestView::default, |m| ManifestView {
        epoch: m.writer_epoch(),
        last_l0_seq: LogSeq(m.last_l0_seq()),
        clock: m.last_l0_clock_tick(),
    }))
}

/// The newest time that an open database has seen, in milliseconds since 1970: of rows, of its files' names, and of its
/// compactions' names. SlateDB refuses to write anything older, and closes itself over it.
pub async fn newest_time(context: &Context, shard: ShardId, db: &Db) -> Result<i64, slatedb::Error> {
    context.place().newest_time(shard, &db.manifest()).await
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
        .with_settings(settings())
        .with_expected_epoch(expected)
        .with_system_clock(Arc::new(clock.clone()))
        .with_seed(context.env.random());
    let builder = match &context.block_cache {
        Some(cache) => {
            builder.with_db_cache(cache.clone(), u64::from(shard.0)).with_block_cache_policy(kept())
        }
        None => builder.with_db_cache_disabled(),
    };
    builder.build().await
}

/// The memory from which on the memtable of one shard is flushed, in the bytes of [`Memtables`](crate::memtables::Memtables).
pub const MEMTABLE_BYTES: usize = 64 << 20;

/// The size at which SlateDB flushes a memtable by itself: keys and values, without what they take beside.
const FILE_BYTES: usize = 32 << 20;

fn settings() -> Settings {
    Settings {
        wal_enabled: false,
        flush_interval: None,
        manifest_poll_interval: POLL,
        l0_sst_size_bytes: FILE_BYTES,
        max_unflushed_bytes: 2 * FILE_BYTES,
        l0_max_ssts: 32,
        l0_max_ssts_per_key: 32,
        compression_codec: Some(CODEC),
        // Both are done from outside: by a compactor, or by the owner's gateway where there is none.
        compactor_options: None,
        garbage_collector_options: None,
        ..Settings::default()
    }
}

/// What of a flushed memtable goes into the cache: what every read of the file needs. Its blocks would drive that out, and what is
/// new among the rows and the log is in other caches.
fn kept() -> BlockCachePolicy {
    BlockCachePolicy::default().with_flush_targets(&[CacheTarget::Index, CacheTarget::Filters])
}

/// For scans of a few entries beside which others are asked for too: their blocks stay in the cache, as those of single reads
/// do. By itself SlateDB keeps no block of a scan.
pub(crate) fn near() -> ScanOptions {
    ScanOptions { cache_blocks: true, ..ScanOptions::default() }
}

/// For scans of many entries that are read once: many blocks with one request. By itself SlateDB asks for each alone.
pub(crate) fn far() -> ScanOptions {
    ScanOptions { read_ahead_bytes: 1 << 20, ..ScanOptions::default() }
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
