//! A root and its meta store belong together: nobody starts with one that is another's, or of a later Wadi.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use futures::future::join;
use serde_json::{Value, json};

use crate::harness::{NDJSON, Server, Setup};
use crate::peers::Peer;

fn etcd_flags(etcd: &Peer, data: &Path) -> String {
    let (data, etcd) = (data.display(), etcd.url());
    format!("--object-store file://{data} --meta etcd --etcd-endpoints {etcd} --lease-ttl 6s")
}

fn gateway(etcd: &Peer, data: &Path) -> Setup {
    Setup::gateway(&format!("{} --shards 2", etcd_flags(etcd, data)))
}

fn embedded(data: &Path) -> Setup {
    Setup::gateway(&format!("--object-store file://{} --shards 2", data.display()))
}

fn wadi(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wadi")).args(args.split(' ')).output().unwrap()
}

/// The process ends by itself, and says all of this.
async fn refused(setup: &Setup, parts: &[&str]) {
    assert_eq!(setup.spawn().ends().await, 1, "{}", setup.log());
    let message = setup.log();
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }
}

fn cluster_at(data: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(data.join("CLUSTER")).unwrap()).unwrap()
}

async fn table_with_a_row(server: &Server) -> String {
    server.api.create_database().await;
    let spec = json!({ "name": "one", "columns": [{ "name": "a", "type": "int" }] });
    let table = server.api.create_table(&spec).await;
    server.api.post(&format!("{table}/append"), NDJSON, "{\"a\":1}\n").await.expect(200);
    table
}

async fn ended(mut server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_etcds_on_one_root_are_refused() {
    let (ours, theirs) = join(Peer::etcd(), Peer::etcd()).await;
    let data = tempfile::tempdir().unwrap();
    let setup = gateway(&ours, data.path());
    let server = setup.ready().await;
    let table = table_with_a_row(&server).await;

    let cluster = cluster_at(data.path());
    let (id, meta) = (cluster["id"].as_str().unwrap(), cluster["meta"]["id"].as_str().unwrap());
    let root = format!("file://{}", data.path().canonicalize().unwrap().display());
    let parts = [root.as_str(), id, meta, "the etcd given here knows nothing of it", "would destroy it"];
    refused(&gateway(&theirs, data.path()), &parts).await;
    refused(&Setup::compactor(&etcd_flags(&theirs, data.path())), &parts).await;
    refused(&embedded(data.path()), &[root.as_str(), id, meta, "embedded metadata"]).await;
    assert!(!data.path().join("meta").exists(), "nothing was written");

    // The doctor says so too, without starting anything.
    let told = wadi(&format!("--json doctor {}", etcd_flags(&theirs, data.path())));
    assert_eq!(told.status.code(), Some(1));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("the etcd given here knows nothing of it"), "{told}");
    let told = wadi(&format!("--json doctor {}", etcd_flags(&ours, data.path())));
    assert!(told.status.success(), "{told:?}");
    let told = String::from_utf8(told.stdout).unwrap();
    for part in ["root and meta store belong together", "a lease of 6s", "a transaction takes", "DELETE"] {
        assert!(told.contains(part), "{part:?} is missing in {told}");
    }

    // The cluster goes on, and starts again.
    server.api.post(&format!("{table}/append"), NDJSON, "{\"a\":2}\n").await.expect(200);
    ended(server).await;
    let server = setup.ready().await;
    assert_eq!(server.api.scan(&table, "").await, [json!({ "a": 1 }), json!({ "a": 2 })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_with_embedded_metadata_moves_to_etcd_by_adoption_alone() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let server = embedded(data.path()).into_ready().await;
    let table = table_with_a_row(&server).await;
    let before = cluster_at(data.path());
    refused(&gateway(&etcd, data.path()), &[before["id"].as_str().unwrap(), "embedded", "knows nothing"])
        .await;

    let flags = etcd_flags(&etcd, data.path());
    let told = wadi(&format!("admin adopt {flags}"));
    assert_eq!(told.status.code(), Some(2), "{told:?}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("--all-stopped"), "{told:?}");
    let told = wadi(&format!("admin adopt --all-stopped {flags}"));
    assert!(String::from_utf8_lossy(&told.stderr).contains("in use by another process"), "{told:?}");
    ended(server).await;
    let told = wadi(&format!("--json admin adopt --all-stopped {flags}"));
    assert!(told.status.success(), "{told:?}");
    let after = cluster_at(data.path());
    assert_eq!((&after["id"], &after["shards"]), (&before["id"], &before["shards"]));
    assert_eq!((&after["generation"], &after["meta"]["kind"]), (&json!(2), &json!("etcd")));

    let [one, two] = [gateway(&etcd, data.path()), gateway(&etcd, data.path())];
    let (one, two) = (one.into_ready().await, two.into_ready().await);
    one.api.post(&format!("{table}/append"), NDJSON, "{\"a\":2}\n").await.expect(200);
    assert_eq!(two.api.scan(&table, "").await, [json!({ "a": 1 }), json!({ "a": 2 })]);
    // Ids go on behind those that were given.
    two.api.create_table(&json!({ "name": "two", "columns": [{ "name": "a", "type": "int" }] })).await;
    let id = async |name: &str| {
        one.api.get(&format!("/v1/databases/t/tables/{name}")).await.expect(200).json()["id"].as_u64()
    };
    assert!(id("two").await.unwrap() > id("one").await.unwrap());
    refused(&embedded(data.path()), &[after["meta"]["id"].as_str().unwrap()]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_root_is_refused_until_it_is_adopted() {
    let (etcd, place) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let (first, copy) = (place.path().join("first"), place.path().join("copy"));
    let server = gateway(&etcd, &first).into_ready().await;
    let table = table_with_a_row(&server).await;
    ended(server).await;
    let copied = Command::new("cp").arg("-r").args([&first, &copy]).status().unwrap();
    assert!(copied.success());
    let url = |path: &PathBuf| format!("file://{}", path.canonicalize().unwrap().display());
    let parts = [&url(&first), &url(&copy), "wadi admin adopt"].map(|part| part.to_owned());
    refused(&gateway(&etcd, &copy), &parts.each_ref().map(String::as_str)).await;

    let told = wadi(&format!("admin adopt --all-stopped {}", etcd_flags(&etcd, &copy)));
    assert!(told.status.success(), "{told:?}");
    let server = gateway(&etcd, &copy).into_ready().await;
    assert_eq!(server.api.scan(&table, "").await, [json!({ "a": 1 })]);
    refused(&gateway(&etcd, &first), &[&url(&first)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_start_at_once_make_one_cluster() {
    let (ours, theirs) = join(Peer::etcd(), Peer::etcd()).await;
    let data = tempfile::tempdir().unwrap();
    let [one, two] = [gateway(&ours, data.path()), gateway(&ours, data.path())];
    let (one, two) = join(one.into_ready(), two.into_ready()).await;
    let table = table_with_a_row(&one).await;
    assert_eq!(two.api.scan(&table, "").await, [json!({ "a": 1 })]);

    // With two etcds, one of them wins.
    let data = tempfile::tempdir().unwrap();
    let setups = [gateway(&ours, data.path()), gateway(&theirs, data.path())];
    let mut processes = setups.each_ref().map(Setup::spawn);
    let lost = loop {
        if let Some(lost) = processes.iter_mut().position(|process| process.exit_code().is_some()) {
            break lost;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert!(setups[lost].log().contains("knows nothing of it"), "{}", setups[lost].log());
    let url = setups[1 - lost].address(&mut processes[1 - lost]).await;
    crate::harness::Api::new(&url).until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_of_a_later_wadi_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let later = json!({ "format": 2, "id": "of another kind", "places": ["a", "b"] });
    std::fs::write(data.path().join("CLUSTER"), later.to_string()).unwrap();
    let parts =
        ["CLUSTER", "format 2, which is not known here", env!("CARGO_PKG_VERSION"), "up to 1: upgrade"];
    refused(&embedded(data.path()), &parts).await;
    let etcd = Peer::etcd().await;
    refused(&gateway(&etcd, data.path()), &parts).await;
    refused(&Setup::compactor(&etcd_flags(&etcd, data.path())), &parts).await;
    let told = wadi(&format!("doctor --object-store file://{}", data.path().display()));
    assert_eq!(told.status.code(), Some(1), "{told:?}");
}

/// What the first builds have made: no meta store is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_names_no_meta_store_is_bound_at_its_next_start() {
    let data = tempfile::tempdir().unwrap();
    let server = embedded(data.path()).into_ready().await;
    let table = table_with_a_row(&server).await;
    ended(server).await;
    let mut cluster = cluster_at(data.path());
    cluster.as_object_mut().unwrap().remove("meta");
    std::fs::write(data.path().join("CLUSTER"), cluster.to_string()).unwrap();
    refused(&gateway(&Peer::etcd().await, data.path()), &["knows nothing of it"]).await;
    let server = embedded(data.path()).into_ready().await;
    assert_eq!(server.api.scan(&table, "").await, [json!({ "a": 1 })]);
    assert_eq!(cluster_at(data.path())["meta"]["kind"], "embedded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_object_of_a_later_wadi_is_not_read_as_damage() {
    let data = tempfile::tempdir().unwrap();
    let mut server = embedded(data.path()).into_ready().await;
    table_with_a_row(&server).await;
    server.process.kill();
    // The newest object of every log, as a later Wadi would have written it.
    for shard in 0..2 {
        let log = data.path().join(format!("shard/{shard}/log"));
        let newest = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
        let mut bytes = std::fs::read(&newest).unwrap();
        let trailer = bytes.len() - 8;
        (bytes[4], bytes[trailer]) = (9, 9);
        std::fs::write(&newest, bytes).unwrap();
    }
    let server = embedded(data.path()).listening().await;
    let parts = ["format 9, which is not known here", env!("CARGO_PKG_VERSION"), "up to 2: upgrade"];
    loop {
        let status = server.api.get("/v1/status").await.expect(200).json();
        let note = status["shards"][0]["note"].as_str().unwrap_or_default();
        if parts.iter().all(|part| note.contains(part)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
