//! Following a table: rows come as they become durable, and a cursor goes on without gap or repeat.

use std::time::Duration;

use arrow::buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{ARROW, NDJSON, PATIENCE, Server, Setup};
use crate::link::Link;

async fn server_with_table(buckets: u32) -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "bigint" }]);
    let spec = json!({ "name": "tail", "columns": columns, "buckets": buckets });
    let table = server.api.create_table(&spec).await;
    (server, table)
}

async fn append(server: &Server, table: &str, rows: std::ops::Range<u32>) {
    for a in rows {
        server.api.post(&format!("{table}/append"), NDJSON, format!("{{\"a\":{a}}}\n")).await.expect(200);
    }
}

/// An open stream, read line by line.
pub(crate) struct Lines {
    response: reqwest::Response,
    pending: String,
}

impl Lines {
    pub(crate) async fn open(server: &Server, path: &str, accept: &str, last_id: Option<&str>) -> Lines {
        let mut request = server.api.request(Method::GET, path).header("accept", accept);
        if let Some(id) = last_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], accept);
        Lines { response, pending: String::new() }
    }

    async fn next(&mut self) -> String {
        loop {
            if let Some((line, rest)) = self.pending.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.pending = rest;
                return line;
            }
            let piece = timeout(PATIENCE, self.response.chunk()).await.expect("nothing comes").unwrap();
            self.pending.push_str(std::str::from_utf8(&piece.expect("the stream ended")).unwrap());
        }
    }

    /// Whether more comes, by now or later.
    pub(crate) async fn more(&mut self) -> bool {
        matches!(self.response.chunk().await, Ok(Some(_)))
    }

    /// The next row, of NDJSON or of an event; ids that come before it are noted.
    pub(crate) async fn row(&mut self, id: &mut String) -> Value {
        loop {
            let line = self.next().await;
            if let Some(cursor) = line.strip_prefix("id: ") {
                cursor.clone_into(id);
            }
            let json = line.strip_prefix("data: ").unwrap_or(&line);
            if json.starts_with('{') {
                return serde_json::from_str(json).unwrap();
            }
        }
    }

    /// What the next event of this name says.
    pub(crate) async fn event(&mut self, name: &str) -> Value {
        let head = format!("event: {name}");
        while self.next().await != head {}
        let data = self.next().await;
        serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
    }

    /// The next cursor.
    pub(crate) async fn cursor(&mut self) -> String {
        loop {
            if let Some(cursor) = self.next().await.strip_prefix("id: ") {
                return cursor.to_owned();
            }
        }
    }
}

async fn numbers(lines: &mut Lines, count: usize) -> Vec<u64> {
    let mut found = Vec::with_capacity(count);
    while found.len() < count {
        found.push(lines.row(&mut String::new()).await["a"].as_u64().unwrap());
    }
    found.sort_unstable();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_all_buckets_come_as_lines() {
    let (server, table) = server_with_table(3).await;
    append(&server, &table, 0..6).await;
    let path = format!("{table}/tail");
    let mut all = Lines::open(&server, &format!("{path}?from=earliest"), NDJSON, None).await;
    assert_eq!(numbers(&mut all, 6).await, (0..6).collect::<Vec<_>>());
    let mut new = Lines::open(&server, &path, NDJSON, None).await;
    let filter = format!("{path}?from=earliest&filter=a%20%3E%207&columns=a,_bucket,_offset,_change_type");
    let mut late = Lines::open(&server, &filter, NDJSON, None).await;
    append(&server, &table, 6..10).await;
    assert_eq!(numbers(&mut all, 4).await, [6, 7, 8, 9]);
    assert_eq!(numbers(&mut new, 4).await, [6, 7, 8, 9]);
    let row = late.row(&mut String::new()).await;
    assert_eq!(row["_change_type"], "+I", "{row}");
    assert!(row["a"].as_u64().unwrap() > 7 && row["_offset"].is_u64() && row["_bucket"].is_u64(), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_on_without_gap_or_repeat() {
    let (server, table) = server_with_table(3).await;
    append(&server, &table, 0..20).await;
    let path = format!("{table}/tail?from=earliest");
    let events = "text/event-stream";
    let mut found = Vec::new();
    let mut id = String::new();
    // Leave after some rows, at the cursor that follows them, and come back; rows come meanwhile.
    let mut written = 20;
    for (round, stay) in [1, 5, 9].into_iter().enumerate() {
        let from = (!id.is_empty()).then_some(id.as_str());
        let mut lines = Lines::open(&server, &path, events, from).await;
        let mut since_cursor = Vec::new();
        while since_cursor.len() < stay {
            let mut passed = String::new();
            let row = lines.row(&mut passed).await;
            since_cursor.push(row["a"].as_u64().unwrap());
        }
        // Rows up to the next cursor are seen too.
        loop {
            let line = lines.next().await;
            if let Some(cursor) = line.strip_prefix("id: ") {
                cursor.clone_into(&mut id);
                break;
            }
            if let Some(row) = line.strip_prefix("data: ").filter(|row| row.starts_with('{')) {
                let row: Value = serde_json::from_str(row).unwrap();
                since_cursor.push(row["a"].as_u64().unwrap());
            }
        }
        found.extend(since_cursor);
        append(&server, &table, written..written + 5).await;
        written += 5;
        assert!(found.len() < written as usize, "round {round}");
    }
    let mut lines = Lines::open(&server, &format!("{table}/tail?from={id}"), events, None).await;
    while found.len() < written as usize {
        found.push(lines.row(&mut String::new()).await["a"].as_u64().unwrap());
    }
    found.sort_unstable();
    assert_eq!(found, (0..u64::from(written)).collect::<Vec<_>>());
    assert!(lines.cursor().await.starts_with("c2."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_is_an_arrow_stream() {
    let (server, table) = server_with_table(1).await;
    append(&server, &table, 0..3).await;
    let request = server.api.request(Method::GET, &format!("{table}/tail?from=earliest"));
    let mut response = request.header("accept", ARROW).send().await.unwrap();
    let mut decoder = StreamDecoder::new();
    let mut rows = 0;
    while rows < 5 {
        if rows == 3 {
            append(&server, &table, 3..5).await;
        }
        let piece = timeout(PATIENCE, response.chunk()).await.expect("nothing comes").unwrap();
        let mut buffer = Buffer::from(piece.expect("the stream ended").to_vec());
        while let Some(batch) = decoder.decode(&mut buffer).unwrap() {
            assert_eq!(batch.schema().field(0).name(), "a");
            rows += batch.num_rows();
        }
    }
    assert_eq!(rows, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_answers_when_a_row_comes() {
    let (server, table) = server_with_table(1).await;
    let began = tokio::time::Instant::now();
    let path = format!("{table}/log?offset=0&wait_ms=60000");
    let waiting = server.api.get(&path);
    let writing = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        append(&server, &table, 0..1).await;
    };
    let (answer, ()) = futures::future::join(waiting, writing).await;
    let answer = answer.expect(200);
    assert_eq!(answer.json()["rows"], json!([{ "a": 0 }]));
    let heads = ["wadi-next-offset", "wadi-high-watermark", "wadi-log-start"].map(|name| answer.header(name));
    assert_eq!(heads, ["1", "1", "0"]);
    // Far from the minute that it would wait.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let empty = server.api.get(&format!("{table}/log?offset=1&wait_ms=200")).await.expect(200);
    assert_eq!(empty.json()["rows"], json!([]));
}

/// The rows that a `wadi tail` has printed into a file.
fn printed(path: &std::path::Path) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["a"].as_u64().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_goes_on_over_cut_connections_restarts_and_runs_without_gap_or_repeat() {
    const RUN: u32 = 150;
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "bigint" }]);
    let table = server.api.create_table(&json!({ "name": "tail", "columns": columns, "buckets": 3 })).await;
    let wire = Link::to(&server.api.url).await;
    let directory = tempfile::tempdir().unwrap();
    let (rows, cursor) = (directory.path().join("rows"), directory.path().join("cursor"));
    let mut written = 0;
    for run in 1..=2 {
        let out = std::fs::File::options().create(true).append(true).open(&rows).unwrap();
        // Only the first run is told where to begin; the second has the file.
        let from = if run == 1 { "earliest" } else { "latest" };
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wadi"))
            .args(["--url", wire.url(), "tail", "t.tail", "--from", from, "--limit", &RUN.to_string()])
            .arg("--cursor-file")
            .arg(&cursor)
            .stdout(out)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Rows beyond the limit are there for the next run.
        let end = RUN * run + RUN / 2;
        while written < end {
            append(&server, &table, written..(written + 7).min(end)).await;
            written = (written + 7).min(end);
            wire.reset();
            if run == 1 && (70..77).contains(&written) {
                server.process.kill();
                server = setup.ready().await;
                wire.lead_to(&server.api.url);
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        let waited = tokio::time::Instant::now();
        while command.try_wait().unwrap().is_none() {
            assert!(
                waited.elapsed() < PATIENCE,
                "the tail of run {run} does not end: {} rows",
                printed(&rows).len()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let output = command.wait_with_output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        let last = std::fs::read_to_string(&cursor).unwrap();
        assert!(told.contains(last.trim()) && told.contains("connection was lost"), "{told}");
        let found = printed(&rows);
        assert_eq!(found.len() as u32, RUN * run);
        let once: std::collections::BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(once.len(), found.len(), "a row came twice");
    }
    // The rest comes too, so none was passed over.
    let text = std::fs::read_to_string(&cursor).unwrap();
    let mut lines = Lines::open(&server, &format!("{table}/tail?from={}", text.trim()), NDJSON, None).await;
    let mut found = printed(&rows);
    found.extend(numbers(&mut lines, (written - 2 * RUN) as usize).await);
    found.sort_unstable();
    assert_eq!(found, (0..u64::from(written)).collect::<Vec<_>>());
}
