//! Debezium's change events, written to a primary-key table.

use serde_json::{Value, json};

use crate::harness::{Answer, CSV, JSON, NDJSON, Server, Setup};
use crate::keyed::create;

const UNAVAILABLE: &str = "__debezium_unavailable_value";

async fn server() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns = "id bigint not null, name string not null, body string, raw bytes, tags array<string>";
    let table = create(&server.api, "docs", columns, "id", json!({ "buckets": 3 })).await;
    (server, table)
}

/// An envelope as a Postgres connector writes it.
fn envelope(op: &str, before: Value, after: Value) -> Value {
    let source = json!({ "version": "3.0", "connector": "postgresql", "lsn": 1, "snapshot": "false" });
    json!({ "before": before, "after": after, "source": source, "op": op, "ts_ms": 1, "transaction": null })
}

/// The same with the schema that the JSON converter adds.
fn wrapped(payload: Value) -> Value {
    let field = json!({ "type": "struct", "fields": [{ "type": "int64", "field": "id" }], "field": "after" });
    json!({ "schema": { "type": "struct", "fields": [field], "name": "x.Envelope" }, "payload": payload })
}

fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

async fn post(server: &Server, table: &str, more: &str, content_type: &str, body: String) -> Answer {
    server.api.post(&format!("{table}/upsert?format=debezium{more}"), content_type, body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_changes_becomes_the_table() {
    let (server, table) = server().await;
    let row = |id: i64, name: &str, body: &str| json!({ "id": id, "name": name, "body": body, "raw": "AAE=", "tags": ["x"] });
    let key = |id: i64| json!({ "id": id, "name": "", "body": null, "raw": null, "tags": null });
    let bytes = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";
    let events = [
        envelope("r", Value::Null, row(1, "one", "first")),
        envelope("c", Value::Null, row(2, "two", "second")),
        envelope(
            "u",
            Value::Null,
            json!({ "id": 1, "name": "uno", "body": UNAVAILABLE, "raw": bytes, "tags": [UNAVAILABLE] }),
        ),
        envelope("c", Value::Null, row(3, "three", "third")),
        envelope("d", json!({ "id": 2, "name": UNAVAILABLE, "nobody": "knows" }), Value::Null),
        Value::Null,
        envelope(
            "u",
            row(3, "three", "third"),
            json!({ "id": 3, "name": "tres", "body": null, "raw": bytes, "tags": null }),
        ),
        envelope(
            "u",
            Value::Null,
            json!({ "id": 1, "name": "eins", "body": UNAVAILABLE, "raw": null, "tags": ["y"] }),
        ),
        envelope("c", Value::Null, row(4, "four", "fourth")),
        envelope("d", key(4), Value::Null),
        Value::Null,
        envelope("c", Value::Null, row(4, "vier", "again")),
    ];
    let want = [
        json!({ "id": 1, "name": "eins", "body": "first", "raw": null, "tags": ["y"] }),
        json!({ "id": 3, "name": "tres", "body": null, "raw": "AAE=", "tags": null }),
        json!({ "id": 4, "name": "vier", "body": "again", "raw": "AAE=", "tags": ["x"] }),
    ];
    let state = async || {
        let mut rows = server.api.scan(&table, "").await;
        rows.sort_by_key(|row| row["id"].as_i64());
        rows
    };
    let wrap = |event: &Value| wrapped(event.clone());
    let bodies = [
        (NDJSON, lines(&events)),
        (JSON, Value::from(events.to_vec()).to_string()),
        (NDJSON, lines(&events.iter().map(wrap).collect::<Vec<_>>())),
        (JSON, Value::from(events.iter().map(wrap).collect::<Vec<_>>()).to_string()),
    ];
    for (content_type, body) in bodies {
        let answer = post(&server, &table, "", content_type, body).await.expect(200);
        assert_eq!(answer.json()["rows"], 10, "tombstones are no rows");
        assert_eq!(state().await, want, "{content_type}");
    }
    // One event alone, and only a tombstone.
    post(&server, &table, "", JSON, events[4].to_string()).await.expect(200);
    let one = envelope("d", json!({ "id": 1 }), Value::Null).to_string();
    post(&server, &table, "", JSON, one).await.expect(200);
    assert_eq!(post(&server, &table, "", NDJSON, "null\n".into()).await.expect(200).json()["rows"], 0);
    assert_eq!(state().await, want[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_value_of_a_row_that_is_not_there_is_null() {
    let (server, table) = server().await;
    let events = [
        envelope("u", Value::Null, json!({ "id": 1, "name": "a", "body": "gone", "raw": "AAE=" })),
        envelope("u", Value::Null, json!({ "id": 2, "name": "b", "body": "__debezium_unavailable_value" })),
    ];
    post(&server, &table, "&unavailable_value=gone", NDJSON, lines(&events)).await.expect(200);
    let mut rows = server.api.scan(&table, "?columns=id,body").await;
    rows.sort_by_key(|row| row["id"].as_i64());
    // The placeholder is what the parameter says; any other text is a text.
    assert_eq!(rows, [json!({ "id": 1, "body": null }), json!({ "id": 2, "body": UNAVAILABLE })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_change_of_a_row_is_named() {
    let (server, table) = server().await;
    let good = envelope("c", Value::Null, json!({ "id": 1, "name": "a" }));
    let cases = [
        (envelope("t", Value::Null, Value::Null), "op", "truncation"),
        (envelope("m", Value::Null, Value::Null), "op", "messages"),
        (envelope("x", Value::Null, Value::Null), "op", "c, r, u or d"),
        (json!({ "id": 1, "name": "a" }), "op", "envelope"),
        (json!({ "payload": 3 }), "payload", "envelope"),
        (envelope("c", Value::Null, Value::Null), "after", "null"),
        (envelope("d", Value::Null, Value::Null), "before", "replica identity"),
        (envelope("d", json!({ "name": "a" }), Value::Null), "id", "not null"),
        (envelope("u", Value::Null, json!({ "id": 1 })), "name", "not null"),
        (envelope("u", Value::Null, json!({ "id": UNAVAILABLE, "name": "a" })), "id", "bigint"),
        (envelope("u", Value::Null, json!({ "id": 1, "name": UNAVAILABLE })), "name", "default"),
        (
            envelope("u", Value::Null, json!({ "id": 1, "name": "a", "more": 1 })),
            "more",
            "a column of the table",
        ),
        (json!("text"), "", "object"),
    ];
    for (event, column, word) in cases {
        let body = lines(&[good.clone(), Value::Null, event.clone(), good.clone()]);
        let problem = post(&server, &table, "", NDJSON, body.clone()).await.expect(422).problem();
        let error = &problem["errors"][0];
        assert_eq!((&problem["errors_total"], &error["row"]), (&json!(1), &json!(1)), "{event}: {problem}");
        assert_eq!(error["line"], 3, "{event}: {problem}");
        assert_eq!(error["column"].as_str().unwrap_or_default(), column, "{event}: {problem}");
        assert!(error.to_string().contains(word), "{event}: no {word:?} in {error}");
        let skipped = post(&server, &table, "&on_error=skip", NDJSON, body).await.expect(200).json();
        assert_eq!(
            (&skipped["rows"], &skipped["rejected_rows"]),
            (&json!(2), &json!(1)),
            "{event}: {skipped}"
        );
    }
    let whole = good.to_string();
    for (more, content_type, status) in
        [("", CSV, 415), ("&columns=id,name", JSON, 400), ("&unavailable_value=", JSON, 400)]
    {
        assert_eq!(post(&server, &table, more, content_type, whole.clone()).await.status, status, "{more}");
    }
    let other = server.api.post(&format!("{table}/upsert?format=maxwell"), JSON, whole.clone()).await;
    assert!(other.expect(400).problem()["detail"].as_str().unwrap().contains("debezium"));
    let stray = server.api.post(&format!("{table}/upsert?unavailable_value=x"), JSON, whole).await;
    assert_eq!(stray.status, 400);
}
