//! Compactors beside the gateways, born and crashing as they do. What they do must change nothing that anybody sees.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::time::sleep;
use wadi_compactor::{Compactor, CompactorMetrics, Settings};
use wadi_meta::MetaStore;
use wadi_model::env::Env;
use wadi_model::{LogSeq, ShardId};
use wadi_store::database::Place;
use wadi_store::objects::{Guarded, Health};
use wadi_store::owners::Owners;
use wadi_store::pack::Maker;
use wadi_store::shard::{Deletable, PackError, Round};
use wadi_store::stored::PackName;
use wadi_store::task::{Cpu, Owned};

use crate::clock::SimSource;
use crate::faults::{Link, Rates, Reach};
use crate::gateway::Ground;
use crate::meta::SimMeta;
use crate::objects::SimObjects;

/// Between two tries to start.
const PAUSE: Duration = Duration::from_millis(500);

/// Owners that no compactor reaches: what a compactor does by their word alone is not simulated, all else it does without them.
#[derive(Debug)]
struct Unheard;

#[async_trait]
impl Owners for Unheard {
    async fn next_round(&self, _: ShardId) -> Result<Option<Round>, PackError> {
        Err(PackError::NotOwned)
    }

    async fn commit_packs(&self, _: ShardId, _: Round, _: Vec<PackName>) -> Result<(), PackError> {
        Err(PackError::NotOwned)
    }

    async fn trim(&self, _: ShardId) -> Result<usize, PackError> {
        Err(PackError::NotOwned)
    }

    async fn deletable(&self, _: ShardId, _: LogSeq) -> Result<Deletable, PackError> {
        Err(PackError::NotOwned)
    }

    async fn note_deleted(&self, _: ShardId, _: Deletable) -> Result<(), PackError> {
        Err(PackError::NotOwned)
    }

    async fn known_packs(&self, _: ShardId, _: Vec<PackName>) -> Result<Vec<PackName>, PackError> {
        Err(PackError::NotOwned)
    }
}

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
        let settings = Settings {
            lease_ttl: self.ground.settings.lease_ttl,
            interval: Duration::from_secs(2),
            collect: Duration::from_secs(5),
            ..Settings::default()
        };
        let place = Place { objects, root: Path::from("w"), env, local: false };
        let shards = self.ground.cluster.shards;
        let maker = Maker { place, cpu: Cpu::inline(), tables: self.ground.tables.clone() };
        let owners = Arc::new(Unheard);
        let ground =
            wadi_compactor::Ground::new(maker, shards, store, owners, settings, self.metrics.clone());
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
