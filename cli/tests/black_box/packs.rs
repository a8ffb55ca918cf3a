//! A compactor packs the log of a gateway in another process, and deletes what it has packed; rows stay as they were, but for those
//! that have expired.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Api, NDJSON, PATIENCE, Server, Setup};
use crate::peers::Peer;

const ROWS: u64 = 200;

/// The objects of all shards in a folder of theirs.
fn objects(data: &Path, folder: &str) -> Vec<PathBuf> {
    let shards = std::fs::read_dir(data.join("shard")).into_iter().flatten().flatten();
    let folders = shards.map(|shard| shard.path().join(folder));
    folders
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|f| f.path())
        .collect()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn create(api: &Api, name: &str, ttl: &str) -> String {
    let columns = json!([{ "name": "id", "type": "bigint" }, { "name": "text", "type": "string" }]);
    let properties = json!({ "table.log.ttl": ttl });
    api.create_table(&json!({ "name": name, "columns": columns, "buckets": 1, "properties": properties }))
        .await
}

async fn append(api: &Api, table: &str, first: u64) {
    for id in first..first + ROWS {
        let row = json!({ "id": id, "text": format!("row {id}") }).to_string();
        api.post(&format!("{table}/append"), NDJSON, row).await.expect(200);
    }
}

async fn ids(api: &Api, table: &str) -> Vec<u64> {
    let rows = api.scan(table, "").await;
    rows.iter().map(|row: &Value| row["id"].as_u64().unwrap()).collect()
}

/// Ends a gateway in good order, and starts it again.
async fn again(setup: &Setup, mut server: Server) -> Server {
    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0, "{}", setup.log());
    setup.ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_packed_and_its_objects_go() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let shared = format!(
        "--object-store file://{} --meta etcd --etcd-endpoints {} --lease-ttl 6s",
        data.path().display(),
        etcd.url()
    );
    let gateway = Setup::gateway(&format!("{shared} --shards 1 --pack-interval 1s"));
    let server = gateway.ready().await;
    server.api.create_database().await;
    let (kept, short) = (create(&server.api, "kept", "30d").await, create(&server.api, "short", "1s").await);
    append(&server.api, &kept, 0).await;
    append(&server.api, &short, 0).await;
    let many = objects(data.path(), "log").len();
    assert!(many > 100, "{many} log objects");

    // What is released is durable in the database, and may be packed.
    let server = again(&gateway, server).await;
    let flags = "--compact-check-interval 1s --deletion-grace 1s";
    let compactor = Setup::compactor(&format!("{shared} {flags}")).listening().await;
    until("a pack is made", async || !objects(data.path(), "pack").is_empty()).await;
    // The same of the command that says so, before what it has replaced may go.
    let url = format!("{short}/offsets?at=earliest");
    until("rows expire", async || server.api.get(&url).await.expect(200).text().contains(&ROWS.to_string()))
        .await;
    let mut server = again(&gateway, server).await;
    until("log objects go", async || objects(data.path(), "log").len() < 20).await;
    assert_eq!(ids(&server.api, &kept).await, (0..ROWS).collect::<Vec<_>>());
    assert_eq!(ids(&server.api, &short).await, Vec::<u64>::new());

    // Nobody else is told what is to be deleted, nor may say what was.
    for call in ["next-round", "deletable", "note-deleted", "trim"] {
        let path = format!("/internal/v1/shards/0/{call}");
        server.api.call(Method::POST, &path, &json!(0)).await.expect(404);
    }

    drop(compactor);
    server.process.kill();
    let server = gateway.ready().await;
    append(&server.api, &kept, ROWS).await;
    assert_eq!(ids(&server.api, &kept).await, (0..2 * ROWS).collect::<Vec<_>>());
}
