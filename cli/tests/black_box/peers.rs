//! Real servers beside Wadi: etcd, and S3 servers that hold conditional writes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::harness::{Api, PATIENCE, Process, send};

/// What S3 servers without own users take as credentials.
pub(crate) const CREDENTIALS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test-secret")];

/// A server on loopback, with a directory of its own.
#[derive(Debug)]
pub(crate) struct Peer {
    directory: TempDir,
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    install: &'static str,
    url: String,
    process: Option<Process>,
}

impl Peer {
    /// etcd of one member.
    pub(crate) async fn etcd() -> Peer {
        let directory = tempfile::tempdir().unwrap();
        let [client, peer] = free_ports().map(|port| format!("http://127.0.0.1:{port}"));
        let data = directory.path().join("etcd").display().to_string();
        let cluster = format!("m={peer}");
        let args = [
            ["--data-dir", &data],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &cluster],
            ["--name", "m"],
        ];
        let mut args: Vec<String> = args.concat().into_iter().map(str::to_owned).collect();
        args.push("--unsafe-no-fsync".to_owned());
        let install = "the package etcd-server (`make tools`)";
        let etcd = Peer {
            directory,
            program: "etcd".into(),
            args,
            env: Vec::new(),
            install,
            url: client,
            process: None,
        };
        etcd.started("/health").await
    }

    /// ministack: light, keeps objects in memory.
    pub(crate) async fn ministack() -> Peer {
        let directory = tempfile::tempdir().unwrap();
        let [port] = free_ports();
        let state = directory.path().join("state").display().to_string();
        let env =
            [("BIND_HOST", "127.0.0.1".to_owned()), ("GATEWAY_PORT", port.to_string()), ("STATE_DIR", state)];
        let peer = Peer {
            directory,
            program: of_environment("ministack"),
            args: Vec::new(),
            env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            install: "the Python environment of the tests (`make tools`)",
            url: format!("http://127.0.0.1:{port}"),
            process: None,
        };
        peer.started("/").await.with_bucket().await
    }

    /// SeaweedFS: keeps objects on disk, so it may be killed.
    pub(crate) async fn seaweedfs() -> Peer {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("weed");
        std::fs::create_dir(&data).unwrap();
        let names = ["master", "filer", "volume", "admin", "s3", "s3.iceberg", "s3.lance"];
        let ports: [u16; 7] = free_ports();
        let flag = |(name, port): (&str, u16)| match name.split_once('.') {
            Some((server, what)) => format!("-{server}.port.{what}={port}"),
            None => format!("-{name}.port={port}"),
        };
        let mut args = vec!["-logtostderr=true".to_owned(), "mini".to_owned()];
        args.push(format!("-dir={}", data.display()));
        args.extend(
            ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false"].map(str::to_owned),
        );
        args.extend(names.into_iter().zip(ports).map(flag));
        let peer = Peer {
            directory,
            program: of_environment("weed"),
            args,
            env: Vec::new(),
            install: "the Python environment of the tests (`make tools`)",
            url: format!("http://127.0.0.1:{}", ports[4]),
            process: None,
        };
        peer.started("/").await.with_bucket().await
    }

    /// rotel, an OTLP receiver, at `url` over gRPC; it writes what it takes into its log.
    pub(crate) async fn rotel() -> Peer {
        let directory = tempfile::tempdir().unwrap();
        let [grpc, http] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        let pid = directory.path().join("pid").display().to_string();
        let args = [
            "start",
            "--otlp-grpc-endpoint",
            &grpc,
            "--otlp-http-endpoint",
            &http,
            "--exporter",
            "blackhole",
            "--debug-log",
            "traces",
            "--debug-log",
            "metrics",
            "--debug-log",
            "logs",
            "--debug-log-verbosity",
            "detailed",
            "--pid-file",
            &pid,
        ];
        let args = args.map(str::to_owned).to_vec();
        let program = of_packages("rotel/rotel-agent");
        let install = "the Python environment of the tests (`make tools`)";
        let url = format!("http://{http}");
        let peer = Peer { directory, program, args, env: Vec::new(), install, url, process: None };
        Peer { url: format!("http://{grpc}"), ..peer.started("/").await }
    }

    /// Prometheus, which scrapes these servers; nothing if it is not installed.
    pub(crate) async fn prometheus(targets: &[&str]) -> Option<Peer> {
        Command::new("prometheus").arg("--version").output().ok()?;
        let directory = tempfile::tempdir().unwrap();
        let [port] = free_ports().map(|port| format!("127.0.0.1:{port}"));
        let targets: Vec<&str> = targets.iter().map(|url| url.trim_start_matches("http://")).collect();
        let config = format!(
            "scrape_configs: [{{job_name: wadi, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{{targets: {targets:?}}}]}}]"
        );
        let file = directory.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let data = directory.path().join("data");
        let args = vec![
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", data.display()),
            format!("--web.listen-address={port}"),
        ];
        let (install, url) = ("the package prometheus", format!("http://{port}"));
        let peer = Peer {
            directory,
            program: "prometheus".into(),
            args,
            env: Vec::new(),
            install,
            url,
            process: None,
        };
        Some(peer.started("/-/ready").await)
    }

    /// What it has written to its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The flags of a server on `s3://wadi/<prefix>` at this peer.
    pub(crate) fn s3_flags(&self, prefix: &str) -> String {
        s3_flags(&self.url, prefix)
    }

    /// Starts it, the first time or after [`Peer::kill`], with what it had.
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory.path());
        let started = Process::start(&mut command, &self.directory.path().join("log"));
        let process = started.unwrap_or_else(|e| {
            panic!("{} does not start ({e}): install {}", self.program.display(), self.install)
        });
        self.process = Some(process);
    }

    /// Leaves the directory, with data and log in it, when the test ends.
    pub(crate) fn keep(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }

    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    async fn started(mut self, path: &str) -> Peer {
        self.start();
        let api = Api::new(&self.url);
        let deadline = Instant::now() + PATIENCE;
        while send(api.request(Method::GET, path)).await.is_err() {
            let ended = self.process.as_mut().and_then(Process::exit_code);
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < deadline, "{} {ended:?}\n{}", self.url, log());
            sleep(Duration::from_millis(50)).await;
        }
        self
    }

    /// Makes the bucket `wadi`; the servers take requests without signature.
    async fn with_bucket(self) -> Peer {
        let api = Api::new(&self.url);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let made = send(api.request(Method::PUT, "/wadi")).await;
            if made.as_ref().is_ok_and(|answer| answer.status == 200) {
                return self;
            }
            assert!(Instant::now() < deadline, "no bucket: {made:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The flags of a server on `s3://wadi/<prefix>` at this endpoint.
pub(crate) fn s3_flags(endpoint: &str, prefix: &str) -> String {
    format!(
        "--object-store s3://wadi/{prefix} --s3-endpoint {endpoint} --s3-region us-east-1 --s3-allow-http"
    )
}

/// A program of the project's Python environment.
pub(crate) fn of_environment(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join(".venv/bin").join(name)
}

/// A program that lies in a Python package of the project's environment.
fn of_packages(path: &str) -> PathBuf {
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(".venv/lib");
    let versions = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let mut found = versions.map(|version| version.path().join("site-packages").join(path));
    found.find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(path))
}

/// Ports below those that the system gives to others by itself, so that they stay free while a server is restarted;
/// and low enough that port + 10000, which SeaweedFS takes too, is one.
fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = std::process::id().wrapping_mul(97);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    [(); N].map(|()| {
        loop {
            let number = base.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = 10_000 + (number % 12_000) as u16;
            if is_free(port) && is_free(port + 10_000) {
                break port;
            }
        }
    })
}
