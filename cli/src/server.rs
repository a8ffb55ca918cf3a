//! The one place where the command line starts a server.

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use wadi_gateway::config::{GatewayConfig, Limits, MetaConfig};
use wadi_gateway::{StartError, start};
use wadi_meta::etcd::EtcdTls;
use wadi_store::Settings;
use wadi_store::objects::S3Options;

use crate::config::{Meta, ServerConfig};
use crate::failure::Failure;
use crate::output;

/// How long a server may take to drain before it is ended all the same.
const DRAIN: Duration = Duration::from_secs(30);

/// Serves until the process is told to end (SIGTERM, Ctrl-C), then drains. The configuration has been validated and
/// logging runs.
pub(crate) async fn serve(config: ServerConfig) -> Result<(), Failure> {
    let url = config.object_store_url()?;
    let server = start(gateway_config(config)?).await.map_err(explain)?;
    output::line(format!("wadi listens on http://{}, data in {url}", server.address()))?;
    let failed = |e: std::io::Error| Failure::new(format!("signals cannot be received: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let fenced = tokio::select! {
        why = server.fenced() => Some(why),
        _ = terminate.recv() => None,
        _ = tokio::signal::ctrl_c() => None,
    };
    if let Some(why) = fenced {
        return Err(Failure::new(format!("another process has taken over: {why}"))
            .hint("only one process may use an embedded meta store; several gateways need --meta etcd"));
    }
    tracing::info!("draining");
    match tokio::time::timeout(DRAIN, server.stop()).await {
        Ok(()) => Ok(()),
        Err(_) => {
            Err(Failure::new("the server did not drain in time; what was acked is durable all the same"))
        }
    }
}

/// What the gateway is to be started with.
pub(crate) fn gateway_config(config: ServerConfig) -> Result<GatewayConfig, Failure> {
    let object_store = config.object_store_url()?;
    let defaults = if object_store.starts_with("file://") { Settings::local() } else { Settings::default() };
    let linger = config.linger.unwrap_or(defaults.linger);
    let identity = match (&config.etcd_cert, &config.etcd_key) {
        (Some(certificate), Some(key)) => Some((pem(certificate)?, pem(key)?)),
        _ => None,
    };
    let tls = EtcdTls { ca: config.etcd_ca.as_deref().map(pem).transpose()?, identity };
    let settings = Settings {
        linger,
        linger_small: defaults.linger_small.max(linger),
        lease_ttl: config.lease_ttl,
        unflushed_bytes: config.memory_unacked.0 as usize,
        tail_bytes: config.memory_tail.0 as usize,
        block_cache_bytes: config.memory_block_cache.0 as usize / 2,
        segment_cache_bytes: config.memory_block_cache.0 as usize / 2,
        row_cache_bytes: config.memory_row_cache.0 as usize,
        cache_dir: config.cache_dir,
        cache_disk_bytes: config.cache_disk_bytes.0 as usize,
        ..defaults
    };
    Ok(GatewayConfig {
        listen: config.listen,
        object_store,
        s3: S3Options {
            endpoint: config.s3_endpoint,
            region: config.s3_region,
            allow_http: config.s3_allow_http,
        },
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
        StartError::Meta(_) => {
            Failure::new(message).hint("a directory is used by one process at a time; stop the other one")
        }
        StartError::Objects(_) | StartError::Cluster(_) => {
            Failure::new(message).hint("`wadi doctor --object-store …` examines the object store")
        }
        _ => Failure::new(message),
    }
}
