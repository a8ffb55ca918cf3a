//! SlateDB's compaction and garbage collection of a shard's database, and the removal of dropped rows from it.
//!
//! An idle shard costs one GET a minute: whether there is a manifest behind the one that is known. SlateDB's compactor polls
//! every second, so it runs only while there is something to compact.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use wadi_meta::catalog::Drops;
use wadi_store::database::{Compaction, LEVEL0_DUE, Look};

use super::sweep::{Due, Sweep};
use super::{Failure, Work};
use crate::metrics::Debt;
use crate::{Ground, Lease};

/// Least time between two looks at a shard that changes.
const SOON: Duration = Duration::from_secs(5);

/// Between two looks while it is compacted.
const WATCHING: Duration = Duration::from_secs(2);

/// After this time the newest manifest is searched for, not guessed: what came and was collected in between is missed else.
const SEARCH: Duration = Duration::from_secs(600);

/// A shard gives its turn to another one after this time.
const TURN: Duration = Duration::from_secs(60);

/// So long after the last change garbage is searched for: what the change left may then be old enough.
const GARBAGE: Duration = Duration::from_secs(3600);

/// The work on one shard's database.
pub(super) struct Database {
    ground: Ground,
    drops: Drops,
    sweep: Sweep,
    /// What the newest manifest said, and when it was searched for.
    known: Option<(Look, Instant)>,
    /// When the manifest was last seen to be another one.
    changed: Instant,
    collected: Instant,
    /// Jobs that a compactor before us has left open are taken up once.
    first: bool,
    pause: Duration,
    debt: Debt,
}

impl Database {
    pub(super) fn new(ground: Ground, drops: Drops) -> Database {
        let now = Instant::now();
        let sweep = Sweep::new(ground.clone(), drops.clone());
        let pause = SOON.min(ground.settings.interval);
        let debt = ground.metrics.level0_debt();
        Database { ground, drops, sweep, known: None, changed: now, collected: now, first: true, pause, debt }
    }

    /// What the newest manifest says; `None` if the shard was never opened.
    async fn look(&mut self, lease: &Lease) -> Result<Option<Look>, Failure> {
        let (place, shard) = (&self.ground.place, lease.shard());
        if let Some((known, searched)) = self.known
            && searched.elapsed() < SEARCH
            && !place.has_changed(shard, known.manifest).await?
        {
            return Ok(Some(known));
        }
        let look = place.look(shard).await?;
        if look.map(|l| l.manifest) != self.known.map(|(l, _)| l.manifest) {
            self.changed = Instant::now();
        }
        self.known = look.map(|look| (look, Instant::now()));
        self.debt.set(look.map_or(0, |look| look.level0_bytes));
        Ok(look)
    }

    /// Runs a compaction until there is nothing to compact, or others have waited long enough.
    async fn compact(&mut self, lease: &Lease, due: Option<&Due>) -> Result<(), Failure> {
        let turns = self.ground.turns.clone();
        let turn = tokio::select! {
            biased;
            () = lease.over() => return Ok(()),
            turn = turns.acquire() => turn?,
        };
        let (place, metrics) = (self.ground.place.clone(), self.ground.metrics.clone());
        let drops = Some(self.drops.clone());
        let mut compaction = Compaction::start(&place, lease.shard(), drops, &metrics.compaction).await?;
        metrics.compacting.inc();
        let done = tokio::select! {
            biased;
            () = lease.over() => Ok(()),
            why = compaction.ended() => Err(Failure::from(why)),
            done = self.until_done(lease, due, &turns) => done,
        };
        compaction.stop().await;
        metrics.compacting.dec();
        drop(turn);
        done
    }

    async fn until_done(
        &mut self,
        lease: &Lease,
        due: Option<&Due>,
        turns: &Semaphore,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            sleep(WATCHING).await;
            let few = self.look(lease).await?.is_none_or(|look| look.level0 < LEVEL0_DUE);
            let others_wait = turns.available_permits() == 0 && began.elapsed() > TURN;
            // Twice, so that what a finished job makes possible has been begun.
            if few && !self.has_jobs(lease).await? || others_wait {
                sleep(WATCHING).await;
                if others_wait || !self.has_jobs(lease).await? {
                    break;
                }
            }
        }
        match due {
            Some(due) => self.sweep.remove(lease, due).await,
            None => Ok(()),
        }
    }

    async fn has_jobs(&self, lease: &Lease) -> Result<bool, Failure> {
        Ok(self.ground.place.has_open_jobs(lease.shard()).await?)
    }

    /// Whether files may have become garbage since it was last searched for.
    fn may_have_garbage(&self) -> bool {
        self.collected.elapsed() >= self.ground.settings.collect && self.collected < self.changed + GARBAGE
    }
}

#[async_trait]
impl Work for Database {
    fn name(&self) -> &'static str {
        "database"
    }

    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure> {
        let before = self.known.map(|(look, _)| look.manifest);
        let interval = self.ground.settings.interval;
        let Some(look) = self.look(lease).await? else { return Ok(interval) };
        let due = self.sweep.due(lease).await?;
        let left = std::mem::take(&mut self.first) && self.has_jobs(lease).await?;
        if look.level0 >= LEVEL0_DUE || left || due.is_some() {
            self.compact(lease, due.as_ref()).await?;
        }
        if self.may_have_garbage() {
            tokio::select! {
                biased;
                () = lease.over() => return Ok(interval),
                () = self.ground.place.collect_garbage(lease.shard()) => {}
            }
            self.collected = Instant::now();
            self.ground.metrics.collections.inc();
        }
        let moved = self.known.map(|(look, _)| look.manifest) != before;
        self.pause = if moved { SOON } else { self.pause * 2 }.min(interval);
        Ok(self.pause)
    }
}
