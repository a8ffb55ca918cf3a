//! The duty to forget drops: the catalog's entries of dropped tables and partitions go when nothing of them is left in any shard.
//!
//! One compactor of all has it (`duties/forget`). A drop is forgotten when
//!
//! 1. its holder has known it for `settings.forget_delay`, so that no write to it is under way any more,
//! 2. every shard's `sweeps/<shard>` is at the drop or past it, so its rows have left the databases' files,
//! 3. every shard's owner has said twice, `settings.forget_interval` apart, that it has nothing of it: neither in memory nor in its database, nor in any log
//!    object or pack that is not deleted. Two times, since what is in a PUT is not seen; it is known by then, or has failed.
//!
//! An owner that does not answer is waited for. The holder keeps all this in memory: a new one begins anew. What it removes compares its duty, so one that
//! was paused removes nothing. Until then everything that needs the entries finds them: a takeover the schemas of what it replays, merging those of what
//! it merges, and compactions the drop itself. A write that comes back later than all this belongs to an id that nobody knows: readers cannot
//! name it, a takeover believes the log and passes over its rows, and the owner's next trim removes its bucket.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Instant, sleep};
use wadi_meta::catalog::{self, Dropped, Drops};
use wadi_meta::duty::Duty;
use wadi_meta::{Compare, Revision, Session};
use wadi_model::ShardId;
use wadi_store::ids;
use wadi_store::shard::PackError;

use crate::work::Failure;
use crate::work::sweep::SWEEPS;
use crate::{Ground, PAUSE};

/// The name of the duty.
const NAME: &str = "forget";

/// Most drops that owners are asked about at once.
const AT_ONCE: usize = 1_000;

/// Takes the duty, and does it as long as the session lives.
pub(crate) async fn serve(ground: &Ground, drops: &Drops, session: &dyn Session) {
    let who = format!("{:016x}", ground.place.env.random());
    let duty = loop {
        match Duty::take(ground.meta.clone(), session, NAME, &who).await {
            Ok(duty) => break duty,
            Err(error) => tracing::debug!(%error, "the duty of forgetting was not taken; trying again"),
        }
        sleep(PAUSE).await;
    };
    let mut forgetting = Forgetting { ground, drops, fence: duty.fence(), known: BTreeMap::new(), turn: 0 };
    loop {
        if let Err(error) = forgetting.round().await {
            ground.metrics.failures.inc();
            tracing::warn!(%error, "drops were not forgotten; trying again");
        }
        sleep(ground.settings.forget_interval).await;
    }
}

/// What is known of a drop.
struct Known {
    since: Instant,
    /// Whether all owners have said that nothing is left, the last time that all were asked.
    clean: bool,
}

struct Forgetting<'a> {
    ground: &'a Ground,
    drops: &'a Drops,
    fence: Compare,
    known: BTreeMap<Dropped, Known>,
    /// Moves on, so that drops of which something stays for long do not keep others from being looked at.
    turn: usize,
}

impl Forgetting<'_> {
    async fn round(&mut self) -> Result<(), Failure> {
        let due = self.due();
        if due.is_empty() {
            return Ok(());
        }
        let swept = self.swept().await?;
        let mut due: Vec<_> = due.into_iter().filter(|(at, _)| *at <= swept).collect();
        if due.is_empty() {
            return Ok(());
        }
        let first = self.turn % due.len();
        due.rotate_left(first);
        due.truncate(AT_ONCE);
        self.turn = self.turn.wrapping_add(AT_ONCE);
        let Some(left) = self.left(&due).await? else { return Ok(()) };
        for (at, dropped) in due {
            let Some(known) = self.known.get_mut(&dropped) else { continue };
            let clean = !left.contains(&dropped);
            if std::mem::replace(&mut known.clean, clean) && clean {
                self.forget(at, dropped).await?;
            }
        }
        Ok(())
    }

    /// What has been known for long enough.
    fn due(&mut self) -> Vec<(Revision, Dropped)> {
        let all = self.drops.since(Revision(0));
        let there: BTreeSet<Dropped> = all.iter().map(|(_, dropped)| *dropped).collect();
        self.known.retain(|dropped, _| there.contains(dropped));
        let (now, delay) = (Instant::now(), self.ground.settings.forget_delay);
        let mut is_due = |dropped: &Dropped| {
            let known = self.known.entry(*dropped).or_insert(Known { since: now, clean: false });
            known.since.elapsed() >= delay
        };
        all.into_iter().filter(|(_, dropped)| is_due(dropped)).collect()
    }

    /// Up to which drop the files of all shards' databases were freed.
    async fn swept(&self) -> Result<Revision, Failure> {
        let mut swept = BTreeMap::new();
        for found in self.ground.meta.list(SWEEPS).await?.entries {
            if let Some(shard) = found.key.strip_prefix(SWEEPS).and_then(|shard| shard.parse::<u32>().ok()) {
                swept.insert(shard, Revision(std::str::from_utf8(&found.value)?.parse()?));
            }
        }
        let each = (0..self.ground.shards).map(|shard| swept.get(&shard).copied().unwrap_or(Revision(0)));
        Ok(each.min().unwrap_or(Revision(0)))
    }

    /// Of which of these some owner has something left; `None` if not all of them have answered.
    async fn left(&self, due: &[(Revision, Dropped)]) -> Result<Option<BTreeSet<Dropped>>, Failure> {
        let mut left = BTreeSet::new();
        for shard in (0..self.ground.shards).map(ShardId) {
            let asked: Vec<Dropped> =
                due.iter().map(|(_, dropped)| *dropped).filter(|dropped| !left.contains(dropped)).collect();
            if asked.is_empty() {
                break;
            }
            match self.ground.owners.remains(shard, asked).await {
                Ok(more) => left.extend(more),
                Err(error @ (PackError::NotOwned | PackError::Unavailable(_))) => {
                    tracing::info!(%shard, %error, "what is left of drops is not known; asking again later");
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(left))
    }

    async fn forget(&mut self, at: Revision, dropped: Dropped) -> Result<(), Failure> {
        let counter = dropped.partition.is_none().then(|| ids::counter_key(dropped.table));
        let meta = self.ground.meta.as_ref();
        if catalog::forget(meta, dropped, at, counter, &self.fence).await? {
            self.ground.metrics.forgotten.inc();
            let partition = dropped.partition.map(|partition| partition.0);
            tracing::info!(
                table = dropped.table.0,
                partition,
                "nothing is left of a drop, and it is forgotten"
            );
        }
        Ok(())
    }
}
