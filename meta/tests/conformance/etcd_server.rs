//! A real etcd of one member, on free loopback ports and a temporary directory; with TLS if asked for.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use wadi_meta::etcd::{EtcdOptions, EtcdStore, EtcdTls};

/// Killed when it is dropped.
pub(crate) struct EtcdServer {
    dir: TempDir,
    client_url: String,
    peer_url: String,
    /// The signer's certificate, and those of client and server signed by it; the server asks for the client's.
    tls: Option<Pems>,
    child: Option<Child>,
}

/// Certificates and keys in PEM.
pub(crate) struct Pems {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pems {
    /// A signer, and one certificate for both ends, for `127.0.0.1`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let openssl = |line: &str| {
            let made = Command::new("openssl").current_dir(dir.path()).args(line.split(' ')).output();
            let made = made.expect("install openssl");
            assert!(made.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&made.stderr));
        };
        let file = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!("req -x509 {new_key} -keyout ca.key -out ca.pem -days 2 -subj /CN=signer"));
        openssl(&format!("req {new_key} -keyout key.pem -out request.pem -subj /CN=member"));
        let uses = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(dir.path().join("uses"), uses).unwrap();
        openssl(
            "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile uses",
        );
        Self { ca: file("ca.pem"), certificate: file("cert.pem"), key: file("key.pem") }
    }
}

impl EtcdServer {
    pub(crate) async fn start() -> Self {
        let server = Self::spawned(None);
        server.connect("ready").await;
        server
    }

    /// One that speaks TLS and asks its clients for certificates.
    pub(crate) async fn start_with_tls() -> Self {
        let server = Self::spawned(Some(Pems::new()));
        server.connect("ready").await;
        server
    }

    fn spawned(tls: Option<Pems>) -> Self {
        let [client, peer] = free_ports();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let mut server = Self {
            dir: tempfile::tempdir().unwrap(),
            client_url: format!("{scheme}://127.0.0.1:{client}"),
            peer_url: format!("http://127.0.0.1:{peer}"),
            tls,
            child: None,
        };
        server.run();
        server
    }

    pub(crate) fn tls(&self) -> &Pems {
        self.tls.as_ref().unwrap()
    }

    /// Starts it again, after [`EtcdServer::kill`], with what it had.
    pub(crate) fn run(&mut self) {
        let mut command = Command::new("etcd");
        if let Some(tls) = &self.tls {
            let files =
                [("ca", &tls.ca), ("cert", &tls.certificate), ("key", &tls.key)].map(|(name, pem)| {
                    let path = self.dir.path().join(format!("{name}.pem"));
                    std::fs::write(&path, pem).unwrap();
                    path
                });
            for (flag, file) in ["--trusted-ca-file", "--cert-file", "--key-file"].iter().zip(&files) {
                command.arg(flag).arg(file);
            }
            command.arg("--client-cert-auth");
        }
        let child = command
            .args(["--name", "m", "--unsafe-no-fsync", "--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.dir.path().join("data"))
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
            let mut options = EtcdOptions::new(vec![self.client_url.clone()], prefix);
            if let Some(Pems { ca, certificate, key }) = &self.tls {
                let identity = Some((certificate.clone().into_bytes(), key.clone().into_bytes()));
                options.tls = EtcdTls { ca: Some(ca.clone().into_bytes()), identity };
            }
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
