//! Tables that change: old rows under the new schema, streams over a change, tables that go.

use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{ARROW, NDJSON, PATIENCE, Server, Setup};
use crate::tail::Lines;

async fn server_with_table() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns: Vec<Value> = [("a", "int not null"), ("b", "string"), ("f", "float"), ("x", "date")]
        .into_iter()
        .map(|(name, kind)| json!({ "name": name, "type": kind }))
        .collect();
    let table =
        server.api.create_table(&json!({ "name": "evolve", "columns": columns, "bucket_key": ["b"] })).await;
    (server, table)
}

async fn append(server: &Server, table: &str, row: Value) {
    server.api.post(&format!("{table}/append"), NDJSON, format!("{row}\n")).await.expect(200);
}

async fn alter(server: &Server, table: &str, changes: Value) -> Value {
    server.api.call(Method::PATCH, table, &json!({ "changes": changes })).await.expect(200).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_are_read_under_the_new_schema() {
    let (server, table) = server_with_table().await;
    append(&server, &table, json!({ "a": 1, "b": "one", "f": 0.5, "x": "2013-01-01" })).await;
    let changed = alter(
        &server,
        &table,
        json!([
            { "add_column": { "name": "c", "type": "int not null", "default": 7 } },
            { "add_column": { "name": "d", "type": "string" } },
            { "rename_column": { "from": "b", "to": "name" } },
            { "drop_column": { "name": "x" } },
            { "widen_column": { "name": "f", "type": "double" } },
        ]),
    )
    .await;
    let names: Vec<_> = changed["columns"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["a", "name", "f", "c", "d"], "{changed}");
    append(&server, &table, json!({ "a": 2, "name": "two", "f": 1e300, "c": 8 })).await;
    let rows = [
        json!({ "a": 1, "name": "one", "f": 0.5, "c": 7, "d": null }),
        json!({ "a": 2, "name": "two", "f": 1e300, "c": 8, "d": null }),
    ];
    assert_eq!(server.api.scan(&table, "").await, rows);
    assert_eq!(server.api.scan(&table, "?filter=name%20%3D%20'one'%20and%20c%20%3D%207").await, rows[..1]);
    assert_eq!(server.api.scan(&table, "?filter=f%20%3E%201&columns=c").await, [json!({ "c": 8 })]);

    // A name that comes back is a new column.
    alter(&server, &table, json!([{ "add_column": { "name": "x", "type": "string" } }])).await;
    append(&server, &table, json!({ "a": 3, "name": "three", "f": 2.0, "c": 9, "x": "new" })).await;
    let found = server.api.scan(&table, "?columns=a,x").await;
    assert_eq!(found, [json!({"a":1,"x":null}), json!({"a":2,"x":null}), json!({"a":3,"x":"new"})]);
    let arrow = server.api.get_as(&format!("{table}/scan?columns=f"), ARROW).await.expect(200);
    let rows: usize = crate::formats::batches(&arrow).iter().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_survive_a_kill() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "int" }]);
    let table = server.api.create_table(&json!({ "name": "kill", "columns": columns })).await;
    append(&server, &table, json!({ "a": 1 })).await;
    alter(&server, &table, json!([{ "add_column": { "name": "b", "type": "int", "default": 5 } }])).await;
    append(&server, &table, json!({ "a": 2, "b": 6 })).await;
    server.process.kill();
    server = setup.ready().await;
    assert_eq!(server.api.scan(&table, "").await, [json!({"a":1,"b":5}), json!({"a":2,"b":6})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_lose_values_are_refused() {
    let (server, table) = server_with_table().await;
    for (change, code) in [
        (json!({ "widen_column": { "name": "a", "type": "smallint" } }), "invalid_table"),
        (json!({ "widen_column": { "name": "b", "type": "char(3)" } }), "invalid_table"),
        (json!({ "drop_column": { "name": "b" } }), "invalid_table"),
        (json!({ "drop_column": { "name": "z" } }), "column_not_found"),
        (json!({ "rename_column": { "from": "b", "to": "a" } }), "invalid_table"),
        (json!({ "rename_column": { "from": "b", "to": "_offset" } }), "invalid_table"),
        (json!({ "add_column": { "name": "n", "type": "int not null" } }), "invalid_table"),
        (json!({ "turn_column": {} }), "invalid_json_body"),
    ] {
        let answer = server.api.call(Method::PATCH, &table, &json!({ "changes": [change] })).await;
        let problem = answer.problem();
        assert_eq!((answer.status, problem["code"].as_str().unwrap()), (400, code), "{change}: {problem}");
    }
    let described = server.api.get(&table).await.expect(200).json();
    assert_eq!(described["columns"].as_array().unwrap().len(), 4, "{described}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_goes_on_over_a_change() {
    let (server, table) = server_with_table().await;
    append(&server, &table, json!({ "a": 1, "b": "one" })).await;
    let (all, some) =
        (format!("{table}/tail?from=earliest"), format!("{table}/tail?from=earliest&columns=a"));
    let mut all = Lines::open(&server, &all, NDJSON, None).await;
    let mut some = Lines::open(&server, &some, "text/event-stream", None).await;
    let mut id = String::new();
    assert_eq!(all.row(&mut id).await["b"], "one");
    assert_eq!(some.row(&mut id).await, json!({ "a": 1 }));
    alter(
        &server,
        &table,
        json!([
            { "add_column": { "name": "c", "type": "int" } },
            { "widen_column": { "name": "a", "type": "bigint" } },
        ]),
    )
    .await;
    append(&server, &table, json!({ "a": 1u64 << 40, "b": "two", "c": 2 })).await;
    let row = all.row(&mut id).await;
    assert_eq!((&row["a"], &row["b"]), (&json!(1u64 << 40), &json!("two")), "{row}");
    assert_eq!(some.row(&mut id).await, json!({ "a": 1u64 << 40 }));
    append(&server, &table, json!({ "a": 3, "b": "three", "c": 3 })).await;
    let row = all.row(&mut id).await;
    assert_eq!((&row["b"], &row["c"]), (&json!("three"), &json!(3)), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_table_is_gone_and_its_name_is_free() {
    let (server, table) = server_with_table().await;
    append(&server, &table, json!({ "a": 1 })).await;
    let mut lines =
        Lines::open(&server, &format!("{table}/tail?from=earliest"), "text/event-stream", None).await;
    let cursor = lines.cursor().await;
    let before = server.api.get(&table).await.expect(200).json();
    server.api.call(Method::DELETE, &table, &json!(null)).await.expect(204);
    for path in ["", "/log?bucket=0", "/scan", "/offsets", "/tail"] {
        let answer = server.api.get(&format!("{table}{path}")).await;
        assert_eq!((answer.status, &answer.problem()["code"]), (404, &json!("table_not_found")), "{path}");
    }
    let ended = async { while lines.more().await {} };
    timeout(PATIENCE, ended).await.expect("the stream of a dropped table ends");

    let columns = json!([{ "name": "other", "type": "int" }]);
    let table = server.api.create_table(&json!({ "name": "evolve", "columns": columns })).await;
    let after = server.api.get(&table).await.expect(200).json();
    assert!(after["id"].as_u64() > before["id"].as_u64(), "{before} {after}");
    assert_eq!(server.api.scan(&table, "").await, Vec::<Value>::new());
    let old = server.api.get(&format!("{table}/tail?from={cursor}")).await;
    assert_eq!((old.status, &old.problem()["code"]), (410, &json!("cursor_gone")));
}
