//! A compactor as a process of its own: its stores, and a small HTTP server for `/health` and `/metrics`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use wadi_meta::catalog::Catalog;
use wadi_meta::etcd::EtcdTls;
use wadi_meta::{MetaError, MetaStore};
use wadi_model::env::Env;
use wadi_store::cluster::{Cluster, ClusterError};
use wadi_store::database::Place;
use wadi_store::metadata::{self, MetadataError};
use wadi_store::objects::{self, Objects, OpenError, S3Options};
use wadi_store::pack::Maker;
use wadi_store::secret::ClusterSecret;
use wadi_store::task::{Cpu, Owned};

use crate::owners::RemoteOwners;
use crate::{Compactor, CompactorMetrics, Ground, Settings};

/// Between two looks for a cluster that nobody has made yet.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a compactor must be told to start.
#[derive(Clone, Debug)]
pub struct CompactorConfig {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the address that is listened on is written to, for scripts that start with port 0.
    pub address_file: Option<PathBuf>,
    /// The object store: a directory, `file:///…` or `s3://bucket/prefix`.
    pub object_store: String,
    /// How to reach S3.
    pub s3: S3Options,
    /// The servers of etcd.
    pub etcd_endpoints: Vec<String>,
    /// How they are known, if they are `https://`.
    pub etcd_tls: EtcdTls,
    /// How it behaves.
    pub settings: Settings,
    /// Threads that merge rows.
    pub cpu_threads: usize,
}

/// Why a compactor did not start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum StartError {
    #[error(transparent)]
    Objects(#[from] OpenError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    #[error("the meta store cannot be used: {0}")]
    Meta(#[from] MetaError),
    #[error("cannot listen on {address}: {source}; choose another address with --listen")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot start threads: {0}")]
    Threads(#[from] wadi_store::task::ThreadsError),
    #[error("cannot write {path}: {source}")]
    AddressFile { path: String, source: std::io::Error },
}

/// A compactor process that runs.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    compactor: Compactor,
    meta: Arc<dyn MetaStore>,
    registry: Arc<Registry>,
    _http: Owned,
}

/// Starts a compactor. It waits for a cluster that nobody has made yet.
pub async fn start(config: CompactorConfig) -> Result<Server, StartError> {
    let env = Env::default();
    let mut registry = Registry::default();
    let objects = objects::open(&config.object_store, &config.s3, &env)?.counted(&mut registry);
    let failed = |source| StartError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let metrics = CompactorMetrics::new(&mut registry);
    let registry = Arc::new(registry);
    let http = Owned::spawn(serve(listener, registry.clone()));
    if let Some(path) = &config.address_file {
        let failed = |source| StartError::AddressFile { path: path.display().to_string(), source };
        tokio::fs::write(path, format!("http://{address}\n")).await.map_err(failed)?;
    }
    let cluster = find(&objects).await?;
    let (endpoints, tls) = (&config.etcd_endpoints, &config.etcd_tls);
    let (meta, cluster) = metadata::join(endpoints, tls, cluster, &objects, &env).await?;
    let Objects { store, root, directory, .. } = objects;
    let secret = ClusterSecret::of(meta.as_ref(), &env).await?;
    let place = Place { objects: store, root, env, local: directory.is_some() };
    let tables = Arc::new(Catalog::open(meta.clone()).await?);
    let maker = Maker { place, cpu: Cpu::pool(config.cpu_threads.max(1))?, tables };
    let owners = Arc::new(RemoteOwners::new(meta.clone(), secret));
    let ground = Ground::new(maker, cluster.shards, meta.clone(), owners, config.settings, metrics);
    let compactor = Compactor::start(ground).await?;
    Ok(Server { address, compactor, meta, registry, _http: http })
}

/// The cluster; waits until a gateway has made it.
async fn find(objects: &Objects) -> Result<Cluster, ClusterError> {
    loop {
        if let Some(cluster) = Cluster::read(objects.store.as_ref(), &objects.root).await? {
            return Ok(cluster);
        }
        tracing::info!("there is no cluster yet; waiting for a gateway to make it");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn serve(listener: TcpListener, registry: Arc<Registry>) {
    let router = Router::new()
        .route("/health", get(async || "ok\n"))
        .route("/metrics", get(show))
        .with_state(registry);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "metrics are not served any more");
    }
}

async fn show(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it counts.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Ends what it is doing, and gives its shards back.
    pub async fn stop(self) {
        self.compactor.stop().await;
        if let Err(error) = self.meta.close().await {
            tracing::debug!(%error, "the meta store did not close cleanly");
        }
    }
}
