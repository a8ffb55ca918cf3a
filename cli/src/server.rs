//! The one place where the command line starts a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};
use wadi_compactor::server::CompactorConfig;
use wadi_compactor::{Compactor, CompactorMetrics, Ground, Settings};
use wadi_gateway::config::{GatewayConfig, Limits, MetaConfig};
use wadi_gateway::{Server, StartError, start};
use wadi_meta::etcd::EtcdTls;
use wadi_store::metadata::MetadataError;
use wadi_store::objects::S3Options;

use crate::config::{Meta, ServerConfig};
use crate::failure::Failure;
use crate::output;
use crate::telemetry::Telemetry;

/// How long a server may take to drain before it is ended all the same.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves until the process is told to end (SIGTERM, Ctrl-C), then drains. The configuration has been validated and
/// logging runs.
pub(crate) async fn serve(config: ServerConfig, telemetry: &mut Telemetry) -> Result<(), Failure> {
    let url = config.object_store_url()?;
    let compacts = (config.meta == Meta::Embedded).then(|| compactor_settings(&config));
    let mut registry = Registry::default();
    let metrics = compacts.is_some().then(|| CompactorMetrics::new(&mut registry));
    let server = start(gateway_config(config)?, registry).await.map_err(explain)?;
    telemetry.watch(server.registry());
    let compactor = match compacts.zip(metrics) {
        Some((settings, metrics)) => Some(compact(&server, settings, metrics).await?),
        None => None,
    };
    output::line(format!("wadi listens on http://{}, data in {url}", server.address()))?;
    let fenced = tokio::select! {
        why = server.fenced() => Some(why),
        told = until_told() => {
            told?;
            None
        }
    };
    if let Some(why) = fenced {
        return Err(Failure::new(format!("another process has taken over: {why}"))
            .hint("only one process may use an embedded meta store; several gateways need --meta etcd"));
    }
    tracing::info!("draining");
    let stop = async {
        if let Some(compactor) = compactor {
            compactor.stop().await;
        }
        server.stop().await;
    };
    match tokio::time::timeout(DRAIN, stop).await {
        Ok(()) => Ok(()),
        Err(_) => {
            Err(Failure::new("the server did not drain in time; what was acked is durable all the same"))
        }
    }
}

/// With embedded metadata nobody else can compact the shards of this process.
async fn compact(
    server: &Server,
    settings: Settings,
    metrics: CompactorMetrics,
) -> Result<Compactor, Failure> {
    let (host, meta) = (server.host(), server.meta().clone());
    let (maker, owners) = (host.context().maker(), Arc::new(host.clone()));
    let ground = Ground::new(maker, host.cluster().shards, meta, owners, settings, metrics);
    let failed = |e| Failure::new(format!("the compactor cannot start: {e}"));
    Compactor::start(ground).await.map_err(failed)
}

/// Compacts until the process is told to end, then gives its shards back.
pub(crate) async fn compact_alone(config: ServerConfig, telemetry: &mut Telemetry) -> Result<(), Failure> {
    let url = config.object_store_url()?;
    let config = CompactorConfig {
        settings: compactor_settings(&config),
        etcd_tls: etcd_tls(&config)?,
        listen: config.listen,
        address_file: config.address_file.clone(),
        object_store: url.clone(),
        s3: s3_options(&config),
        etcd_endpoints: config.etcd_endpoints,
        cpu_threads: std::thread::available_parallelism().map_or(2, usize::from),
    };
    let starting = wadi_compactor::server::start(config);
    let failed = |e| {
        let failure = Failure::new(format!("the compactor cannot start: {e}"));
        match e {
            wadi_compactor::server::StartError::Metadata(MetadataError::Identity(_)) => failure,
            _ => failure.hint("`wadi doctor --object-store …` examines the object store"),
        }
    };
    let server = tokio::select! {
        // It may wait for its cluster.
        told = until_told() => return told,
        server = starting => server.map_err(failed)?,
    };
    telemetry.watch(server.registry());
    output::line(format!("wadi compacts {url}, metrics at http://{}", server.address()))?;
    until_told().await?;
    server.stop().await;
    Ok(())
}

/// Waits until the process is told to end.
async fn until_told() -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::new(format!("signals cannot be received: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    Ok(())
}

/// Between two questions whether something is left of drops: more than a PUT may take, and not so long that it matters.
const LEAST_FORGET_INTERVAL: Duration = Duration::from_secs(6);
const MOST_FORGET_INTERVAL: Duration = Duration::from_secs(3600);

fn compactor_settings(config: &ServerConfig) -> Settings {
    Settings {
        lease_ttl: config.lease_ttl,
        interval: config.compact_check_interval,
        sweep_delay: config.drop_delay,
        sweep_interval: 6 * config.drop_delay,
        forget_delay: config.forget_delay,
        forget_interval: (config.forget_delay / 24).clamp(LEAST_FORGET_INTERVAL, MOST_FORGET_INTERVAL),
        grace: config.deletion_grace,
        retention_interval: config.compact_check_interval,
        ..Settings::default()
    }
}

pub(crate) fn etcd_tls(config: &ServerConfig) -> Result<EtcdTls, Failure> {
    let identity = match (&config.etcd_cert, &config.etcd_key) {
        (Some(certificate), Some(key)) => Some((pem(certificate)?, pem(key)?)),
        _ => None,
    };
    Ok(EtcdTls { ca: config.etcd_ca.as_deref().map(pem).transpose()?, identity })
}

pub(crate) fn s3_options(config: &ServerConfig) -> S3Options {
    S3Options {
        endpoint: config.s3_endpoint.clone(),
        region: config.s3_region.clone(),
        allow_http: config.s3_allow_http,
        keys: None,
    }
}

/// What the gateway is to be started with.
fn gateway_config(config: ServerConfig) -> Result<GatewayConfig, Failure> {
    if config.meta == Meta::Etcd && config.listen.ip().is_unspecified() && config.advertise.is_none() {
        let message =
            format!("listen {} is no address at which other gateways reach this one", config.listen);
        return Err(Failure::usage(message).hint("say one with --advertise http://<address>:<port>"));
    }
    let object_store = config.object_store_url()?;
    let local = object_store.starts_with("file://");
    let defaults = if local { wadi_store::Settings::local() } else { wadi_store::Settings::default() };
    let linger = config.linger.unwrap_or(defaults.linger);
    let (tls, s3) = (etcd_tls(&config)?, s3_options(&config));
    let settings = wadi_store::Settings {
        linger,
        linger_small: defaults.linger_small.max(linger),
        lease_ttl: config.lease_ttl,
        unflushed_bytes: config.memory_unacked.0 as usize,
        tail_bytes: config.memory_tail.0 as usize,
        block_cache_bytes: config.memory_block_cache.0 as usize / 2,
        segment_cache_bytes: config.memory_block_cache.0 as usize / 2,
        pack_interval: config.pack_interval,
        row_cache_bytes: config.memory_row_cache.0 as usize,
        cache_dir: config.cache_dir,
        cache_disk_bytes: config.cache_disk_bytes.0 as usize,
        ..defaults
    };
    Ok(GatewayConfig {
        listen: config.listen,
        advertise: config.advertise,
        object_store,
        s3,
        meta: match config.meta {
            Meta::Embedded => MetaConfig::Embedded,
            Meta::Etcd => MetaConfig::Etcd { endpoints: config.etcd_endpoints, tls },
        },
        shards: config.shards,
        settings,
        cpu_threads: std::thread::available_parallelism().map_or(2, usize::from),
        limits: Limits::default(),
        auto_partition_interval: config.auto_partition_check_interval,
        address_file: config.address_file,
    })
}

fn pem(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|e| Failure::usage(format!("{} cannot be read: {e}", path.display())))
}

fn explain(error: StartError) -> Failure {
    let message = format!("the server cannot start: {error}");
    match error {
        // It says itself what to do.
        StartError::Metadata(MetadataError::Identity(_)) => Failure::new(message),
        StartError::Meta(_) | StartError::Metadata(MetadataError::Meta(_)) => {
            Failure::new(message).hint("a directory is used by one process at a time; stop the other one")
        }
        StartError::Objects(_)
        | StartError::Metadata(MetadataError::Cluster(_) | MetadataError::Refused(_)) => {
            Failure::new(message).hint("`wadi doctor --object-store …` examines the object store")
        }
        _ => Failure::new(message),
    }
}
