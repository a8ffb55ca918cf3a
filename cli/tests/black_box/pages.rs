//! Scans in pages, and counts.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};

use crate::harness::{ARROW, Answer, Api, NDJSON, Server, Setup};
use crate::keyed::create;

async fn server() -> Server {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    server
}

async fn put(api: &Api, table: &str, keys: impl Iterator<Item = i64>, n: i64) {
    let lines: Vec<String> = keys.map(|k| json!({ "k": k, "n": n }).to_string()).collect();
    api.post(&format!("{table}/upsert"), NDJSON, lines.join("\n")).await.expect(200);
}

async fn count(api: &Api, table: &str, query: &str) -> Value {
    api.get(&format!("{table}/count{query}")).await.expect(200).json()
}

async fn page(api: &Api, table: &str, query: &str) -> Answer {
    api.get(&format!("{table}/scan?{query}")).await
}

/// All rows page by page, with something done before each page but the first, and each page asked for twice.
async fn all_pages(
    api: &Api,
    table: &str,
    query: &str,
    size: usize,
    mut between: impl AsyncFnMut(usize),
) -> (Vec<Value>, Vec<Value>) {
    let (mut rows, mut marks) = (Vec::new(), Vec::new());
    let mut now = page(api, table, &format!("page_size={size}{query}")).await.expect(200).json();
    for number in 1.. {
        let found = now["rows"].as_array().unwrap();
        assert!(found.len() <= size);
        rows.extend(found.iter().cloned());
        marks.extend(now["high_watermarks"].as_array().unwrap().iter().cloned());
        let Some(token) = now["next_page_token"].as_str().map(str::to_owned) else { break };
        between(number).await;
        let again = format!("page_size={size}&page_token={token}");
        now = page(api, table, &again).await.expect(200).json();
        assert_eq!(
            page(api, table, &again).await.expect(200).json(),
            now,
            "a page that was lost is the same again"
        );
    }
    (rows, marks)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_the_rows_of_one_moment_while_writes_go_on() {
    let server = server().await;
    let api = &server.api;
    let table = create(api, "one", "k bigint not null, n bigint", "k", json!({ "buckets": 1 })).await;
    put(api, &table, 0..500, 1).await;
    let whole = api.scan(&table, "").await;
    let (rows, marks) = all_pages(api, &table, "", 37, async |number| {
        put(api, &table, (0..500).chain([1000 + number as i64]), 2).await;
    })
    .await;
    assert_eq!(rows, whole);
    assert!(
        marks.iter().all(|mark| mark["high_watermark"] == json!(500) && mark["bucket"] == json!(0)),
        "{marks:?}"
    );
    // The log from there on brings them up to date.
    let mut state: BTreeMap<i64, Value> =
        rows.into_iter().map(|row| (row["k"].as_i64().unwrap(), row)).collect();
    for row in api.log(&table, 0, "k,n,_change_type").await {
        if row["_offset"].as_i64().unwrap() >= 500 && row["_change_type"] != json!("-U") {
            state.insert(row["k"].as_i64().unwrap(), json!({ "k": row["k"], "n": row["n"] }));
        }
    }
    assert_eq!(state.into_values().collect::<Vec<_>>(), api.scan(&table, "").await);

    // Over several buckets, with a filter and a limit, a page's end may lie anywhere.
    let table = create(api, "three", "k bigint not null, n bigint", "k", json!({ "buckets": 3 })).await;
    put(api, &table, 0..300, 1).await;
    put(api, &table, (0..300).filter(|k| k % 7 == 0), 2).await;
    for (query, size) in [
        ("", 1000),
        ("", 50),
        ("&filter=n=2", 4),
        ("&filter=n=2&limit=13", 4),
        ("&limit=100", 33),
        ("&columns=n", 80),
    ] {
        let whole = api.scan(&table, &format!("?{}", query.trim_start_matches('&'))).await;
        let (rows, marks) = all_pages(api, &table, query, size, async |_| {}).await;
        assert_eq!(rows, whole, "{query} in pages of {size}");
        assert!(!marks.is_empty());
    }
    let arrow = api.get_as(&format!("{table}/scan?page_size=10"), ARROW).await.expect(200);
    assert!(arrow.header("wadi-next-page-token").starts_with("s2."));
    assert!(arrow.header("wadi-high-watermarks").starts_with('['));
    let streamed = api.get(&format!("{table}/scan")).await.expect(200);
    let marks: Value = serde_json::from_str(streamed.header("wadi-high-watermarks")).unwrap();
    assert_eq!(marks.as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_lead_nowhere_are_explained() {
    let setup = Setup::dev();
    let server = setup.ready().await;
    let api = &server.api;
    api.create_database().await;
    let table = create(api, "a", "k bigint not null, n bigint", "k", json!({})).await;
    let other = create(api, "b", "k bigint not null, n bigint", "k", json!({})).await;
    let log =
        api.create_table(&json!({ "name": "log", "columns": [{ "name": "k", "type": "bigint" }] })).await;
    put(api, &table, 0..20, 1).await;
    let token = page(api, &table, "page_size=5").await.expect(200).json()["next_page_token"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = async |table: &str, query: &str, status: u16, code: &str| {
        let problem = page(api, table, query).await.expect(status).problem();
        assert_eq!(problem["code"], json!(code), "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    };
    assert!(
        refused(&other, &format!("page_token={token}"), 410, "scan_expired")
            .await
            .contains("begin the scan again")
    );
    for garbage in ["", "x", "s1.", "s1.AAAA", "s1.%%%", "c2.AAAA"] {
        let garbage = garbage.replace('%', "%25");
        refused(&table, &format!("page_token={garbage}"), 400, "invalid_page_token").await;
    }
    refused(&table, &format!("page_token={token}&limit=3"), 400, "invalid_parameter").await;
    refused(&table, "page_size=no", 400, "invalid_parameter").await;
    refused(&log, "page_size=5", 400, "invalid_parameter").await;
    assert_eq!(
        page(api, &table, &format!("page_token={token}")).await.expect(200).json()["rows"]
            .as_array()
            .unwrap()
            .len(),
        15
    );

    // Scans that nobody goes on with are bounded, and say so.
    let mut answers = Vec::new();
    for _ in 0..65 {
        answers.push(page(api, &table, "page_size=5").await);
    }
    let full = answers.pop().unwrap();
    assert_eq!(full.header("retry-after"), "1");
    assert_eq!(full.expect(429).problem()["code"], json!("too_many_scans"));
    // One page needs no place.
    page(api, &table, "page_size=50").await.expect(200);
    drop(server);

    let server = setup.ready().await;
    let problem = page(&server.api, &table, &format!("page_token={token}")).await.expect(410).problem();
    assert_eq!(problem["code"], json!("scan_expired"), "its gateway is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_exact_and_survive_a_kill() {
    let setup = Setup::dev();
    let server = setup.ready().await;
    let api = &server.api;
    api.create_database().await;
    let table = create(api, "kv", "k bigint not null, n bigint", "k", json!({ "buckets": 3 })).await;
    put(api, &table, 0..100, 1).await;
    put(api, &table, 50..120, 2).await;
    api.post(&format!("{table}/delete"), NDJSON, "{\"k\":3}\n{\"k\":4}\n{\"k\":999}").await.expect(200);
    let columns = "region string not null, k bigint not null, n bigint";
    let parts = create(api, "parts", columns, "region,k", json!({ "partition_by": ["region"] })).await;
    for (region, k) in [("de", 1), ("de", 2), ("us", 1), ("de", 1)] {
        let row = json!({ "region": region, "k": k }).to_string();
        api.post(&format!("{parts}/upsert"), NDJSON, row).await.expect(200);
    }
    let wal = json!({ "properties": { "table.changelog.image": "wal" } });
    let wal = create(api, "wal", "k bigint not null, n bigint", "k", wal).await;
    put(api, &wal, 0..10, 1).await;
    let first =
        json!({ "properties": { "table.merge-engine": "first_row", "table.changelog.image": "wal" } });
    let first = create(api, "first", "k bigint not null, n bigint", "k", first).await;
    put(api, &first, 0..10, 1).await;
    put(api, &first, 5..12, 2).await;
    let log =
        api.create_table(&json!({ "name": "log", "columns": [{ "name": "k", "type": "bigint" }] })).await;
    api.post(&format!("{log}/append"), NDJSON, "{\"k\":3}\n{\"k\":4}").await.expect(200);

    let check = async |api: &Api| {
        assert_eq!(count(api, &table, "").await, json!({ "rows": 118, "upper_bound": false }));
        assert_eq!(api.get(&table).await.expect(200).json()["statistics"]["rows"], json!(118));
        assert_eq!(count(api, &parts, "").await["rows"], json!(3));
        assert_eq!(
            count(api, &parts, "").await["partitions"],
            json!([{ "partition": "de", "rows": 2 }, { "partition": "us", "rows": 1 }])
        );
        assert_eq!(count(api, &parts, "?partition=de").await["rows"], json!(2));
        assert_eq!(count(api, &first, "").await["rows"], json!(12));
        assert_eq!(count(api, &log, "").await["rows"], json!(2));
    };
    check(api).await;
    // Ten times the same rows: nothing is new, and the changelog does not say so.
    for _ in 0..2 {
        put(api, &wal, 0..10, 1).await;
    }
    let Server { mut process, .. } = server;
    process.kill();
    let server = setup.ready().await;
    check(&server.api).await;
    put(&server.api, &wal, 0..10, 1).await;
    let problem =
        server.api.call(Method::GET, &format!("{wal}/count"), &Value::Null).await.expect(409).problem();
    assert_eq!(problem["code"], json!("rows_not_counted"));
}
