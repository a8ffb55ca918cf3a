//! Removing what is left of dropped tables and partitions from a shard's database.
//!
//! Every compaction leaves such entries out, but the oldest files of a database may not be merged for months. So some time
//! after a drop all of the database is merged once, if it has any entry of what was dropped. `sweeps/<shard>` in the meta
//! store says up to which drop that was done, so that it is not done again by the next holder of the lease.
//!
//! It does not say that nothing is left for ever: a write that was in flight while its table was dropped may be replayed
//! by a much later takeover. Such entries go with the compactions that follow, as long as the catalog names the drop.

use tokio::time::Instant;
use wadi_meta::catalog::{Dropped, Drops};
use wadi_meta::{Revision, Txn, TxnOutcome};

use super::Failure;
use crate::{Ground, Lease};

/// What the keys begin with.
pub(crate) use wadi_store::identity::SWEEPS;

/// What is to be removed now.
pub(super) struct Due {
    upto: Revision,
    dropped: Vec<Dropped>,
}

/// What a shard still has to be freed of.
pub(super) struct Sweep {
    ground: Ground,
    drops: Drops,
    /// Up to which drop this was done, once it is known.
    swept: Option<Revision>,
    /// The newest drop that was seen when the oldest one was, and when that was.
    waiting: Option<(Revision, Instant)>,
    /// When all of the database was last merged, or that was tried.
    tried: Option<Instant>,
}

impl Sweep {
    pub(super) fn new(ground: Ground, drops: Drops) -> Sweep {
        Sweep { ground, drops, swept: None, waiting: None, tried: None }
    }

    /// What is to be removed from the database's files now. What they have nothing of is noted as done.
    pub(super) async fn due(&mut self, lease: &Lease) -> Result<Option<Due>, Failure> {
        if self.drops.is_empty() {
            return Ok(None);
        }
        let swept = match self.swept {
            Some(swept) => swept,
            None => self.read(lease).await?,
        };
        self.swept = Some(swept);
        let newer = self.drops.since(swept);
        let Some((newest, _)) = newer.last() else {
            self.waiting = None;
            return Ok(None);
        };
        let (upto, since) = *self.waiting.get_or_insert((*newest, Instant::now()));
        let settings = &self.ground.settings;
        let too_soon = self.tried.is_some_and(|tried| tried.elapsed() < settings.sweep_interval);
        if since.elapsed() < settings.sweep_delay || too_soon {
            return Ok(None);
        }
        let dropped = newer.into_iter().filter(|(at, _)| *at <= upto).map(|(_, dropped)| dropped).collect();
        let due = Due { upto, dropped };
        if self.ground.place.has_any(lease.shard(), &due.dropped).await? {
            return Ok(Some(due));
        }
        self.note(lease, upto).await?;
        Ok(None)
    }

    /// Removes it, while a compaction runs that leaves it out.
    pub(super) async fn remove(&mut self, lease: &Lease, due: &Due) -> Result<(), Failure> {
        let (place, shard) = (&self.ground.place, lease.shard());
        self.tried = Some(Instant::now());
        let began = Instant::now();
        let merged = place.compact_everything(shard).await?;
        if !merged || place.has_any(shard, &due.dropped).await? {
            tracing::info!(%shard, "dropped rows are not all removed yet; trying again later");
            return Ok(());
        }
        self.ground.metrics.sweeps.inc();
        tracing::info!(%shard, drops = due.dropped.len(), took = ?began.elapsed(), "dropped rows were removed");
        self.note(lease, due.upto).await
    }

    async fn read(&self, lease: &Lease) -> Result<Revision, Failure> {
        let found = self.ground.meta.get(&format!("{SWEEPS}{}", lease.shard())).await?;
        let Some(found) = found else { return Ok(Revision(0)) };
        Ok(Revision(std::str::from_utf8(&found.value)?.parse()?))
    }

    /// Notes that it was done up to a drop.
    async fn note(&mut self, lease: &Lease, upto: Revision) -> Result<(), Failure> {
        let key = format!("{SWEEPS}{}", lease.shard());
        let txn = Txn::new().when(lease.fence()).put(key, upto.to_string());
        if let TxnOutcome::Refused(_) = self.ground.meta.txn(txn).await? {
            return Err("the lease of the shard is another's".into());
        }
        (self.swept, self.waiting) = (Some(upto), None);
        Ok(())
    }
}
