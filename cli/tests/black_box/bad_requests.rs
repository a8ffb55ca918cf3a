//! Requests that are wrong before any row is looked at, keys that are used twice, clients that leave, a full disk.

use std::time::Duration;

use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::harness::{Answer, Api, JSON, NDJSON, PATIENCE, Server, Setup, send};

async fn server_with_table() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "n", "type": "int not null" }, { "name": "s", "type": "string" }]);
    let table =
        server.api.create_table(&json!({ "name": "flights", "columns": columns, "buckets": 2 })).await;
    (server, table)
}

#[track_caller]
fn expect(answer: &Answer, status: u16, code: &str) -> Value {
    let problem = answer.problem();
    assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{problem}");
    problem
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_paths_names_and_parameters_are_told_apart() {
    let (server, table) = server_with_table().await;
    let api = &server.api;
    let long = format!("/v1/databases/{}", "x".repeat(201));
    let cases = [
        ("/nowhere".to_owned(), 404, "path_not_found", "/openapi.json"),
        ("/v1/databases/u/tables/flights".to_owned(), 404, "database_not_found", "\"u\""),
        ("/v1/databases/t/tables/flihgts".to_owned(), 404, "table_not_found", "did you mean \"t.flights\"?"),
        ("/v1/databases/t/tables/a.b".to_owned(), 400, "invalid_name", "letters"),
        ("/v1/databases/__system".to_owned(), 400, "invalid_name", "system"),
        (long, 400, "invalid_name", "200"),
        ("/v1/databases/%FF%FE".to_owned(), 400, "invalid_path", ""),
        ("/v1/databases/t/tables/%FF/log".to_owned(), 400, "invalid_path", ""),
        ("/v1/databases/%zz".to_owned(), 400, "invalid_name", ""),
        (format!("{table}/log?bucket=0&ofset=1"), 400, "invalid_parameter", "did you mean \"offset\"?"),
        (format!("{table}/log?bucket=0&bucket=1"), 400, "invalid_parameter", "twice"),
        (format!("{table}/log?bucket=0&offset=-1"), 400, "invalid_parameter", "whole number"),
        (format!("{table}/log"), 400, "invalid_parameter", "2 buckets"),
        (format!("{table}/log?bucket=2"), 400, "invalid_parameter", "0 to 1"),
        (format!("{table}/log?bucket=0&columns=n,nn"), 400, "unknown_column", "did you mean"),
        (format!("{table}/log?bucket=0&columns=n,n"), 400, "invalid_parameter", "twice"),
        (format!("{table}/scan?filter=n%20%3D%3D%3D%201"), 400, "invalid_filter", ""),
        (format!("{table}/scan?filter=nope%20%3D%201"), 400, "invalid_filter", "nope"),
        (format!("{table}/offsets?at=yesterday"), 400, "invalid_parameter", "earliest"),
        (format!("{table}/tail?from=c1.!!"), 400, "invalid_parameter", "earliest"),
    ];
    for (path, status, code, word) in cases {
        let answer = api.get(&path).await;
        let problem = expect(&answer, status, code);
        assert!(problem["detail"].as_str().unwrap().contains(word), "{path}: {problem}");
    }
    let answer = api.get_as(&format!("{table}/log?bucket=0"), "image/png").await;
    let problem = expect(&answer, 406, "not_acceptable");
    assert!(problem["detail"].as_str().unwrap().contains("x-ndjson"), "{problem}");
    let answer = api.get_as(&format!("{table}/log?bucket=0&offset=7"), JSON).await;
    let problem = expect(&answer, 410, "offset_out_of_range");
    assert_eq!((&problem["log_start"], &problem["high_watermark"]), (&json!(0), &json!(0)), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_which_ones_are_right() {
    let (server, table) = server_with_table().await;
    for (method, path, allowed) in [
        (Method::PUT, "/health".to_owned(), "GET"),
        (Method::GET, format!("{table}/append"), "POST"),
        (Method::POST, format!("{table}/log"), "GET"),
    ] {
        let answer = send(server.api.request(method, &path)).await.unwrap();
        expect(&answer, 405, "method_not_allowed");
        assert!(answer.header("allow").contains(allowed), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_be_are_refused() {
    let (server, table) = server_with_table().await;
    let tables = "/v1/databases/t/tables";
    let column = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    let cases = [
        (json!({ "name": "flights", "columns": [column("a", "int")] }), 409, "table_exists"),
        (json!({ "name": "x__rejected", "columns": [column("a", "int")] }), 400, "invalid_name"),
        (json!({ "name": "x", "columns": [] }), 400, "invalid_table"),
        (json!({ "name": "x", "columns": [column("_offset", "int")] }), 400, "invalid_table"),
        (json!({ "name": "x", "columns": [column("__a", "int")] }), 400, "invalid_table"),
        (json!({ "name": "x", "columns": [column("a", "int"), column("a", "int")] }), 400, "invalid_table"),
        (json!({ "name": "x", "columns": [column("a", "interval")] }), 400, "invalid_type"),
        (json!({ "name": "x", "colums": [] }), 400, "invalid_json_body"),
        (json!({ "name": "x", "columns": [column("a", "int")], "buckets": 0 }), 400, "invalid_table"),
        (
            json!({ "name": "x", "columns": [column("a", "int")], "bucket_key": ["b"] }),
            400,
            "column_not_found",
        ),
        (
            json!({ "name": "x", "columns": [column("a", "int")], "properties": { "table.log.tll": "1d" } }),
            400,
            "invalid_option",
        ),
        (
            json!({ "name": "x", "columns": [column("a", "array<int>")], "primary_key": ["a"] }),
            400,
            "invalid_table",
        ),
    ];
    for (spec, status, code) in cases {
        let answer = server.api.call(Method::POST, tables, &spec).await;
        let problem = answer.problem();
        assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{spec}\n{problem}");
    }
    let broken = server.api.post(tables, JSON, "{\"name\":").await;
    expect(&broken, 400, "invalid_json_body");
    let untyped = server.api.post(tables, "text/plain", "{}").await;
    expect(&untyped, 415, "invalid_json_body");
    let again = server.api.call(Method::POST, "/v1/databases", &json!({ "name": "t" })).await;
    expect(&again, 409, "database_exists");
    let full = server.api.call(Method::DELETE, "/v1/databases/t", &json!(null)).await;
    expect(&full, 409, "database_not_empty");
    let listed = server.api.get(tables).await.expect(200).json();
    assert_eq!(listed["tables"].as_array().unwrap().len(), 1, "{listed}");
    server.api.get(&table).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_means_one_request() {
    let (server, table) = server_with_table().await;
    let append = format!("{table}/append");
    let post = async |headers: &[(&str, &str)], body: &'static str| {
        server.api.post_with(&append, NDJSON, headers, body).await
    };
    let key = [("idempotency-key", "k-1")];
    let first = post(&key, "{\"n\":1}\n").await.expect(200).json();
    let again = post(&key, "{\"n\":1}\n").await.expect(200).json();
    assert_eq!(first["offsets"], again["offsets"]);
    let problem = expect(&post(&key, "{\"n\":2}\n").await, 422, "key_reused");
    assert_eq!(problem["side_effects"], "none");

    // Many at once: one is written, the others get its offsets or are told to wait.
    let race = [("idempotency-key", "race")];
    let answers = join_all((0..16).map(|_| post(&race, "{\"n\":3}\n"))).await;
    let mut offsets = Vec::new();
    for answer in &answers {
        match answer.status {
            200 => offsets.push(answer.json()["offsets"].clone()),
            _ => drop(expect(answer, 409, "in_flight")),
        }
    }
    assert!(!offsets.is_empty() && offsets.iter().all(|o| *o == offsets[0]), "{offsets:?}");
    assert_eq!(server.api.scan(&table, "?filter=n%20%3D%203").await.len(), 1);

    let producer = |sequence: &'static str| [("wadi-producer-id", "p"), ("wadi-sequence", sequence)];
    // Each of the two buckets remembers 64 sequences; after these both have forgotten the first ones.
    let sequences: Vec<String> = (0..300).map(|sequence| sequence.to_string()).collect();
    for few in sequences.chunks(20) {
        let sent = few.iter().map(|sequence| async {
            let headers = [("wadi-producer-id", "p"), ("wadi-sequence", sequence.as_str())];
            post(&headers, "{\"n\":4}\n").await.expect(200);
        });
        join_all(sent).await;
    }
    let again = post(&producer("299"), "{\"n\":4}\n").await.expect(200);
    assert_eq!(again.json()["rows"], 1);
    assert_eq!(server.api.scan(&table, "?filter=n%20%3D%204").await.len(), 300);
    expect(&post(&producer("0"), "{\"n\":5}\n").await, 409, "sequence_too_old");
    let half = [("wadi-producer-id", "p")];
    expect(&post(&half, "{\"n\":5}\n").await, 400, "invalid_header");
    let both = [("idempotency-key", "k"), ("wadi-producer-id", "p"), ("wadi-sequence", "1")];
    expect(&post(&both, "{\"n\":5}\n").await, 400, "invalid_header");
    let long = "k".repeat(300);
    expect(&post(&[("idempotency-key", &long)], "{\"n\":5}\n").await, 400, "invalid_header");
    expect(&post(&producer("-1"), "{\"n\":5}\n").await, 400, "invalid_header");
    assert_eq!(server.api.scan(&table, "?filter=n%20%3D%205").await, Vec::<Value>::new());
}

/// Clients read the answer only when they have sent everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_at_the_wrong_place_gets_its_answer() {
    let (server, table) = server_with_table().await;
    let body = bytes::Bytes::from(b"{\"n\":1}\n".repeat(1 << 20));
    let answer = server.api.post("/v1/databases/t/tables/nowhere/append", NDJSON, body.clone()).await;
    expect(&answer, 404, "table_not_found");
    let answer = server.api.post(&format!("{table}/append"), "text/plain", body.clone()).await;
    expect(&answer, 415, "unsupported_media_type");
    let answer = server.api.post(&format!("{table}/append?on_error=never"), NDJSON, body).await;
    expect(&answer, 400, "invalid_parameter");
}

/// Sends bytes as they are, and reads what comes until the other end closes or nothing comes for a while.
async fn raw(api: &Api, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(api.url.trim_start_matches("http://")).await.unwrap();
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_or_lie_about_lengths_write_nothing() {
    let (server, table) = server_with_table().await;
    let head = |length: &str| {
        format!("POST {table}/append HTTP/1.1\r\nhost: wadi\r\ncontent-type: {NDJSON}\r\n{length}\r\n\r\n")
    };
    for length in ["content-length: 1000", "transfer-encoding: chunked"] {
        let body = if length.starts_with('c') { "{\"n\":1}\n" } else { "8\r\n{\"n\":1}\n\r\n" };
        let mut stream = TcpStream::connect(server.api.url.trim_start_matches("http://")).await.unwrap();
        stream.write_all((head(length) + body).as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
    }
    let declared = raw(&server.api, head("content-length: 99999999999").as_bytes()).await;
    assert!(declared.starts_with("HTTP/1.1 413 ") && declared.contains("body_too_large"), "{declared}");
    let huge = format!("GET /health HTTP/1.1\r\nhost: wadi\r\nx-big: {}\r\n\r\n", "x".repeat(1 << 20));
    let refused = raw(&server.api, huge.as_bytes()).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431 "), "{refused}");
    let garbage = raw(&server.api, b"\x16\x03\x01 no http at all\r\n\r\n").await;
    assert!(garbage.is_empty() || garbage.starts_with("HTTP/1.1 400 "), "{garbage}");
    sleep(Duration::from_millis(300)).await;
    assert_eq!(server.api.scan(&table, "").await, Vec::<Value>::new());
    server.api.post(&format!("{table}/append"), NDJSON, "{\"n\":1}\n").await.expect(200);
}

/// The data directory is a file system of 8 MiB in a namespace of the server's own, which is filled and emptied.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_writes_go_on_when_there_is_room() {
    let setup = Setup::dev();
    let data = setup.data().display().to_string();
    std::fs::create_dir(&data).unwrap();
    let mount = format!("mount -t tmpfs -o size=8m tmpfs {data} && exec \"$0\" \"$@\"");
    let server = setup.before(&format!("exec unshare -m bash -c '{mount}' \"$0\" \"$@\"")).into_ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "n", "type": "int" }]);
    let table = server.api.create_table(&json!({ "name": "full", "columns": columns })).await;
    let append = format!("{table}/append");
    server.api.post(&append, NDJSON, "{\"n\":1}\n").await.expect(200);

    let inside = format!("/proc/{}/root{data}", server.process.pid());
    let filler = std::path::Path::new(&inside).join("filler");
    let filled = std::fs::write(&filler, vec![0; 16 << 20]);
    assert!(filled.is_err(), "16 MiB fit into 8 MiB");
    let key = [("idempotency-key", "full")];
    let answer = server.api.post_with(&append, NDJSON, &key, "{\"n\":2}\n").await;
    assert!([429, 503].contains(&answer.status), "{answer:?}");
    assert_eq!(answer.problem()["retryable"], true, "{answer:?}");
    server.api.get("/health").await.expect(200);

    std::fs::remove_file(&filler).unwrap();
    let again = async {
        loop {
            let answer = server.api.post_with(&append, NDJSON, &key, "{\"n\":2}\n").await;
            match answer.status {
                200 => return,
                _ => assert_eq!(answer.problem()["retryable"], true, "{answer:?}"),
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, again).await.unwrap();
    assert_eq!(server.api.scan(&table, "").await, [json!({ "n": 1 }), json!({ "n": 2 })]);
}
