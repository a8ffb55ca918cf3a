//! What was dropped leaves the meta store too, whatever happens on the way; what lives stays as it was.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wadi_meta::MetaStore;
use wadi_meta::embedded::{EmbeddedOptions, EmbeddedStore, Place};
use wadi_store::objects;

use crate::harness::{Api, NDJSON, Server, Setup};
use crate::keyed::create;

/// The keys of catalog, partitions and ids, while no process runs.
async fn keys(data: &Path) -> BTreeSet<String> {
    let objects = objects::open_directory(data.to_owned()).unwrap();
    let path = format!("{}/meta", objects.root);
    let options = EmbeddedOptions::new(path.trim_start_matches('/'), Place::Local { root: data.to_owned() });
    let store = EmbeddedStore::open(objects.store, options).await.unwrap();
    let all = store.list("").await.unwrap().entries.into_iter().map(|entry| entry.key);
    let kinds = ["catalog/", "partitions/", "ids/auto/"];
    let keys = all.filter(|key| kinds.iter().any(|kind| key.starts_with(kind))).collect();
    // Not closed, but dropped: it has written nothing of its own that it had to finish.
    drop(store);
    keys
}

/// Ends the process in good order.
async fn stop(setup: &Setup, mut server: Server) {
    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0, "{}", setup.log());
}

/// A table with an id for each row, and one with partitions.
async fn tables(api: &Api, names: [&str; 2]) -> [String; 2] {
    let more = json!({ "auto_increment": ["id"], "buckets": 4 });
    let keyed = create(api, names[0], "k string not null, id int", "k", more).await;
    let columns = json!([{ "name": "a", "type": "bigint" }, { "name": "day", "type": "string" }]);
    let log = json!({ "name": names[1], "columns": columns, "partition_by": ["day"], "buckets": 2 });
    [keyed, api.create_table(&log).await]
}

async fn fill(api: &Api, [keyed, log]: &[String; 2]) {
    let rows: Vec<String> = (0..20).map(|k| json!({ "k": format!("{k}") }).to_string()).collect();
    api.post(&format!("{keyed}/upsert"), NDJSON, rows.join("\n")).await.expect(200);
    let rows: Vec<String> =
        (0..20).map(|a| json!({ "a": a, "day": format!("{}", a % 3) }).to_string()).collect();
    api.post(&format!("{log}/append"), NDJSON, rows.join("\n")).await.expect(200);
}

async fn rows(api: &Api, tables: &[String; 2]) -> Vec<BTreeSet<String>> {
    let mut all = Vec::new();
    for table in tables {
        all.push(api.scan(table, "").await.iter().map(Value::to_string).collect());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_tables_leave_no_key_and_others_keep_all() {
    let setup =
        Setup::dev().args(&["--shards", "2", "--compact-check-interval", "1s", "--pack-interval", "1s"]);
    let setup = setup.args(&["--drop-delay", "1s", "--deletion-grace", "1s", "--forget-delay", "2s"]);
    let server = setup.ready().await;
    server.api.create_database().await;
    let kept = tables(&server.api, ["kept", "kept_days"]).await;
    fill(&server.api, &kept).await;
    let before_rows = rows(&server.api, &kept).await;
    stop(&setup, server).await;
    let before = keys(&setup.data()).await;
    // So that its rows are in packs of their own.
    let server = setup.ready().await;
    sleep(Duration::from_secs(8)).await;

    let gone = tables(&server.api, ["gone", "gone_days"]).await;
    fill(&server.api, &gone).await;
    for table in &gone {
        server.api.call(Method::DELETE, table, &json!({})).await.expect(204);
    }
    stop(&setup, server).await;
    let dropped = keys(&setup.data()).await;
    // Both tables, three partitions and their count, and the ids.
    assert_eq!(dropped.difference(&before).count(), 7, "{dropped:?}");

    // What ends in good order is durable; and killed at any time it loses nothing.
    let deadline = Instant::now() + Duration::from_secs(150);
    for life in 0.. {
        let mut server = setup.ready().await;
        sleep(Duration::from_secs(if life < 4 { 5 } else { 25 })).await;
        assert_eq!(rows(&server.api, &kept).await, before_rows);
        if life % 2 == 1 {
            server.process.kill();
        } else {
            stop(&setup, server).await;
        }
        let now = keys(&setup.data()).await;
        assert!(before.is_subset(&now), "{now:?}");
        if now == before {
            break;
        }
        assert!(Instant::now() < deadline, "{now:?}\n{}", setup.log());
    }
    let server = setup.ready().await;
    assert_eq!(rows(&server.api, &kept).await, before_rows);
    // The same names are new tables.
    let anew = tables(&server.api, ["gone", "gone_days"]).await;
    assert_eq!(rows(&server.api, &anew).await, [BTreeSet::new(), BTreeSet::new()]);
    fill(&server.api, &anew).await;
    let counts: Vec<usize> = rows(&server.api, &anew).await.iter().map(BTreeSet::len).collect();
    assert_eq!(counts, [20, 20]);
    stop(&setup, server).await;
    let log = setup.log();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
}
