//! The compactor: a worker without state that keeps shards small and fast, beside the gateways.
//!
//! Any number of them share the shards of a cluster through leases in the meta store ([`spread`]). Who holds a shard's
//! lease runs a list of works for it ([`work`]); each work is a file. A lease is only there so that work is not done
//! twice: what a work changes must be safe also if a holder that was paused goes on for a while. Killing a compactor loses
//! nothing; another one takes its shards when its session has ended.
//!
//! It works on the object store and the meta store. Of a shard's log only the owner knows what is to be done, and only the owner does
//! it; so it is asked ([`owners`]), in the same process or through its gateway.
//!
//! [`Compactor`] runs inside any process that has both stores; [`server`] is a process of its own around it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use wadi_meta::catalog::Drops;
use wadi_meta::{MetaError, MetaErrorKind, MetaStore};
use wadi_store::database::Place;
use wadi_store::owners::Owners;
use wadi_store::pack::Maker;
use wadi_store::task;

pub use lease::Lease;
pub use metrics::CompactorMetrics;
pub use settings::Settings;

mod forget;
mod lease;
mod metrics;
pub mod owners;
pub mod server;
mod settings;
mod spread;
#[cfg(test)]
mod tests;
pub mod work;

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a compactor may take to stop.
const STOPPING: Duration = Duration::from_secs(15);

/// What a compactor works on. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Where the shards are.
    pub place: Place,
    /// How many there are.
    pub shards: u32,
    /// The meta store.
    pub meta: Arc<dyn MetaStore>,
    /// How it behaves.
    pub settings: Arc<Settings>,
    /// Who owns them.
    pub owners: Arc<dyn Owners>,
    /// What packs are made with.
    pub maker: Maker,
    /// What it counts.
    pub metrics: CompactorMetrics,
    /// The turns of rounds of packing: one at a time, as each is held in memory.
    packing: Arc<Semaphore>,
    /// The turns of shards to be compacted.
    turns: Arc<Semaphore>,
}

impl Ground {
    /// The ground of a cluster with so many shards.
    pub fn new(
        maker: Maker,
        shards: u32,
        meta: Arc<dyn MetaStore>,
        owners: Arc<dyn Owners>,
        settings: Settings,
        metrics: CompactorMetrics,
    ) -> Ground {
        let turns = Arc::new(Semaphore::new(settings.at_once.max(1)));
        let packing = Arc::new(Semaphore::new(1));
        let place = maker.place.clone();
        Ground { place, shards, meta, settings: Arc::new(settings), owners, maker, metrics, packing, turns }
    }
}

/// A compactor that runs. It ends at once when it is dropped, as a crash would end it.
#[derive(Debug)]
pub struct Compactor {
    stop: watch::Sender<bool>,
    life: JoinHandle<()>,
}

impl Compactor {
    /// Begins to take shards and to work on them.
    ///
    /// # Errors
    ///
    /// If the meta store does not answer.
    pub async fn start(ground: Ground) -> Result<Compactor, MetaError> {
        let drops = Drops::open(ground.meta.clone()).await?;
        let stop = watch::Sender::new(false);
        let life = task::spawn(live(ground, drops, stop.subscribe()));
        Ok(Compactor { stop, life })
    }

    /// Ends what it is doing, and gives its shards back.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(STOPPING, &mut self.life).await.is_err() {
            tracing::warn!("the compactor did not stop in time; what it left is taken up by the next one");
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.life.abort();
    }
}

/// One session after the other.
async fn live(ground: Ground, drops: Drops, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        match ground.meta.session(ground.settings.lease_ttl).await {
            Ok(session) => spread::live_in(&ground, &drops, session, &mut stop).await,
            Err(error) if matches!(error.kind(), MetaErrorKind::Fenced | MetaErrorKind::Closed) => return,
            Err(error) => tracing::warn!(%error, "no session for the compactor; trying again"),
        }
        tokio::select! {
            biased;
            // A dropped sender stops too.
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}
