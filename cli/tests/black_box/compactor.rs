//! Compactors beside a gateway, without one, and inside one: databases stay small, and rows stay right.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wadi_meta::catalog::Dropped;
use wadi_model::env::Env;
use wadi_model::{ShardId, TableId};
use wadi_store::database::{LEVEL0_DUE, Place};
use wadi_store::objects;

use crate::harness::{Api, NDJSON, PATIENCE, Server, Setup};
use crate::keyed::create;
use crate::peers::Peer;

const SHARDS: u32 = 2;
const KEYS: u64 = 50;

/// The databases of a directory, as a compactor sees them.
fn place(data: &Path) -> Place {
    let objects = objects::open_directory(data.to_owned()).unwrap();
    Place { objects: objects.store, root: objects.root, env: Env::default(), local: true }
}

/// Files of level 0 of all shards.
async fn level0(place: &Place) -> Vec<usize> {
    let mut all = Vec::new();
    for shard in 0..SHARDS {
        all.push(place.look(ShardId(shard)).await.unwrap().map_or(0, |look| look.level0));
    }
    all
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(200)).await;
    }
}

async fn metric(api: &Api, name: &str) -> u64 {
    let text = api.get("/metrics").await.expect(200).text().to_owned();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.unwrap_or_else(|| panic!("no {name} in:\n{text}")).split(' ').nth(1).unwrap().parse().unwrap()
}

/// Makes `k bigint, v string` in four buckets, which lie on both shards; gives its path and id.
async fn create_kv(api: &Api, name: &str) -> (String, Dropped) {
    let path = create(api, name, "k bigint not null, v string", "k", json!({ "buckets": 4 })).await;
    let id = api.get(&path).await.expect(200).json()["id"].as_u64().unwrap();
    (path, Dropped { table: TableId(id), partition: None })
}

async fn upsert(api: &Api, table: &str, round: usize) {
    let rows: Vec<String> =
        (0..KEYS).map(|k| json!({ "k": k, "v": format!("{k} at {round}") }).to_string()).collect();
    api.post(&format!("{table}/upsert"), NDJSON, rows.join("\n")).await.expect(200);
}

/// Every key has the value of this round.
async fn check(api: &Api, table: &str, round: usize) {
    let found: BTreeSet<String> = api.scan(table, "").await.iter().map(Value::to_string).collect();
    let want = (0..KEYS).map(|k| json!({ "k": k, "v": format!("{k} at {round}") }).to_string()).collect();
    assert_eq!(found, want);
}

/// Ends a gateway in good order, which makes a file of level 0 of each shard that was written, and starts it again.
async fn again(setup: &Setup, mut server: Server) -> Server {
    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0, "{}", setup.log());
    setup.ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_compactors_serve_a_gateway_and_one_is_enough() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let shared = format!(
        "--object-store file://{} --meta etcd --etcd-endpoints {} --lease-ttl 6s",
        data.path().display(),
        etcd.url()
    );
    let compactor = format!("{shared} --compact-check-interval 1s --drop-delay 2s");
    let setups = [(); 2].map(|()| Setup::compactor(&compactor));
    // A compactor may be there first: it waits for the cluster.
    let mut first = setups[0].listening().await;
    let gateway = Setup::gateway(&format!("{shared} --shards {SHARDS}"));
    let mut server = gateway.ready().await;
    server.api.create_database().await;
    let (kept, kept_id) = create_kv(&server.api, "kept").await;
    let (gone, gone_id) = create_kv(&server.api, "gone").await;
    until("one takes both shards", async || metric(&first.api, "wadi_compactor_shards").await == 2).await;
    let mut second = setups[1].listening().await;
    for compactor in [&first, &second] {
        until("each takes one", async || metric(&compactor.api, "wadi_compactor_shards").await == 1).await;
    }

    let place = place(data.path());
    let rounds = 12;
    for round in 0..rounds {
        upsert(&server.api, &kept, round).await;
        upsert(&server.api, &gone, round).await;
        server = again(&gateway, server).await;
        if round == 6 {
            let files = |api| metric(api, "wadi_compactor_compacted_files_total");
            until("both compact", async || files(&first.api).await.min(files(&second.api).await) > 0).await;
            first.process.kill();
        }
    }
    until("the other one takes both", async || metric(&second.api, "wadi_compactor_shards").await == 2).await;
    until("files are merged", async || level0(&place).await.iter().all(|files| *files < LEVEL0_DUE)).await;
    check(&server.api, &kept, rounds - 1).await;
    check(&server.api, &gone, rounds - 1).await;

    // What was dropped leaves both databases, and nothing else does.
    let any = async |id: Dropped| {
        let mut any = Vec::new();
        for shard in 0..SHARDS {
            any.push(place.has_any(ShardId(shard), &[id]).await.unwrap());
        }
        any
    };
    assert_eq!((any(gone_id).await, any(kept_id).await), (vec![true; 2], vec![true; 2]));
    server.api.call(Method::DELETE, &gone, &json!({})).await.expect(204);
    until("rows leave the databases", async || any(gone_id).await == [false; 2]).await;
    assert_eq!(any(kept_id).await, [true; 2]);
    assert!(metric(&second.api, "wadi_compactor_dropped_entries_total").await > 0);
    check(&server.api, &kept, rounds - 1).await;
    let server = again(&gateway, server).await;
    check(&server.api, &kept, rounds - 1).await;
    let (anew, _) = create_kv(&server.api, "gone").await;
    assert_eq!(server.api.scan(&anew, "").await, [] as [Value; 0]);
    upsert(&server.api, &anew, 1).await;
    check(&server.api, &anew, 1).await;

    second.process.signal("TERM");
    assert_eq!(second.process.ends().await, 0, "{}", setups[1].log());
    for log in [setups[1].log(), gateway.log()] {
        assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_without_compactor_helps_itself_when_it_must() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setup = Setup::gateway(&format!(
        "--object-store file://{} --meta etcd --etcd-endpoints {} --lease-ttl 6s --shards {SHARDS}",
        data.path().display(),
        etcd.url()
    ));
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let (table, _) = create_kv(&server.api, "t").await;
    let place = place(data.path());
    let mut round = 0;
    while level0(&place).await.iter().any(|files| *files < 16) {
        assert_eq!(metric(&server.api, "wadi_store_compacted_files_total").await, 0, "too early");
        round += 1;
        upsert(&server.api, &table, round).await;
        server = again(&setup, server).await;
    }
    until("files are merged", async || level0(&place).await.iter().all(|files| *files < LEVEL0_DUE)).await;
    assert!(metric(&server.api, "wadi_store_compacted_files_total").await > 0);
    check(&server.api, &table, round).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_compacts_its_own_shards() {
    let setup = Setup::dev().args(&["--shards", "2", "--compact-check-interval", "1s"]);
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let (table, _) = create_kv(&server.api, "t").await;
    for round in 0..4 {
        upsert(&server.api, &table, round).await;
        server = again(&setup, server).await;
    }
    until("files are merged", async || {
        metric(&server.api, "wadi_compactor_compacted_files_total").await >= 2
    })
    .await;
    let place = place(&setup.data());
    until("few are left", async || level0(&place).await.iter().all(|files| *files < LEVEL0_DUE)).await;
    assert_eq!(metric(&server.api, "wadi_compactor_shards").await, 2);
    check(&server.api, &table, 3).await;
    let server = again(&setup, server).await;
    check(&server.api, &table, 3).await;
}
