//! Three gateways on one object store and one etcd: any of them answers any request, and they come and go without a failed one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all, join3};
use http::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::sleep;

use crate::balancer::Balancer;
use crate::harness::{Api, NDJSON, Server, Setup};
use crate::load::{Load, Tally, Write, check, create_tables};
use crate::peers::Peer;

/// A setup of gateways that share everything.
pub(crate) fn setup(etcd: &Peer, data: &tempfile::TempDir) -> Setup {
    Setup::gateway(&flags(etcd, data))
}

/// What all processes of such a cluster are told.
pub(crate) fn flags(etcd: &Peer, data: &tempfile::TempDir) -> String {
    let data = data.path().display();
    format!(
        "--object-store file://{data} --meta etcd --etcd-endpoints {} --lease-ttl 6s --shards 6",
        etcd.url()
    )
}

/// How many shards each gateway has, as the first one says it.
async fn loads(api: &Api) -> Vec<usize> {
    let status = api.get("/v1/status").await.expect(200).json();
    let own = status["gateway"].as_str().unwrap();
    let owner = |shard: &serde_json::Value| match shard["open"] == true {
        true => Some(own.to_owned()),
        false => shard["owner"]["gateway"].as_str().map(str::to_owned),
    };
    let shards = status["shards"].as_array().unwrap();
    let owners: Vec<String> = shards.iter().filter_map(owner).collect();
    let gateways = status["gateways"].as_object().unwrap();
    gateways.keys().map(|gateway| owners.iter().filter(|owner| *owner == gateway).count()).collect()
}

/// Waits until every gateway has its share of the six shards.
pub(crate) async fn until_even(servers: &[&Server]) {
    for server in servers {
        while loads(&server.api).await != vec![6 / servers.len(); servers.len()] {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_gateway_answers_any_request() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setups = [setup(&etcd, &data), setup(&etcd, &data), setup(&etcd, &data)];
    let a = setups[0].ready().await;
    let (b, c) = (setups[1].ready().await, setups[2].ready().await);
    let apis = [&a.api, &b.api, &c.api];
    until_even(&[&a, &b, &c]).await;

    // A log table, whose buckets are everywhere.
    a.api.create_database().await;
    let spec = json!({ "name": "l", "columns": [{ "name": "n", "type": "bigint" }], "bucket_key": ["n"], "buckets": 6 });
    let log = a.api.create_table(&spec).await;
    for round in 0..6u64 {
        let body: String = (0..50).map(|n| format!("{{\"n\":{}}}\n", round * 50 + n)).collect();
        let answer = apis[round as usize % 3].post(&format!("{log}/append"), NDJSON, body).await.expect(200);
        assert_eq!(answer.json()["rows"], 50);
        for api in apis {
            let count = api.get(&format!("{log}/count")).await.expect(200).json();
            assert_eq!(count["rows"], (round + 1) * 50, "what is acked is seen everywhere");
        }
    }
    let mut scans = Vec::new();
    for api in apis {
        let mut rows: Vec<u64> = api.scan(&log, "").await.iter().map(|r| r["n"].as_u64().unwrap()).collect();
        rows.sort_unstable();
        assert_eq!(rows, (0..300).collect::<Vec<_>>());
        let logs = join_all((0..6).map(|bucket| api.log(&log, bucket, "n"))).await;
        scans.push(logs);
        let offsets = api.get(&format!("{log}/offsets?at=2100-01-01T00:00:00Z")).await.expect(200).json();
        let latest = api.get(&format!("{log}/offsets")).await.expect(200).json();
        assert_eq!(offsets, latest);
    }
    assert!(scans.iter().all(|logs| *logs == scans[0]), "each bucket reads alike everywhere");

    // A primary-key table.
    let spec = json!({
        "name": "k", "primary_key": ["u", "i"], "bucket_key": ["u"], "buckets": 6,
        "columns": [{ "name": "u", "type": "bigint" }, { "name": "i", "type": "bigint" }, { "name": "v", "type": "string" }],
    });
    let keyed = b.api.create_table(&spec).await;
    let body: String =
        (0..120).map(|n| format!("{{\"u\":{},\"i\":{},\"v\":\"{n}\"}}\n", n % 12, n / 12)).collect();
    c.api.post(&format!("{keyed}/upsert"), NDJSON, body).await.expect(200);
    a.api
        .post(&format!("{keyed}/upsert?columns=u,i,v"), NDJSON, "{\"u\":3,\"i\":1,\"v\":\"new\"}")
        .await
        .expect(200);
    b.api.post(&format!("{keyed}/delete"), NDJSON, "{\"u\":4,\"i\":0}").await.expect(200);
    for api in apis {
        let found = api.get(&format!("{keyed}/lookup?u=3&i=1")).await.expect(200).json();
        assert_eq!(found["rows"][0]["v"], "new");
        let group = api.get(&format!("{keyed}/lookup?u=4")).await.expect(200).json();
        assert_eq!(group["rows"].as_array().unwrap().len(), 9);
        assert_eq!(api.scan(&keyed, "").await.len(), 119);
        assert_eq!(api.get(&format!("{keyed}/count")).await.expect(200).json()["rows"], 119);
    }
    // Pages that are asked for at another gateway each time.
    let (mut pages, mut token, mut turn) = (0, String::new(), 0);
    loop {
        let page = apis[turn % 3].get(&format!("{keyed}/scan?page_size=25{token}")).await.expect(200).json();
        pages += page["rows"].as_array().unwrap().len();
        turn += 1;
        let Some(next) = page["next_page_token"].as_str() else { break };
        token = format!("&page_token={next}");
    }
    assert_eq!(pages, 119);
    // A bad request is told in the same way, whoever owns the bucket.
    for api in apis {
        let problem = api.post(&format!("{keyed}/upsert"), NDJSON, "{\"u\":1}").await.expect(422).problem();
        assert_eq!(problem["side_effects"], "none");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_sees_rows_of_all_gateways() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setups = [setup(&etcd, &data), setup(&etcd, &data)];
    let (a, b) = (setups[0].ready().await, setups[1].ready().await);
    until_even(&[&a, &b]).await;
    a.api.create_database().await;
    let spec = json!({ "name": "l", "columns": [{ "name": "n", "type": "bigint" }], "bucket_key": ["n"], "buckets": 6 });
    let log = a.api.create_table(&spec).await;
    let request = b.api.request(Method::GET, &format!("{log}/tail?from=earliest&limit=60"));
    let followed = async { request.send().await.unwrap().text().await.unwrap() };
    let written = async {
        for n in 0..60 {
            a.api.post(&format!("{log}/append"), NDJSON, format!("{{\"n\":{n}}}")).await.expect(200);
        }
    };
    let (text, ()) = join(followed, written).await;
    let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["n"].as_u64().unwrap();
    let mut seen: Vec<u64> = text.lines().map(number).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<_>>());
}

/// Runs `wadi` against a server, and gives what it prints.
async fn wadi(url: &str, args: &[&str]) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_wadi"));
    let output = command.args(args).args(["--url", url]).output().await.unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_drained_and_comes_back() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setups = [setup(&etcd, &data), setup(&etcd, &data)];
    let (a, b) = (setups[0].ready().await, setups[1].ready().await);
    until_even(&[&a, &b]).await;
    let drained = wadi(&b.api.url, &["gateway", "drain"]).await;
    assert!(drained.contains("it may be ended"), "{drained}");
    // The other one has claimed them all, and opens them.
    while !loads(&a.api).await.contains(&6) {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(b.api.get("/ready").await.expect(503).json()["status"], "leaving");
    // It answers as before, and asks clients to go elsewhere.
    let databases = b.api.get("/v1/databases").await.expect(200);
    assert_eq!(databases.header("connection"), "close");
    let status = wadi(&b.api.url, &["status"]).await;
    assert!(status.contains("elsewhere") && status.contains(&a.api.url), "{status}");
    wadi(&b.api.url, &["gateway", "drain", "--undo"]).await;
    until_even(&[&a, &b]).await;
    b.api.get("/ready").await.expect(200);
}

/// One producer that never sends a request twice: every one must be acked at the first try.
async fn produce_once(api: &Api, table: &str, producer: &str, seed: u64, stop: &AtomicBool) -> Vec<Write> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut writes = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut write = Write::new(table, producer, writes.len() as u64, &mut random);
        let answer =
            write.send(api).await.unwrap_or_else(|e| panic!("{producer} lost its connection: {e:?}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        writes.push(write);
        sleep(Duration::from_millis(5)).await;
    }
    writes
}

/// `wadi bench append` again and again; how many requests it sent, of which none failed. It repeats what a client may repeat.
async fn bench(url: &str, stop: &AtomicBool) -> u64 {
    let mut requests = 0;
    while !stop.load(Ordering::Relaxed) {
        let args =
            ["--json", "bench", "append", "--duration", "2s", "--connections", "2", "--body-size", "64KiB"];
        let report: serde_json::Value = serde_json::from_str(&wadi(url, &args).await).unwrap();
        assert_eq!(report["errors"], 0, "{report}");
        requests += report["requests"].as_u64().unwrap();
    }
    requests
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_request() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(setup(&etcd, &data).into_ready().await);
    }
    let tables = create_tables(&servers[0].api, 3).await;
    let urls = |servers: &[Server]| servers.iter().map(|s| s.api.url.clone()).collect::<Vec<_>>();
    let all = urls(&servers);
    let balancer = Balancer::of(&all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let api = Api::new(balancer.url());
    let stop = AtomicBool::new(false);
    let producers = (0..6).map(|n| produce_once(&api, &tables[n % 3], NAMES[n], n as u64, &stop));
    let restarts = async {
        for place in 0..3 {
            // Each is told to end, and ends by itself with everything handed over.
            servers[place].process.signal("TERM");
            assert_eq!(servers[place].process.ends().await, 0);
            servers[place] = setup(&etcd, &data).into_ready().await;
            let all = urls(&servers);
            balancer.set(&all.iter().map(String::as_str).collect::<Vec<_>>());
            sleep(Duration::from_millis(300)).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (writes, benched, ()) = join3(join_all(producers), bench(&api.url, &stop), restarts).await;
    assert!(writes.iter().all(|writes| writes.len() > 10) && benched > 10, "all had their turn");
    check(&servers[0].api, &writes.concat()).await;
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[tokio::test(flavor = "multi_thread")]
async fn gateways_are_killed_one_after_the_other() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(setup(&etcd, &data).into_ready().await);
    }
    let tables = create_tables(&servers[0].api, 2).await;
    let url = |servers: &[Server], place: usize| servers[place].api.url.clone();
    // Each producer has a gateway of its own, and goes to the next one when that is killed.
    let watched: Vec<_> = (0..3).map(|place| tokio::sync::watch::Sender::new(url(&servers, place))).collect();
    let stop = AtomicBool::new(false);
    let loads: Vec<Load<'_>> = watched
        .iter()
        .map(|urls| Load {
            urls: urls.subscribe(),
            stop: &stop,
            give_up: 5,
            pause: Duration::from_millis(5),
            tally: Tally::default(),
        })
        .collect();
    let producers = (0..6).map(|n| loads[n % 3].produce(&tables[n % 2], NAMES[n], n as u64));
    let chaos = async {
        for place in 0..3 {
            sleep(Duration::from_millis(500)).await;
            servers[place].process.kill();
            watched[place].send_replace(url(&servers, (place + 1) % 3));
            servers[place] = setup(&etcd, &data).into_ready().await;
            until_even(&servers.iter().collect::<Vec<_>>()).await;
            watched[place].send_replace(url(&servers, place));
        }
        sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
    };
    let (writes, ()) = join(join_all(producers), chaos).await;
    for server in &servers {
        check(&server.api, &writes.concat()).await;
    }
}

/// A client behind a balancer asks another gateway each time; it never meets one that does not know yet what it was told.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_acknowledges_of_the_catalog_all_know() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setups = [setup(&etcd, &data), setup(&etcd, &data)];
    let (a, b) = (setups[0].ready().await, setups[1].ready().await);
    until_even(&[&a, &b]).await;
    a.api.create_database().await;
    let spec = json!({
        "name": "t", "primary_key": ["k", "p"], "bucket_key": ["k"], "buckets": 2, "partition_by": ["p"],
        "columns": [{ "name": "k", "type": "bigint" }, { "name": "p", "type": "string" }],
    });
    let (mut here, mut there) = (&a.api, &b.api);
    for round in 0..20 {
        let table = here.create_table(&spec).await;
        for column in ["x", "y"] {
            let change = json!({ "changes": [{ "add_column": { "name": column, "type": "int" } }] });
            here.call(Method::PATCH, &table, &change).await.expect(200);
            let row = json!({ "k": round, "p": column, column: 7 });
            // The new column, and a partition that is made for it.
            there.post(&format!("{table}/upsert"), NDJSON, row.to_string()).await.expect(200);
            let found = here.get(&format!("{table}/lookup?k={round}&p={column}")).await.expect(200).json();
            assert_eq!(found["rows"][0][column], 7, "round {round}");
            std::mem::swap(&mut here, &mut there);
        }
        here.call(Method::DELETE, &table, &json!({})).await.expect(204);
        // Not the table that is gone, whose rows nobody would find again.
        let row = json!({ "k": round, "p": "late" }).to_string();
        there.post(&format!("{table}/upsert"), NDJSON, row).await.expect(404);
    }
}

/// Its shards would be out of reach for all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_wrong_address_owns_nothing() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let fit = setup(&etcd, &data).ready().await;
    // Nobody listens there.
    let lost = setup(&etcd, &data).args(&["--advertise", "http://127.0.0.1:1"]).listening().await;
    let unwell = async |api: &Api| {
        let status = api.get("/v1/status").await.expect(200).json();
        let gateways = status["gateways"].as_object().unwrap().clone();
        gateways.into_values().find_map(|member| Some(member["unwell"].as_str()?.to_owned()))
    };
    let why = loop {
        if let Some(why) = unwell(&fit.api).await {
            break why;
        }
        sleep(Duration::from_millis(20)).await;
    };
    assert!(why.contains("http://127.0.0.1:1"), "{why}");
    while loads(&fit.api).await.iter().sum::<usize>() < 6 || !loads(&fit.api).await.contains(&0) {
        sleep(Duration::from_millis(20)).await;
    }
    // What it is asked it answers, with the help of the other one.
    lost.api.create_database().await;
    let spec = json!({ "name": "l", "columns": [{ "name": "n", "type": "bigint" }], "buckets": 6 });
    let table = lost.api.create_table(&spec).await;
    lost.api.post(&format!("{table}/append"), NDJSON, "{\"n\":1}").await.expect(200);
    assert_eq!(fit.api.scan(&table, "").await.len(), 1);
    let problem = lost.api.get("/ready").await.expect(503).json();
    assert_eq!(problem["status"], "unwell");
}
