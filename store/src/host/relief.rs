//! Compaction by the owner's gateway where no compactor is alive.
//!
//! A shard whose database has too many files of level 0 takes no more flushes, and then no more appends. So the owner
//! relieves it until a compactor is there again. A compactor that comes while this runs claims the database's compactor
//! epoch and so ends it. Compactors or not, a shard that has many files looks often whether they are merged.

use std::time::Duration;

use slatedb::Db;
use tokio::time::{Instant, sleep};
use wadi_meta::members::Members;
use wadi_model::ShardId;

use crate::context::Context;
use crate::database::{Compaction, LEVEL0_DUE};

/// The kind of members under which compactors announce themselves in the meta store.
pub const COMPACTORS: &str = "compactors";

/// From so many files of level 0 on, the owner helps itself. Half of what stops a writer.
const TOO_MANY: usize = 16;

/// Between two looks at what a compaction has done, ours or a compactor's.
const LOOK: Duration = Duration::from_secs(1);

/// Between two compactions that did not get there.
const PAUSE: Duration = Duration::from_secs(5);

/// A compaction that does not get there is begun anew after this time.
const LONGEST: Duration = Duration::from_secs(600);

/// Relieves an open shard whenever it needs it, for ever.
pub(crate) async fn relieve(context: Context, shard: ShardId, db: Db, mut compactors: Members) {
    let mut status = db.subscribe();
    loop {
        let waiting = status.borrow_and_update().current_manifest.l0().len();
        if waiting >= TOO_MANY {
            if compactors.nobody() {
                tracing::warn!(%shard, waiting, "no compactor is alive; this gateway compacts the shard's database");
                if let Err(error) = compact(&context, shard, &db, &compactors).await {
                    tracing::warn!(%shard, %error, "the shard's database could not be compacted");
                    sleep(PAUSE).await;
                }
            }
            // A database that is full finds out by itself only once a minute that it is not any more.
            sleep(LOOK).await;
            if let Err(error) = db.refresh_manifest().await {
                tracing::debug!(%shard, %error, "the newest manifest could not be read");
                sleep(PAUSE).await;
            }
            if db.status().close_reason.is_none() {
                continue;
            }
        }
        tokio::select! {
            biased;
            changed = status.changed() => {
                if changed.is_err() {
                    // The database is closed, and so is the shard.
                    return std::future::pending().await;
                }
            }
            () = compactors.changed() => {}
        }
    }
}

/// Compacts until few files are left, or a compactor is there.
async fn compact(
    context: &Context,
    shard: ShardId,
    db: &Db,
    compactors: &Members,
) -> Result<(), slatedb::Error> {
    let place = context.place();
    let mut compaction = Compaction::start(&place, shard, None, &context.metrics.compaction).await?;
    let deadline = Instant::now() + LONGEST;
    while Instant::now() < deadline && compactors.nobody() {
        tokio::select! {
            biased;
            why = compaction.ended() => {
                tracing::info!(%shard, why, "the compaction ended");
                return Ok(());
            }
            () = sleep(LOOK) => {}
        }
        db.refresh_manifest().await?;
        if db.manifest().l0().len() < LEVEL0_DUE {
            break;
        }
    }
    compaction.stop().await;
    if compactors.nobody() {
        place.collect_garbage(shard).await;
    }
    Ok(())
}
