//! Objects that the shard's owner has no use for are deleted, after a grace time on this process's own clock.
//!
//! Readers follow what the index said when they asked, for an hour at most; a takeover that stalls finds out when it goes on (F2). A compactor that
//! dies forgets what it waits for, and its successor waits anew.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::time::Instant;
use wadi_model::{LogSeq, ShardId};
use wadi_store::shard::{Deletable, PackError};
use wadi_store::stored::{PackName, StoredObject};

use super::{Failure, Work};
use crate::{Ground, Lease};

/// Lists that wait at once; more are asked for when some are done.
const LISTS: usize = 200;

/// Objects that are deleted at once.
const AT_ONCE: usize = 8;

/// The work on what one shard does not need any more.
pub(super) struct Deletion {
    ground: Ground,
    /// When each list was received.
    waiting: VecDeque<(Instant, Deletable)>,
}

impl Deletion {
    pub(super) fn new(ground: Ground) -> Deletion {
        Deletion { ground, waiting: VecDeque::new() }
    }

    /// Asks for what is deletable and not known yet.
    async fn ask(&mut self, shard: ShardId) -> Result<(), PackError> {
        while self.waiting.len() < LISTS {
            let lists = || self.waiting.iter().map(|(_, list)| list);
            let after = lists().filter_map(|list| list.log.last()).max().copied().unwrap_or(LogSeq(0));
            let known: BTreeSet<PackName> = lists().flat_map(|list| list.packs.iter().copied()).collect();
            let mut list = self.ground.owners.deletable(shard, after).await?;
            list.packs.retain(|name| !known.contains(name));
            if list.is_empty() {
                break;
            }
            self.waiting.push_back((Instant::now(), list));
        }
        Ok(())
    }

    /// Deletes what has waited long enough, and reports it.
    async fn delete(&mut self, shard: ShardId) -> Result<(), Failure> {
        let grace = self.ground.settings.grace;
        while let Some((since, list)) = self.waiting.front()
            && since.elapsed() >= grace
        {
            let mut paths = Vec::with_capacity(list.log.len() + list.packs.len());
            let root = &self.ground.place.root;
            paths.extend(list.log.iter().map(|seq| StoredObject::log(root, shard, *seq).path));
            paths.extend(list.packs.iter().map(|name| StoredObject::pack(root, shard, name).path));
            let deleted = delete_all(self.ground.place.objects.as_ref(), paths).await?;
            self.ground.metrics.deleted.inc_by(deleted);
            self.ground.owners.note_deleted(shard, list.clone()).await?;
            tracing::debug!(%shard, deleted, "objects that nobody needs were deleted");
            self.waiting.pop_front();
        }
        Ok(())
    }
}

/// Deletes objects, of which some may be gone. Says how many were there, or may have been.
pub(super) async fn delete_all(store: &dyn ObjectStore, paths: Vec<Path>) -> object_store::Result<u64> {
    let mut deletes =
        stream::iter(paths).map(|path| async move { store.delete(&path).await }).buffer_unordered(AT_ONCE);
    let mut deleted = 0;
    while let Some(done) = deletes.next().await {
        match done {
            Ok(()) => deleted += 1,
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(deleted)
}

#[async_trait]
impl Work for Deletion {
    fn name(&self) -> &'static str {
        "deletion"
    }

    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure> {
        let work = async {
            match self.ask(lease.shard()).await {
                Ok(()) | Err(PackError::NotOwned) => {}
                Err(error) => return Err(error.into()),
            }
            self.delete(lease.shard()).await
        };
        tokio::select! {
            biased;
            () = lease.over() => {}
            done = work => done?,
        }
        Ok(self.ground.settings.interval.min(self.ground.settings.grace.max(Duration::from_millis(10))))
    }
}
