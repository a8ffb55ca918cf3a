//! A server of the benchmark's own: a process of this program on a directory that goes with it.
//!
//! It takes no `WADI_*` variables, so that two people who repeat a measurement measure the same.

use std::env;
use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use wadi_client::Client;

use crate::context::Context;
use crate::failure::Failure;

/// How long a server may take to open its shards.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the server is started.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArgs {
    /// Shards of the server.
    #[arg(long, env = "WADI_SHARDS", default_value_t = 4)]
    pub(crate) shards: u32,
    /// Least time between two writes of a busy shard: what gateways on S3 have. They wait 250ms where chunks are small.
    #[arg(long, env = "WADI_LINGER", default_value = "50ms", value_parser = humantime::parse_duration)]
    linger: Duration,
    /// More flags for the server, behind `--`.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// The place of a server, which outlives it.
pub(crate) struct BenchPlace {
    args: ServerArgs,
    directory: TempDir,
}

/// A running server. It ends, as if it were killed, when it is dropped.
pub(crate) struct BenchServer {
    child: Child,
    /// A client for it.
    pub(crate) client: Client,
}

impl BenchPlace {
    /// A place without data.
    pub(crate) fn new(args: ServerArgs) -> Result<BenchPlace, Failure> {
        let failed = |e| Failure::new(format!("no directory can be made for the server's data: {e}"));
        let directory = tempfile::Builder::new().prefix("wadi-bench-").tempdir().map_err(failed)?;
        Ok(BenchPlace { args, directory })
    }

    /// Starts a server on what is there, with some more flags, and waits until it owns its shards.
    pub(crate) async fn start(&self, context: &Context, flags: &[&str]) -> Result<BenchServer, Failure> {
        let failed = |e| Failure::new(format!("the server cannot be started: {e}"));
        let at = |name| self.directory.path().join(name);
        let (address, log) = (at("address"), at("log"));
        // It is there from the last one, if there was one.
        let _ = std::fs::remove_file(&address);
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WADI_")) {
            command.env_remove(name);
        }
        command.arg("dev").args(["--listen", "127.0.0.1:0"]);
        // Who names an object store looks after what is in it.
        if !self.args.flags.iter().any(|flag| flag.starts_with("--object-store")) {
            command.arg("--data-dir").arg(at("data"));
        }
        command.arg("--address-file").arg(&address).args(["--shards", &self.args.shards.to_string()]);
        command.args(["--linger", &humantime::format_duration(self.args.linger).to_string()]);
        command.args(&self.args.flags).args(flags);
        let output = File::create(&log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        let begun = Instant::now();
        let mut client = None;
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Failure::new(format!("the server ended with {status}: {}", log.trim())));
            }
            if client.is_none()
                && let Ok(url) = std::fs::read_to_string(&address)
                && url.ends_with('\n')
            {
                let context = context.at(url.trim());
                client = Some(context.client_with(Duration::from_secs(30), Default::default())?);
            }
            if let Some(client) = &client
                && client.ready().await.is_ok()
            {
                return Ok(BenchServer { child, client: client.clone() });
            }
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new(format!("the server is not ready after {PATIENCE:?}")));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl BenchServer {
    /// Ends the server at once.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(|e| Failure::new(format!("the server cannot be ended: {e}")))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }
}
