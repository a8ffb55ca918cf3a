//! The calls as they are meant: databases, reads with all their parameters, what surrounds every answer.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::harness::{NDJSON, Server, Setup, send};

async fn server_with_rows() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "int" }, { "name": "b", "type": "string" }]);
    let table = server.api.create_table(&json!({ "name": "rows", "columns": columns })).await;
    for chunk in 0..5 {
        let lines: String =
            (chunk * 10..chunk * 10 + 10).map(|a| format!("{{\"a\":{a},\"b\":\"{}\"}}\n", a % 3)).collect();
        server.api.post(&format!("{table}/append"), NDJSON, lines).await.expect(200);
    }
    (server, table)
}

fn numbers(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["a"].as_i64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_and_tables_are_made_listed_described_and_dropped() {
    let server = Setup::dev().into_ready().await;
    let api = &server.api;
    let made = api.call(Method::POST, "/v1/databases", &json!({ "name": "d", "comment": "c" })).await;
    assert_eq!(made.expect(201).json()["name"], "d");
    api.call(Method::POST, "/v1/databases", &json!({ "name": "d", "if_not_exists": true })).await.expect(200);
    let listed = api.get("/v1/databases").await.expect(200).json();
    assert_eq!(listed["databases"][0]["name"], "d", "{listed}");
    assert_eq!(api.get("/v1/databases/d").await.expect(200).json()["comment"], "c");

    let spec = json!({
        "name": "t",
        "columns": [
            { "name": "id", "type": "bigint not null", "comment": "of the thing" },
            { "name": "tags", "type": "array<string>" },
            { "name": "kind", "type": "string", "default": "none" },
        ],
        "bucket_key": ["id"],
        "buckets": 3,
        "properties": { "table.log.ttl": "7d" },
        "comment": "things",
    });
    let tables = "/v1/databases/d/tables";
    api.call(Method::POST, tables, &spec).await.expect(201);
    api.call(Method::POST, &format!("{tables}?if_not_exists=true"), &spec).await.expect(200);
    let row = "{\"id\":1,\"tags\":[\"a\",null]}\n{\"id\":2}\n{\"id\":3}\n";
    api.post(&format!("{tables}/t/append"), NDJSON, row).await.expect(200);
    let described = api.get(&format!("{tables}/t")).await.expect(200).json();
    assert_eq!((&described["kind"], &described["buckets"]), (&json!("log"), &json!(3)), "{described}");
    assert_eq!(described["bucket_key"], json!(["id"]), "{described}");
    assert_eq!(described["columns"][2]["default"], "none", "{described}");
    assert_eq!(described["properties"]["table.log.ttl"], "7d", "{described}");
    assert_eq!(described["statistics"]["rows"], 3, "{described}");
    assert_eq!(described["statistics"]["buckets"].as_array().unwrap().len(), 3, "{described}");
    let mut rows = api.scan(&format!("{tables}/t"), "").await;
    rows.sort_by_key(|row| row["id"].as_i64());
    assert_eq!(rows[0], json!({ "id": 1, "tags": ["a", null], "kind": "none" }));

    api.call(Method::DELETE, &format!("{tables}/t"), &json!(null)).await.expect(204);
    assert_eq!(api.get(tables).await.expect(200).json()["tables"], json!([]));
    api.call(Method::DELETE, "/v1/databases/d", &json!(null)).await.expect(204);
    api.get("/v1/databases/d").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_projected_filtered_and_limited() {
    let (server, table) = server_with_rows().await;
    let api = &server.api;
    assert_eq!(numbers(&api.scan(&table, "").await), (0..50).collect::<Vec<_>>());
    assert_eq!(numbers(&api.scan(&table, "?limit=7").await), (0..7).collect::<Vec<_>>());
    assert_eq!(api.scan(&table, "?limit=1&columns=b").await, [json!({ "b": "0" })]);
    let system =
        "?filter=_offset%20%3E%3D%2048%20and%20_timestamp%20%3E%20%271970-01-01%27%20and%20_bucket%20%3D%200";
    assert_eq!(numbers(&api.scan(&table, system).await), [48, 49]);
    let problem = api.get(&format!("{table}/scan?filter=_ofset%20%3D%201")).await.expect(400).problem();
    assert!(problem["detail"].as_str().unwrap().contains("did you mean `_offset`?"), "{problem}");
    assert_eq!(api.scan(&table, "?limit=1&columns=b,a").await, [json!({ "b": "0", "a": 0 })]);
    for (filter, want) in [
        ("a between 3 and 5", vec![3, 4, 5]),
        ("a >= 47 and not b = '0'", vec![47, 49]),
        ("a in (1, 49, 77) or a < 1", vec![0, 1, 49]),
        ("b like '1%' and a < 5", vec![1, 4]),
        ("b is null", vec![]),
        ("a > 100", vec![]),
        ("a > 18 and a < 22", vec![19, 20, 21]),
    ] {
        let path = format!("{table}/scan");
        let request = api.request(Method::GET, &path).query(&[("filter", filter), ("columns", "a")]);
        let answer = send(request).await.unwrap().expect(200).json();
        assert_eq!(numbers(answer["rows"].as_array().unwrap()), want, "{filter}");
    }
    let request = api.request(Method::GET, &format!("{table}/scan"));
    let limited = request.query(&[("filter", "b = '1'"), ("limit", "3")]);
    let answer = send(limited).await.unwrap().expect(200).json();
    assert_eq!(numbers(answer["rows"].as_array().unwrap()), [1, 4, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_paged_and_tell_where_they_stand() {
    let (server, table) = server_with_rows().await;
    for (size, filter) in [(1, ""), (7, ""), (10, ""), (3, "&filter=b%20%3D%20'1'"), (1000, "")] {
        let (mut offset, mut found) = (0, Vec::new());
        while offset < 50 {
            let path = format!("{table}/log?offset={offset}&max_rows={size}{filter}");
            let answer = server.api.get(&path).await.expect(200).json();
            let rows = numbers(answer["rows"].as_array().unwrap());
            assert!(rows.len() <= size, "{answer}");
            let next = answer["next_offset"].as_i64().unwrap();
            assert!(next > offset, "{answer}");
            assert!(rows.iter().all(|a| (offset..next).contains(a)), "{answer}");
            assert_eq!((&answer["high_watermark"], &answer["log_start"]), (&json!(50), &json!(0)));
            found.extend(rows);
            offset = next;
        }
        let want: Vec<i64> = (0..50).filter(|a| filter.is_empty() || a % 3 == 1).collect();
        assert_eq!(found, want, "{size} {filter}");
    }
    let small = server.api.get(&format!("{table}/log?max_bytes=1")).await.expect(200).json();
    assert!(!small["rows"].as_array().unwrap().is_empty(), "{small}");
    let end = server.api.get(&format!("{table}/log?offset=50")).await.expect(200).json();
    assert_eq!((&end["rows"], &end["next_offset"]), (&json!([]), &json!(50)));
    let beyond = server.api.get(&format!("{table}/log?offset=51")).await;
    assert_eq!((beyond.status, &beyond.problem()["high_watermark"]), (410, &json!(50)));
}

#[tokio::test(flavor = "multi_thread")]
async fn system_columns_are_served_with_and_without_others() {
    let (server, table) = server_with_rows().await;
    let columns = "a,_offset,_timestamp,_change_type,_bucket,_partition";
    let rows = server.api.scan(&table, &format!("?columns={columns}&filter=a%20%3E%3D%2025&limit=2")).await;
    assert_eq!(numbers(&rows), [25, 26]);
    for row in &rows {
        assert_eq!(row["_offset"], row["a"], "{row}");
        assert_eq!(
            (&row["_change_type"], &row["_bucket"], &row["_partition"]),
            (&json!("+I"), &json!(0), &json!(""))
        );
        assert!(row["_timestamp"].as_str().is_some_and(|t| t.ends_with('Z')), "{row}");
    }
    let alone = server.api.get(&format!("{table}/log?offset=48&columns=_offset")).await.expect(200).json();
    assert_eq!(alone["rows"], json!([{ "_offset": 48 }, { "_offset": 49 }]));
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_found_by_time() {
    let (server, table) = server_with_rows().await;
    let at = async |at: &str| {
        let request = server.api.request(Method::GET, &format!("{table}/offsets")).query(&[("at", at)]);
        let answer = send(request).await.unwrap().expect(200).json();
        assert_eq!(answer["offsets"].as_array().unwrap().len(), 1, "{answer}");
        answer["offsets"][0]["offset"].as_u64().unwrap()
    };
    assert_eq!((at("earliest").await, at("latest").await), (0, 50));
    assert_eq!((at("2001-01-01T00:00:00Z").await, at("2999-01-01T00:00:00+02:00").await), (0, 50));
    sleep(Duration::from_millis(50)).await;
    server.api.post(&format!("{table}/append"), NDJSON, "{\"a\":50}\n").await.expect(200);
    let row = &server.api.scan(&table, "?columns=a,_timestamp&filter=a%20%3D%2050").await[0];
    assert_eq!(at(row["_timestamp"].as_str().unwrap()).await, 50);
}

/// Every route of the API, by path and method.
const ROUTES: [(&str, &[&str]); 19] = [
    ("/v1/databases", &["get", "post"]),
    ("/v1/databases/{database}", &["delete", "get"]),
    ("/v1/databases/{database}/tables", &["get", "post"]),
    ("/v1/databases/{database}/tables/{table}", &["delete", "get", "patch"]),
    ("/v1/databases/{database}/tables/{table}/append", &["post"]),
    ("/v1/databases/{database}/tables/{table}/count", &["get"]),
    ("/v1/databases/{database}/tables/{table}/delete", &["post"]),
    ("/v1/databases/{database}/tables/{table}/log", &["get"]),
    ("/v1/databases/{database}/tables/{table}/lookup", &["get", "post"]),
    ("/v1/databases/{database}/tables/{table}/offsets", &["get"]),
    ("/v1/databases/{database}/tables/{table}/partitions", &["delete", "get", "post"]),
    ("/v1/databases/{database}/tables/{table}/scan", &["get"]),
    ("/v1/databases/{database}/tables/{table}/tail", &["get"]),
    ("/v1/databases/{database}/tables/{table}/upsert", &["post"]),
    ("/v1/status", &["get"]),
    ("/health", &["get"]),
    ("/ready", &["get"]),
    ("/metrics", &["get"]),
    // Behind it the server is not ready any more.
    ("/v1/drain", &["delete", "post"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn openapi_lists_every_route_and_no_other() {
    let (server, _) = server_with_rows().await;
    let document = server.api.get("/openapi.json").await.expect(200).json();
    assert!(document["openapi"].as_str().is_some_and(|v| v.starts_with("3.1")), "{}", document["openapi"]);
    let paths = document["paths"].as_object().unwrap();
    let listed: BTreeSet<(String, Vec<String>)> = paths
        .iter()
        .map(|(path, methods)| (path.clone(), methods.as_object().unwrap().keys().cloned().collect()))
        .collect();
    let sorted = |methods: &[&str]| methods.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>();
    let want = ROUTES.iter().map(|(path, methods)| ((*path).to_owned(), sorted(methods))).collect();
    assert_eq!(listed, want);
    for (path, methods) in ROUTES {
        let path = path.replace("{database}", "t").replace("{table}", "rows");
        for method in methods.iter().filter(|m| ["get", "post"].contains(*m) && !path.ends_with("/tail")) {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let answer = send(server.api.request(method.clone(), &path)).await.unwrap();
            assert!(![404, 405, 500].contains(&answer.status), "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_readiness_status_and_metrics_tell_the_state() {
    let (server, _) = server_with_rows().await;
    assert_eq!(server.api.get("/health").await.expect(200).json()["status"], "alive");
    assert_eq!(server.api.get("/ready").await.expect(200).json()["status"], "ready");
    let status = server.api.get("/v1/status").await.expect(200).json();
    assert_eq!((&status["ready"], status["shards"].as_array().unwrap().len()), (&json!(true), 4), "{status}");
    assert!(status["shards"].as_array().unwrap().iter().all(|shard| shard["open"] == true), "{status}");
    let metrics = server.api.get("/metrics").await.expect(200);
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    let value = |name: &str| {
        let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in:\n{}", metrics.text())).parse::<f64>().unwrap()
    };
    assert_eq!(value("wadi_store_acked_rows_total"), 50.0);
    assert_eq!(value("wadi_store_owned_shards"), 4.0);
    assert_eq!(value("wadi_store_takeovers_total"), 4.0);
    assert_eq!(value("wadi_store_poisoned_shards_total"), 0.0);
    for name in [
        "log_objects_total",
        "acked_bytes_total",
        "log_object_bytes_total",
        "ack_seconds_count",
        "put_seconds_count",
    ] {
        assert!(value(&format!("wadi_store_{name}")) >= 1.0, "{name}");
    }
    for name in [
        "unflushed_bytes",
        "log_gets_total",
        "log_get_bytes_total",
        "segment_hits_total",
        "segment_misses_total",
    ] {
        assert!(value(&format!("wadi_store_{name}")) >= 0.0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_carry_the_request_id_and_the_time_of_each_stage() {
    let (server, table) = server_with_rows().await;
    let append = format!("{table}/append");
    let id = [("x-request-id", "mine-1")];
    let answer = server.api.post_with(&append, NDJSON, &id, "{\"a\":1}\n").await.expect(200);
    assert_eq!((answer.header("x-request-id"), &answer.json()["request_id"]), ("mine-1", &json!("mine-1")));
    let timing = answer.header("server-timing");
    for stage in ["decode", "queue", "put"] {
        let duration = timing.split(", ").find_map(|part| part.strip_prefix(&format!("{stage};dur=")));
        assert!(duration.is_some_and(|d| d.parse::<f64>().is_ok_and(|d| d >= 0.0)), "{stage}: {timing}");
    }
    let failed = server.api.post_with(&append, NDJSON, &id, "{\"a\":\"x\"}\n").await;
    assert_eq!(failed.problem()["request_id"], "mine-1");
    let ids: BTreeSet<String> = [
        server.api.get("/health").await.header("x-request-id").to_owned(),
        server.api.get("/nowhere").await.problem()["request_id"].as_str().unwrap().to_owned(),
        server
            .api
            .post_with(&append, NDJSON, &[("x-request-id", "has spaces")], "\n")
            .await
            .header("x-request-id")
            .to_owned(),
    ]
    .into();
    assert!(ids.len() == 3 && ids.iter().all(|id| id.len() == 32), "{ids:?}");
}
