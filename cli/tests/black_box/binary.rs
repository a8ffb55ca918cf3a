//! The real binary: exit codes, environment, what goes to stdout and what to stderr.

use std::path::Path;
use std::process::{Command, Output};

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use serde_json::Value;
use tokio::net::TcpListener;

pub(crate) fn wadi(directory: &Path, args: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wadi"));
    command.args(args).current_dir(directory).envs(env.iter().copied());
    command
}

fn run(args: &[&str], env: &[(&str, &str)]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    wadi(directory.path(), args, env).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn wrong_command_lines_exit_with_2() {
    for args in [&["tabel"][..], &["table", "show", "no-dot"], &["--url", "ftp://x", "status"], &["gateway"]]
    {
        let output = run(args, &[]);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn variables_win_over_the_file_and_flags_over_variables() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("wadi.toml"), "shards = 8\nlinger = \"20ms\"\nlog_level = \"warn\"")
        .unwrap();
    let args = ["dev", "--config", "wadi.toml", "--linger", "40ms", "--print-config"];
    let env =
        [("WADI_SHARDS", "16"), ("WADI_LINGER", "30ms"), ("WADI_SERVICE_HOST", "set by others, ignored")];
    let output = wadi(directory.path(), &args, &env).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let config = text(&output.stdout);
    for want in ["shards = 16", "linger = \"40ms\"", "log_level = \"warn\"", "listen = \"127.0.0.1:8080\""] {
        assert!(config.contains(want), "{want} is missing in\n{config}");
    }
}

#[test]
fn a_dry_run_infers_the_table_and_needs_no_server() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.csv"), "id,name\n1,x\n").unwrap();
    let args = ["table", "create", "nyc.t", "--like", "a.csv", "--buckets", "2", "--dry-run"];
    let output = wadi(directory.path(), &args, &[]).output().unwrap();
    let want = "create table nyc.t (\n  id bigint,\n  name string\n) with (\n  'bucket.num' = '2'\n)\n";
    assert_eq!(text(&output.stdout), want, "{}", text(&output.stderr));
}

#[test]
fn a_table_that_cannot_be_is_refused_before_anything_is_sent() {
    let args = ["table", "create", "nyc.t", "--columns", "id bigint, id int", "--dry-run"];
    let output = run(&args, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("twice"), "{}", text(&output.stderr));
}

#[test]
fn completions_are_made_for_shells() {
    let output = run(&["completions", "bash"], &[]);
    assert!(output.status.success() && text(&output.stdout).contains("_wadi"));
}

/// Knows one table, and counts rows of CSV bodies by their producer's sequences.
async fn server() -> String {
    let table = r#"{"id":7,"name":"t","columns":[{"name":"a","type":"bigint"}],"buckets":1,"created_at":5}"#;
    let append = async |headers: HeaderMap, body: axum::body::Bytes| {
        assert!(headers.contains_key("wadi-producer-id"));
        let csv = zstd::decode_all(&body[..]).unwrap();
        format!(r#"{{"rows":{}}}"#, csv.iter().filter(|b| **b == b'\n').count() - 1)
    };
    let router = Router::new()
        .route("/v1/databases/a/tables/t", get(async move || table))
        .route("/v1/databases/a/tables/t/append", post(append));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "the server of a test")]
    tokio::spawn(async { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_ingested_once_and_the_summary_is_json() {
    let url = server().await;
    let directory = tempfile::tempdir().unwrap();
    let rows: String = (0..1000).map(|i| format!("{i}\n")).collect();
    std::fs::write(directory.path().join("a.csv"), format!("a\n{rows}")).unwrap();
    let ingest = |more: &[&str]| -> Value {
        let args = [&["--json", "ingest", "a.t", "a.csv", "--piece-size", "1KiB"], more].concat();
        let output = wadi(directory.path(), &args, &[("WADI_URL", &url)]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = ingest(&[]);
    assert_eq!((&first["rows"], &first["rows_of_earlier_runs"]), (&1000.into(), &0.into()));
    assert_eq!(first["complete"], true);
    let second = ingest(&[]);
    assert_eq!((&second["rows"], &second["rows_of_earlier_runs"]), (&1000.into(), &1000.into()));
    let again = ingest(&["--again"]);
    assert_eq!((&again["rows"], &again["rows_of_earlier_runs"]), (&1000.into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_json_for_who_asks_for_it() {
    let url = server().await;
    let document = |args: &[&str]| -> Value {
        let output = run(args, &[("WADI_URL", &url)]);
        assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stderr).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
    };
    assert_eq!(document(&["--json", "tabel"])["code"], "usage");
    let unknown = document(&["--json", "table", "show", "a.none"]);
    assert_eq!((&unknown["status"], &unknown["code"]), (&404.into(), &"http_error".into()), "{unknown}");
    let slip = ["--json", "table", "create", "a.x", "--columns", "a int", "--property", "table.log.tll=7d"];
    assert!(document(&slip)["detail"].as_str().unwrap().contains("did you mean \"table.log.ttl\"?"));
    let nobody = document(&["--json", "--url", "http://127.0.0.1:1", "status"]);
    assert_eq!(nobody["code"], "unreachable", "{nobody}");
    assert!(nobody["hint"].as_str().unwrap().contains("wadi dev"), "{nobody}");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_times_for_people_and_numbers_for_programs() {
    let url = server().await;
    let show =
        |more: &[&str]| text(&run(&[&["table", "show", "a.t"], more].concat(), &[("WADI_URL", &url)]).stdout);
    assert!(show(&[]).contains("1970-01-01T00:00:00.005Z"), "{}", show(&[]));
    assert_eq!(serde_json::from_str::<Value>(&show(&["--json"])).unwrap()["created_at"], 5);
}

/// Nobody reads on: no error, and nothing on stderr.
#[test]
fn a_closed_pipe_ends_quietly() {
    for (args, closed) in [(&["completions", "bash"][..], "stdout"), (&["tabel"], "stderr")] {
        let line = format!(
            "\"$0\" \"$@\" {} | true; echo ${{PIPESTATUS[0]}}",
            if closed == "stderr" { "2>&1 >/dev/null" } else { "" }
        );
        let mut command = Command::new("bash");
        // `true` may be gone before or after the command writes; often enough it is before.
        command.arg("-c").arg(format!("sleep 0.1; {line}")).arg(env!("CARGO_BIN_EXE_wadi")).args(args);
        let output = command.output().unwrap();
        let want = if closed == "stderr" { "2\n" } else { "0\n" };
        assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), (want, ""), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_and_moves_is_sent_once() {
    let url = server().await;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let rows = |range: std::ops::Range<u32>| range.map(|i| format!("{i}\n")).collect::<String>();
    let ingest = |file: &str, more: &[&str]| {
        let args = [&["--json", "ingest", "a.t", file, "--piece-size", "1KiB"], more].concat();
        let output = wadi(directory.path(), &args, &[("WADI_URL", &url)]).output().unwrap();
        let document = if output.status.success() { &output.stdout } else { &output.stderr };
        let lines = text(document);
        let json = lines.find('{').map_or("", |at| &lines[at..]);
        serde_json::from_str::<Value>(json).unwrap_or_else(|e| panic!("{e}: {lines}"))
    };
    let counts = |answer: &Value| (answer["rows"].clone(), answer["rows_of_earlier_runs"].clone());
    std::fs::write(path("a.csv"), format!("a\n{}", rows(0..1000))).unwrap();
    assert_eq!(counts(&ingest("a.csv", &[])), (1000.into(), 0.into()));
    // Other rows behind it, another name, other settings for what comes.
    std::fs::write(path("a.csv"), format!("a\n{}", rows(0..1500))).unwrap();
    std::fs::rename(path("a.csv"), path("b.csv")).unwrap();
    assert_eq!(counts(&ingest("b.csv", &["--on-error", "skip"])), (1500.into(), 1000.into()));
    assert_eq!(counts(&ingest("b.csv", &[])), (1500.into(), 1500.into()));
    // Another file under a name whose rows were all sent.
    std::fs::write(path("b.csv"), format!("a\n{}", rows(5..1005))).unwrap();
    assert_eq!(counts(&ingest("b.csv", &[])), (1000.into(), 0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_exit_with_1_and_say_what_to_do() {
    let url = server().await;
    let output = run(&["table", "list", "a"], &[("WADI_URL", &url)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: "), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}
