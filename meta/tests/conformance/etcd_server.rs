//! A real etcd of one member, on free loopback ports and a temporary directory.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use wadi_meta::etcd::{EtcdOptions, EtcdStore};

/// Killed when it is dropped.
pub(crate) struct EtcdServer {
    dir: TempDir,
    client_url: String,
    peer_url: String,
    child: Option<Child>,
}

impl EtcdServer {
    pub(crate) async fn start() -> Self {
        let [client, peer] = free_ports();
        let mut server = Self {
            dir: tempfile::tempdir().unwrap(),
            client_url: format!("http://127.0.0.1:{client}"),
            peer_url: format!("http://127.0.0.1:{peer}"),
            child: None,
        };
        server.run();
        server.connect("ready").await;
        server
    }

    /// Starts it again, after [`EtcdServer::kill`], with what it had.
    pub(crate) fn run(&mut self) {
        let child = Command::new("etcd")
            .args(["--name", "m", "--unsafe-no-fsync", "--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.dir.path())
            .args(["--listen-client-urls", &self.client_url, "--advertise-client-urls", &self.client_url])
            .args(["--listen-peer-urls", &self.peer_url, "--initial-advertise-peer-urls", &self.peer_url])
            .args(["--initial-cluster", &format!("m={}", self.peer_url)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("install etcd-server"));
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.client_url
    }

    /// A store under a prefix of its own, as soon as etcd answers.
    pub(crate) async fn connect(&self, prefix: &str) -> EtcdStore {
        let mut last = None;
        for _ in 0..100 {
            let options = EtcdOptions::new(vec![self.client_url.clone()], prefix);
            match EtcdStore::connect(options).await {
                Ok(store) => return store,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("etcd does not start: {last:?}");
    }

    pub(crate) async fn client(&self) -> etcd_client::Client {
        etcd_client::Client::connect([&self.client_url], None).await.unwrap()
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports below those that the system gives to others by itself, so that they stay free while etcd is restarted.
fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let base = std::process::id().wrapping_mul(97);
    [(); N].map(|()| {
        loop {
            let number = base.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = 20_000 + (number % 12_000) as u16;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break port;
            }
        }
    })
}
