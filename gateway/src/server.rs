//! Starting and stopping a gateway: object store, meta store, shards, and the HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wadi_meta::catalog::Catalog;
use wadi_meta::{MetaError, MetaStore};
use wadi_model::env::Env;
use wadi_store::Context;
use wadi_store::block_cache::block_cache;
use wadi_store::cluster::Cluster;
use wadi_store::context::Memory;
use wadi_store::database::MEMTABLE_BYTES;
use wadi_store::disk_cache::DiskCache;
use wadi_store::host::Host;
use wadi_store::ids::MetaIds;
use wadi_store::keyed::KeyedTables;
use wadi_store::memtables::Memtables;
use wadi_store::metadata::{self, MetadataError};
use wadi_store::metrics::StoreMetrics;
use wadi_store::objects::{self, Objects, OpenError};
use wadi_store::route::{NoPeers, Peers, Route};
use wadi_store::secret::ClusterSecret;
use wadi_store::segments::SegmentCache;
use wadi_store::settings::InvalidSetting;
use wadi_store::task::{self, Cpu, Owned};

use crate::app::{Gateway, router};
use crate::auto_partition;
use crate::closable::Closable;
use crate::config::{GatewayConfig, MetaConfig};
use crate::metrics::GatewayMetrics;
use crate::peers::HttpPeers;
use crate::reachable;
use crate::stall::Impatient;

/// How long giving the shards to other gateways may take.
const HAND_OVER: Duration = Duration::from_secs(10);

/// How long requests are answered after the last connection was let in, where other gateways take the next ones.
const LAST_REQUESTS: Duration = Duration::from_millis(500);

/// How long connections may go on after the server was told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StartError {
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    #[error(transparent)]
    Objects(#[from] OpenError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("the meta store cannot be used: {0}")]
    Meta(#[from] MetaError),
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("HTTP cannot be spoken to other gateways: {0}")]
    Http(#[from] reqwest::Error),
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error("cannot write {path}: {source}")]
    AddressFile { path: String, source: std::io::Error },
}

/// A gateway that runs.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    host: Host,
    meta: Arc<dyn MetaStore>,
    close: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
    auto_partition: tokio::task::JoinHandle<()>,
    _reachable: Option<Owned>,
    registry: Arc<Registry>,
}

/// Starts a gateway. It answers at once; shards open in the background. `registry` may show what else the process counts.
pub async fn start(config: GatewayConfig, mut registry: Registry) -> Result<Server, StartError> {
    config.settings.validate()?;
    let env = Env::default();
    let objects = objects::open(&config.object_store, &config.s3, &env)?.counted(&mut registry);
    let (meta, cluster) = metadata::open(&config.meta, &objects, config.shards, &env).await?;
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|source| StartError::Listen { address: config.listen, source })?;
    let address =
        listener.local_addr().map_err(|source| StartError::Listen { address: config.listen, source })?;
    let catalog = Catalog::open(meta.clone()).await?;
    let secret = ClusterSecret::of(meta.as_ref(), &env).await?;
    let context = context(&config, objects, &cluster, env, &mut registry, &meta, &catalog).await?;
    let peers: Arc<dyn Peers> = match &config.meta {
        MetaConfig::Embedded => Arc::new(NoPeers),
        MetaConfig::Etcd { .. } => Arc::new(HttpPeers::new(secret.clone())?),
    };
    let reached_at = config.advertise.unwrap_or_else(|| format!("http://{address}"));
    let host = Host::start(context, meta.clone(), cluster, reached_at.clone());
    let route = Route::new(host.clone(), peers);
    let (close, stop) = (watch::Sender::new(false), watch::Sender::new(false));
    let listener = Closable::new(listener, close.subscribe())
        .map_err(|source| StartError::Listen { address: config.listen, source })?;
    let listener = Impatient { listener, limit: config.limits.stall };
    let around = auto_partition::Surroundings {
        meta: meta.clone(),
        catalog: catalog.clone(),
        env: host.context().env.clone(),
        interval: config.auto_partition_interval,
        lease_ttl: config.settings.lease_ttl,
    };
    let auto_partition = task::spawn(auto_partition::serve(around, stop.subscribe()));
    let metrics = GatewayMetrics::new(&mut registry);
    let registry = Arc::new(registry);
    let gateway = Gateway::new(catalog, route, secret, config.limits, registry.clone(), metrics);
    let alone = matches!(config.meta, MetaConfig::Embedded);
    let reachable = (!alone).then(|| Owned::spawn(reachable::watch(gateway.clone(), reached_at)));
    let mut stopping = stop.subscribe();
    let serve = axum::serve(listener, router(gateway)).with_graceful_shutdown(async move {
        // A dropped server stops too.
        let _ = stopping.wait_for(|stop| *stop).await;
    });
    let serving = task::spawn(async move { serve.await });
    if let Some(path) = config.address_file {
        let failed = |source| StartError::AddressFile { path: path.display().to_string(), source };
        tokio::fs::write(&path, format!("http://{address}\n")).await.map_err(failed)?;
    }
    tracing::info!(%address, "gateway started");
    Ok(Server { address, host, meta, close, stop, serving, auto_partition, registry, _reachable: reachable })
}

async fn context(
    config: &GatewayConfig,
    objects: Objects,
    cluster: &Cluster,
    env: Env,
    registry: &mut Registry,
    meta: &Arc<dyn MetaStore>,
    catalog: &Catalog,
) -> Result<Context, StartError> {
    let mut settings = config.settings.clone();
    // The budgets for the tail and for rows are one for the process; each shard gets its share.
    settings.tail_bytes /= cluster.shards.max(1) as usize;
    settings.row_cache_bytes /= cluster.shards.max(1) as usize;
    let disk = settings.cache_dir.as_deref();
    let disk =
        disk.and_then(|dir| DiskCache::open(dir, &cluster.id, &objects.url, settings.cache_disk_bytes));
    Ok(Context {
        local: objects.directory.is_some(),
        objects: objects.store,
        health: objects.health,
        root: objects.root,
        env: env.clone(),
        cpu: Cpu::pool(config.cpu_threads.max(1))?,
        memory: Memory::new(settings.unflushed_bytes),
        reads: Memory::new(config.limits.reads),
        memtables: Memtables::new(settings.memtable_bytes, MEMTABLE_BYTES),
        segments: SegmentCache::open(settings.segment_cache_bytes, disk.as_ref()).await,
        block_cache: Some(block_cache(settings.block_cache_bytes, disk.as_ref()).await),
        tables: KeyedTables::new(Arc::new(catalog.clone())),
        ids: Arc::new(MetaIds::new(meta.clone(), env.clone())),
        metrics: StoreMetrics::new(registry),
        settings: Arc::new(settings),
    })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its shards.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// What it counts.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The meta store.
    pub fn meta(&self) -> &Arc<dyn MetaStore> {
        &self.meta
    }

    /// Waits until every shard is open here.
    pub async fn ready(&self) {
        while !self.host.is_ready() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until another process has taken this one's place, and says why.
    pub async fn fenced(&self) -> String {
        self.host.fenced().await
    }

    /// Stops: shards are given to other gateways while requests are answered as before; then nobody new is let in, the last requests on the
    /// connections that there are are answered, those are closed, and shards that nobody has taken are released in good order.
    pub async fn stop(mut self) {
        self.host.leave(HAND_OVER).await;
        self.close.send_replace(true);
        if self.host.gateways().len() > 1 {
            // Connections that are used end by themselves now.
            tokio::time::sleep(LAST_REQUESTS).await;
        }
        self.stop.send_replace(true);
        self.host.shutdown().await;
        // Another gateway has the duty sooner if this one gives it back.
        if tokio::time::timeout(GRACE, &mut self.auto_partition).await.is_err() {
            self.auto_partition.abort();
        }
        // Tails never end by themselves.
        if tokio::time::timeout(GRACE, &mut self.serving).await.is_err() {
            self.serving.abort();
        }
        let context = self.host.context();
        context.segments.close().await;
        if let Some(blocks) = &context.block_cache
            && let Err(error) = blocks.close().await
        {
            tracing::debug!(%error, "the block cache did not close cleanly");
        }
        if let Err(error) = self.meta.close().await {
            tracing::debug!(%error, "the meta store did not close cleanly");
        }
    }
}
