//! Primary-key tables as they are meant: writes from every format, changelog, lookups, scans, merge engines.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use crate::formats::{as_arrow, as_parquet, batches};
use crate::harness::{ARROW, Api, CSV, JSON, NDJSON, PARQUET, Server, Setup};
use crate::tail::Lines;

async fn server() -> Server {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    server
}

/// Makes `t.<name>` with columns `a type, b type` and a key `a,b`; gives its path.
pub(crate) async fn create(api: &Api, name: &str, columns: &str, key: &str, more: Value) -> String {
    let columns: Vec<Value> = columns
        .split(", ")
        .map(|column| column.split_once(' ').unwrap())
        .map(|(name, kind)| json!({ "name": name, "type": kind }))
        .collect();
    let key: Vec<&str> = key.split(',').collect();
    let mut spec = json!({ "name": name, "columns": columns, "primary_key": key });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.create_table(&spec).await
}

/// `k bigint, v string, n int` in three buckets.
async fn create_kv(api: &Api, name: &str) -> String {
    create(api, name, "k bigint not null, v string, n int", "k", json!({ "buckets": 3 })).await
}

fn body(batch: &RecordBatch, format: &str) -> Bytes {
    let text = |lines: Vec<String>, join: &str| lines.join(join);
    let rows = || {
        let mut rows = Vec::new();
        for row in 0..batch.num_rows() {
            let mut object = serde_json::Map::new();
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                let value = match column.is_null(row) {
                    true => Value::Null,
                    false => match column.as_any().downcast_ref::<StringArray>() {
                        Some(texts) => texts.value(row).into(),
                        None => {
                            let numbers = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64);
                            numbers.unwrap().as_primitive::<Int64Type>().value(row).into()
                        }
                    },
                };
                object.insert(field.name().clone(), value);
            }
            rows.push(Value::from(object));
        }
        rows
    };
    match format {
        ARROW => as_arrow(std::slice::from_ref(batch)).into(),
        PARQUET => as_parquet(std::slice::from_ref(batch)).into(),
        JSON => Value::from(rows()).to_string().into(),
        NDJSON => text(rows().iter().map(Value::to_string).collect(), "\n").into(),
        CSV => {
            let names: Vec<&str> = batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect();
            let cell = |value: &Value| match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let line = |row: &Value| text(names.iter().map(|name| cell(&row[*name])).collect(), ",");
            let lines = [names.join(",")].into_iter().chain(rows().iter().map(line)).collect();
            text(lines, "\n").into()
        }
        other => panic!("{other}"),
    }
}

fn longs(values: &[i64]) -> ArrayRef {
    std::sync::Arc::new(Int64Array::from(values.to_vec()))
}

fn ints(values: &[Option<i32>]) -> ArrayRef {
    std::sync::Arc::new(Int32Array::from(values.to_vec()))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    std::sync::Arc::new(StringArray::from(values.to_vec()))
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.iter().map(|(name, array)| (*name, array.clone(), true)))
        .unwrap()
}

/// The rows of a scan by their key `k`.
async fn state(api: &Api, table: &str) -> BTreeMap<i64, Value> {
    api.scan(table, "").await.into_iter().map(|row| (row["k"].as_i64().unwrap(), row)).collect()
}

/// The changelog of all buckets, `change key value …`, sorted by bucket and offset.
async fn changes(api: &Api, table: &str, buckets: u64, columns: &str) -> Vec<String> {
    let mut all = Vec::new();
    for bucket in 0..buckets {
        for row in api.log(table, bucket, &format!("_change_type,{columns}")).await {
            let value = |name: &str| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
            let values: Vec<String> = columns.split(',').map(value).collect();
            all.push(format!("{} {}", row["_change_type"].as_str().unwrap(), values.join(" ")));
        }
    }
    all
}

const FORMATS: [&str; 5] = [NDJSON, JSON, CSV, ARROW, PARQUET];

#[tokio::test(flavor = "multi_thread")]
async fn every_format_upserts_updates_partly_and_deletes() {
    let server = server().await;
    for (n, format) in FORMATS.into_iter().enumerate() {
        let table = create_kv(&server.api, &format!("kv{n}")).await;
        let post = async |verb: &str, rows: &[(&str, ArrayRef)]| {
            let path = format!("{table}/{verb}");
            let answer = server.api.post(&path, format, body(&batch(rows), format)).await;
            assert_eq!(answer.status, 200, "{format} {verb}: {answer:?}");
            answer.json()
        };
        let first = [
            ("k", longs(&[1, 2, 3])),
            ("v", texts(&[Some("a"), Some("b"), None])),
            ("n", ints(&[Some(1), None, Some(3)])),
        ];
        assert_eq!(post("upsert", &first).await["rows"], 3);
        post(
            "upsert",
            &[("n", ints(&[None, Some(4)])), ("k", longs(&[2, 4])), ("v", texts(&[Some("c"), Some("d")]))],
        )
        .await;
        post("upsert?columns=k,n", &[("k", longs(&[1, 5])), ("n", ints(&[Some(10), Some(50)]))]).await;
        post("delete", &[("k", longs(&[3, 99]))]).await;
        let want = [
            json!({ "k": 1, "v": "a", "n": 10 }),
            json!({ "k": 2, "v": "c", "n": null }),
            json!({ "k": 4, "v": "d", "n": 4 }),
            json!({ "k": 5, "v": null, "n": 50 }),
        ];
        let found: Vec<Value> = state(&server.api, &table).await.into_values().collect();
        assert_eq!(found, want, "{format}");
        let mut log = changes(&server.api, &table, 3, "k,v,n").await;
        log.sort();
        let want = [
            "+I 1 a 1",
            "+I 2 b null",
            "+I 3 null 3",
            "+I 4 d 4",
            "+I 5 null 50",
            "+U 1 a 10",
            "+U 2 c null",
            "-D 3 null 3",
            "-U 1 a 1",
            "-U 2 b null",
        ];
        assert_eq!(log, want, "{format}");
        // A partial delete empties columns; the row goes with the last of them.
        post("delete?columns=k,v", &[("k", longs(&[1, 4, 5]))]).await;
        post("delete?columns=k,n", &[("k", longs(&[4]))]).await;
        let found: Vec<Value> = state(&server.api, &table).await.into_values().collect();
        let want = [
            json!({ "k": 1, "v": null, "n": 10 }),
            json!({ "k": 2, "v": "c", "n": null }),
            json!({ "k": 5, "v": null, "n": 50 }),
        ];
        assert_eq!(found, want, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_carry_its_changes() {
    let server = server().await;
    for (n, format) in FORMATS.into_iter().enumerate() {
        let table = create_kv(&server.api, &format!("kv{n}")).await;
        let rows = batch(&[
            (
                "_change_type",
                texts(&[Some("+I"), None, Some("+U"), Some("-U"), Some("+U"), Some("-D"), Some("-D")]),
            ),
            ("k", longs(&[1, 2, 3, 2, 2, 3, 9])),
            ("v", texts(&[Some("a"), Some("b"), Some("c"), Some("b"), Some("B"), None, None])),
        ]);
        let answer =
            server.api.post(&format!("{table}/upsert"), format, body(&rows, format)).await.expect(200);
        assert_eq!(answer.json()["rows"], 6, "{format}: a row before an update does nothing");
        let found: Vec<Value> = state(&server.api, &table).await.into_values().collect();
        let want = [json!({ "k": 1, "v": "a", "n": null }), json!({ "k": 2, "v": "B", "n": null })];
        assert_eq!(found, want, "{format}");
        let mut log = changes(&server.api, &table, 3, "k,v").await;
        log.sort();
        assert_eq!(log, ["+I 1 a", "+I 2 b", "+I 3 c", "+U 2 B", "-D 3 c", "-U 2 b"], "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_in_a_partial_update_empty_its_columns() {
    let server = server().await;
    let table = create_kv(&server.api, "kv").await;
    let upsert = format!("{table}/upsert");
    server
        .api
        .post(&upsert, JSON, r#"[{"k":1,"v":"a","n":1},{"k":2,"v":"b"},{"k":3,"v":"c","n":3}]"#)
        .await
        .expect(200);
    let body = r#"[{"k":1,"_change_type":"-D"},{"k":2,"v":"B"},{"k":3,"v":"x","_change_type":"-D"},{"k":2,"_change_type":"-D"}]"#;
    server.api.post(&format!("{upsert}?columns=k,v"), JSON, body).await.expect(200);
    let found: Vec<Value> = state(&server.api, &table).await.into_values().collect();
    assert_eq!(found, [json!({ "k": 1, "v": null, "n": 1 }), json!({ "k": 3, "v": null, "n": 3 })]);

    // A column that is never null cannot be deleted alone; such rows are rejected, others are not.
    let columns = "k bigint not null, v string not null, n int";
    let table = create(&server.api, "strict", columns, "k", json!({})).await;
    let upsert = format!("{table}/upsert");
    server.api.post(&upsert, JSON, r#"{"k":1,"v":"a","n":1}"#).await.expect(200);
    let body = r#"[{"k":2,"v":"b"},{"k":1,"_change_type":"-D"}]"#;
    let path = format!("{upsert}?columns=k,v&on_error=skip");
    let answer = server.api.post(&path, JSON, body).await.expect(200).json();
    assert_eq!((&answer["rows"], &answer["rejected"][0]["row"]), (&json!(1), &json!(1)), "{answer}");
    // Whole rows may still be deleted without it.
    server.api.post(&upsert, JSON, r#"[{"k":1,"_change_type":"-D"}]"#).await.expect(200);
    assert_eq!(server.api.scan(&table, "").await, [json!({ "k": 2, "v": "b", "n": null })]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changelog_is_followed_with_projection_and_filter_and_can_be_replayed() {
    let server = server().await;
    let api = &server.api;
    let table = create(api, "kv", "k bigint not null, v string, n int", "k", json!({})).await;
    let upsert = format!("{table}/upsert");
    let mut tail =
        Lines::open(&server, &format!("{table}/tail?from=earliest&columns=_change_type,k"), NDJSON, None)
            .await;
    let filter = format!("{table}/tail?from=earliest&filter=n%20%3E%201");
    let mut filtered = Lines::open(&server, &filter, NDJSON, None).await;
    for row in [r#"{"k":1,"v":"a","n":1}"#, r#"{"k":2,"v":"b","n":2}"#, r#"{"k":1,"v":"c","n":3}"#] {
        api.post(&upsert, NDJSON, row).await.expect(200);
    }
    api.post(&format!("{table}/delete"), NDJSON, r#"{"k":2}"#).await.expect(200);
    let mut id = String::new();
    let want = [("+I", 1), ("+I", 2), ("-U", 1), ("+U", 1), ("-D", 2)];
    for (change, k) in want {
        assert_eq!(tail.row(&mut id).await, json!({ "_change_type": change, "k": k }));
    }
    for (change, k, v, n) in [("+I", 2, "b", 2), ("+U", 1, "c", 3), ("-D", 2, "b", 2)] {
        let want = json!({ "k": k, "v": v, "n": n, "_change_type": change });
        assert_eq!(filtered.row(&mut id).await, want);
    }
    let log =
        api.get(&format!("{table}/log?columns=v,_change_type,_offset&filter=n%20%3C%203")).await.expect(200);
    let want = json!([
        { "v": "a", "_change_type": "+I", "_offset": 0 }, { "v": "b", "_change_type": "+I", "_offset": 1 },
        { "v": "a", "_change_type": "-U", "_offset": 2 }, { "v": "b", "_change_type": "-D", "_offset": 4 }
    ]);
    assert_eq!(log.json()["rows"], want);
    assert_eq!((log.header("wadi-next-offset"), log.header("wadi-high-watermark")), ("5", "5"));

    // What was read is written to another table as it is, in each format that is read and written.
    for (n, format) in [NDJSON, CSV, ARROW].into_iter().enumerate() {
        let copy = create_kv(api, &format!("copy{n}")).await;
        let log = api.get_as(&format!("{table}/log"), format).await.expect(200);
        api.post(&format!("{copy}/upsert"), format, log.body).await.expect(200);
        assert_eq!(state(api, &copy).await, state(api, &table).await, "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_image_of_a_changelog_can_leave_out_rows_before() {
    let server = server().await;
    let more = json!({ "properties": { "table.changelog.image": "wal" } });
    let table = create(&server.api, "kv", "k bigint not null, v string", "k", more).await;
    let upsert = format!("{table}/upsert");
    server.api.post(&upsert, JSON, r#"[{"k":1,"v":"a"},{"k":1,"v":"b"},{"k":2,"v":"c"}]"#).await.expect(200);
    server.api.post(&format!("{table}/delete"), JSON, r#"[{"k":2},{"k":3}]"#).await.expect(200);
    let log = changes(&server.api, &table, 1, "k,v").await;
    assert_eq!(log.len(), 4, "{log:?}");
    assert!(!log.iter().any(|change| change.starts_with("-U")), "{log:?}");
    assert_eq!(log[3], "-D 2 c");
}

/// Orders of a user, looked up by user: `user_id, order_id` in four buckets by `user_id`.
async fn orders(api: &Api) -> String {
    let columns = "user_id bigint not null, order_id string not null, price decimal(10,2), note string";
    let more = json!({ "bucket_key": ["user_id"], "buckets": 4 });
    let table = create(api, "orders", columns, "user_id,order_id", more).await;
    let rows: Vec<Value> = (0..40)
        .map(|n| json!({ "user_id": n % 4, "order_id": format!("o{n:02}"), "price": n, "note": format!("x{n}") }))
        .collect();
    api.post(&format!("{table}/upsert"), JSON, Value::from(rows).to_string()).await.expect(200);
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn points_are_looked_up_in_the_order_of_the_keys() {
    let server = server().await;
    let table = orders(&server.api).await;
    let lookup = format!("{table}/lookup");
    let one =
        server.api.get(&format!("{lookup}?user_id=3&order_id=o07&columns=price,order_id")).await.expect(200);
    assert_eq!(one.json(), json!({ "rows": [{ "price": 7.0, "order_id": "o07" }] }));
    let none = server.api.get(&format!("{lookup}?order_id=o07&user_id=2")).await.expect(200);
    assert_eq!(none.json(), json!({ "rows": [null] }));
    let keys = [(3, "o07"), (1, "nobody"), (0, "o00"), (3, "o07"), (2, "o38"), (-9, "none")];
    let ids: Vec<i64> = keys.iter().map(|key| key.0).collect();
    let names: Vec<Option<&str>> = keys.iter().map(|key| Some(key.1)).collect();
    let keys = batch(&[("order_id", texts(&names)), ("user_id", longs(&ids))]);
    let want = [Some(7), None, Some(0), Some(7), Some(38), None];
    for format in FORMATS {
        let path = format!("{lookup}?columns=note");
        let found = async |accept: &str| {
            let headers = [("accept", accept)];
            server.api.post_with(&path, format, &headers, body(&keys, format)).await.expect(200)
        };
        let rows = found(JSON).await.json();
        let notes: Vec<Value> =
            want.iter().map(|n| n.map_or(Value::Null, |n: i32| json!({ "note": format!("x{n}") }))).collect();
        assert_eq!(rows["rows"], Value::from(notes.clone()), "{format}");
        let lines = found(NDJSON).await;
        let lines: Vec<Value> =
            lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, notes, "{format}");
        assert_eq!(found(CSV).await.text(), "note\nx7\n\nx0\nx7\nx38\n\n", "{format}");
        let arrow = batches(&found(ARROW).await);
        let column = arrow[0].column(0).as_string::<i32>();
        let notes: Vec<Option<String>> = column.iter().map(|note| note.map(str::to_owned)).collect();
        let want: Vec<Option<String>> = want.iter().map(|n| n.map(|n| format!("x{n}"))).collect();
        assert_eq!(notes, want, "{format}");
    }
    let nothing = server.api.post(&lookup, JSON, "[]").await.expect(200);
    assert_eq!(nothing.json(), json!({ "rows": [] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn prefixes_that_cover_the_bucket_key_find_all_rows_under_them() {
    let server = server().await;
    let table = orders(&server.api).await;
    let lookup = format!("{table}/lookup");
    let one = server.api.get(&format!("{lookup}?user_id=2&columns=order_id")).await.expect(200).json();
    let want: Vec<Value> = (0..10).map(|n| json!({ "order_id": format!("o{:02}", n * 4 + 2) })).collect();
    assert_eq!(one["rows"], Value::from(want));
    // K6: the same as a scan with a filter.
    let scanned = server.api.scan(&table, "?filter=user_id%20%3D%202&columns=order_id").await;
    assert_eq!(one["rows"].as_array().unwrap().len(), scanned.len());
    let body = r#"[{"user_id":1},{"user_id":77},{"user_id":0},{"user_id":1}]"#;
    let many =
        server.api.post(&format!("{lookup}?columns=user_id,order_id"), JSON, body).await.expect(200).json();
    let users: Vec<i64> =
        many["rows"].as_array().unwrap().iter().map(|row| row["user_id"].as_i64().unwrap()).collect();
    assert_eq!(users, [[1; 10], [0; 10], [1; 10]].concat());
    // Writes are seen at once (K3), deletions too.
    server.api.post(&format!("{table}/delete"), JSON, r#"{"user_id":2,"order_id":"o02"}"#).await.expect(200);
    server.api.post(&format!("{table}/upsert"), JSON, r#"{"user_id":2,"order_id":"o00"}"#).await.expect(200);
    let one = server.api.get(&format!("{lookup}?user_id=2&columns=order_id")).await.expect(200).json();
    assert_eq!(
        (&one["rows"][0], &one["rows"][1]),
        (&json!({ "order_id": "o00" }), &json!({ "order_id": "o06" }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_filter_project_and_end_at_their_limit() {
    let server = server().await;
    let table = orders(&server.api).await;
    for (query, rows) in [
        ("", 40),
        ("?limit=7", 7),
        ("?limit=0", 0),
        ("?filter=price%20%3E%3D%2030", 10),
        ("?filter=price%20%3E%3D%2030&limit=4", 4),
        ("?filter=price%20%3E%3D%2030&columns=note", 10),
        ("?filter=note%20like%20%27x1%25%27", 11),
        ("?filter=note%20is%20null", 0),
    ] {
        assert_eq!(server.api.scan(&table, query).await.len(), rows, "{query}");
    }
    let arrow =
        batches(&server.api.get_as(&format!("{table}/scan?columns=note,price"), ARROW).await.expect(200));
    assert_eq!(arrow.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
    assert_eq!(arrow[0].schema().field(0).name(), "note");
    let system = server.api.get(&format!("{table}/scan?columns=_offset")).await;
    assert!(system.problem()["detail"].as_str().unwrap().contains("_offset"), "{system:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_merge_engine_merges() {
    let server = server().await;
    let api = &server.api;
    let columns = "k bigint not null, v string, n int";
    let rows = r#"[{"k":1,"v":"a","n":5},{"k":1,"v":"b","n":3},{"k":1,"v":"c","n":5},{"k":2,"v":"d"}]"#;
    let aggregation = json!({
        "table.merge-engine": "aggregation", "fields.v.agg": "listagg", "fields.v.listagg.delimiter": "|",
        "fields.n.agg": "sum"
    });
    let versioned =
        json!({ "table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "n" });
    let engines = [
        (json!({}), "c", json!(5), ["+I 1 a", "-U 1 a", "+U 1 b", "-U 1 b", "+U 1 c", "+I 2 d"].as_slice()),
        (json!({ "table.merge-engine": "first_row" }), "a", json!(5), &["+I 1 a", "+I 2 d"]),
        (versioned, "c", json!(5), &["+I 1 a", "-U 1 a", "+U 1 c", "+I 2 d"]),
        (
            aggregation,
            "a|b|c",
            json!(13),
            &["+I 1 a", "-U 1 a", "+U 1 a|b", "-U 1 a|b", "+U 1 a|b|c", "+I 2 d"],
        ),
    ];
    for (n, (properties, v, sum, log)) in engines.into_iter().enumerate() {
        let table = create(api, &format!("t{n}"), columns, "k", json!({ "properties": properties })).await;
        api.post(&format!("{table}/upsert"), JSON, rows).await.expect(200);
        let found = api.get(&format!("{table}/lookup?k=1")).await.expect(200).json();
        assert_eq!(found["rows"][0], json!({ "k": 1, "v": v, "n": sum }), "{properties}");
        assert_eq!(changes(api, &table, 1, "k,v").await, log, "{properties}");
        let engine = api.get(&table).await.expect(200).json()["merge_engine"].clone();
        assert_eq!(engine.as_str(), Some(properties["table.merge-engine"].as_str().unwrap_or("default")));
        // Engines other than the default ignore deletions.
        api.post(&format!("{table}/delete"), JSON, r#"{"k":2}"#).await.expect(200);
        assert_eq!(api.scan(&table, "").await.len(), if n == 0 { 1 } else { 2 }, "{properties}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigkill_keeps_state_and_changelog() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let table = create_kv(&server.api, "kv").await;
    let mut want = BTreeMap::new();
    let mut logs = Vec::new();
    for round in 0..3i64 {
        for n in 0..20i64 {
            let k = (round * 7 + n) % 30;
            let row = json!({ "k": k, "v": format!("r{round}"), "n": n });
            server.api.post(&format!("{table}/upsert"), JSON, row.to_string()).await.expect(200);
            want.insert(k, row);
        }
        let gone = round * 5;
        server.api.post(&format!("{table}/delete"), JSON, json!({ "k": gone }).to_string()).await.expect(200);
        want.remove(&gone);
        let before = changes(&server.api, &table, 3, "k,v,n").await;
        server.process.kill();
        server = setup.ready().await;
        assert_eq!(state(&server.api, &table).await, want, "round {round}");
        let after = changes(&server.api, &table, 3, "k,v,n").await;
        assert_eq!(after, before, "round {round}");
        let point = server.api.get(&format!("{table}/lookup?k={gone}")).await.expect(200).json();
        assert_eq!(point["rows"], json!([null]), "round {round}");
        logs.push(after);
    }
    // K1, as a client would check it: the log folds to the state.
    let mut folded = BTreeMap::new();
    for change in logs.last().unwrap() {
        let parts: Vec<&str> = change.split(' ').collect();
        let k: i64 = parts[1].parse().unwrap();
        match parts[0] {
            "+I" | "+U" => folded.insert(k, (parts[2].to_owned(), parts[3].parse::<i64>().unwrap())),
            "-D" => folded.remove(&k),
            _ => continue,
        };
    }
    let want: BTreeMap<i64, (String, i64)> = want
        .into_iter()
        .map(|(k, row)| (k, (row["v"].as_str().unwrap().to_owned(), row["n"].as_i64().unwrap())))
        .collect();
    assert_eq!(folded, want);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_changes_nothing_and_gets_the_same_offsets() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let more =
        json!({ "buckets": 3, "properties": { "table.merge-engine": "aggregation", "fields.n.agg": "sum" } });
    let table = create(&server.api, "kv", "k bigint not null, n int", "k", more).await;
    let upsert = format!("{table}/upsert");
    let body = r#"[{"k":1,"n":1},{"k":2,"n":1},{"k":3,"n":1},{"k":4,"n":1}]"#;
    let key = [("idempotency-key", "once")];
    let producer = [("wadi-producer-id", "p"), ("wadi-sequence", "1")];
    let first = server.api.post_with(&upsert, JSON, &key, body).await.expect(200).json();
    let second = server.api.post_with(&upsert, JSON, &producer, body).await.expect(200).json();
    for _ in 0..2 {
        let again = server.api.post_with(&upsert, JSON, &key, body).await.expect(200).json();
        assert_eq!(again["offsets"], first["offsets"]);
        let again = server.api.post_with(&upsert, JSON, &producer, body).await.expect(200).json();
        assert_eq!(again["offsets"], second["offsets"]);
        server.process.kill();
        server = setup.ready().await;
    }
    let sums: Vec<Value> =
        state(&server.api, &table).await.into_values().map(|row| row["n"].clone()).collect();
    assert_eq!(sums, [2, 2, 2, 2]);
    // The same key for another verb, other columns or another body is no retry.
    for (path, body) in [
        (upsert.clone(), r#"[{"k":1,"n":2},{"k":2,"n":1},{"k":3,"n":1},{"k":4,"n":1}]"#),
        (format!("{upsert}?columns=k,n"), body),
    ] {
        let other = server.api.post_with(&path, JSON, &key, body).await;
        assert_eq!(other.problem()["code"], "key_reused", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_rows_are_read_and_merged_under_a_new_schema() {
    let server = server().await;
    let table = create_kv(&server.api, "kv").await;
    let upsert = format!("{table}/upsert");
    server.api.post(&upsert, JSON, r#"[{"k":1,"v":"a","n":1},{"k":2,"v":"b","n":2}]"#).await.expect(200);
    let changes = json!({ "changes": [
        { "rename_column": { "from": "v", "to": "name" } }, { "widen_column": { "name": "n", "type": "bigint" } },
        { "add_column": { "name": "extra", "type": "string", "default": "none" } }
    ] });
    server.api.call(Method::PATCH, &table, &changes).await.expect(200);
    let found = server.api.get(&format!("{table}/lookup?k=1")).await.expect(200).json();
    assert_eq!(found["rows"][0], json!({ "k": 1, "name": "a", "n": 1, "extra": "none" }));
    server.api.post(&format!("{upsert}?columns=k,extra"), JSON, r#"{"k":2,"extra":"x"}"#).await.expect(200);
    let found: Vec<Value> = state(&server.api, &table).await.into_values().collect();
    let want = [
        json!({ "k": 1, "name": "a", "n": 1, "extra": "none" }),
        json!({ "k": 2, "name": "b", "n": 2, "extra": "x" }),
    ];
    assert_eq!(found, want);
    let filtered = server.api.scan(&table, "?filter=extra%20%3D%20%27none%27&columns=k").await;
    assert_eq!(filtered, [json!({ "k": 1 })]);
}
