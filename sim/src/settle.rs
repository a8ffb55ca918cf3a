//! The last act: nobody writes any more, and the compactors bring everything to rest.
//!
//! What is to be packed is packed, what has expired leaves the logs (R1), what was dropped is swept out, and what nobody needs is
//! deleted (T4), all within [`SETTLED_WITHIN`]. That is the slack: a round that failed comes again after 30 s, and a memtable may take 20 s to
//! be flushed. Since nobody writes, whole chunks expire, so that none is kept for a younger row in it. Packs that no owner took go
//! when they are a day old; if there are any, everybody sleeps for a day.
//! Then all gateways start anew, so that the last reads find nothing in memory, and need the objects that are left.

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use tokio::time::{Instant, sleep};
use wadi_meta::catalog::Dropped;
use wadi_model::env::Env;
use wadi_model::{Bucket, Offset, PartitionId, ShardId};
use wadi_store::database::Place;
use wadi_store::shard::{Bounds, Shard};
use wadi_store::stored::StoredObject;

use crate::accounting::{Finding, account};
use crate::clients::Scene;
use crate::clock::{Dice, SimSource};
use crate::gateway::{Gateway, Ground};
use crate::worker::Worker;
use crate::world::Flaw;

/// After healing, everything must have come to rest in this time.
const SETTLED_WITHIN: Duration = Duration::from_secs(300);

/// How old packs must be that no owner took, and some more.
const A_DAY: Duration = Duration::from_secs(25 * 3600);

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The number of the compactor that is there in the end, whatever became of the others.
const LAST: usize = 9;

/// Waits until everything rests, and tells the checker what does not. Says how long everybody slept meanwhile.
pub async fn settle(scene: &Scene, ground: &Ground, dice: &Dice) -> Duration {
    let mut slept = Duration::ZERO;
    let last = Worker::new(ground.clone(), LAST, 0, scene.compactors.clone());
    last.start();
    if ground.flaw == Some(Flaw::LosesPack) {
        lose_pack(scene, ground).await;
    }
    let inspector = Inspector::new(scene, ground, dice);
    let mut findings = inspector.wait(|findings| findings.iter().all(Finding::is_orphan)).await;
    if !findings.is_empty() && findings.iter().all(Finding::is_orphan) {
        ground.trace.count("days of waiting for orphans");
        let workers = || scene.workers.iter().chain([&last]);
        workers().for_each(Worker::crash);
        scene.gateways.iter().for_each(Gateway::crash);
        sleep(A_DAY).await;
        slept = A_DAY;
        scene.gateways.iter().for_each(Gateway::start);
        workers().for_each(Worker::start);
        findings = inspector.wait(<[Finding]>::is_empty).await;
    }
    for finding in findings {
        let what = format!("{SETTLED_WITHIN:?} after healing: {finding}");
        scene.checker.lock().violated(finding.invariant(), what);
    }
    last.crash();
    scene.gateways.iter().for_each(Gateway::crash);
    scene.gateways.iter().for_each(Gateway::start);
    slept
}

impl Finding {
    fn is_orphan(&self) -> bool {
        matches!(self, Finding::Orphan(_))
    }
}

/// Takes away a pack that is needed.
async fn lose_pack(scene: &Scene, ground: &Ground) {
    sleep(LOOK).await;
    for shard in (0..ground.cluster.shards).map(ShardId) {
        let Some(owner) = owner(scene, shard).await else { continue };
        for name in owner.holdings().await.map(|held| held.live).unwrap_or_default() {
            let path = StoredObject::pack(&ground.root(), shard, &name).path;
            if ground.bucket.lose(&path).await.is_ok() {
                return;
            }
        }
    }
}

/// The shard where it is open for good.
async fn owner(scene: &Scene, shard: ShardId) -> Option<Shard> {
    for life in scene.gateways.iter().filter_map(Gateway::life) {
        if let Some(open) = life.host.open_shard(shard)
            && open.claim().hold().await
        {
            return Some(open);
        }
    }
    None
}

/// Who looks at everything.
struct Inspector<'a> {
    scene: &'a Scene,
    ground: &'a Ground,
    place: Place,
}

impl Inspector<'_> {
    fn new<'a>(scene: &'a Scene, ground: &'a Ground, dice: &Dice) -> Inspector<'a> {
        let source = SimSource::new(ground.trace.start(), Arc::default(), dice.fork("inspector"));
        let objects = Arc::new(ground.bucket.raw().clone());
        let place = Place { objects, root: ground.root(), env: Env::new(source), local: false };
        Inspector { scene, ground, place }
    }

    /// Looks until it is good, or the time is over.
    async fn wait(&self, is_good: impl Fn(&[Finding]) -> bool) -> Vec<Finding> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        loop {
            let findings = self.look().await;
            if is_good(&findings) || Instant::now() >= deadline {
                return findings;
            }
            sleep(LOOK).await;
        }
    }

    async fn look(&self) -> Vec<Finding> {
        let listing = match self.ground.bucket.listing().await {
            Ok(listing) => listing,
            Err(why) => return vec![Finding::Strange(why)],
        };
        let strange = listing.strange.iter().map(Path::to_string).map(Finding::Strange);
        let mut findings: Vec<Finding> = strange.collect();
        let none = Default::default();
        for shard in (0..self.ground.cluster.shards).map(ShardId) {
            let Some(owner) = owner(self.scene, shard).await else {
                findings.push(Finding::Busy(format!(
                    "shard {shard} is open nowhere: {}",
                    self.scene.places(shard)
                )));
                continue;
            };
            let busy = |what: String| Finding::Busy(format!("shard {shard}: {what}"));
            match owner.holdings().await {
                Ok(held) => {
                    findings.extend(account(shard, listing.shards.get(&shard).unwrap_or(&none), &held))
                }
                Err(error) => findings.push(busy(error.to_string())),
            }
            match owner.next_round().await {
                Ok(None) => {}
                Ok(Some(round)) => findings.push(busy(format!("{round:?} is due"))),
                Err(error) => findings.push(busy(error.to_string())),
            }
            let here = |bucket: &Bucket| bucket.shard(self.ground.cluster.shards) == shard;
            findings.extend(self.expired(&owner, here));
            findings.extend(self.dropped(shard, &owner, here).await);
        }
        findings
    }

    /// Rows whose time is over. It is for all, once nobody writes.
    fn expired(&self, owner: &Shard, here: impl Fn(&Bucket) -> bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        for bucket in self.scene.buckets().into_iter().filter(|bucket| here(bucket)) {
            let Bounds { log_start, high_watermark } = owner.bounds(&bucket);
            if self.scene.ttl(&bucket).is_some() && log_start < high_watermark {
                let what =
                    format!("{bucket} still has rows {log_start} to {high_watermark}, which have expired");
                findings.push(Finding::Expired(what));
            }
        }
        findings
    }

    /// What is left of dropped buckets.
    async fn dropped(&self, shard: ShardId, owner: &Shard, here: impl Fn(&Bucket) -> bool) -> Vec<Finding> {
        let (mut findings, mut names) = (Vec::new(), Vec::new());
        let dropped: Vec<Bucket> = self.scene.dropped.lock().iter().copied().filter(|b| here(b)).collect();
        for bucket in dropped {
            match self.scene.catalog.kept(&bucket).await {
                Ok(None) => {}
                // Nobody could be told to drop it.
                Ok(Some(_)) => continue,
                Err(error) => findings.push(Finding::Busy(error.to_string())),
            }
            let Bounds { log_start, high_watermark } = owner.bounds(&bucket);
            if high_watermark > Offset(0) {
                let what = format!(
                    "the log of {bucket}, which was dropped, is still there, from {log_start} to {high_watermark}"
                );
                findings.push(Finding::Dropped(what));
            }
            let partition = (bucket.partition != PartitionId::NONE).then_some(bucket.partition);
            names.push(Dropped { table: bucket.table, partition });
        }
        if !names.is_empty() {
            match self.place.has_any(shard, &names).await {
                Ok(false) => {}
                Ok(true) => {
                    let what = format!("shard {shard} still has rows or producers of some of {names:?}");
                    findings.push(Finding::Dropped(what));
                }
                Err(error) => findings.push(Finding::Busy(error.to_string())),
            }
        }
        findings
    }
}
