//! Where the databases of a cluster's shards are, for whoever works on them without being their writer.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::VersionedManifest;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::DbReaderOptions;
use slatedb::{DbReader, DbReaderMode};
use slatedb_common::clock::SystemClock;
use wadi_meta::catalog::Dropped;
use wadi_model::ShardId;
use wadi_model::env::Env;

use crate::clock::ShardClock;
use crate::keys;
use crate::log::database_path;

/// The object store, and where the shards lie in it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Place {
    /// The object store.
    pub objects: Arc<dyn ObjectStore>,
    /// The cluster's root in it.
    pub root: Path,
    /// Wall time and randomness.
    pub env: Env,
    /// Whether the object store is a local directory, which knows no conditional update.
    pub local: bool,
}

/// What the newest manifest of a database says of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The manifest's number; it grows with every change.
    pub manifest: u64,
    /// Files of level 0: flushed memtables that wait to be merged.
    pub level0: usize,
    /// About how many bytes they have.
    pub level0_bytes: u64,
    /// Sorted runs.
    pub runs: usize,
}

impl Look {
    /// What a manifest says.
    pub fn of(manifest: &VersionedManifest) -> Look {
        Look {
            manifest: manifest.id(),
            level0: manifest.l0().len(),
            level0_bytes: manifest.l0().iter().map(|view| view.estimate_size()).sum(),
            runs: manifest.compacted().len(),
        }
    }
}

impl Place {
    pub(super) fn path(&self, shard: ShardId) -> Path {
        database_path(&self.root, shard)
    }

    pub(super) fn admin(&self, shard: ShardId, clock: Arc<dyn SystemClock>) -> Admin {
        let builder = AdminBuilder::new(self.path(shard), self.objects.clone());
        builder.with_system_clock(clock).with_seed(self.env.random()).build()
    }

    /// A clock that is as far as the system's, for what needs no more.
    pub(super) fn wall(&self) -> Arc<dyn SystemClock> {
        Arc::new(ShardClock::new(self.env.clone(), 0))
    }

    /// A clock that is not behind any file and any compaction of the database: SlateDB refuses names that are.
    pub(super) async fn clock(&self, shard: ShardId) -> Result<ShardClock, slatedb::Error> {
        let newest = match self.manifest(shard).await? {
            Some(manifest) => self.newest_time(shard, &manifest).await?,
            None => 0,
        };
        Ok(ShardClock::new(self.env.clone(), newest))
    }

    /// The newest manifest. A shard that was never opened has none.
    pub(super) async fn manifest(&self, shard: ShardId) -> Result<Option<VersionedManifest>, slatedb::Error> {
        self.admin(shard, self.wall()).read_manifest(None).await
    }

    /// What the newest manifest says; `None` if there is none.
    pub async fn look(&self, shard: ShardId) -> Result<Option<Look>, slatedb::Error> {
        Ok(self.manifest(shard).await?.as_ref().map(Look::of))
    }

    /// Whether there is a manifest behind this one. One GET; but a manifest that came and was collected since is missed, so
    /// whoever asks this again and again must [look](Place::look) now and then.
    pub async fn has_changed(&self, shard: ShardId, manifest: u64) -> Result<bool, slatedb::Error> {
        Ok(self.admin(shard, self.wall()).read_manifest(Some(manifest + 1)).await?.is_some())
    }

    /// The newest time that a database has seen, in milliseconds since 1970: of rows, of its files' names, and of its
    /// compactions' names.
    pub(super) async fn newest_time(
        &self,
        shard: ShardId,
        manifest: &VersionedManifest,
    ) -> Result<i64, slatedb::Error> {
        let files = manifest.all_sst_views().map(|view| view.sst.id.value());
        let compacted = [manifest.last_compacted_l0_sst_view_id(), manifest.last_compacted_l0_sst_id()];
        let files = files.chain(compacted.into_iter().flatten()).map(|name| name.timestamp_ms());
        let compactions = self.admin(shard, self.wall()).read_compactions(None).await?;
        let jobs = compactions.iter().flat_map(|c| c.recent_compactions()).map(|job| job.id().timestamp_ms());
        let names = files.chain(jobs).max().unwrap_or(0);
        Ok(manifest.last_l0_clock_tick().max(i64::try_from(names).unwrap_or(i64::MAX)))
    }

    /// Whether the files of a database have any row or producer of these. What only the log or the writer's memory has is not seen.
    pub async fn has_any(&self, shard: ShardId, dropped: &[Dropped]) -> Result<bool, slatedb::Error> {
        let options = DbReaderOptions {
            // It lives for a moment and follows nothing.
            manifest_poll_interval: Duration::from_secs(3600),
            skip_wal_replay: true,
            ..DbReaderOptions::default()
        };
        let reader = DbReader::builder(self.path(shard), self.objects.clone())
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options)
            .with_db_cache_disabled()
            .with_system_clock(self.wall())
            .with_seed(self.env.random())
            .build()
            .await?;
        let mut found = Ok(false);
        let prefixes = dropped.iter().flat_map(|dropped| keys::removable(dropped.table, dropped.partition));
        for prefix in prefixes {
            let first = async { reader.scan_prefix(prefix, ..).await?.next().await };
            found = first.await.map(|entry| entry.is_some());
            if !matches!(found, Ok(false)) {
                break;
            }
        }
        // It has written nothing, so however it ends is fine.
        if let Err(error) = reader.close().await {
            tracing::debug!(%shard, %error, "a reader of a shard database did not close cleanly");
        }
        found
    }
}
