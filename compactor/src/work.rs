//! What is done for a shard by whoever holds its lease: a list of works, one file each.
//!
//! A work is a small state machine of one shard: a round does what there is to do now and says when the next one is due.
//! Where nothing happens a round costs a request or none, and the next one is due in `settings.interval`.

use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::metrics::counter::Counter;
use tracing::Instrument;
use wadi_meta::catalog::Drops;
use wadi_store::trace::TARGET;

use crate::{Ground, Lease};

mod database;
mod deletion;
mod orphans;
mod packs;
mod retention;
pub(crate) mod sweep;

/// The pause after a round that failed.
const RETRY: Duration = Duration::from_secs(30);

/// One kind of work on one shard.
#[async_trait]
pub trait Work: Send {
    /// Its name, for the log.
    fn name(&self) -> &'static str;

    /// Does what there is to do now. Says how long the next round can wait.
    ///
    /// It must return soon once the lease is over; until then it may take as long as it needs.
    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure>;
}

/// Why a round did not succeed. The next one tries again, so nobody asks for the kind.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// All works of one shard, in no order: they run side by side.
pub(crate) fn all(ground: &Ground, drops: &Drops) -> Vec<Box<dyn Work>> {
    vec![
        Box::new(database::Database::new(ground.clone(), drops.clone())),
        Box::new(packs::Packs::new(ground.clone())),
        Box::new(retention::Retention::new(ground.clone())),
        Box::new(deletion::Deletion::new(ground.clone())),
        Box::new(orphans::Orphans::new(ground.clone())),
    ]
}

/// Runs a work until the lease is over.
pub(crate) async fn run(mut work: Box<dyn Work>, lease: Lease, failures: Counter) {
    loop {
        let span = tracing::debug_span!(target: TARGET, "round", work = work.name(), shard = i64::from(lease.shard().0));
        let pause = match work.round(&lease).instrument(span).await {
            Ok(pause) => pause,
            Err(error) => {
                failures.inc();
                tracing::warn!(shard = %lease.shard(), work = work.name(), %error, "a round failed; trying again");
                RETRY
            }
        };
        tokio::select! {
            biased;
            () = lease.over() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
