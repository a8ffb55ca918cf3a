//! Partitions: made by hand, by writes and by time; read one by one and together; dropped; refused when they cannot be.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::harness::{Api, CSV, NDJSON, PATIENCE, Server, Setup, send};
use crate::tail::Lines;

async fn server() -> Server {
    let server = Setup::dev().args(&["--auto-partition-check-interval", "1s"]).into_ready().await;
    server.api.create_database().await;
    server
}

/// A table of the columns `region`, `n` and `day`, partitioned by `by`.
async fn table(api: &Api, name: &str, by: &[&str], more: Value) -> String {
    let columns = json!([
        { "name": "region", "type": "string" },
        { "name": "n", "type": "bigint" },
        { "name": "day", "type": "string" },
    ]);
    let mut spec = json!({ "name": name, "columns": columns, "partition_by": by });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    api.create_table(&spec).await
}

fn properties(options: &[(&str, &str)]) -> Value {
    let options = options.iter().map(|(name, value)| (format!("table.{name}"), json!(value)));
    json!({ "properties": Value::Object(options.collect()) })
}

async fn names(api: &Api, table: &str) -> Vec<String> {
    let listed = api.get(&format!("{table}/partitions")).await.expect(200).json();
    listed["partitions"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
}

async fn append(api: &Api, table: &str, rows: &[(&str, i64)]) -> Value {
    let lines: String =
        rows.iter().map(|(region, n)| format!("{{\"region\":\"{region}\",\"n\":{n}}}\n")).collect();
    api.post(&format!("{table}/append"), NDJSON, lines).await.expect(200).json()
}

fn numbers(rows: &[Value]) -> Vec<i64> {
    let mut found: Vec<i64> = rows.iter().map(|row| row["n"].as_i64().unwrap()).collect();
    found.sort_unstable();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_to_their_partitions_which_writes_make() {
    let server = server().await;
    let api = &server.api;
    let table = table(api, "t", &["region"], json!({ "buckets": 3, "bucket_key": ["n"] })).await;
    assert!(names(api, &table).await.is_empty());
    let rows: Vec<(&str, i64)> = (0..60).map(|n| (["eu", "us", "asia"][n as usize % 3], n)).collect();
    let written = append(api, &table, &rows).await;
    assert_eq!(names(api, &table).await, ["asia", "eu", "us"]);
    let mut of: Vec<(String, u64)> = Vec::new();
    for range in written["offsets"].as_array().unwrap() {
        let rows = range["last_offset"].as_u64().unwrap() - range["base_offset"].as_u64().unwrap() + 1;
        of.push((range["partition"].as_str().unwrap().to_owned(), rows));
        assert_eq!(range["base_offset"], 0, "each partition's buckets have offsets of their own: {range}");
    }
    for name in ["asia", "eu", "us"] {
        assert_eq!(of.iter().filter(|(p, _)| p == name).map(|(_, rows)| rows).sum::<u64>(), 20, "{of:?}");
    }
    // All together, one, and by offset.
    assert_eq!(numbers(&api.scan(&table, "").await), (0..60).collect::<Vec<_>>());
    let rows = api.scan(&table, "?partition=us&columns=region,n,_partition,_bucket").await;
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row["region"] == "us" && row["_partition"] == "us"), "{rows:?}");
    let mut found = Vec::new();
    for bucket in 0..3 {
        let log = api.get(&format!("{table}/log?partition=eu&bucket={bucket}&columns=n,_partition")).await;
        let rows = log.expect(200).json()["rows"].as_array().unwrap().clone();
        assert!(rows.iter().all(|row| row["_partition"] == "eu" && row["n"].as_i64().unwrap() % 3 == 0));
        found.extend(numbers(&rows));
    }
    found.sort_unstable();
    assert_eq!(found, (0..60).step_by(3).collect::<Vec<_>>());
    let offsets = api.get(&format!("{table}/offsets")).await.expect(200).json();
    assert_eq!(offsets["offsets"].as_array().unwrap().len(), 9);
    let one = api.get(&format!("{table}/offsets?partition=eu")).await.expect(200).json();
    let sum: u64 = one["offsets"].as_array().unwrap().iter().map(|o| o["offset"].as_u64().unwrap()).sum();
    assert_eq!(sum, 20, "{one}");
    let shown = api.get(&table).await.expect(200).json();
    assert_eq!((&shown["statistics"]["rows"], &shown["statistics"]["partitions"]), (&json!(60), &json!(3)));
    // A filter on the partition column finds the same rows as the partition does.
    let filtered = api.scan(&table, "?filter=region%20%3D%20'asia'").await;
    assert_eq!(numbers(&filtered), numbers(&api.scan(&table, "?partition=asia").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_survive_restarts_and_keep_their_rows_apart() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let table = table(&server.api, "t", &["region"], json!({})).await;
    append(&server.api, &table, &[("eu", 1), ("us", 2)]).await;
    server.process.kill();
    let server = setup.ready().await;
    append(&server.api, &table, &[("eu", 3), ("asia", 4)]).await;
    assert_eq!(numbers(&server.api.scan(&table, "?partition=eu").await), [1, 3]);
    assert_eq!(names(&server.api, &table).await, ["asia", "eu", "us"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_meets_its_first_try_in_every_partition() {
    let server = server().await;
    let api = &server.api;
    let table = table(api, "t", &["region"], json!({ "buckets": 4 })).await;
    let body = "region,n\neu,1\nus,2\neu,3\n";
    let key = [("idempotency-key", "k")];
    let first = api.post_with(&format!("{table}/append"), CSV, &key, body).await.expect(200).json();
    let again = api.post_with(&format!("{table}/append"), CSV, &key, body).await.expect(200).json();
    assert_eq!(first["offsets"], again["offsets"]);
    assert_eq!(numbers(&api.scan(&table, "").await), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_made_by_hand_and_dropped_with_their_rows() {
    let server = server().await;
    let api = &server.api;
    let manual = properties(&[("dynamic-create-partition.enabled", "false")]);
    let table = table(api, "t", &["day", "region"], manual).await;
    let partitions = format!("{table}/partitions");
    let create = async |body: Value| api.call(Method::POST, &partitions, &body).await;
    let made = create(json!({ "name": "1$eu" })).await.expect(201).json();
    assert_eq!((&made["name"], &made["values"]), (&json!("1$eu"), &json!({ "day": "1", "region": "eu" })));
    create(json!({ "values": { "region": "us", "day": "1" } })).await.expect(201);
    assert_eq!(names(api, &table).await, ["1$eu", "1$us"]);
    assert_eq!(create(json!({ "name": "1$eu" })).await.expect(409).problem()["code"], "partition_exists");
    let path = format!("{partitions}?if_not_exists=true");
    let fine = api.call(Method::POST, &path, &json!({ "name": "1$eu" })).await.expect(200).json();
    assert_eq!(fine["id"], made["id"]);
    for (body, part) in [
        (json!({ "name": "1" }), "partitioned by day, region"),
        (json!({ "name": "1$eu$x" }), "3 value(s)"),
        (json!({ "name": "1$e u" }), "column \\\"region\\\""),
        (json!({ "values": { "day": "1" } }), "\\\"region\\\" is not given"),
        (json!({ "values": { "day": "1", "n": "2", "region": "eu" } }), "none of the partition columns"),
        (json!({ "values": { "day": "1$x", "region": "eu" } }), "has a \\\"$\\\" in it"),
        (json!({ "name": "1$eu", "values": {} }), "either"),
        (json!({}), "either"),
    ] {
        let answer = create(body.clone()).await.expect(400);
        assert_eq!(answer.problem()["code"], "invalid_partition");
        assert!(answer.text().contains(part), "{body}: {}", answer.text());
    }

    // Writes make none here; nothing of the request is written.
    let lines = "{\"day\":\"1\",\"region\":\"eu\",\"n\":1}\n{\"day\":\"2\",\"region\":\"eu\",\"n\":2}\n";
    let refused = api.post(&format!("{table}/append"), NDJSON, lines).await.expect(404).problem();
    assert_eq!((&refused["code"], &refused["side_effects"]), (&json!("partition_not_found"), &json!("none")));
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("\"2$eu\"") && detail.contains("wadi partition create t.t '2$eu'"), "{detail}");
    assert!(api.scan(&table, "").await.is_empty());
    api.post(&format!("{table}/append"), NDJSON, lines.lines().next().unwrap()).await.expect(200);

    // Dropped: no reads, no writes, not listed; made again, it is empty and another one.
    let drop = async |name: &str| {
        let request = api.request(Method::DELETE, &partitions).query(&[("partition", name)]);
        send(request).await.unwrap()
    };
    drop("1$eu").await.expect(204);
    assert_eq!(drop("1$eu").await.expect(404).problem()["code"], "partition_not_found");
    assert_eq!(names(api, &table).await, ["1$us"]);
    for path in ["log?partition=1$eu", "scan?partition=1$eu", "offsets?partition=1$eu", "tail?partition=1$eu"]
    {
        let answer = api.get(&format!("{table}/{path}")).await.expect(404).problem();
        assert_eq!(answer["code"], "partition_not_found", "{path}");
        assert!(answer["detail"].as_str().unwrap().contains("there are \"1$us\""), "{answer}");
    }
    assert!(api.scan(&table, "").await.is_empty());
    let again = create(json!({ "name": "1$eu" })).await.expect(201).json();
    assert!(again["id"].as_u64() > made["id"].as_u64());
    assert!(api.scan(&table, "").await.is_empty());
    let log = api.get(&format!("{table}/log?partition=1$eu")).await.expect(200);
    assert_eq!(log.header("wadi-high-watermark"), "0");
    let answer = send(api.request(Method::DELETE, &partitions)).await.unwrap().expect(400).problem();
    assert_eq!(answer["code"], "partition_needed");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_partition_says_so_and_what_has_none_too() {
    let server = server().await;
    let api = &server.api;
    let parted = table(api, "t", &["region"], json!({})).await;
    let none = api.get(&format!("{parted}/log")).await.expect(400).problem();
    assert_eq!(none["code"], "partition_needed");
    assert!(none["detail"].as_str().unwrap().contains("has no partitions yet"), "{none}");
    append(api, &parted, &[("eu", 1), ("us", 2)]).await;
    let needed = api.get(&format!("{parted}/log?offset=0")).await.expect(400).problem();
    let detail = needed["detail"].as_str().unwrap();
    assert!(detail.contains("partitioned by region") && detail.contains("\"eu\""), "{detail}");
    let bad = api.get(&format!("{parted}/scan?partition=e%20u")).await.expect(400).problem();
    assert_eq!(bad["code"], "invalid_partition");
    let plain = table(api, "plain", &[], json!({})).await;
    for path in
        ["log?partition=x", "scan?partition=x", "offsets?partition=x", "tail?partition=x", "partitions"]
    {
        let answer = api.get(&format!("{plain}/{path}")).await.expect(400).problem();
        assert_eq!(answer["code"], "not_partitioned", "{path}");
    }
    let made = api.call(Method::POST, &format!("{plain}/partitions"), &json!({ "name": "x" })).await;
    assert_eq!(made.expect(400).problem()["code"], "not_partitioned");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_partition_are_rejected_by_name() {
    let server = server().await;
    let api = &server.api;
    let table = table(api, "t", &["region"], json!({})).await;
    let body = "{\"region\":\"eu\",\"n\":1}\n\n{\"n\":2}\n{\"region\":\"e u\",\"n\":3}\n{\"region\":\"eu\",\"n\":\"x\"}\n{\"region\":\"us\",\"n\":5}\n";
    let refused = api.post(&format!("{table}/append"), NDJSON, body).await.expect(422).problem();
    let errors = refused["errors"].as_array().unwrap();
    let told: Vec<_> = errors
        .iter()
        .map(|e| (e["row"].as_u64().unwrap(), e["line"].as_u64().unwrap(), e["column"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [(1, 3, "region"), (2, 4, "region"), (3, 5, "n")]);
    assert_eq!(errors[0]["got"], "null");
    assert!(names(api, &table).await.is_empty(), "a refused request makes no partitions");
    let skipped = api.post(&format!("{table}/append?on_error=dlq"), NDJSON, body).await.expect(200).json();
    assert_eq!((&skipped["rows"], &skipped["rejected_rows"]), (&json!(2), &json!(3)));
    assert_eq!(numbers(&api.scan(&table, "").await), [1, 5]);
    let kept = api.scan(&format!("{table}__rejected"), "").await;
    assert_eq!(kept.len(), 3);
    assert_eq!((&kept[1]["line"], &kept[1]["raw"]), (&json!(4), &json!("{\"region\":\"e u\",\"n\":3}")));
    let many: String = (0..1001).map(|n| format!("{{\"region\":\"r{n}\",\"n\":{n}}}\n")).collect();
    let refused = api.post(&format!("{table}/append"), NDJSON, many).await.expect(422).problem();
    assert_eq!(refused["code"], "too_many_partitions");
    let many: String = (0..999).map(|n| format!("{{\"region\":\"r{n}\",\"n\":{n}}}\n")).collect();
    let refused = api.post(&format!("{table}/append"), NDJSON, many.clone()).await.expect(409).problem();
    assert_eq!((&refused["code"], &refused["side_effects"]), (&json!("too_many_partitions"), &json!("none")));
    assert_eq!(names(api, &table).await, ["eu", "us"]);
    // Exactly as many as there may be, in one request.
    let (most, _) = many.split_at(many.find("{\"region\":\"r998\"").unwrap());
    api.post(&format!("{table}/append"), NDJSON, most.to_owned()).await.expect(200);
    assert_eq!(names(api, &table).await.len(), 1000);
    assert_eq!(api.scan(&table, "").await.len(), 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_make_a_partition_once() {
    let server = server().await;
    let table = table(&server.api, "t", &["region"], json!({})).await;
    let writes = (0..24).map(|n| {
        let (api, table) = (server.api.clone(), table.clone());
        async move { append(&api, &table, &[("same", n), (["a", "b", "c"][n as usize % 3], n)]).await }
    });
    futures::future::join_all(writes).await;
    assert_eq!(names(&server.api, &table).await, ["a", "b", "c", "same"]);
    assert_eq!(numbers(&server.api.scan(&table, "?partition=same").await), (0..24).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_follows_partitions_that_come_and_go() {
    let server = server().await;
    let api = &server.api;
    let table = table(api, "t", &["region"], json!({})).await;
    let path = format!("{table}/tail?columns=n,_partition");
    let events = "text/event-stream";
    // From the latest on, and still nothing of what comes later is missed.
    let mut tail = Lines::open(&server, &path, events, None).await;
    append(api, &table, &[("eu", 1)]).await;
    let mut id = String::new();
    assert_eq!(tail.row(&mut id).await, json!({ "n": 1, "_partition": "eu" }));
    append(api, &table, &[("us", 2)]).await;
    assert_eq!(tail.row(&mut id).await, json!({ "n": 2, "_partition": "us" }));
    let cursor = tail.cursor().await;
    drop(tail);

    // While away: a partition goes, one comes, one is made anew under its old name.
    let drop_partition = async |name: &str| {
        let request =
            api.request(Method::DELETE, &format!("{table}/partitions")).query(&[("partition", name)]);
        send(request).await.unwrap().expect(204);
    };
    append(api, &table, &[("eu", 3), ("asia", 4)]).await;
    drop_partition("us").await;
    append(api, &table, &[("us", 5)]).await;
    let mut tail = Lines::open(&server, &path, events, Some(&cursor)).await;
    let gone = tail.event("partition_dropped").await;
    assert!(gone["partition_id"].is_u64(), "{gone}");
    let mut rows = Vec::new();
    for _ in 0..3 {
        rows.push(tail.row(&mut id).await);
    }
    rows.sort_by_key(|row| row["n"].as_i64());
    let want = [("eu", 3), ("asia", 4), ("us", 5)].map(|(p, n)| json!({ "n": n, "_partition": p }));
    assert_eq!(rows, want);
    drop_partition("asia").await;
    assert_eq!(tail.event("partition_dropped").await["partition"], "asia");

    // One partition alone: others are not seen, and its end is the stream's.
    let mut one = Lines::open(&server, &format!("{path}&partition=eu&from=earliest"), events, None).await;
    append(api, &table, &[("us", 6), ("eu", 7)]).await;
    for n in [1, 3, 7] {
        assert_eq!(one.row(&mut id).await["n"], n);
    }
    drop_partition("eu").await;
    assert_eq!(one.event("partition_dropped").await["partition"], "eu");
    while one.more().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_over_too_many_buckets_needs_a_partition() {
    let server = server().await;
    let api = &server.api;
    let table = table(api, "t", &["region"], json!({ "buckets": 300, "bucket_key": ["n"] })).await;
    append(api, &table, &[("eu", 1)]).await;
    let mut all = Lines::open(&server, &format!("{table}/tail?from=earliest"), NDJSON, None).await;
    assert_eq!(all.row(&mut String::new()).await["n"], 1);
    append(api, &table, &[("us", 2)]).await;
    while all.more().await {}
    let refused = api.get(&format!("{table}/tail")).await.expect(400).problem();
    assert_eq!(refused["code"], "too_many_buckets");
    let mut one =
        Lines::open(&server, &format!("{table}/tail?from=earliest&partition=us"), NDJSON, None).await;
    assert_eq!(one.row(&mut String::new()).await["n"], 2);
}

/// Waits until a table has these partitions.
async fn until_named(api: &Api, table: &str, want: impl Fn(&[String]) -> bool) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = names(api, table).await;
        if want(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_time_are_made_ahead_and_dropped_when_old() {
    let server = server().await;
    let api = &server.api;
    let year = "auto-partition.time-unit";
    let options = [("auto-partition.enabled", "true"), (year, "year"), ("auto-partition.num-retention", "1")];
    let auto = table(api, "auto", &["day"], properties(&options)).await;
    let made = names(api, &auto).await;
    let this: i64 = made[0].parse().unwrap();
    assert_eq!(made, [this.to_string(), (this + 1).to_string()], "made when the table is");

    // Late and odd values are named; what may be kept is made on write.
    let (late, last) = (this - 2, this - 1);
    let body = format!("day,n\n{this},1\n{late},2\n{last},3\nsoon,4\n");
    let refused = api.post(&format!("{auto}/append"), CSV, body.clone()).await.expect(422).problem();
    let errors = refused["errors"].as_array().unwrap();
    assert!(errors[0]["expected"].as_str().unwrap().starts_with(&format!("{last} or later")), "{refused}");
    assert!(errors[0]["hint"].as_str().unwrap().contains("table.auto-partition.late-rows"), "{refused}");
    assert!(errors[1]["expected"].as_str().unwrap().contains("format yyyy"), "{refused}");
    api.post(&format!("{auto}/append?on_error=skip"), CSV, body).await.expect(200);
    assert_eq!(numbers(&api.scan(&auto, "").await), [1, 3]);
    let expired =
        api.call(Method::POST, &format!("{auto}/partitions"), &json!({ "name": late.to_string() })).await;
    assert_eq!(expired.expect(400).problem()["code"], "partition_expired");
    let accept = json!({ "properties": { "table.auto-partition.late-rows": "accept" } });
    api.call(Method::PATCH, &auto, &accept).await.expect(200);
    api.post(&format!("{auto}/append"), CSV, format!("day,n\n{late},2\n")).await.expect(200);
    sleep(Duration::from_millis(2500)).await;
    assert_eq!(numbers(&api.scan(&auto, "").await), [1, 2, 3], "a late row is not dropped at once");

    // Switched on later: what is old goes.
    let off = [(year, "year"), ("auto-partition.num-retention", "1")];
    let later = table(api, "later", &["day"], properties(&off)).await;
    api.post(&format!("{later}/append"), CSV, format!("day,n\n{late},1\n{this},2\n")).await.expect(200);
    assert_eq!(names(api, &later).await, [late.to_string(), this.to_string()]);
    let on = json!({ "properties": { "table.auto-partition.enabled": "true" } });
    api.call(Method::PATCH, &later, &on).await.expect(200);
    until_named(api, &later, |names| *names == [this.to_string(), (this + 1).to_string()]).await;
    assert_eq!(numbers(&api.scan(&later, "").await), [2]);

    // By the clock: a partition of this hour is made anew after it was dropped by hand.
    let hour = [("auto-partition.enabled", "true"), (year, "hour"), ("auto-partition.num-precreate", "1")];
    let hourly = table(api, "hourly", &["day"], properties(&hour)).await;
    let name = names(api, &hourly).await.remove(0);
    let drop = api.request(Method::DELETE, &format!("{hourly}/partitions")).query(&[("partition", &name)]);
    send(drop).await.unwrap().expect(204);
    until_named(api, &hourly, |names| !names.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_cannot_be_partitioned_so_are_refused() {
    let server = server().await;
    let refused = async |by: &[&str], options: &[(&str, &str)]| {
        let columns = json!([
            { "name": "day", "type": "string" }, { "name": "price", "type": "decimal(9,2)" },
            { "name": "tags", "type": "array<string>" }, { "name": "region", "type": "string" },
        ]);
        let mut spec = json!({ "name": "x", "columns": columns, "partition_by": by });
        spec.as_object_mut().unwrap().extend(properties(options).as_object().unwrap().clone());
        let answer = server.api.call(Method::POST, "/v1/databases/t/tables", &spec).await.expect(400);
        answer.problem()["detail"].as_str().unwrap().to_owned()
    };
    const ON: (&str, &str) = ("auto-partition.enabled", "true");
    assert!(refused(&["price"], &[]).await.contains("names no partitions"));
    assert!(refused(&["tags"], &[]).await.contains("cannot be part of the partition key"));
    assert!(refused(&["dya"], &[]).await.contains("did you mean \"day\"?"));
    assert!(refused(&["day", "day"], &[]).await.contains("twice"));
    assert!(refused(&[], &[ON]).await.contains("not partitioned"));
    assert!(refused(&["day", "region"], &[ON]).await.contains("table.auto-partition.key"));
    let precreate = ("auto-partition.num-precreate", "2");
    let key = ("auto-partition.key", "day");
    assert!(refused(&["day", "region"], &[ON, key, precreate]).await.contains("must be 0"));
    assert!(
        refused(&["day"], &[ON, ("auto-partition.time-format", "yyyy-M-dd")]).await.contains("time-format")
    );
    assert!(refused(&["day"], &[ON, ("auto-partition.time-zone", "Mars")]).await.contains("time zone"));
    assert!(refused(&["day"], &[ON, ("auto-partition.time-unit", "week")]).await.contains("hour or day"));
    assert!(
        refused(&["day"], &[ON, ("auto-partition.late-rows", "drop")]).await.contains("reject or accept")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_makes_and_drops() {
    let server = server().await;
    let wadi = async |args: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_wadi"))
            .args(args)
            .env("WADI_URL", &server.api.url)
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let columns = "region string, day date, n bigint";
    let create = ["table", "create", "t.t", "--columns", columns, "--partition-by", "day,region"];
    assert_eq!(wadi(&create).await.0, Some(0));
    assert_eq!(wadi(&["partition", "create", "t.t", "2026-01-31$eu"]).await.0, Some(0));
    assert_eq!(wadi(&["partition", "create", "t.t", "region=us", "day=2026-01-31"]).await.0, Some(0));
    let (code, _, stderr) = wadi(&["partition", "create", "t.t", "2026-01-31$eu"]).await;
    assert!(code != Some(0) && stderr.contains("exists already"), "{stderr}");
    let fine = ["partition", "create", "t.t", "2026-01-31$eu", "--if-not-exists"];
    assert_eq!(wadi(&fine).await.0, Some(0));
    let (_, listed, _) = wadi(&["partition", "list", "t.t"]).await;
    assert!(listed.contains("2026-01-31$eu") && listed.contains("2026-01-31$us"), "{listed}");
    let (_, json, _) = wadi(&["--json", "partition", "list", "t.t"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()[1]["values"]["region"], "us");
    assert_eq!(wadi(&["partition", "drop", "t.t", "2026-01-31$us"]).await.0, Some(0));
    assert_ne!(wadi(&["partition", "drop", "t.t", "2026-01-31$us"]).await.0, Some(0));
    assert_eq!(wadi(&["partition", "drop", "t.t", "2026-01-31$us", "--if-exists"]).await.0, Some(0));
    assert_ne!(wadi(&["partition", "drop", "t.none", "x", "--if-exists"]).await.0, Some(0));
    let (_, scanned, _) = wadi(&["scan", "t.t", "--partition", "2026-01-31$eu"]).await;
    assert!(!scanned.contains("error"), "{scanned}");
}
