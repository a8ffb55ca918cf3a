//! Chooses faults by a seed, makes them, heals them, and measures how long it takes until rows are acked again.
//!
//! Kinds of faults come as from a pack of cards: all of them once, in the seed's order, then all again. So each kind has its turn in a
//! long run, and a short one has many.

use std::fmt;
use std::io::{Seek, Write as _};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::cluster::{Cluster, LEASE, Node, SMALL_DISK};
use crate::harness::{Api, send};
use crate::link::Weather;
use crate::load::{Tally, Write};

/// V1 asks for 10 s. Here a machine may be busy with other things, so only a hang fails; the times are printed.
const ACKS_AGAIN: Duration = Duration::from_secs(60);

/// Parts of an outage of etcd as a cluster without quorum makes it.
const NO_QUORUM: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    KillGateway,
    EndGateway,
    PauseGateway,
    KillCompactor,
    PauseCompactor,
    Etcd(Weather),
    S3(Weather),
    Peers(Weather),
    /// One process gets 503 from S3.
    RefuseOne,
    RefuseAll,
    LoseAnswers,
    KillEtcd,
    KillS3,
    RevokeLeases,
    NoQuorum,
    FillDisk,
    SpoilDisk,
}

const SLOW: Weather = Weather::Slow(Duration::from_millis(300));
const NARROW: Weather = Weather::Narrow(64 << 10);

const KINDS: [Kind; 25] = [
    Kind::KillGateway,
    Kind::EndGateway,
    Kind::PauseGateway,
    Kind::KillCompactor,
    Kind::PauseCompactor,
    Kind::Etcd(Weather::Cut),
    Kind::Etcd(Weather::Frozen),
    Kind::Etcd(SLOW),
    Kind::S3(Weather::Cut),
    Kind::S3(Weather::Frozen),
    Kind::S3(SLOW),
    Kind::S3(NARROW),
    Kind::Peers(Weather::Cut),
    Kind::Peers(Weather::Frozen),
    Kind::Peers(SLOW),
    Kind::Peers(NARROW),
    Kind::RefuseOne,
    Kind::RefuseAll,
    Kind::LoseAnswers,
    Kind::KillEtcd,
    Kind::KillS3,
    Kind::RevokeLeases,
    Kind::FillDisk,
    Kind::SpoilDisk,
    Kind::NoQuorum,
];

/// A fault: its kind, and the process that it meets, where it meets one.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: Kind,
    node: Option<usize>,
    lasts: Duration,
}

/// What is printed of a fault.
struct Told<'a>(&'a Fault, &'a [Node]);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told(fault, nodes) = self;
        write!(f, "{:?}", fault.kind)?;
        if let Some(node) = fault.node {
            write!(f, " of {}", nodes[node].name)?;
        }
        write!(f, " for {:.1} s", fault.lasts.as_secs_f64())
    }
}

pub(super) struct Director<'a> {
    cluster: &'a mut Cluster,
    random: StdRng,
    seed: u64,
    kinds: Vec<Kind>,
    /// Kinds that are still to come before all come again.
    left: Vec<Kind>,
    tables: &'a [String],
    tally: Tally,
    probes: Vec<Write>,
}

impl<'a> Director<'a> {
    /// `long` allows faults that last for a minute.
    pub(super) fn new(
        cluster: &'a mut Cluster,
        seed: u64,
        long: bool,
        tables: &'a [String],
        tally: Tally,
    ) -> Director<'a> {
        let kinds = KINDS.into_iter().filter(|kind| long || *kind != Kind::NoQuorum).collect();
        let random = StdRng::seed_from_u64(seed);
        Director { cluster, random, seed, kinds, left: Vec::new(), tables, tally, probes: Vec::new() }
    }

    /// Makes trouble for so long, and heals it. Gives the requests by which it has measured.
    pub(super) async fn run(mut self, trouble: Duration) -> Vec<Write> {
        let began = Instant::now();
        println!("torture with seed {}", self.seed);
        self.measure().await;
        while began.elapsed() < trouble {
            // Mostly one at a time; several show what one alone does not.
            let several = [1, 1, 1, 2, 2, 3][self.random.random_range(0..6)];
            let mut faults: Vec<Fault> = Vec::with_capacity(several);
            for _ in 0..several {
                let fault = self.choose();
                // Two on one process would heal each other.
                if fault.node.is_none() || faults.iter().all(|other| other.node != fault.node) {
                    faults.push(fault);
                }
            }
            let told: Vec<String> =
                faults.iter().map(|fault| Told(fault, &self.cluster.nodes).to_string()).collect();
            println!(
                "{:6.1} s, {} acks: {}",
                began.elapsed().as_secs_f64(),
                self.tally.count(),
                told.join(" and ")
            );
            self.play(&faults).await;
            let again = self.measure().await;
            self.cluster.count().await;
            let longest = self.tally.take_longest();
            println!(
                "    acks from all tables {:.1} s after healing; longest request {:.1} s",
                again.as_secs_f64(),
                longest.as_secs_f64()
            );
            let quiet = Duration::from_millis(self.random.random_range(500..3000));
            self.cluster.wait(quiet).await;
        }
        self.cluster.until_ready().await;
        println!("{:6.1} s, {} acks: no more faults", began.elapsed().as_secs_f64(), self.tally.count());
        self.probes
    }

    fn choose(&mut self) -> Fault {
        if self.left.is_empty() {
            self.left.clone_from(&self.kinds);
            self.left.shuffle(&mut self.random);
        }
        let kind = self.left.pop().unwrap();
        let is_gateway: fn(&Node) -> bool = Node::is_gateway;
        let nodes = |wanted: fn(&Node) -> bool| -> Vec<usize> {
            (0..self.cluster.nodes.len()).filter(|n| wanted(&self.cluster.nodes[*n])).collect()
        };
        let (targets, seconds) = match kind {
            Kind::KillGateway => (nodes(is_gateway), 0.2..8.0),
            Kind::EndGateway | Kind::SpoilDisk => (nodes(is_gateway), 1.0..2.0),
            Kind::PauseGateway => {
                let lease = LEASE.as_secs_f64();
                (nodes(is_gateway), lease + 1.0..lease + 5.0)
            }
            Kind::KillCompactor => (nodes(|node| !node.is_gateway()), 0.2..5.0),
            Kind::PauseCompactor => (nodes(|node| !node.is_gateway()), 5.0..12.0),
            Kind::Etcd(_) | Kind::S3(_) => (nodes(|_| true), 2.0..12.0),
            Kind::Peers(_) => (nodes(is_gateway), 2.0..12.0),
            Kind::FillDisk => (nodes(|node| node.name == SMALL_DISK), 2.0..12.0),
            Kind::RefuseOne => (nodes(|_| true), 2.0..10.0),
            Kind::RefuseAll | Kind::LoseAnswers => (Vec::new(), 1.0..8.0),
            Kind::KillEtcd | Kind::KillS3 => (Vec::new(), 0.5..8.0),
            Kind::RevokeLeases => (Vec::new(), 1.0..2.0),
            Kind::NoQuorum => (Vec::new(), NO_QUORUM.as_secs_f64()..NO_QUORUM.as_secs_f64() + 1.0),
        };
        let node = match targets.len() {
            0 => None,
            count => Some(targets[self.random.random_range(0..count)]),
        };
        Fault { kind, node, lasts: Duration::from_secs_f64(self.random.random_range(seconds)) }
    }

    /// Begins all faults, and ends each one when its time has come.
    async fn play(&mut self, faults: &[Fault]) {
        let mut ends = Vec::with_capacity(faults.len());
        for fault in faults {
            self.begin(fault).await;
            ends.push((Instant::now() + fault.lasts, fault));
            let apart = Duration::from_millis(self.random.random_range(0..2000));
            self.cluster.wait(apart).await;
        }
        ends.sort_by_key(|(end, _)| *end);
        for (end, fault) in ends {
            self.cluster.wait(end.saturating_duration_since(Instant::now())).await;
            self.end(fault);
        }
    }

    async fn begin(&mut self, fault: &Fault) {
        let cluster = &mut *self.cluster;
        match (fault.kind, fault.node.map(|node| &mut cluster.nodes[node])) {
            (Kind::KillGateway | Kind::KillCompactor, Some(node)) => node.kill(),
            (Kind::EndGateway, Some(node)) => node.signal("TERM"),
            (Kind::PauseGateway | Kind::PauseCompactor, Some(node)) => node.signal("STOP"),
            (Kind::Etcd(weather), Some(node)) => node.to_etcd.set(weather),
            (Kind::S3(weather), Some(node)) => node.to_s3.set(weather),
            (Kind::Peers(weather), Some(node)) => node.inbound.set(weather),
            (Kind::RefuseOne, Some(node)) => node.proxy.refuse(true),
            (Kind::FillDisk, Some(node)) => {
                // It fails when the disk is full; a process that is just starting has none yet.
                if let Some(disk) = node.disk(cluster.disks.path()) {
                    let _ = std::fs::write(disk.join("filler"), vec![0; 64 << 20]);
                }
            }
            (Kind::SpoilDisk, Some(node)) => {
                if let Some(disk) = node.disk(cluster.disks.path()) {
                    spoil(&disk, &mut self.random);
                }
            }
            (Kind::RefuseAll, _) => cluster.nodes.iter().for_each(|node| node.proxy.refuse(true)),
            (Kind::LoseAnswers, _) => cluster.nodes.iter().for_each(|node| node.proxy.lose_answers(true)),
            (Kind::KillEtcd, _) => cluster.etcd.kill(),
            (Kind::KillS3, _) => cluster.s3.kill(),
            (Kind::RevokeLeases, _) => revoke_leases(cluster.etcd.url(), &mut self.random).await,
            (Kind::NoQuorum, _) => cluster.nodes.iter().for_each(|node| node.to_etcd.set(Weather::Cut)),
            (kind, None) => panic!("{kind:?} of nobody"),
        }
    }

    fn end(&mut self, fault: &Fault) {
        let cluster = &mut *self.cluster;
        match (fault.kind, fault.node.map(|node| &mut cluster.nodes[node])) {
            (Kind::KillGateway | Kind::KillCompactor, Some(node)) => node.start(),
            (Kind::PauseGateway | Kind::PauseCompactor, Some(node)) => node.signal("CONT"),
            (Kind::Etcd(_), Some(node)) => node.to_etcd.set(Weather::Fair),
            (Kind::S3(_), Some(node)) => node.to_s3.set(Weather::Fair),
            (Kind::Peers(_), Some(node)) => node.inbound.set(Weather::Fair),
            (Kind::RefuseOne, Some(node)) => node.proxy.refuse(false),
            (Kind::FillDisk, Some(node)) => {
                if let Some(disk) = node.disk(cluster.disks.path()) {
                    let _ = std::fs::remove_file(disk.join("filler"));
                }
            }
            (Kind::RefuseAll, _) => cluster.nodes.iter().for_each(|node| node.proxy.refuse(false)),
            (Kind::LoseAnswers, _) => cluster.nodes.iter().for_each(|node| node.proxy.lose_answers(false)),
            (Kind::KillEtcd, _) => cluster.etcd.start(),
            (Kind::KillS3, _) => cluster.s3.start(),
            (Kind::NoQuorum, _) => cluster.nodes.iter().for_each(|node| node.to_etcd.set(Weather::Fair)),
            // Who is told to end is started again when it has; a spoilt disk stays spoilt.
            (_, _) => {}
        }
    }

    /// V1: how long it takes until all processes listen and every log table has taken new rows.
    async fn measure(&mut self) -> Duration {
        let healed = Instant::now();
        let api = Api::new(self.cluster.url());
        let name = format!("probe-{}", self.probes.len());
        let random = &mut self.random;
        let mut probes: Vec<Write> =
            self.tables.iter().map(|table| Write::new(table, &name, 0, random)).collect();
        self.cluster.until_listening().await;
        let acked = join_all(probes.iter_mut().map(|probe| probe.complete(&api)));
        let looked_after = async {
            loop {
                self.cluster.wait(Duration::from_secs(1)).await;
            }
        };
        let limited = timeout(ACKS_AGAIN, acked);
        let acked = tokio::select! { acked = limited => acked.is_ok(), () = looked_after => false };
        assert!(acked, "no ack within {ACKS_AGAIN:?} of healing");
        self.probes.extend(probes);
        healed.elapsed()
    }
}

/// Writes over a part of each file of a cache.
fn spoil(disk: &Path, random: &mut StdRng) {
    for entry in std::fs::read_dir(disk).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            spoil(&path, random);
            continue;
        }
        let Ok(mut file) = std::fs::File::options().write(true).open(&path) else { continue };
        let length = file.metadata().map_or(0, |found| found.len());
        if length > 0 && file.seek(std::io::SeekFrom::Start(random.random_range(0..length))).is_ok() {
            let garbage: Vec<u8> = (0..64 << 10).map(|_| random.random()).collect();
            let _ = file.write_all(&garbage);
        }
    }
}

/// Takes back some of the leases, or all, as an administrator may.
async fn revoke_leases(etcd: &str, random: &mut StdRng) {
    let api = Api::new(etcd);
    let ask = async |path: &str, body: Value| {
        let answer = send(api.request(Method::POST, path).json(&body)).await;
        answer.ok().filter(|answer| answer.status == 200).map(|answer| answer.json())
    };
    // It may have been started just now.
    let mut leases = None;
    for _ in 0..20 {
        leases = ask("/v3/lease/leases", json!({})).await;
        if leases.is_some() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let leases = leases.map(|mut found| found["leases"].take()).unwrap_or_default();
    let mut count = 0;
    for lease in leases.as_array().into_iter().flatten() {
        if random.random_bool(0.6) {
            count += usize::from(ask("/v3/lease/revoke", json!({ "ID": lease["ID"] })).await.is_some());
        }
    }
    println!("    {count} leases revoked");
}
