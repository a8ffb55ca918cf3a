//! What a gateway must be told to start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use wadi_store::Settings;
pub use wadi_store::metadata::MetaConfig;
use wadi_store::objects::S3Options;

/// A gateway's configuration.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where other processes of the cluster reach this one, as a URL; the address that is listened on, if it is not said.
    pub advertise: Option<String>,
    /// The object store: a directory, `file:///…` or `s3://bucket/prefix`.
    pub object_store: String,
    /// How to reach S3.
    pub s3: S3Options,
    /// Where metadata lives.
    pub meta: MetaConfig,
    /// How many shards a new cluster gets.
    pub shards: u32,
    /// How shards behave.
    pub settings: Settings,
    /// Threads for encoding and decoding.
    pub cpu_threads: usize,
    /// Limits of requests.
    pub limits: Limits,
    /// How often old partitions are dropped and new ones made ahead.
    pub auto_partition_interval: Duration,
    /// Where the address that is listened on is written to, for scripts that start with port 0.
    pub address_file: Option<PathBuf>,
}

/// Limits of requests and answers.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most bytes of a body as sent.
    pub body_sent: usize,
    /// Most bytes of a body once decompressed, and of the columns that it becomes.
    pub body_decoded: usize,
    /// Most rows of a body.
    pub body_rows: u64,
    /// Bytes of bodies that are received and decoded at once, over all requests; beyond it 429.
    pub bodies: usize,
    /// Most bytes that one log read answers about.
    pub read_bytes: usize,
    /// Bytes that all log reads hold at once, until their clients have them.
    pub reads: usize,
    /// How long a client may take nothing of its answer before it is cut off.
    pub stall: Duration,
    /// Longest wait of a log read for new rows.
    pub wait: Duration,
    /// How long a request waits for a shard that is being opened.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        const MIB: usize = 1 << 20;
        Limits {
            body_sent: 64 * MIB,
            body_decoded: 64 * MIB,
            body_rows: 5_000_000,
            bodies: 192 * MIB,
            read_bytes: 16 * MIB,
            reads: 64 * MIB,
            stall: Duration::from_secs(60),
            wait: Duration::from_secs(60),
            patience: Duration::from_secs(15),
        }
    }
}
