//! What can be wrong with rows that have keys: a clear answer, nothing written (or only the good rows), the server lives.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Api, JSON, NDJSON, Server, Setup};
use crate::keyed::create;

async fn server() -> Server {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    server
}

/// Checks status, code, and words of the explanation; gives the document.
#[track_caller]
fn check(answer: &Answer, status: u16, code: &str, words: &[&str]) -> Value {
    let problem = answer.problem();
    assert_eq!((answer.status, problem["code"].as_str()), (status, Some(code)), "{problem}");
    assert_eq!(
        (&problem["side_effects"], &problem["retryable"]),
        (&json!("none"), &json!(false)),
        "{problem}"
    );
    let text = problem.to_string().replace("\\\"", "\"");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    problem
}

/// `k bigint, s string not null, n int` in three buckets, with one row.
async fn strict(api: &Api, properties: Value) -> String {
    let columns = "k bigint not null, s string not null, n int";
    let table = create(api, "strict", columns, "k", json!({ "buckets": 3, "properties": properties })).await;
    api.post(&format!("{table}/upsert"), JSON, r#"{"k":0,"s":"there"}"#).await.expect(200);
    table
}

/// That nothing was written but what `strict` wrote.
async fn untouched(api: &Api, table: &str) {
    assert_eq!(api.scan(table, "").await, [json!({ "k": 0, "s": "there", "n": null })]);
    assert_eq!(api.get(table).await.expect(200).json()["statistics"]["changes"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_cannot_be_merged_are_named_and_nothing_is_written() {
    let server = server().await;
    let table = strict(&server.api, json!({})).await;
    let rows: [(&str, &str, &str); 8] = [
        (r#"{"s":"x"}"#, "k", "not null"),
        (r#"{"k":null,"s":"x"}"#, "k", "not null"),
        (r#"{"k":"one","s":"x"}"#, "k", "quotes"),
        (r#"{"k":1}"#, "s", "not null"),
        (r#"{"k":1,"s":"x","_change_type":"+X"}"#, "_change_type", "+I, +U, -U or -D"),
        (r#"{"k":1,"s":null,"_change_type":"+U"}"#, "s", "not null"),
        (r#"{"_change_type":"-D"}"#, "k", "not null"),
        (r#"{"k":1,"s":"x","_offset":3}"#, "_offset", "a column of the table"),
    ];
    for (row, column, word) in rows {
        let body = format!("{}\n{row}\n{}\n", r#"{"k":1,"s":"a"}"#, r#"{"k":2,"s":"b"}"#);
        let answer = server.api.post(&format!("{table}/upsert"), NDJSON, body.clone()).await;
        let problem = check(&answer, 422, "rows_rejected", &[word]);
        let error = &problem["errors"][0];
        assert_eq!((&error["row"], &error["column"]), (&json!(1), &json!(column)), "{row}: {problem}");
        assert_eq!(problem["errors_total"], 1, "{row}: {problem}");
    }
    untouched(&server.api, &table).await;
    let deletes =
        [(r#"[{"k":0},{"k":null}]"#, "k"), (r#"[{"k":0},{"k":1,"s":"x"}]"#, "s"), (r#"[{"k":0},{}]"#, "k")];
    for (body, column) in deletes {
        let answer = server.api.post(&format!("{table}/delete"), JSON, body).await;
        let problem = check(&answer, 422, "rows_rejected", &[]);
        let error = &problem["errors"][0];
        assert_eq!((&error["row"], &error["column"]), (&json!(1), &json!(column)), "{body}: {problem}");
    }
    untouched(&server.api, &table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn skipped_rows_take_their_changes_with_them() {
    let server = server().await;
    let table = strict(&server.api, json!({})).await;
    // The third of five is bad; what follows must not get its meaning.
    let body = r#"[{"k":1,"s":"a"},{"k":0,"_change_type":"-D"},{"k":2,"_change_type":"+I"},{"k":3,"s":"c"},{"k":1,"_change_type":"-D"}]"#;
    for (on_error, lines) in [("skip", 1), ("dlq", 1)] {
        let path = format!("{table}/upsert?on_error={on_error}");
        let answer = server.api.post(&path, JSON, body).await.expect(200).json();
        assert_eq!((&answer["rows"], &answer["rejected_rows"]), (&json!(4), &json!(lines)), "{answer}");
        assert_eq!(
            (&answer["rejected"][0]["row"], &answer["rejected"][0]["column"]),
            (&json!(2), &json!("s"))
        );
        assert_eq!(server.api.scan(&table, "").await, [json!({ "k": 3, "s": "c", "n": null })]);
    }
    let stored = server.api.scan(&format!("{table}__rejected"), "?columns=row,column").await;
    assert_eq!(stored, [json!({ "row": 2, "column": "s" })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_many_times_is_merged_step_by_step() {
    let server = server().await;
    let table = create(&server.api, "kv", "k bigint not null, n int", "k", json!({})).await;
    let rows: Vec<Value> = (0..1000).map(|n| json!({ "k": 1, "n": n })).collect();
    server.api.post(&format!("{table}/upsert"), JSON, Value::from(rows).to_string()).await.expect(200);
    assert_eq!(server.api.scan(&table, "").await, [json!({ "k": 1, "n": 999 })]);
    let log = server.api.log(&table, 0, "_change_type,n").await;
    assert_eq!(log.len(), 1999);
    for (n, pair) in log[1..].chunks(2).enumerate() {
        assert_eq!((&pair[0]["_change_type"], &pair[0]["n"]), (&json!("-U"), &json!(n)));
        assert_eq!((&pair[1]["_change_type"], &pair[1]["n"]), (&json!("+U"), &json!(n + 1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partial_updates_name_the_key_and_what_a_new_row_needs() {
    let server = server().await;
    let table = strict(&server.api, json!({})).await;
    let cases = [
        ("s,n", 422, "missing_key_column", "\"k\""),
        ("k,n", 422, "missing_column", "\"s\""),
        ("k,s,m", 422, "unknown_column", "did you mean"),
        ("k,s,k", 422, "duplicate_column", "twice"),
        ("", 422, "missing_key_column", "\"k\""),
    ];
    for (columns, status, code, word) in cases {
        let answer =
            server.api.post(&format!("{table}/upsert?columns={columns}"), JSON, r#"{"k":0,"n":1}"#).await;
        check(&answer, status, code, &[word]);
    }
    let answer =
        server.api.post(&format!("{table}/upsert?columns=k,s"), JSON, r#"{"k":0,"s":"x","n":1}"#).await;
    check(&answer, 422, "rows_rejected", &["\"n\""]);
    let answer = server.api.post(&format!("{table}/delete?columns=k,s"), JSON, r#"{"k":0}"#).await;
    check(&answer, 422, "not_null_column", &["\"s\""]);
    untouched(&server.api, &table).await;
    for engine in [
        json!({ "table.merge-engine": "first_row" }),
        json!({ "table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "n" }),
    ] {
        let name = engine["table.merge-engine"].as_str().unwrap();
        let table =
            create(&server.api, name, "k bigint not null, n int", "k", json!({ "properties": engine })).await;
        let answer = server.api.post(&format!("{table}/upsert?columns=k,n"), JSON, r#"{"k":0,"n":1}"#).await;
        let problem = answer.problem();
        assert!(
            answer.status == 501 && problem["detail"].as_str().unwrap().contains("whole rows"),
            "{problem}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_may_refuse_deletions() {
    let server = server().await;
    let table = strict(&server.api, json!({ "table.delete.behavior": "disable" })).await;
    for path in ["delete", "delete?columns=k,n"] {
        let answer = server.api.post(&format!("{table}/{path}"), JSON, r#"{"k":7}"#).await;
        check(&answer, 422, "delete_disabled", &["table.delete.behavior"]);
    }
    let body = r#"[{"k":1,"s":"a"},{"k":0,"_change_type":"-D"},{"k":2,"_change_type":"-U"}]"#;
    let answer = server.api.post(&format!("{table}/upsert"), JSON, body).await;
    let problem = check(&answer, 422, "rows_rejected", &["table.delete.behavior = disable"]);
    assert_eq!((&problem["errors"][0]["row"], &problem["errors_total"]), (&json!(1), &json!(1)));
    untouched(&server.api, &table).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_be_are_refused() {
    let server = server().await;
    let engine = |name: &str, more: Value| {
        let mut properties = json!({ "table.merge-engine": name });
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        properties
    };
    let aggregation = |more: Value| engine("aggregation", more);
    let versioned =
        |column: &str| engine("versioned", json!({ "table.merge-engine.versioned.ver-column": column }));
    let cases: [(&str, Value, &[&str]); 12] = [
        ("k", versioned("s"), &["\"s\" is string", "bigint"]),
        ("k", versioned("x"), &["\"x\""]),
        ("k", engine("versioned", json!({})), &["ver-column"]),
        ("k", aggregation(json!({ "fields.s.agg": "sum" })), &["\"s\" is string", "sum takes"]),
        ("k", aggregation(json!({ "fields.n.agg": "rbm32" })), &["\"n\" is int", "bytes"]),
        ("k", aggregation(json!({ "fields.n.agg": "summ" })), &["summ"]),
        ("k", aggregation(json!({ "fields.k.agg": "sum" })), &["primary key"]),
        ("k", aggregation(json!({ "fields.m.agg": "sum" })), &["\"m\""]),
        ("k", json!({ "fields.n.agg": "sum" }), &["table.merge-engine = aggregation"]),
        ("k", engine("first_row", json!({ "table.delete.behavior": "allow" })), &["ignore or disable"]),
        ("m", json!({}), &["\"m\"", "primary key"]),
        ("a", json!({}), &["\"a\"", "array"]),
    ];
    for (key, properties, words) in cases {
        let columns = json!([
            { "name": "k", "type": "bigint" }, { "name": "s", "type": "string" }, { "name": "n", "type": "int" },
            { "name": "a", "type": "array<int>" }
        ]);
        let spec =
            json!({ "name": "bad", "columns": columns, "primary_key": [key], "properties": properties });
        let answer = server.api.call(Method::POST, "/v1/databases/t/tables", &spec).await;
        let problem = answer.problem();
        assert_eq!(answer.status, 400, "{spec}: {problem}");
        let text = problem["detail"].as_str().unwrap();
        words.iter().for_each(|word| assert!(text.contains(word), "no {word:?} in {text}"));
    }
    assert_eq!(server.api.get("/v1/databases/t/tables").await.json()["tables"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_say_by_what_rows_can_be_found() {
    let server = server().await;
    let columns = "a int not null, b string not null, c date not null, n int";
    let by_two = json!({ "bucket_key": ["a", "b"], "buckets": 2 });
    let table = create(&server.api, "prefixes", columns, "a,b,c", by_two).await;
    let whole = create(&server.api, "whole", columns, "a,b,c", json!({})).await;
    for (query, status, words) in [
        ("", 400, &["?a=…&b=…&c=…"][..]),
        ("?a=1", 422, &["(a) is neither the key", "(a, b, c)", "prefix (a, b)"]),
        ("?a=1&c=2026-01-01", 422, &["(a, c) is neither", "prefix (a, b)"]),
        ("?b=x&c=2026-01-01", 422, &["(b, c) is neither"]),
        ("?a=x&b=x", 422, &["parameter \"a\" is \"x\"", "int"]),
        ("?a=1&b=x&c=soon", 422, &["parameter \"c\" is \"soon\"", "date"]),
        ("?a=99999999999&b=x", 422, &["\"a\"", "int"]),
        ("?a=1&b=x&n=3", 400, &["\"n\" is no key column", "(a, b, c)"]),
        ("?a=1&bb=x", 400, &["did you mean \"b\""]),
        ("?a=1&a=2&b=x", 400, &["twice"]),
    ] {
        let answer = server.api.get(&format!("{table}/lookup{query}")).await;
        let problem = answer.problem();
        assert_eq!(answer.status, status, "{query}: {problem}");
        let text = problem["detail"].as_str().unwrap();
        words.iter().for_each(|word| assert!(text.contains(word), "{query}: no {word:?} in {text}"));
    }
    // The bucket key is all of the key here, so no prefix will do.
    let answer = server.api.get(&format!("{whole}/lookup?a=1&b=x")).await;
    check(&answer, 422, "invalid_key", &["(a, b, c)", "prefixes cannot be looked up"]);
    for (body, words) in [
        (r#"[{"a":1,"b":"x"},{"a":1,"b":"x","c":"2026-01-01"}]"#, &["row 0 has no \"c\"", "apart"][..]),
        (r#"[{"a":1,"b":"x"},{"b":"x"}]"#, &["row 1 has no \"a\""]),
        (r#"[{"a":1}]"#, &["prefix (a, b)"]),
        (r#"[{"a":1,"b":2}]"#, &["\"b\"", "quotes"]),
        (r#"[{"a":1,"n":2}]"#, &["\"n\""]),
    ] {
        let answer = server.api.post(&format!("{table}/lookup"), JSON, body).await;
        check(&answer, 422, "invalid_key", words);
    }
    let answer = server.api.get(&format!("{table}/lookup?a=1&b=x&columns=m")).await;
    check(&answer, 400, "unknown_column", &["\"m\""]);
    let answer = server.api.get(&format!("{table}/lookup?a=1&b=x&filter=n%20%3D%201")).await;
    check(&answer, 400, "invalid_parameter", &["filter"]);
    let keys: String = (0..100_001).map(|_| "{\"a\":1,\"b\":\"x\"}\n").collect();
    let answer = server.api.post(&format!("{table}/lookup"), NDJSON, keys).await;
    check(&answer, 413, "too_many_keys", &["100000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_table_says_how_it_is_written() {
    let server = server().await;
    let keyed = create(&server.api, "kv", "k bigint not null", "k", json!({})).await;
    let columns = json!([{ "name": "k", "type": "bigint" }]);
    let log = server.api.create_table(&json!({ "name": "log", "columns": columns })).await;
    for (path, word) in [
        (format!("{keyed}/append"), "upsert"),
        (format!("{log}/upsert"), "append"),
        (format!("{log}/delete"), "append"),
        (format!("{log}/lookup"), "no primary key"),
    ] {
        let answer = server.api.post(&path, JSON, r#"{"k":1}"#).await;
        check(&answer, 400, "wrong_table_kind", &[word]);
    }
    let answer = server.api.get(&format!("{log}/lookup?k=1")).await;
    check(&answer, 400, "wrong_table_kind", &["no primary key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupt_bitmaps_are_rejected_with_their_rows() {
    let server = server().await;
    let properties =
        json!({ "table.merge-engine": "aggregation", "fields.b.agg": "rbm32", "fields.w.agg": "rbm64" });
    let columns = "k bigint not null, b bytes, w bytes";
    let table = create(&server.api, "bitmaps", columns, "k", json!({ "properties": properties })).await;
    // The portable format: cookie 12346, one container of key 0, one value: 7.
    let good = "OjAAAAEAAAAAAAAAEAAAAAcA";
    let upsert = format!("{table}/upsert");
    server.api.post(&upsert, JSON, json!({ "k": 1, "b": good }).to_string()).await.expect(200);
    for (row, column) in [
        (json!({ "k": 2, "b": "AAAA" }), "b"),
        (json!({ "k": 2, "b": "" }), "b"),
        (json!({ "k": 2, "b": "OjAAAAEAAAAAAAAAEAAAAAcAAA==" }), "b"),
        (json!({ "k": 2, "b": "OjAAAP////8AAAAAEAAAAAcA" }), "b"),
        (json!({ "k": 2, "w": good }), "w"),
        (json!({ "k": 2, "b": good, "w": "/////////////w==" }), "w"),
    ] {
        let body = json!([{ "k": 1, "b": good }, row]).to_string();
        let answer = server.api.post(&upsert, JSON, body.clone()).await;
        let problem = check(&answer, 422, "rows_rejected", &["Roaring bitmap"]);
        assert_eq!(
            (&problem["errors"][0]["row"], &problem["errors"][0]["column"]),
            (&json!(1), &json!(column))
        );
        let skipped =
            server.api.post(&format!("{upsert}?on_error=skip"), JSON, body).await.expect(200).json();
        assert_eq!((&skipped["rows"], &skipped["rejected_rows"]), (&json!(1), &json!(1)), "{skipped}");
    }
    assert_eq!(server.api.scan(&table, "").await, [json!({ "k": 1, "b": good, "w": null })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_64_kib_are_rejected_and_shorter_ones_are_kept() {
    let server = server().await;
    let table = create(&server.api, "long", "k string not null, n int", "k", json!({ "buckets": 3 })).await;
    // Texts take nine bytes for eight; a key has 65,472.
    let longest = "x".repeat(65_472 / 9 * 8);
    let upsert = format!("{table}/upsert");
    for beyond in [1, 7352, 1_000_000] {
        let long = format!("{longest}{}", "y".repeat(beyond));
        let body = json!([{ "k": "a", "n": 1 }, { "k": long, "n": 2 }, { "k": longest, "n": 3 }]).to_string();
        let answer = server.api.post(&upsert, JSON, body.clone()).await;
        let problem = check(&answer, 422, "rows_rejected", &["65472 bytes"]);
        assert_eq!((&problem["errors"][0]["row"], &problem["errors_total"]), (&json!(1), &json!(1)));
        let skipped =
            server.api.post(&format!("{upsert}?on_error=skip"), JSON, body).await.expect(200).json();
        assert_eq!((&skipped["rows"], &skipped["rejected_rows"]), (&json!(2), &json!(1)));
        let answer =
            server.api.post(&format!("{table}/delete"), JSON, json!({ "k": long }).to_string()).await;
        check(&answer, 422, "rows_rejected", &["65472 bytes"]);
        let answer =
            server.api.post(&format!("{table}/lookup"), JSON, json!({ "k": long }).to_string()).await;
        check(&answer, 422, "invalid_key", &["65472 bytes"]);
    }
    let found = server
        .api
        .post(&format!("{table}/lookup?columns=n"), JSON, json!({ "k": longest }).to_string())
        .await;
    assert_eq!(found.expect(200).json()["rows"], json!([{ "n": 3 }]));
    assert_eq!(server.api.scan(&table, "?columns=n").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_that_overflows_fails_its_request() {
    let server = server().await;
    let properties = json!({ "table.merge-engine": "aggregation", "fields.n.agg": "sum" });
    let table =
        create(&server.api, "sums", "k bigint not null, n int", "k", json!({ "properties": properties }))
            .await;
    let upsert = format!("{table}/upsert");
    server.api.post(&upsert, JSON, r#"{"k":1,"n":2147483647}"#).await.expect(200);
    let answer = server.api.post(&upsert, JSON, r#"[{"k":2,"n":5},{"k":1,"n":1}]"#).await;
    check(&answer, 422, "aggregate_overflow", &["\"n\"", "widen"]);
    assert_eq!(server.api.scan(&table, "").await, [json!({ "k": 1, "n": 2147483647 })]);
    let widen = json!({ "changes": [{ "widen_column": { "name": "n", "type": "bigint" } }] });
    server.api.call(Method::PATCH, &table, &widen).await.expect(200);
    server.api.post(&upsert, JSON, r#"[{"k":2,"n":5},{"k":1,"n":1}]"#).await.expect(200);
    let found = server.api.scan(&table, "").await;
    assert_eq!(found, [json!({ "k": 1, "n": 2147483648u64 }), json!({ "k": 2, "n": 5 })]);
}
