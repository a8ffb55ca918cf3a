//! The processes of the torture and the links between them.
//!
//! Each gateway and compactor has links of its own to etcd and S3, and a proxy behind the latter. A gateway advertises a link too, so
//! that the other processes reach it by that one; clients come through the balancer. A process that ends by itself is started
//! again, as a service manager does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::balancer::Balancer;
use crate::harness::{Api, PATIENCE, Process, Setup, send};
use crate::link::Link;
use crate::peers::{CREDENTIALS, Peer, s3_flags};
use crate::proxy::Proxy;

pub(super) const LEASE: Duration = Duration::from_secs(6);

const GATEWAYS: [&str; 3] = ["gateway-a", "gateway-b", "gateway-c"];
const COMPACTORS: [&str; 2] = ["compactor-a", "compactor-b"];

/// The gateway whose cache has a small disk, which is lost with the process. Those of the others stay.
pub(super) const SMALL_DISK: &str = GATEWAYS[2];

/// How long a process that has failed rests before it is started again.
const REST: Duration = Duration::from_secs(1);

/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A gateway or a compactor.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: &'static str,
    setup: Setup,
    pub(super) to_etcd: Link,
    pub(super) to_s3: Link,
    /// Behind the link to S3.
    pub(super) proxy: Proxy,
    /// Where the others reach it.
    pub(super) inbound: Link,
    process: Option<Process>,
    /// When it is started again, after it has failed.
    again: Option<Instant>,
    /// As soon as it listens.
    api: Option<Api>,
    /// Counters of the process's earlier lives, and as they were last seen in this one.
    counted: (Counts, Counts),
}

/// Values of [`COUNTERS`].
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// What says whether faults had any effect.
const COUNTERS: [&str; 7] = [
    "wadi_store_takeovers_total",
    "wadi_store_poisoned_shards_total",
    "wadi_store_segment_disk_hits_total",
    "wadi_store_segment_disk_errors_total",
    "wadi_compactor_pack_rounds_total",
    "wadi_compactor_compacted_files_total",
    "wadi_compactor_deleted_objects_total",
];

fn add(to: &mut Counts, more: &Counts) {
    more.iter().for_each(|(name, count)| *to.entry(*name).or_default() += *count);
}

impl Node {
    async fn new(name: &'static str, etcd: &Peer, s3: &Peer, disk: &Path) -> Node {
        let proxy = Proxy::of(s3.url()).await;
        let (to_etcd, to_s3) = (Link::to(etcd.url()).await, Link::to(proxy.url()).await);
        let inbound = Link::to(NOWHERE).await;
        let shared = format!(
            "{} --meta etcd --etcd-endpoints {} --lease-ttl {}s",
            s3_flags(to_s3.url(), "torture"),
            to_etcd.url(),
            LEASE.as_secs()
        );
        let setup = if name.starts_with("gateway") {
            let disk = disk.join(name).display().to_string();
            std::fs::create_dir(&disk).unwrap();
            let flags = format!("--shards 6 --pack-interval 2s --advertise {}", inbound.url());
            let cache = format!(
                "--cache-dir {disk} --cache-disk-bytes 256MiB --memory-tail 1MiB --memory-block-cache 1MiB"
            );
            let setup = Setup::gateway(&format!("{shared} {flags} {cache}"));
            if name == SMALL_DISK {
                // A file system of the process's own, which may be filled.
                let mount = format!("mount -t tmpfs -o size=272m tmpfs {disk} && exec \"$0\" \"$@\"");
                setup.before(&format!("exec unshare -m bash -c '{mount}' \"$0\" \"$@\""))
            } else {
                setup
            }
        } else {
            Setup::compactor(&format!("{shared} --compact-check-interval 1s --deletion-grace 40s"))
        };
        let setup = setup.env(&CREDENTIALS);
        Node {
            name,
            setup,
            to_etcd,
            to_s3,
            proxy,
            inbound,
            process: None,
            again: None,
            api: None,
            counted: Default::default(),
        }
    }

    pub(super) fn is_gateway(&self) -> bool {
        self.name.starts_with("gateway")
    }

    /// Starts the process.
    pub(super) fn start(&mut self) {
        (self.api, self.again) = (None, None);
        add(&mut self.counted.0, &std::mem::take(&mut self.counted.1));
        self.process = Some(self.setup.spawn());
    }

    pub(super) fn kill(&mut self) {
        (self.process, self.again) = (None, None);
    }

    pub(super) fn signal(&self, name: &str) {
        if let Some(process) = &self.process {
            process.signal(name);
        }
    }

    /// The directory of the cache, as the process sees it.
    pub(super) fn disk(&self, disks: &Path) -> Option<PathBuf> {
        let own = disks.join(self.name).display().to_string();
        Some(format!("/proc/{}/root{own}", self.process.as_ref()?.pid()).into())
    }

    /// Reads the counters of the process, if it answers.
    async fn count(&mut self) {
        let Some(api) = &self.api else { return };
        let Ok(answer) = send(api.request(Method::GET, "/metrics")).await else { return };
        let lines = answer.text().lines().filter_map(|line| line.split_once(' '));
        let known = |name: &str| COUNTERS.into_iter().find(|known| *known == name);
        self.counted.1 =
            lines.filter_map(|(name, value)| Some((known(name)?, value.parse().ok()?))).collect();
    }

    /// Looks after the process; `true` if something has changed.
    fn look_after(&mut self) -> bool {
        let Some(process) = &mut self.process else {
            if self.again.is_some_and(|again| Instant::now() >= again) {
                self.start();
            }
            return false;
        };
        if let Some(code) = process.exit_code() {
            println!("    {} has ended with {code} and is started again", self.name);
            (self.process, self.api, self.again) = (None, None, Some(Instant::now()));
            if code != 0 {
                self.again = Some(Instant::now() + REST);
            }
            return true;
        }
        if self.api.is_some() {
            return false;
        }
        let Some(url) = self.setup.told_address() else { return false };
        self.inbound.lead_to(&url);
        self.api = Some(Api::new(&url));
        true
    }
}

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    pub(super) etcd: Peer,
    pub(super) s3: Peer,
    pub(super) disks: TempDir,
    balancer: Balancer,
}

impl Cluster {
    /// Starts all processes, and waits until all shards have owners.
    pub(super) async fn start() -> Cluster {
        let (etcd, s3) = (Peer::etcd().await, Peer::seaweedfs().await);
        let disks = tempfile::tempdir().unwrap();
        let mut nodes = Vec::new();
        for name in GATEWAYS.into_iter().chain(COMPACTORS) {
            nodes.push(Node::new(name, &etcd, &s3, disks.path()).await);
        }
        let mut cluster = Cluster { nodes, etcd, s3, disks, balancer: Balancer::of(&[]).await };
        cluster.nodes.iter_mut().for_each(Node::start);
        cluster.until_ready().await;
        cluster
    }

    /// Where clients go.
    pub(super) fn url(&self) -> &str {
        self.balancer.url()
    }

    /// The gateways that listen.
    pub(super) fn gateways(&self) -> Vec<Api> {
        self.nodes.iter().filter(|node| node.is_gateway()).filter_map(|node| node.api.clone()).collect()
    }

    /// Looks after the processes.
    pub(super) fn look_after(&mut self) {
        let changed = self.nodes.iter_mut().fold(false, |changed, node| node.look_after() | changed);
        if changed {
            let gateways = self.gateways();
            self.balancer.set(&gateways.iter().map(|api| api.url.as_str()).collect::<Vec<_>>());
        }
    }

    /// Looks after the processes for so long.
    pub(super) async fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep(Duration::from_millis(50).min(end - Instant::now())).await;
            self.look_after();
        }
    }

    /// Waits until all processes listen.
    pub(super) async fn until_listening(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(node) = self.nodes.iter().find(|node| node.api.is_none()) {
            assert!(Instant::now() < deadline, "{} does not listen:\n{}", node.name, node.setup.log());
            self.wait(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all processes listen and all shards are open.
    pub(super) async fn until_ready(&mut self) {
        self.until_listening().await;
        join_all(self.gateways().iter().map(Api::until_ready)).await;
    }

    /// Reads the counters of all processes. Gives their sums over all lives; a life that is killed counts as it was last seen.
    pub(super) async fn count(&mut self) -> Counts {
        join_all(self.nodes.iter_mut().map(Node::count)).await;
        let mut all = Counts::new();
        for node in &self.nodes {
            add(&mut all, &node.counted.0);
            add(&mut all, &node.counted.1);
        }
        all
    }

    /// No process may have met something that its authors held for impossible.
    pub(super) fn check_logs(&self) {
        for node in &self.nodes {
            let log = node.setup.log();
            let panicked = log.lines().find(|line| line.contains("panicked"));
            assert_eq!(panicked, None, "{}", node.name);
        }
    }

    /// Kills all processes, and starts them with nothing in memory. Gives one of the gateways.
    pub(super) async fn start_anew(&mut self) -> Api {
        self.nodes.iter_mut().for_each(Node::kill);
        self.nodes.iter_mut().for_each(Node::start);
        self.until_ready().await;
        self.gateways().swap_remove(0)
    }
}

/// After a failure everything that may explain it is kept.
impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("kept: etcd in {}", self.etcd.keep().display());
            println!("kept: S3 in {}", self.s3.keep().display());
            for node in &mut self.nodes {
                println!("kept: {} in {}", node.name, node.setup.keep().display());
            }
        }
    }
}
