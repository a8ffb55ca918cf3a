//! On S3 servers that hold conditional writes.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::harness::{NDJSON, Setup};
use crate::load::{Load, check, create_tables};
use crate::peers::{CREDENTIALS, Peer};

fn gateway(flags: &str) -> Setup {
    Setup::gateway(&format!("{flags} --shards 4 --lease-ttl 6s")).env(&CREDENTIALS)
}

/// Create, write, read, kill, start, read, write, end in good order, start, read.
async fn round_trip(setup: &Setup) {
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "bigint" }, { "name": "b", "type": "string" }]);
    let table = server.api.create_table(&json!({ "name": "s3", "columns": columns, "buckets": 3 })).await;
    let append = format!("{table}/append");
    for n in 0..9 {
        let answer = server.api.post(&append, NDJSON, format!("{{\"a\":{n},\"b\":\"x\"}}\n")).await;
        assert_eq!(answer.expect(200).json()["rows"], 1);
    }
    let sorted = async |server: &crate::harness::Server| {
        let mut found: Vec<i64> =
            server.api.scan(&table, "").await.iter().map(|row| row["a"].as_i64().unwrap()).collect();
        found.sort_unstable();
        found
    };
    assert_eq!(sorted(&server).await, (0..9).collect::<Vec<_>>());

    server.process.kill();
    server = setup.ready().await;
    assert_eq!(sorted(&server).await, (0..9).collect::<Vec<_>>());
    server.api.post(&append, NDJSON, "{\"a\":9}\n").await.expect(200);

    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0, "{}", setup.log());
    server = setup.ready().await;
    assert_eq!(sorted(&server).await, (0..10).collect::<Vec<_>>());
    assert_eq!(server.api.scan(&table, "?filter=a%20%3E%207&columns=a").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ministack_with_embedded_metadata() {
    let s3 = Peer::ministack().await;
    round_trip(&gateway(&s3.s3_flags("embedded"))).await;
}

/// What was read once is read from the local disk after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_cache_outlives_its_process() {
    let s3 = Peer::ministack().await;
    let disk = tempfile::tempdir().unwrap();
    let disk_flags = format!("--cache-dir {} --cache-disk-bytes 256MiB", disk.path().display());
    let setup = gateway(&format!("{} {disk_flags}", s3.s3_flags("disk")));
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "bigint" }]);
    let table = server.api.create_table(&json!({ "name": "s3", "columns": columns })).await;
    for n in 0..9 {
        server.api.post(&format!("{table}/append"), NDJSON, format!("{{\"a\":{n}}}\n")).await.expect(200);
    }
    // The first process reads from the tail in memory, the second one from S3, the third one from its disk.
    for misses in [0, 9, 0] {
        assert_eq!(server.api.scan(&table, "").await.len(), 9);
        let metrics = server.api.get("/metrics").await;
        let metrics = metrics.text();
        assert!(metrics.contains(&format!("wadi_store_segment_misses_total {misses}\n")), "{metrics}");
        server.process.signal("TERM");
        assert_eq!(server.process.ends().await, 0, "{}", setup.log());
        server = setup.ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ministack_with_etcd() {
    let (s3, etcd) = (Peer::ministack().await, Peer::etcd().await);
    let etcd_flags = format!("--meta etcd --etcd-endpoints {}", etcd.url());
    round_trip(&gateway(&format!("{} {etcd_flags}", s3.s3_flags("etcd")))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_with_etcd() {
    let (s3, etcd) = (Peer::seaweedfs().await, Peer::etcd().await);
    let etcd_flags = format!("--meta etcd --etcd-endpoints {}", etcd.url());
    round_trip(&gateway(&format!("{} {etcd_flags}", s3.s3_flags("etcd")))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_finds_both_servers_well_and_a_missing_one_not() {
    let (ministack, mut seaweedfs) = (Peer::ministack().await, Peer::seaweedfs().await);
    let doctor = |peer: &Peer| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wadi"));
        command.args(["--json", "doctor"]).args(peer.s3_flags("doctor").split(' ')).envs(CREDENTIALS);
        command.output().unwrap()
    };
    for peer in [&ministack, &seaweedfs] {
        let output = doctor(peer);
        assert!(output.status.success(), "{output:?}");
        let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            checks.as_array().is_some_and(|c| c.len() >= 3 && c.iter().all(|c| c["ok"] == true)),
            "{checks}"
        );
    }
    seaweedfs.kill();
    let output = doctor(&seaweedfs);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_survive_an_outage_of_the_object_store() {
    let mut s3 = Peer::seaweedfs().await;
    let etcd = Peer::etcd().await;
    let etcd_flags = format!("--meta etcd --etcd-endpoints {}", etcd.url());
    let server = gateway(&format!("{} {etcd_flags}", s3.s3_flags("outage"))).ready().await;
    let tables = create_tables(&server.api, 2).await;
    let urls = watch::Sender::new(server.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load::stubborn(urls.subscribe(), &stop);
    let producers = ["a", "b", "c", "d"];
    let producers =
        producers.iter().enumerate().map(|(n, name)| load.produce(&tables[n % 2], name, n as u64));
    let chaos = async {
        sleep(Duration::from_secs(2)).await;
        // Longer than the budget of a PUT, so that shards are given up and claimed anew.
        s3.kill();
        sleep(Duration::from_secs(8)).await;
        assert_eq!(server.api.get("/health").await.status, 200);
        s3.start();
        server.api.until_ready().await;
        sleep(Duration::from_secs(2)).await;
        stop.store(true, Ordering::Relaxed);
    };
    // Every producer ends with an ack of its last request, or the test hangs.
    let (writes, ()) = join(join_all(producers), chaos).await;
    let writes = writes.concat();
    assert!(writes.iter().all(crate::load::Write::is_acked));
    check(&server.api, &writes).await;
}
