//! Compaction by the owner's gateway where no compactor is alive.
//!
//! A shard whose database has too many files of level 0 takes no more flushes, and then no more appends. So the owner
//! relieves it until a compactor is there again. A compactor that comes while this runs claims the database's compactor
//! epoch and so ends it.

use std::time::Duration;

use slatedb::Db;
use tokio::time::{Instant, sleep};
use wadi_meta::members::Members;
use wadi_model::ShardId;

use crate::context::Context;
use crate::database::{Compaction, LEVEL0_DUE, Look};

/// The kind of members under which compactors announce themselves in the meta store.
pub const COMPACTORS: &str = "compactors";

/// From so many files of level 0 on, the owner helps itself. Half of what stops a writer.
const TOO_MANY: usize = 16;

/// Between two looks at what a compaction has done.
const LOOK: Duration = Duration::from_secs(5);

/// A compaction that does not get there is begun anew after this time.
const LONGEST: Duration = Duration::from_secs(600);

/// Relieves an open shard whenever it needs it, for ever.
pub(super) async fn relieve(context: Context, shard: ShardId, db: Db, mut compactors: Members) {
    let mut status = db.subscribe();
    loop {
        let waiting = status.borrow_and_update().current_manifest.l0().len();
        if waiting >= TOO_MANY && compactors.nobody() {
            tracing::warn!(%shard, waiting, "no compactor is alive; this gateway compacts the shard's database");
            if let Err(error) = compact(&context, shard, &compactors).await {
                tracing::warn!(%shard, %error, "the shard's database could not be compacted");
            }
            sleep(LOOK).await;
        }
        tokio::select! {
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
async fn compact(context: &Context, shard: ShardId, compactors: &Members) -> Result<(), slatedb::Error> {
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
        if place.look(shard).await?.is_none_or(|Look { level0, .. }| level0 < LEVEL0_DUE) {
            break;
        }
    }
    compaction.stop().await;
    if compactors.nobody() {
        place.collect_garbage(shard).await;
    }
    Ok(())
}
