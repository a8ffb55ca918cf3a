//! The configuration of a server process: one struct for file, environment and flags.
//!
//! Layers, later ones win: defaults, the file of `--config` (TOML), `WADI_*` variables, flags. The keys of the file are
//! the names of the flags with `_`. Unknown keys of the file are errors. [`ServerConfig::validate`] checks the fields
//! against each other, so that a server that starts has a configuration that makes sense.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use figment::Figment;
use figment::error::Kind;
use figment::providers::{Format, Serialized, Toml};
use serde::{Deserialize, Serialize};
use wadi_model::suggest::{did_you_mean, nearest};

use crate::args::boolish;
use crate::bytesize::ByteSize;
use crate::failure::Failure;

#[cfg(test)]
mod tests;
mod validate;

/// Where the small, slow-changing state of a cluster is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Meta {
    /// In the object store, for a single process.
    #[default]
    Embedded,
    /// In etcd, for any number of gateways.
    Etcd,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line, for log collectors.
    Json,
}

/// What a server process runs with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) address_file: Option<PathBuf>,
    pub(crate) advertise: Option<String>,
    pub(crate) insecure: bool,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) object_store: Option<String>,
    pub(crate) s3_endpoint: Option<String>,
    pub(crate) s3_region: Option<String>,
    pub(crate) s3_allow_http: bool,
    pub(crate) meta: Meta,
    pub(crate) etcd_endpoints: Vec<String>,
    pub(crate) etcd_ca: Option<PathBuf>,
    pub(crate) etcd_cert: Option<PathBuf>,
    pub(crate) etcd_key: Option<PathBuf>,
    pub(crate) shards: u32,
    pub(crate) memory_unacked: ByteSize,
    pub(crate) memory_block_cache: ByteSize,
    pub(crate) memory_tail: ByteSize,
    pub(crate) memory_row_cache: ByteSize,
    pub(crate) cache_dir: Option<PathBuf>,
    pub(crate) cache_disk_bytes: ByteSize,
    #[serde(with = "humantime_serde")]
    pub(crate) linger: Option<Duration>,
    #[serde(with = "humantime_serde")]
    pub(crate) lease_ttl: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) auto_partition_check_interval: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) compact_check_interval: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) drop_delay: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) forget_delay: Duration,
    /// How old the log of a shard gets before it is packed.
    #[serde(with = "humantime_serde")]
    pub(crate) pack_interval: Duration,
    /// How long what nobody needs is kept.
    #[serde(with = "humantime_serde")]
    pub(crate) deletion_grace: Duration,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
    pub(crate) otlp_endpoint: Option<String>,
    pub(crate) trace_sample_ratio: f64,
}

/// What a file, the environment and flags may say: the fields of [`ServerConfig`], all optional.
#[derive(Clone, Debug, Default, Args, Serialize)]
pub(crate) struct ServerFlags {
    /// Address and port of the HTTP API [default: 127.0.0.1:8080]; of a compactor, which answers /health and /metrics alone
    /// [default: 127.0.0.1:8081]. Beyond loopback everybody who reaches it can read
    /// and write everything, as long as there is no auth; so that needs --insecure.
    #[arg(long, env = "WADI_LISTEN", value_name = "ADDR:PORT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    /// Write the URL that is listened on to this file, for scripts that take a free port with port 0.
    #[arg(long, env = "WADI_ADDRESS_FILE", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    address_file: Option<PathBuf>,
    /// The URL at which the other processes of the cluster reach this gateway, such as http://10.0.0.7:8080 [default: the address
    /// that is listened on].
    #[arg(long, env = "WADI_ADVERTISE", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    advertise: Option<String>,
    /// Allow an address beyond loopback without auth [default: false].
    #[arg(long, env = "WADI_INSECURE", num_args = 0..=1, default_missing_value = "true", value_parser = boolish())]
    #[serde(skip_serializing_if = "Option::is_none")]
    insecure: Option<bool>,
    /// A local directory as object store [default of dev: ./wadi-data]. Every write is synced to the disk before it
    /// is acked. Not together with --object-store.
    #[arg(long, env = "WADI_DATA_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    /// Where all data lives: s3://bucket/prefix or file:///directory. Credentials for S3 come from AWS_* variables or
    /// the machine's role.
    #[arg(long, env = "WADI_OBJECT_STORE", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    object_store: Option<String>,
    /// Endpoint of an S3-compatible store [default: AWS]. It must hold conditional writes; `wadi doctor` checks that.
    #[arg(long, env = "WADI_S3_ENDPOINT", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    s3_endpoint: Option<String>,
    /// Region of the bucket [default: from AWS_REGION].
    #[arg(long, env = "WADI_S3_REGION", value_name = "REGION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    s3_region: Option<String>,
    /// Allow an S3 endpoint without TLS [default: false]. Data and credentials can then be read on the way.
    #[arg(long, env = "WADI_S3_ALLOW_HTTP", num_args = 0..=1, default_missing_value = "true", value_parser = boolish())]
    #[serde(skip_serializing_if = "Option::is_none")]
    s3_allow_http: Option<bool>,
    /// Where metadata and leases are kept [default: embedded]. With embedded a second process on the same object
    /// store is refused or takes over; several gateways need etcd.
    #[arg(long, env = "WADI_META", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
    /// Endpoints of etcd, with commas between; all of them http or all https.
    #[arg(long, env = "WADI_ETCD_ENDPOINTS", value_delimiter = ',', value_name = "URL,…")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    etcd_endpoints: Vec<String>,
    /// A file with the certificates (PEM) that sign those of etcd, for https endpoints [default: the system's].
    #[arg(long, env = "WADI_ETCD_CA", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd_ca: Option<PathBuf>,
    /// A file with the certificate (PEM) that this process shows to etcd, if etcd asks for one.
    #[arg(long, env = "WADI_ETCD_CERT", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd_cert: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, env = "WADI_ETCD_KEY", value_name = "FILE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd_key: Option<PathBuf>,
    /// Shards of a new cluster [default: 4 in dev, 32 else]. Fixed when the cluster is made; each writes at most one
    /// object at a time, so more shards are more parallelism and more requests.
    #[arg(long, env = "WADI_SHARDS", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u32>,
    /// Most bytes that are accepted and not yet acked [default: 256MiB, 128MiB in dev]. Beyond it writes are answered 429.
    #[arg(long, env = "WADI_MEMORY_UNACKED", value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_unacked: Option<ByteSize>,
    /// Cache of blocks and chunks read from the object store [default: 256MiB, 64MiB in dev].
    #[arg(long, env = "WADI_MEMORY_BLOCK_CACHE", value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_block_cache: Option<ByteSize>,
    /// The newest log objects, kept in memory for tailing readers [default: 256MiB, 64MiB in dev].
    #[arg(long, env = "WADI_MEMORY_TAIL", value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_tail: Option<ByteSize>,
    /// Rows of primary-key tables, kept for upserts and lookups [default: 256MiB, 64MiB in dev].
    #[arg(long, env = "WADI_MEMORY_ROW_CACHE", value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_row_cache: Option<ByteSize>,
    /// A directory on a local disk that caches what was read from S3, across restarts [default: none, memory alone]. It
    /// may be lost at any time.
    #[arg(long, env = "WADI_CACHE_DIR", value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_dir: Option<PathBuf>,
    /// Space for --cache-dir, reserved at the start [default: 10GiB].
    #[arg(long, env = "WADI_CACHE_DISK_BYTES", value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_disk_bytes: Option<ByteSize>,
    /// Least time between two writes of a busy shard [default: 50ms, 5ms on a local directory]. Longer means fewer requests to pay for, and
    /// later acks.
    #[arg(long, env = "WADI_LINGER", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    linger: Option<Duration>,
    /// How long shards stay with a gateway that is not heard of [default: 10s]. Shorter means faster takeover, and
    /// more false alarms.
    #[arg(long, env = "WADI_LEASE_TTL", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    lease_ttl: Option<Duration>,
    /// How often old partitions are dropped and new ones made ahead, in tables with auto-partition [default: 10m]. One
    /// gateway of all does it.
    #[arg(long, env = "WADI_AUTO_PARTITION_CHECK_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    auto_partition_check_interval: Option<Duration>,
    /// How often a compactor looks at a shard where nothing happens [default: 1m]. Each look is a request.
    #[arg(long, env = "WADI_COMPACT_CHECK_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    compact_check_interval: Option<Duration>,
    /// How long after a drop of a table or partition a compactor removes its rows from the shards' databases [default: 10m].
    /// That rewrites a database as a whole, so one does it at most once in six times this.
    #[arg(long, env = "WADI_DROP_DELAY", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    drop_delay: Option<Duration>,
    /// How long after a drop compactors begin to ask whether anything is left of it, so that its last entries in the meta store can go
    /// [default: 24h].
    #[arg(long, env = "WADI_FORGET_DELAY", value_name = "TIME", value_parser = humantime::parse_duration, hide = true)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    forget_delay: Option<Duration>,
    /// How old rows get before compactors gather them in packs, which many readers read cheaply [default: 10m]. Much data is packed sooner.
    /// The gateways' setting.
    #[arg(long, env = "WADI_PACK_INTERVAL", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    pack_interval: Option<Duration>,
    /// How long a compactor keeps objects that nobody needs any more [default: 2h]. Readers that began before may still need them.
    #[arg(long, env = "WADI_DELETION_GRACE", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(skip_serializing_if = "Option::is_none", with = "humantime_serde")]
    deletion_grace: Option<Duration>,
    /// Form of the log on stderr [default: text in dev, json else].
    #[arg(long, env = "WADI_LOG_FORMAT", value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_format: Option<LogFormat>,
    /// What is logged: error, warn, info, debug, trace, or by module (`info,wadi_store=debug`) [default: info,slatedb=warn].
    #[arg(long, env = "WADI_LOG_LEVEL", value_name = "FILTER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    log_level: Option<String>,
    /// An OTLP receiver (gRPC) to which traces, metrics and the log are exported, such as http://127.0.0.1:4317 [default: what OTEL_EXPORTER_OTLP_ENDPOINT
    /// says, else none].
    #[arg(long, env = "WADI_OTLP_ENDPOINT", value_name = "URL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    otlp_endpoint: Option<String>,
    /// How many of the traces that begin here are exported: from 0, none, to 1, all [default: 0.1]. Those that clients began are
    /// exported if theirs are.
    #[arg(long, env = "WADI_TRACE_SAMPLE_RATIO", value_name = "RATIO")]
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_sample_ratio: Option<f64>,
}

/// The configuration part of a server command's line.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// A TOML file. Its keys are the flags' names with `_`; variables and flags win over it.
    #[arg(long, env = "WADI_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the configuration that results, and stop.
    #[arg(long, env = "WADI_PRINT_CONFIG", value_parser = boolish())]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) flags: ServerFlags,
}

impl ConfigArgs {
    /// Whether neither flags, variables nor a file say where data lives.
    pub(crate) fn names_no_store(&self) -> bool {
        self.config.is_none() && self.flags.data_dir.is_none() && self.flags.object_store.is_none()
    }
}

/// Which server the configuration is for: they start from different defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    /// `wadi dev`: one process on a local directory, small on memory.
    Dev,
    /// `wadi gateway`: needs to be told its object store.
    Gateway,
    /// `wadi compactor`: needs to be told the object store and the etcd of its gateways.
    Compactor,
}

impl ServerConfig {
    fn defaults(kind: ServerKind) -> ServerConfig {
        let dev = kind == ServerKind::Dev;
        let memory = |gateway| if dev { ByteSize::mib(64) } else { ByteSize::mib(gateway) };
        ServerConfig {
            listen: SocketAddr::from((
                [127, 0, 0, 1],
                if kind == ServerKind::Compactor { 8081 } else { 8080 },
            )),
            address_file: None,
            advertise: None,
            insecure: false,
            data_dir: None,
            object_store: None,
            s3_endpoint: None,
            s3_region: None,
            s3_allow_http: false,
            meta: Meta::Embedded,
            etcd_endpoints: Vec::new(),
            etcd_ca: None,
            etcd_cert: None,
            etcd_key: None,
            shards: if dev { 4 } else { 32 },
            memory_unacked: ByteSize::mib(if dev { 128 } else { 256 }),
            memory_block_cache: memory(256),
            memory_tail: memory(256),
            memory_row_cache: memory(256),
            cache_dir: None,
            cache_disk_bytes: ByteSize::mib(10 << 10),
            linger: None,
            lease_ttl: Duration::from_secs(10),
            auto_partition_check_interval: Duration::from_secs(600),
            compact_check_interval: Duration::from_secs(60),
            drop_delay: Duration::from_secs(600),
            forget_delay: Duration::from_secs(24 * 3600),
            pack_interval: Duration::from_secs(600),
            deletion_grace: Duration::from_secs(2 * 3600),
            log_format: if dev { LogFormat::Text } else { LogFormat::Json },
            log_level: "info,slatedb=warn".to_owned(),
            otlp_endpoint: None,
            trace_sample_ratio: 0.1,
        }
    }

    /// Lays file, environment and flags over the defaults, and checks the result.
    pub(crate) fn load(kind: ServerKind, args: &ConfigArgs) -> Result<ServerConfig, Failure> {
        let mut layers = Figment::from(Serialized::defaults(ServerConfig::defaults(kind)));
        if let Some(path) = &args.config {
            if !path.is_file() {
                return Err(Failure::usage(format!("the configuration {} is no file", path.display())));
            }
            layers = layers.merge(Toml::file_exact(path));
        }
        layers = layers.merge(Serialized::defaults(&args.flags));
        let mut config: ServerConfig = layers.extract().map_err(|e| Failure::usage(explain(e)))?;
        if kind == ServerKind::Dev && config.data_dir.is_none() && config.object_store.is_none() {
            config.data_dir = Some(PathBuf::from("./wadi-data"));
        }
        if kind == ServerKind::Compactor && config.meta == Meta::Embedded {
            return Err(Failure::usage(
                "a compactor with embedded metadata would be alone: it shares etcd with gateways",
            )
            .hint(
                "give --meta etcd --etcd-endpoints …; with embedded metadata the gateway compacts itself",
            ));
        }
        config.validate()?;
        Ok(config)
    }

    /// The object store's URL: as given, or of the data directory.
    pub(crate) fn object_store_url(&self) -> Result<String, Failure> {
        match (&self.object_store, &self.data_dir) {
            (Some(url), _) => Ok(url.clone()),
            (None, Some(dir)) => {
                let dir = std::path::absolute(dir).map_err(|e| {
                    Failure::usage(format!("data_dir {} cannot be used: {e}", dir.display()))
                })?;
                Ok(format!("file://{}", dir.display()))
            }
            (None, None) => Err(Failure::usage("no object store is named").hint(
                "give --object-store s3://bucket/prefix (WADI_OBJECT_STORE), or --data-dir for a local directory",
            )),
        }
    }

    /// The configuration as a file that `--config` reads.
    pub(crate) fn to_toml(&self) -> Result<String, Failure> {
        toml::to_string(self).map_err(|e| Failure::new(format!("the configuration is no TOML: {e}")))
    }
}

/// What is wrong with a layer, and where.
fn explain(error: figment::Error) -> String {
    let place = error.metadata.as_ref().map_or_else(String::new, |m| match &m.source {
        Some(source) => format!(" in {source}"),
        None => String::new(),
    });
    match &error.kind {
        Kind::UnknownField(name, known) => {
            format!(
                "the configuration{place} has an unknown key \"{name}\"{}",
                did_you_mean(nearest(name, known.iter().copied()))
            )
        }
        kind => format!("the configuration{place} is wrong at \"{}\": {kind}", error.path.join(".")),
    }
}
