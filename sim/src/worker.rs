//! Compactors beside the gateways, born and crashing as they do. What they do must change nothing that anybody sees.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use object_store::ObjectStore;
use parking_lot::Mutex;
use tokio::time::sleep;
use wadi_compactor::{Compactor, CompactorMetrics, Settings};
use wadi_meta::MetaStore;
use wadi_model::env::Env;
use wadi_store::database::Place;
use wadi_store::objects::{Guarded, Health};
use wadi_store::pack::Maker;
use wadi_store::task::{Cpu, Owned};

use crate::clock::SimSource;
use crate::faults::{Link, Rates, Reach};
use crate::gateway::Ground;
use crate::meta::SimMeta;
use crate::objects::SimObjects;
use crate::owners::SimOwners;
use crate::world::Flaw;

/// Between two tries to start.
const PAUSE: Duration = Duration::from_millis(500);

/// Longer than a run.
const NEVER: Duration = Duration::from_secs(1 << 20);

/// One life of a compactor.
#[derive(Debug)]
struct Life {
    link: Link,
    meta: SimMeta,
    _process: Owned,
}

/// A place where one compactor after the other lives.
#[derive(Debug)]
pub struct Worker {
    ground: Ground,
    number: usize,
    skew: Arc<AtomicI64>,
    metrics: CompactorMetrics,
    lives: Mutex<(u64, Option<Life>)>,
}

impl Worker {
    /// A compactor that was not started yet. Its wall clock is `skew` milliseconds ahead.
    pub fn new(ground: Ground, number: usize, skew: i64, metrics: CompactorMetrics) -> Worker {
        Worker { ground, number, skew: Arc::new(AtomicI64::new(skew)), metrics, lives: Mutex::new((0, None)) }
    }

    /// Starts a process, if none lives.
    pub fn start(&self) {
        let mut lives = self.lives.lock();
        if lives.1.is_some() {
            return;
        }
        lives.0 += 1;
        let name = format!("c{}.{}", self.number, lives.0);
        let dice = self.ground.dice.fork(&name);
        let link = Link::new(&name, dice.fork("link"));
        let env = Env::new(SimSource::new(self.ground.trace.start(), self.skew.clone(), dice));
        let objects: Arc<dyn ObjectStore> =
            Arc::new(SimObjects::new(self.ground.bucket.clone(), link.clone(), self.ground.latency));
        let objects: Arc<dyn ObjectStore> = Arc::new(Guarded::new(objects, Health::new(env.clone())));
        let meta = SimMeta::new(self.ground.meta.clone(), link.clone(), self.ground.trace.clone());
        let store: Arc<dyn MetaStore> = Arc::new(meta.clone());
        let flaw = |flaw| self.ground.flaw == Some(flaw);
        let settings = Settings {
            lease_ttl: self.ground.settings.lease_ttl,
            interval: Duration::from_secs(2),
            collect: Duration::from_secs(5),
            pack_interval: Duration::from_millis(500),
            retention_interval: if flaw(Flaw::NoRetention) { NEVER } else { Duration::from_secs(2) },
            // Far shorter than a reader may take, so that readers and takeovers meet what is gone.
            grace: if flaw(Flaw::NoDeletion) { NEVER } else { Duration::from_secs(1) },
            // Behind what was in flight, and a memtable that waits to be flushed.
            sweep_delay: if flaw(Flaw::NoSweep) { NEVER } else { Duration::from_secs(45) },
            sweep_interval: Duration::from_secs(5),
            orphan_interval: Duration::from_secs(20),
            ..Settings::default()
        };
        let place = Place { objects, root: self.ground.root(), env, local: false };
        let maker = Maker { place, cpu: Cpu::inline(), tables: Arc::new(self.ground.catalog.clone()) };
        let shortens = self.ground.flaw.is_some_and(Flaw::shortens_rounds);
        let owners = Arc::new(SimOwners::new(self.ground.hosts.clone(), link.clone(), shortens));
        let (shards, metrics) = (self.ground.cluster.shards, self.metrics.clone());
        let ground = wadi_compactor::Ground::new(maker, shards, store, owners, settings, metrics);
        self.ground.trace.note(&name, "starts");
        let process = Owned::spawn(async move {
            let compactor = loop {
                match Compactor::start(ground.clone()).await {
                    Ok(compactor) => break compactor,
                    Err(_) => sleep(PAUSE).await,
                }
            };
            std::future::pending::<()>().await;
            drop(compactor);
        });
        lives.1 = Some(Life { link, meta, _process: process });
    }

    /// Ends the process at whatever it is doing.
    pub fn crash(&self) {
        if let Some(life) = self.lives.lock().1.take() {
            self.ground.trace.note(life.link.name(), "crashes");
            life.set(Reach::Dead);
        }
    }

    /// Changes what it reaches, and how that fails.
    pub fn change(&self, reach: Reach, rates: Rates) {
        if let Some(life) = &self.lives.lock().1 {
            life.link.set_rates(rates);
            life.set(reach);
        }
    }

    /// All connections work again, and nothing goes wrong any more.
    pub fn heal(&self) {
        self.start();
        self.change(Reach::Up, Rates::QUIET);
        if let Some(life) = &self.lives.lock().1 {
            life.link.wake();
        }
    }
}

impl Life {
    fn set(&self, reach: Reach) {
        self.link.set(reach);
        self.meta.silence(matches!(self.link.reach(), Reach::Paused | Reach::NoMeta | Reach::Dead));
    }
}
