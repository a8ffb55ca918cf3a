//! Gateways: hosts of shards on the shared stores, that are born, paused, cut off and crash.
//!
//! A crash cuts the process off from everything for good and drops its host. Tasks of it that the drop does not end
//! stay blocked at their next request and can do no harm; what they had already sent may still arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};
use wadi_meta::catalog::Catalog;
use wadi_meta::memory::MemoryStore;
use wadi_meta::{MetaError, MetaStore};
use wadi_model::ShardId;
use wadi_model::env::Env;
use wadi_store::cluster::Cluster;
use wadi_store::context::{Context, Memory};
use wadi_store::database::MEMTABLE_BYTES;
use wadi_store::host::Host;
use wadi_store::ids::MetaIds;
use wadi_store::keyed::KeyedTables;
use wadi_store::memtables::Memtables;
use wadi_store::metrics::StoreMetrics;
use wadi_store::objects::{Guarded, Health};
use wadi_store::route::Route;
use wadi_store::segments::SegmentCache;
use wadi_store::settings::Settings;
use wadi_store::task::Cpu;

use crate::clock::{Dice, SimSource};
use crate::faults::{Link, Rates, Reach};
use crate::meta::SimMeta;
use crate::objects::{Bucket, SimObjects};
use crate::owners::Hosts;
use crate::peers::{Net, Open};
use crate::trace::Trace;
use crate::world::Flaw;

/// How long a process that ends waits for the answers that it still owes.
const DRAIN: Duration = Duration::from_secs(30);

/// What all gateways share.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The objects.
    pub bucket: Bucket,
    /// The meta store.
    pub meta: Arc<MemoryStore>,
    /// The cluster's identity.
    pub cluster: Cluster,
    /// The catalog without faults, which knows all tables.
    pub catalog: Catalog,
    /// What is broken on purpose.
    pub flaw: Option<Flaw>,
    /// Settings of all gateways.
    pub settings: Arc<Settings>,
    /// Whether nothing fails, and gateways come and go only.
    pub calm: bool,
    /// The gateways that live, for compactors.
    pub hosts: Hosts,
    /// The way between gateways.
    pub net: Net,
    /// The median of an object store request.
    pub latency: Duration,
    /// Counters of all gateways together.
    pub metrics: StoreMetrics,
    /// The trace.
    pub trace: Trace,
    /// The seed's chance.
    pub dice: Dice,
}

impl Ground {
    /// Where the cluster's objects lie.
    pub fn root(&self) -> Path {
        Path::from("w")
    }
}

/// One life of a gateway, from a start to a crash. Clones are the same life.
#[derive(Clone, Debug)]
pub struct Life {
    /// The way to its stores.
    pub link: Link,
    /// Its shards.
    pub host: Host,
    /// The way to all shards.
    pub route: Route,
    /// Requests that it has not answered yet.
    pub open: Open,
    /// Set when it takes no more of them, because it is about to end.
    closing: Arc<AtomicBool>,
    meta: SimMeta,
    catalog: Arc<OnceCell<Catalog>>,
}

impl Life {
    /// Changes what it reaches. Proofs of life arrive only from a process that runs and reaches the meta store.
    pub fn set(&self, reach: Reach) {
        self.link.set(reach);
        self.meta.silence(matches!(self.link.reach(), Reach::Paused | Reach::NoMeta | Reach::Dead));
    }

    /// Its catalog, opened when it is first needed.
    pub async fn catalog(&self) -> Result<&Catalog, MetaError> {
        self.catalog.get_or_try_init(|| Catalog::open(Arc::new(self.meta.clone()))).await
    }

    /// Whether it takes no more requests.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Ends its session early, as a meta store may.
    pub fn expire(&self) {
        self.meta.expire();
    }

    /// Whether the shard is open here, as the process itself sees it.
    pub fn has(&self, shard: ShardId) -> bool {
        self.host.status().iter().any(|s| s.shard == shard && s.open)
    }
}

/// A place where one gateway process after the other lives.
#[derive(Debug)]
pub struct Gateway {
    ground: Ground,
    number: usize,
    skew: Arc<AtomicI64>,
    lives: Mutex<(u64, Option<Life>)>,
}

impl Gateway {
    /// A gateway that was not started yet. Its wall clock is `skew` milliseconds ahead.
    pub fn new(ground: Ground, number: usize, skew: i64) -> Gateway {
        Gateway { ground, number, skew: Arc::new(AtomicI64::new(skew)), lives: Mutex::new((0, None)) }
    }

    /// The process, if one lives.
    pub fn life(&self) -> Option<Life> {
        self.lives.lock().1.clone()
    }

    /// Starts a process, if none lives.
    pub fn start(&self) {
        let mut lives = self.lives.lock();
        if lives.1.is_some() {
            return;
        }
        lives.0 += 1;
        let name = format!("g{}.{}", self.number, lives.0);
        let dice = self.ground.dice.fork(&name);
        let link = Link::new(&name, dice.fork("link"));
        let env = Env::new(SimSource::new(self.ground.trace.start(), self.skew.clone(), dice));
        let settings = self.ground.settings.clone();
        let objects: Arc<dyn ObjectStore> =
            Arc::new(SimObjects::new(self.ground.bucket.clone(), link.clone(), self.ground.latency));
        let health = Health::new(env.clone());
        // As every S3 store is opened.
        let objects: Arc<dyn ObjectStore> = Arc::new(Guarded::new(objects, health.clone()));
        let meta = SimMeta::new(self.ground.meta.clone(), link.clone(), self.ground.trace.clone());
        let store: Arc<dyn MetaStore> = Arc::new(meta.clone());
        let context = Context {
            objects,
            health,
            root: self.ground.root(),
            env: env.clone(),
            cpu: Cpu::inline(),
            memory: Memory::new(settings.unflushed_bytes),
            reads: Memory::new(64 << 20),
            memtables: Memtables::new(settings.memtable_bytes, MEMTABLE_BYTES),
            segments: SegmentCache::none(),
            block_cache: None,
            tables: KeyedTables::new(Arc::new(self.ground.catalog.clone())),
            ids: Arc::new(MetaIds::new(store.clone(), env.clone())),
            metrics: self.ground.metrics.clone(),
            local: false,
            settings,
        };
        self.ground.trace.note(&name, "starts");
        let host = Host::start(context, store, self.ground.cluster.clone(), name);
        self.ground.hosts.born(self.number, link.clone(), host.clone());
        let peers = self.ground.net.peers(self.number, link.clone());
        let (route, open) = (Route::new(host.clone(), Arc::new(peers)), Open::default());
        self.ground.net.born(self.number, &link, &route, &open);
        let (catalog, closing) = Default::default();
        lives.1 = Some(Life { link, host, route, open, closing, meta, catalog });
    }

    /// Ends the process in good order: it gives its shards away, answers what is open, and is gone. In between it may crash.
    pub async fn leave(&self, patience: Duration) {
        let Some(life) = self.life() else { return };
        let trace = &self.ground.trace;
        trace.note(life.link.name(), "leaves");
        let leave = async {
            life.host.leave(patience).await;
            let left = if life.host.status().iter().any(|shard| shard.open) { "with shards" } else { "" };
            trace.note(life.link.name(), format_args!("has left {left}"));
            life.closing.store(true, Ordering::Relaxed);
            self.ground.net.closed(&life.link);
            let drained = async {
                while life.open.count() > 0 {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let _ = timeout(DRAIN, drained).await;
            let _ = timeout(patience, life.host.shutdown()).await;
        };
        tokio::select! {
            biased;
            () = life.link.died() => return,
            () = leave => {}
        }
        trace.count("gateways that left in good order");
        let is_ours = self.life().is_some_and(|now| now.link.name() == life.link.name());
        if is_ours {
            self.crash();
        }
    }

    /// Ends the process at whatever it is doing.
    pub fn crash(&self) {
        if let Some(life) = self.lives.lock().1.take() {
            self.ground.hosts.died(self.number);
            self.ground.net.closed(&life.link);
            self.ground.trace.note(life.link.name(), "crashes");
            life.set(Reach::Dead);
        }
    }

    /// Sets its wall clock, in milliseconds ahead.
    pub fn set_clock(&self, skew: i64) {
        self.skew.store(skew, Ordering::Relaxed);
    }

    /// All connections work again, and nothing goes wrong any more.
    pub fn heal(&self) {
        self.start();
        if let Some(life) = self.life() {
            life.link.set_rates(Rates::QUIET);
            life.set(Reach::Up);
            life.link.wake();
        }
    }
}
