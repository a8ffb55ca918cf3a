//! Auto-increment columns and `insert_if_not_exists`: keys become numbers, each its own, for many clients at once.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Api, CSV, JSON, NDJSON, Server, Setup};
use crate::keyed::create;

const COLUMNS: &str = "uid string not null, id int";

async fn server() -> Server {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    server
}

/// Texts to numbers, in four buckets that take ten numbers at once.
async fn dictionary(api: &Api, name: &str) -> String {
    let properties = json!({ "table.auto-increment.cache-size": "10" });
    let more = json!({ "auto_increment": ["id"], "buckets": 4, "properties": properties });
    create(api, name, COLUMNS, "uid", more).await
}

fn user(n: usize) -> String {
    format!("user {n}")
}

/// The ids of users, in their order.
async fn ids_of(api: &Api, table: &str, users: &[usize]) -> Vec<i64> {
    let body: String = users.iter().map(|n| format!("{}\n", json!({ "uid": user(*n) }))).collect();
    let answer =
        api.post(&format!("{table}/lookup?insert_if_not_exists=true"), NDJSON, body).await.expect(200);
    assert_eq!(answer.header("wadi-found"), users.len().to_string());
    let rows = answer.json()["rows"].as_array().unwrap().clone();
    let id = |(n, row): (&usize, &Value)| {
        assert_eq!(row["uid"], user(*n), "answers keep the order of the keys");
        row["id"].as_i64().unwrap()
    };
    users.iter().zip(&rows).map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_clients_that_ask_for_the_same_and_for_different_keys_agree() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let table = dictionary(&server.api, "users").await;
    let mut known: BTreeMap<usize, i64> = BTreeMap::new();
    for round in 0..3 {
        let clients = (0..8).map(|client| {
            let (api, table) = (server.api.clone(), table.clone());
            async move {
                let mut seen = Vec::new();
                for request in 0..10 {
                    // Half of them are everybody's, half this client's own; some stand twice.
                    let shared = |i: usize| round * 100 + (request * 7 + i * 3 + client) % 100;
                    let own = |i: usize| 1_000 * (client + 1) + round * 100 + request * 5 + i;
                    let users: Vec<usize> =
                        (0..8).map(shared).chain((0..5).map(own)).chain([shared(0)]).collect();
                    let ids = ids_of(&api, &table, &users).await;
                    seen.extend(users.into_iter().zip(ids));
                }
                seen
            }
        });
        for seen in join_all(clients).await {
            for (user, id) in seen {
                assert_eq!(*known.entry(user).or_insert(id), id, "user {user} has one id");
            }
        }
        // The ids are kept, and never given again, by whoever comes next.
        if round == 1 {
            server.process.kill();
        } else {
            server.process.signal("TERM");
            server.process.ends().await;
        }
        server = setup.ready().await;
    }
    let users: Vec<usize> = known.keys().copied().collect();
    assert_eq!(ids_of(&server.api, &table, &users).await, known.values().copied().collect::<Vec<_>>());
    let ids: BTreeSet<i64> = known.values().copied().collect();
    assert_eq!(ids.len(), known.len(), "no id stands for two users");
    // Four buckets hold ten or twenty numbers each, and each restart may lose as many.
    let highest = *ids.last().unwrap();
    assert!(highest < known.len() as i64 + 4 * 4 * 20, "{} users have ids up to {highest}", known.len());
    assert_eq!(server.api.scan(&table, "").await.len(), known.len());
    let mut changes = 0;
    for bucket in 0..4 {
        let log = server.api.log(&table, bucket, "_change_type").await;
        assert!(log.iter().all(|row| row["_change_type"] == "+I"), "a row that is there stays as it is");
        changes += log.len();
    }
    assert_eq!(changes, known.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_inserted_with_defaults_and_keep_their_ids() {
    let server = server().await;
    let api = &server.api;
    let spec = json!({
        "name": "pages",
        "columns": [
            { "name": "url", "type": "string not null" },
            { "name": "id", "type": "bigint" },
            { "name": "kind", "type": "string not null", "default": "page" },
            { "name": "title", "type": "string" },
        ],
        "primary_key": ["url"],
        "auto_increment": ["id"],
    });
    let table = api.create_table(&spec).await;
    let described = api.get(&table).await.expect(200).json();
    assert_eq!(described["auto_increment"], json!(["id"]), "{described}");
    assert_eq!(described["columns"][1]["type"], "bigint not null", "{described}");

    assert_eq!(api.get(&format!("{table}/lookup?url=a")).await.expect(200).json()["rows"], json!([null]));
    let inserted =
        api.get(&format!("{table}/lookup?url=a&insert_if_not_exists=true")).await.expect(200).json();
    let row = json!({ "url": "a", "id": 1, "kind": "page", "title": null });
    assert_eq!(inserted["rows"], json!([row]));
    // Upserts and partial updates leave the id alone, bodies leave it out.
    api.post(&format!("{table}/upsert"), NDJSON, r#"{"url":"a","title":"A"}"#).await.expect(200);
    api.post(&format!("{table}/upsert"), CSV, "url,kind,title\nb,post,B\n").await.expect(200);
    api.post(&format!("{table}/upsert?columns=url,kind"), NDJSON, r#"{"url":"b","kind":"x"}"#)
        .await
        .expect(200);
    api.post(&format!("{table}/upsert"), JSON, r#"[{"url":"c","id":null}]"#).await.expect(200);
    let body = "[{\"url\":\"b\"},{\"url\":\"a\"},{\"url\":\"c\"},{\"url\":\"d\"},{\"url\":\"a\"}]";
    let path = format!("{table}/lookup?insert_if_not_exists=true&columns=id,kind,title");
    let found = api.post(&path, JSON, body).await.expect(200).json();
    let (a, c) =
        (json!({ "id": 1, "kind": "page", "title": "A" }), json!({ "id": 3, "kind": "page", "title": null }));
    let (b, d) =
        (json!({ "id": 2, "kind": "x", "title": "B" }), json!({ "id": 4, "kind": "page", "title": null }));
    assert_eq!(found["rows"], json!([b, a, c, d, a]));
    // A changelog that brings ids back is refused, but for its deletions.
    let deletion = r#"{"_change_type":"-D","url":"a","id":1}"#;
    api.post(&format!("{table}/upsert"), NDJSON, deletion).await.expect(200);
    let again =
        api.get(&format!("{table}/lookup?url=a&insert_if_not_exists=true&columns=id")).await.expect(200);
    assert_eq!(again.json()["rows"], json!([{ "id": 5 }]), "a row that is inserted anew is another row");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_for_what_is_inserted() {
    let server = server().await;
    let api = &server.api;
    let columns = "day string not null, uid string not null, id bigint";
    let more = json!({ "auto_increment": ["id"], "partition_by": ["day"], "buckets": 2 });
    let table = create(api, "daily", columns, "day,uid", more).await;
    let body =
        "[{\"day\":\"d1\",\"uid\":\"x\"},{\"day\":\"d2\",\"uid\":\"x\"},{\"day\":\"d1\",\"uid\":\"x\"}]";
    let found =
        api.post(&format!("{table}/lookup?insert_if_not_exists=true"), JSON, body).await.expect(200).json();
    let ids: Vec<i64> =
        found["rows"].as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect();
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1], "ids are the table's, not the partition's");
    assert_eq!(
        api.get(&format!("{table}/partitions")).await.expect(200).json()["partitions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_inserted_is_refused() {
    let server = server().await;
    let api = &server.api;
    let table = dictionary(api, "words").await;
    let refused = api.get(&format!("{table}/lookup?uid=a&insert_if_not_exists=maybe")).await.problem();
    assert_eq!((&refused["status"], &refused["code"]), (&json!(400), &json!("invalid_parameter")));
    // Ids come from the server.
    let refused = api.post(&format!("{table}/upsert"), NDJSON, r#"{"uid":"a","id":7}"#).await.problem();
    assert_eq!((&refused["status"], &refused["code"]), (&json!(422), &json!("rows_rejected")));
    assert_eq!(refused["errors"][0]["column"], "id", "{refused}");
    assert!(refused["errors"][0]["hint"].as_str().unwrap().contains("leave the column out"), "{refused}");
    let refused =
        api.post(&format!("{table}/upsert?columns=uid,id"), NDJSON, r#"{"uid":"a","id":7}"#).await.problem();
    assert_eq!(refused["code"], "auto_increment_column", "{refused}");
    assert!(api.scan(&table, "").await.is_empty());
    // A row would lack a value.
    let columns = "k string not null, v int not null, id bigint";
    let strict = create(api, "strict", columns, "k", json!({ "auto_increment": ["id"] })).await;
    let refused = api.get(&format!("{strict}/lookup?k=a&insert_if_not_exists=true")).await.problem();
    assert_eq!((&refused["status"], &refused["code"]), (&json!(422), &json!("missing_column")));
    assert!(refused["detail"].as_str().unwrap().contains("\"v\""), "{refused}");
    // A prefix is no row.
    let more = json!({ "auto_increment": ["id"], "bucket_key": ["a"] });
    let pairs = create(api, "pairs", "a int not null, b int not null, id bigint", "a,b", more).await;
    let refused = api.get(&format!("{pairs}/lookup?a=1&insert_if_not_exists=true")).await.problem();
    assert_eq!((&refused["status"], &refused["code"]), (&json!(422), &json!("invalid_key")));
    let body = "{\"a\":1,\"b\":1}\n{\"a\":1,\"b\":null}\n";
    let refused =
        api.post(&format!("{pairs}/lookup?insert_if_not_exists=true"), NDJSON, body).await.problem();
    assert_eq!(refused["status"], 422);
    assert!(api.scan(&pairs, "").await.is_empty());
}
