//! The client against a server that fails in chosen ways.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use axum::Router;
use axum::body::{Body as HttpBody, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use wadi_client::{
    AlterTable, ArrowCompression, Body, BucketOffset, Client, ClientError, ClientOptions, LogQuery,
    NewPartition, OnError, ScanQuery, TailQuery, WriteKey, WriteOptions, content_type, encode_stream,
};
use wadi_model::evolve::SchemaChange;
use wadi_model::{ErrorKind, TableName, TableSpec};

/// A request as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    call: String,
    headers: HeaderMap,
    body: Bytes,
}

type Answers = Arc<dyn Fn(usize, &Seen) -> Response + Send + Sync>;

/// Answers request `n` (from 0) as the test says, and remembers it.
#[derive(Clone)]
struct Fake {
    answers: Answers,
    seen: Arc<Mutex<Vec<Seen>>>,
}

async fn answer(State(fake): State<Fake>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let seen = Seen { call: format!("{} {}", parts.method, parts.uri), headers: parts.headers, body };
    let n = {
        let mut all = fake.seen.lock();
        all.push(seen.clone());
        all.len() - 1
    };
    (fake.answers)(n, &seen)
}

fn options() -> ClientOptions {
    ClientOptions {
        first_backoff: Duration::from_millis(1),
        max_backoff: Duration::from_millis(2),
        ..ClientOptions::default()
    }
}

/// Runs a test against a server; gives its result and all that the server saw.
async fn against<T, F: Future<Output = T>>(
    answers: impl Fn(usize, &Seen) -> Response + Send + Sync + 'static,
    options: ClientOptions,
    test: impl FnOnce(Client) -> F,
) -> (T, Vec<Seen>) {
    let fake = Fake { answers: Arc::new(answers), seen: Arc::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), options).unwrap();
    let router = Router::new().fallback(answer).with_state(fake.clone());
    let server = async { axum::serve(listener, router).await.unwrap() };
    let result = tokio::select! {
        result = test(client) => result,
        () = server => unreachable!("the server does not end"),
    };
    let seen = fake.seen.lock().clone();
    (result, seen)
}

fn problem(status: u16, code: &str, retryable: bool, side_effects: &str) -> Response {
    let body = format!(
        r#"{{"type":"x","status":{status},"code":"{code}","title":"t","detail":"the detail","request_id":"r1",
            "retryable":{retryable},"side_effects":"{side_effects}",
            "errors":[{{"row":3,"column":"price","expected":"decimal(10,2)","got":"\"12,5\""}}]}}"#
    );
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/problem+json")], body).into_response()
}

fn json(body: &'static str) -> Response {
    ([("content-type", "application/json")], body).into_response()
}

const WRITTEN: &str = r#"{"request_id":"r2","rows":2,
    "offsets":[{"partition":"","bucket":1,"base_offset":5,"last_offset":6}],"rejected_rows":0,"rejected":[]}"#;

fn table() -> TableName {
    "nyc.flights".parse().unwrap()
}

fn batch() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    RecordBatch::try_from_iter([("id", ids)]).unwrap()
}

fn header<'a>(seen: &'a Seen, name: &str) -> &'a str {
    seen.headers.get(name).map_or("", |v| v.to_str().unwrap())
}

#[tokio::test]
async fn a_retried_append_carries_the_same_key_and_body() {
    let answers = |n: usize, _: &Seen| match n {
        0 => problem(503, "outcome_unknown", true, "unknown"),
        1 => problem(409, "in_flight", false, "none"),
        2 => (StatusCode::BAD_GATEWAY, "a proxy's page").into_response(),
        _ => json(WRITTEN),
    };
    let (answer, seen) = against(answers, options(), async |client| {
        let answer = client.append_batch(&table(), &batch(), &WriteOptions::default()).await.unwrap();
        assert_eq!(client.retries(), 3);
        answer
    })
    .await;
    assert_eq!((answer.rows, answer.attempts, answer.offsets[0].last_offset), (2, 4, 6));
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0].call, "POST /v1/databases/nyc/tables/flights/append");
    assert_eq!(header(&seen[0], "content-type"), content_type::ARROW);
    assert!(header(&seen[0], "idempotency-key").len() > 30);
    for again in &seen[1..] {
        assert_eq!(header(again, "idempotency-key"), header(&seen[0], "idempotency-key"));
        assert_eq!(again.body, seen[0].body);
    }
}

#[tokio::test]
async fn every_append_has_a_key_of_its_own_unless_the_caller_gives_one() {
    let (_, seen) = against(
        |_, _| json(WRITTEN),
        options(),
        async |client| {
            let append = async |key, on_error| {
                client.append_batch(&table(), &batch(), &WriteOptions { key, on_error }).await.unwrap()
            };
            append(WriteKey::Generated, OnError::Fail).await;
            append(WriteKey::Generated, OnError::Skip).await;
            append(WriteKey::Idempotency("mine".into()), OnError::Dlq).await;
            append(WriteKey::Producer { id: "p".into(), sequence: 7 }, OnError::Fail).await;
            let bad = WriteOptions { key: WriteKey::Idempotency("a\nb".into()), ..WriteOptions::default() };
            let bad = client.append_batch(&table(), &batch(), &bad).await.unwrap_err();
            assert!(matches!(bad, ClientError::BadKey { .. }));
        },
    )
    .await;
    assert_ne!(header(&seen[0], "idempotency-key"), header(&seen[1], "idempotency-key"));
    assert!(
        seen[1].call.ends_with("/append?on_error=skip") && seen[2].call.ends_with("/append?on_error=dlq")
    );
    assert_eq!(header(&seen[2], "idempotency-key"), "\"mine\"");
    assert_eq!((header(&seen[3], "wadi-producer-id"), header(&seen[3], "wadi-sequence")), ("p", "7"));
    assert_eq!(header(&seen[3], "idempotency-key"), "");
}

#[tokio::test]
async fn upserts_and_deletes_are_retried_under_their_key_and_name_their_columns() {
    let answers = |n: usize, _: &Seen| match n {
        0 | 2 => problem(503, "outcome_unknown", true, "unknown"),
        _ => json(WRITTEN),
    };
    let columns = ["id".to_owned(), "a,b".to_owned()];
    let (_, seen) = against(answers, options(), async |client| {
        let body = || Body::new(content_type::JSON, r#"[{"id":1}]"#);
        let upserted = client.upsert(&table(), &columns, body(), &WriteOptions::default()).await.unwrap();
        assert_eq!((upserted.rows, upserted.attempts), (2, 2));
        let skip = WriteOptions { on_error: OnError::Skip, ..WriteOptions::default() };
        client.delete(&table(), &[], body(), &skip).await.unwrap();
    })
    .await;
    assert_eq!(seen[0].call, "POST /v1/databases/nyc/tables/flights/upsert?columns=id%2C%22a%2Cb%22");
    assert_eq!(seen[2].call, "POST /v1/databases/nyc/tables/flights/delete?on_error=skip");
    let key = |n: usize| header(&seen[n], "idempotency-key");
    assert_eq!((key(0), key(2)), (key(1), key(3)));
    assert!(key(0).len() > 30 && key(0) != key(2));
}

#[tokio::test]
async fn a_lookup_sends_its_keys_and_gives_rows_and_how_many_there_are() {
    let answers = |n: usize, _: &Seen| match n {
        0 => problem(429, "overloaded", true, "none"),
        1 => ([("wadi-found", "1")], arrow_answer(&[batch()])).into_response(),
        _ => arrow_answer(&[batch()]),
    };
    let (_, seen) = against(answers, options(), async |client| {
        let columns = ["id".to_owned()];
        let found = client.lookup_batch(&table(), &columns, &batch()).await.unwrap();
        assert_eq!((found.found, found.batches), (1, vec![batch()]));
        let error = client.lookup_batch(&table(), &[], &batch()).await.unwrap_err();
        assert!(error.to_string().contains("wadi-found"), "{error}");
        let body = Body::new(content_type::JSON, "{\"id\":1}");
        client.lookup_or_insert(&table(), &[], body).await.unwrap_err();
    })
    .await;
    assert_eq!(seen[1].call, "POST /v1/databases/nyc/tables/flights/lookup?columns=id");
    assert_eq!(seen[2].call, "POST /v1/databases/nyc/tables/flights/lookup");
    assert_eq!(seen[3].call, "POST /v1/databases/nyc/tables/flights/lookup?insert_if_not_exists=true");
    assert_eq!(header(&seen[0], "accept"), content_type::ARROW);
    assert_eq!(header(&seen[0], "content-type"), content_type::ARROW);
}

#[tokio::test]
async fn what_is_wrong_with_the_request_is_not_sent_again() {
    let (error, seen) = against(
        |_, _| problem(422, "rows_rejected", false, "none"),
        options(),
        async |client| client.append_batch(&table(), &batch(), &WriteOptions::default()).await.unwrap_err(),
    )
    .await;
    assert_eq!(seen.len(), 1);
    assert_eq!((error.kind(), error.code()), (ErrorKind::Rejected, Some("rows_rejected")));
    assert_eq!(error.problem().unwrap().errors[0].column.as_deref(), Some("price"));
    assert_eq!(error.to_string(), "the detail (422 rows_rejected, request r1)");
}

#[tokio::test]
async fn a_change_without_key_is_repeated_only_if_nothing_was_done() {
    let spec = TableSpec::log("t", &[("id", "bigint")]);
    let create = async |client: Client| client.create_table(&"nyc".parse().unwrap(), &spec).await;
    let unknown = |_: usize, _: &Seen| problem(503, "outcome_unknown", true, "unknown");
    let (error, seen) = against(unknown, options(), create).await;
    assert_eq!((error.unwrap_err().kind(), seen.len()), (ErrorKind::OutcomeUnknown, 1));
    let draining = |n: usize, _: &Seen| match n {
        0 => problem(503, "draining", true, "none"),
        _ => json(
            r#"{"id":7,"name":"t","columns":[{"name":"id","type":"bigint"}],"buckets":1,"created_at":5}"#,
        ),
    };
    let (created, seen) = against(draining, options(), create).await;
    let created = created.unwrap();
    assert_eq!((created.id, created.rest["created_at"].as_i64(), seen.len()), (7, Some(5), 2));
    assert_eq!(serde_json::from_slice::<TableSpec>(&seen[1].body).unwrap(), spec);
}

#[tokio::test]
async fn retry_after_beyond_the_deadline_is_not_waited_for() {
    let answers = |_: usize, _: &Seen| {
        let mut response = problem(429, "overloaded", true, "none");
        response.headers_mut().insert("retry-after", "3600".parse().unwrap());
        response
    };
    let (error, seen) =
        against(answers, options(), async |client| client.databases().await.unwrap_err()).await;
    assert_eq!((error.kind(), seen.len()), (ErrorKind::Overloaded, 1));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    // The port was free a moment ago; nobody listens on it.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options = ClientOptions { deadline: Duration::ZERO, ..options() };
    let client = Client::new(&format!("http://{address}"), options).unwrap();
    let error = client.append_batch(&table(), &batch(), &WriteOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn addresses_that_cannot_be_spoken_to_are_refused() {
    for url in ["localhost:8080", "https://h:1", "", "http://"] {
        assert!(matches!(Client::new(url, options()), Err(ClientError::BadUrl { .. })), "{url} was taken");
    }
}

fn arrow_answer(batches: &[RecordBatch]) -> Response {
    let body = encode_stream(batches, ArrowCompression::Lz4).unwrap();
    let headers = [("wadi-next-offset", "9"), ("wadi-high-watermark", "20"), ("wadi-log-start", "3")];
    (headers, HttpBody::from(body)).into_response()
}

#[tokio::test]
async fn a_log_read_asks_for_what_is_wanted_and_gives_rows_and_offsets() {
    let query = LogQuery {
        bucket: 2,
        offset: 7,
        columns: vec!["id".into(), "a,b".into()],
        filter: Some("id > 1 and name = 'x y'".into()),
        max_rows: Some(10),
        wait_ms: Some(0),
        ..LogQuery::default()
    };
    let (log, seen) = against(
        |_, _| arrow_answer(&[batch(), batch()]),
        options(),
        async |client| client.log(&table(), &query).await.unwrap(),
    )
    .await;
    assert_eq!((log.next_offset, log.high_watermark, log.log_start, log.rows()), (9, 20, 3, 4));
    let asked = reqwest::Url::parse(&format!("http://h{}", seen[0].call.trim_start_matches("GET "))).unwrap();
    let asked: BTreeMap<String, String> = asked.query_pairs().into_owned().collect();
    let want = [
        ("bucket", "2"),
        ("offset", "7"),
        ("columns", "id,\"a,b\""),
        ("filter", "id > 1 and name = 'x y'"),
        ("max_rows", "10"),
        ("wait_ms", "0"),
    ];
    assert_eq!(asked, want.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(header(&seen[0], "accept"), content_type::ARROW);
}

#[tokio::test]
async fn a_log_answer_without_its_headers_is_told() {
    let answers =
        |_: usize, _: &Seen| encode_stream(&[batch()], ArrowCompression::None).unwrap().into_response();
    let (error, _) = against(answers, options(), async |client| {
        client.log(&table(), &LogQuery::default()).await.unwrap_err()
    })
    .await;
    assert!(error.to_string().contains("wadi-next-offset"), "{error}");
}

#[tokio::test]
async fn scan_and_tail_give_what_the_server_streams() {
    let answers = |_: usize, _: &Seen| arrow_answer(&[batch()]);
    let (_, seen) = against(answers, options(), async |client| {
        let query = ScanQuery { limit: Some(5), ..ScanQuery::default() };
        let scanned: Vec<_> =
            client.scan(&table(), &query).await.unwrap().map(Result::unwrap).collect().await;
        assert_eq!(scanned, [batch()]);
        let query = TailQuery { from: Some("earliest".into()), ..TailQuery::default() };
        let tailed: Vec<_> = client.tail(&table(), &query).await.unwrap().map(Result::unwrap).collect().await;
        assert_eq!(tailed, [batch()]);
    })
    .await;
    assert!(seen[0].call.ends_with("/scan?limit=5") && seen[1].call.ends_with("/tail?from=earliest"));
}

fn cursor(n: u32) -> String {
    format!("event: cursor\nid: c{n}\ndata:\n\n")
}

/// Each connection brings one group and ends in the middle of the next, in the middle of a row, or between two.
#[tokio::test]
async fn a_followed_table_goes_on_from_its_cursor() {
    let answers = |n: usize, seen: &Seen| match n {
        0 => [&cursor(0), ": alive\n\ndata: {\"id\":1}\n\n", &cursor(1), "data: {\"id\":2}\n\n"]
            .concat()
            .into_response(),
        1 => [&cursor(1), "data: {\"id\":3}\n\ndata: {\"id\":2}\n\n", &cursor(3), "data: {\"id\":4"]
            .concat()
            .into_response(),
        2 => problem(503, "draining", true, "none"),
        3 => cursor(3).into_response(),
        _ => {
            assert!(seen.call.contains("limit=1"), "{}", seen.call);
            [&cursor(3), "data: {\"id\":4}\n\n", &cursor(4)].concat().into_response()
        }
    };
    let (_, seen) = against(answers, options(), async |client| {
        let query = TailQuery { from: Some("latest".into()), limit: Some(4), ..TailQuery::default() };
        let mut follow = client.follow(&table(), query).await.unwrap();
        let (mut rows, mut cursors) = (Vec::new(), Vec::new());
        while let Some(group) = follow.next().await.unwrap() {
            rows.extend(group.rows);
            cursors.push(group.cursor);
        }
        let want = ["{\"id\":1}", "{\"id\":3}", "{\"id\":2}", "{\"id\":4}"];
        assert_eq!(rows, want.map(|row| Bytes::from_static(row.as_bytes())));
        assert_eq!(cursors, ["c0", "c1", "c1", "c3", "c3", "c3", "c4"]);
        assert_eq!(follow.lost(), 3);
    })
    .await;
    let from: Vec<_> =
        seen.iter().map(|s| s.call.split_once("from=").unwrap().1.split('&').next().unwrap()).collect();
    assert_eq!(from, ["latest", "c1", "c3", "c3", "c3"]);
}

#[tokio::test]
async fn a_followed_table_that_is_gone_ends_the_following() {
    let answers = |n: usize, _: &Seen| match n {
        0 => cursor(0).into_response(),
        _ => problem(404, "table_not_found", false, "none"),
    };
    against(answers, options(), async |client| {
        let mut follow = client.follow(&table(), TailQuery::default()).await.unwrap();
        assert_eq!(follow.next().await.unwrap().unwrap().cursor, "c0");
        assert_eq!(follow.next().await.unwrap_err().code(), Some("table_not_found"));
    })
    .await;
}

#[tokio::test]
async fn connections_that_never_bring_anything_are_given_up() {
    let answers = |_: usize, _: &Seen| cursor(0).into_response();
    let (_, seen) = against(answers, options(), async |client| {
        let mut follow = client.follow(&table(), TailQuery::default()).await.unwrap();
        let error = loop {
            match follow.next().await {
                Ok(group) => assert!(group.unwrap().rows.is_empty()),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ClientError::Ended), "{error}");
    })
    .await;
    assert_eq!(seen.len(), 11);
}

#[tokio::test]
async fn administration_speaks_the_api() {
    let answers = |_: usize, seen: &Seen| match seen.call.as_str() {
        "GET /v1/databases" => json(r#"{"databases":[{"name":"nyc","tables":3}]}"#),
        "GET /v1/databases/nyc/tables" => json(r#"{"tables":[{"name":"flights"}]}"#),
        "GET /v1/databases/nyc/tables/flights/offsets?at=latest" => {
            json(r#"{"offsets":[{"partition":"","bucket":0,"offset":12}]}"#)
        }
        "GET /v1/databases/nyc/tables/flights/partitions" => {
            json(r#"{"partitions":[{"name":"1$eu","values":{"a":"1","b":"eu"},"id":9,"created_at":5}]}"#)
        }
        "POST /v1/databases/nyc/tables/flights/partitions" => json(r#"{"name":"1$eu","id":9}"#),
        call if call.starts_with("PATCH") => {
            json(r#"{"id":7,"name":"t","columns":[],"buckets":1,"properties":{"a":"b"}}"#)
        }
        call if call.starts_with("DELETE") => StatusCode::NO_CONTENT.into_response(),
        _ => problem(404, "not_found", false, "none"),
    };
    let (_, seen) = against(answers, options(), async |client| {
        let nyc = "nyc".parse().unwrap();
        assert_eq!(client.databases().await.unwrap()[0].rest["tables"], 3);
        assert_eq!(client.tables(&nyc).await.unwrap()[0].name, "flights");
        let offsets = client.offsets(&table(), "latest").await.unwrap();
        assert_eq!(offsets, [BucketOffset { partition: String::new(), bucket: 0, offset: 12 }]);
        let alter = AlterTable {
            changes: vec![SchemaChange::DropColumn { name: "x".into() }],
            properties: [("a".to_owned(), None)].into(),
        };
        client.alter_table(&table(), &alter).await.unwrap();
        let partitions = client.partitions(&table()).await.unwrap();
        assert_eq!((partitions[0].name.as_str(), partitions[0].values["b"].as_str()), ("1$eu", "eu"));
        for new in
            [NewPartition::Name("1$eu".into()), NewPartition::Values([("a".into(), "1".into())].into())]
        {
            assert_eq!(client.create_partition(&table(), &new).await.unwrap().id, 9);
        }
        client.drop_partition(&table(), "1$eu").await.unwrap();
        client.drop_table(&table()).await.unwrap();
        client.drop_database(&nyc).await.unwrap();
        assert_eq!(client.health().await.unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
    let patch = seen.iter().find(|s| s.call.starts_with("PATCH")).unwrap();
    let want = serde_json::json!({"changes": [{"drop_column": {"name": "x"}}], "properties": {"a": null}});
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&patch.body).unwrap(), want);
    let posts = seen.iter().filter(|s| s.call.starts_with("POST"));
    let bodies: Vec<_> = posts.map(|s| String::from_utf8_lossy(&s.body).into_owned()).collect();
    assert_eq!(bodies, [r#"{"name":"1$eu"}"#, r#"{"values":{"a":"1"}}"#]);
    assert!(
        seen.iter().any(|s| s.call == "DELETE /v1/databases/nyc/tables/flights/partitions?partition=1%24eu")
    );
}
