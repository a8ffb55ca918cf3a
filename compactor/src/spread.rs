//! Who works on which shard.
//!
//! Each live compactor announces itself under `compactors/`, takes at most its share of the shards — all of them divided by
//! the live ones, rounded up — as duties `duties/compact/<shard>`, and gives some back when another one joins. There is
//! no coordinator: each follows both prefixes and acts on what it sees, and whatever two do at once, a duty has one holder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::watch;
use wadi_meta::catalog::Drops;
use wadi_meta::duty::{DUTIES, Duty};
use wadi_meta::members::{self, Members};
use wadi_meta::{MetaError, Session};
use wadi_model::ShardId;
use wadi_store::host::COMPACTORS;
use wadi_store::task::Crew;

use crate::{Ground, Lease, PAUSE, forget, work};

/// What the names of the shards' duties begin with.
const COMPACT: &str = "compact";

/// How long it waits for a change before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A shard that is ours.
struct Held {
    duty: Duty,
    over: watch::Sender<bool>,
    works: Crew,
}

/// Takes shards and has them worked on, until the session is lost or the compactor is to stop.
pub(crate) async fn live_in(
    ground: &Ground,
    drops: &Drops,
    session: Arc<dyn Session>,
    stop: &mut watch::Receiver<bool>,
) {
    let mut held = BTreeMap::new();
    let stopped = tokio::select! {
        biased;
        // A dropped sender stops too.
        _ = stop.wait_for(|stop| *stop) => true,
        () = session.lost() => {
            tracing::warn!("the compactor's session in the meta store was lost");
            false
        }
        () = share(ground, drops, session.as_ref(), &mut held) => false,
        () = forget::serve(ground, drops, session.as_ref()) => false,
    };
    release(held, stopped).await;
    ground.metrics.shards.set(0);
    if let Err(error) = session.close().await {
        tracing::debug!(%error, "the compactor's session did not close cleanly");
    }
}

/// Takes and gives back, for ever; ends if it cannot even announce itself.
async fn share(ground: &Ground, drops: &Drops, session: &dyn Session, held: &mut BTreeMap<ShardId, Held>) {
    let who = format!("{:016x}", ground.place.env.random());
    if let Err(error) = members::announce(ground.meta.as_ref(), session, COMPACTORS, &who, "").await {
        tracing::warn!(%error, "the compactor cannot announce itself; trying again");
        return;
    }
    tracing::info!(compactor = who, "compactor started");
    let mut others = Members::follow(ground.meta.clone(), COMPACTORS);
    let mut taken = Members::follow(ground.meta.clone(), &format!("{DUTIES}{COMPACT}"));
    // The first sight of both.
    others.changed().await;
    // Shards that may be ours without our knowing: a transaction was lost, and took effect later, or not at all.
    let mut doubtful = BTreeSet::new();
    loop {
        let live = others.now().len().max(1);
        let most = share_of(ground.shards, live);
        ground.metrics.members.set(live as i64);
        let too_many = held.len().saturating_sub(most);
        if too_many > 0 {
            let given = (0..too_many).filter_map(|_| held.pop_last()).collect();
            doubtful.extend(release(given, true).await);
        }
        let again = match take(ground, drops, session, &who, most, &taken, held, &mut doubtful).await {
            Ok(()) => LOOK_AGAIN,
            Err(error) => {
                tracing::warn!(%error, "shards cannot be taken; trying again");
                PAUSE
            }
        };
        ground.metrics.shards.set(held.len() as i64);
        tokio::select! {
            biased;
            () = others.changed() => {}
            () = taken.changed() => {}
            () = tokio::time::sleep(again) => {}
        }
    }
}

/// The most shards that one of so many takes.
fn share_of(shards: u32, live: usize) -> usize {
    (shards as usize).div_ceil(live.max(1))
}

/// Takes free shards, as long as there are fewer than `most`. Of a doubtful one that somebody has it asks who that is: if it is this
/// process, nobody else would ever work on it.
#[allow(clippy::too_many_arguments, reason = "all of it is the state of one loop")]
async fn take(
    ground: &Ground,
    drops: &Drops,
    session: &dyn Session,
    who: &str,
    most: usize,
    taken: &Members,
    held: &mut BTreeMap<ShardId, Held>,
    doubtful: &mut BTreeSet<ShardId>,
) -> Result<(), MetaError> {
    let others = taken.now();
    // Not all from the same end: whoever loses a race has asked for nothing.
    let first = (ground.place.env.random() % u64::from(ground.shards.max(1))) as u32;
    for shard in (first..ground.shards).chain(0..first).map(ShardId) {
        let taken = others.contains(&shard.to_string());
        let unwanted = if taken { !doubtful.contains(&shard) } else { held.len() >= most };
        if held.contains_key(&shard) || unwanted {
            continue;
        }
        doubtful.insert(shard);
        let name = format!("{COMPACT}/{shard}");
        let Some(duty) = Duty::try_take(&ground.meta, session, &name, who).await? else {
            if taken {
                doubtful.remove(&shard);
            }
            continue;
        };
        doubtful.remove(&shard);
        let over = watch::Sender::new(false);
        let lease = Lease::new(shard, duty.fence(), over.subscribe());
        let mut works = Crew::default();
        for work in work::all(ground, drops) {
            works.spawn(work::run(work, lease.clone(), ground.metrics.failures.clone()));
        }
        tracing::debug!(%shard, "taken");
        held.insert(shard, Held { duty, over, works });
    }
    Ok(())
}

/// Ends the works of shards, and gives the shards back if the session still lives. Says which were maybe not given back.
async fn release(held: BTreeMap<ShardId, Held>, give_back: bool) -> Vec<ShardId> {
    let each = held.into_iter().map(|(shard, Held { duty, over, works })| async move {
        over.send_replace(true);
        works.join().await;
        if give_back && let Err(error) = duty.give_back().await {
            tracing::debug!(%shard, %error, "a shard was not given back; it is free when the session ends");
            return Some(shard);
        }
        None
    });
    join_all(each).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_all_shards_and_no_more_than_needed() {
        for shards in [1, 4, 32, 33] {
            for live in 1..=40 {
                let most = share_of(shards, live);
                assert!(most * live >= shards as usize, "{shards} shards and {live} compactors");
                assert!(most == 1 || (most - 1) * live < shards as usize);
            }
        }
    }
}
