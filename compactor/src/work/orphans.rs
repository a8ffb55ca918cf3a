//! Packs that no owner took: their compactor died, or the shard moved while they were made. Once a day they are looked for and deleted.
//!
//! An owner takes no pack that is older than half a day, so one that is older than a day and not known is nobody's (T4).

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use wadi_model::ShardId;
use wadi_store::shard::PackError;
use wadi_store::stored::{PackName, packs};

use super::deletion::delete_all;
use super::{Failure, Work};
use crate::{Ground, Lease};

/// So old must a pack be, by the object store's clock.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// Packs that are asked about at once.
const AT_ONCE: usize = 10_000;

/// The work on one shard's orphans.
pub(super) struct Orphans {
    ground: Ground,
    /// The first search comes when a compactor has run for a while.
    begun: bool,
}

impl Orphans {
    pub(super) fn new(ground: Ground) -> Orphans {
        Orphans { ground, begun: false }
    }

    async fn search(&self, shard: ShardId) -> Result<(), Failure> {
        let place = &self.ground.place;
        let now = place.env.now_millis();
        let oldest = now.saturating_sub(OLD.as_millis() as i64);
        let mut listing = place.objects.list(Some(&packs(&place.root, shard)));
        let mut old: Vec<(PackName, Path)> = Vec::new();
        loop {
            let found = listing.try_next().await?;
            let end = found.is_none();
            if let Some(found) = found
                && found.last_modified.timestamp_millis() < oldest
                && let Some(name) = found.location.filename().and_then(|name| name.parse().ok())
            {
                old.push((name, found.location));
            }
            if old.len() >= AT_ONCE || end {
                self.judge(shard, std::mem::take(&mut old)).await?;
            }
            if end {
                return Ok(());
            }
        }
    }

    async fn judge(&self, shard: ShardId, old: Vec<(PackName, Path)>) -> Result<(), Failure> {
        if old.is_empty() {
            return Ok(());
        }
        let names = old.iter().map(|(name, _)| *name).collect();
        let known: BTreeSet<PackName> =
            self.ground.owners.known_packs(shard, names).await?.into_iter().collect();
        let unknown = old.into_iter().filter(|(name, _)| !known.contains(name));
        let paths: Vec<Path> = unknown.map(|(_, path)| path).collect();
        let deleted = delete_all(self.ground.place.objects.as_ref(), paths).await?;
        self.ground.metrics.orphans.inc_by(deleted);
        if deleted > 0 {
            tracing::info!(%shard, deleted, "packs that no owner took were deleted");
        }
        Ok(())
    }
}

#[async_trait]
impl Work for Orphans {
    fn name(&self) -> &'static str {
        "orphans"
    }

    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure> {
        if std::mem::replace(&mut self.begun, true) {
            tokio::select! {
                biased;
                () = lease.over() => {}
                done = self.search(lease.shard()) => match done {
                    Err(error) if error.downcast_ref::<PackError>().is_some_and(|e| matches!(e, PackError::NotOwned)) => {
                        return Ok(self.ground.settings.interval);
                    }
                    done => done?,
                },
            }
        }
        Ok(self.ground.settings.orphan_interval)
    }
}
