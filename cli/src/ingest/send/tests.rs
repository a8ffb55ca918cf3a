use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use wadi_client::ClientOptions;

use super::*;
use crate::ingest::text::{TextKind, TextPieces};

/// A table that knows its producer's sequences, as a server does, and fails as the test says.
#[derive(Default)]
struct Server {
    rows: Vec<String>,
    known: BTreeSet<u64>,
    /// Requests in the order in which they came.
    requests: Vec<u64>,
    /// Answers of the first try of a sequence, after the rows have been written or not.
    faults: BTreeMap<u64, (bool, u16, &'static str)>,
}

type Shared = Arc<Mutex<Server>>;

async fn append(State(server): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let mut server = server.lock().unwrap();
    let sequence: u64 = headers["wadi-sequence"].to_str().unwrap().parse().unwrap();
    assert_eq!(headers["content-encoding"], "zstd");
    let text = String::from_utf8(zstd::decode_all(&body[..]).unwrap()).unwrap();
    server.requests.push(sequence);
    let fault = server.faults.remove(&sequence);
    if fault.is_none_or(|(written, ..)| written) && server.known.insert(sequence) {
        server.rows.extend(text.lines().map(str::to_owned));
    }
    let rows = text.lines().count();
    match fault {
        Some((_, status, code)) => {
            let retryable = status == 503;
            let body = format!(
                r#"{{"code":"{code}","detail":"d","retryable":{retryable},"side_effects":"none","errors":[{{"row":0,"line":1,"expected":"x","got":"y"}}]}}"#
            );
            (StatusCode::from_u16(status).unwrap(), body).into_response()
        }
        None => format!(r#"{{"rows":{rows}}}"#).into_response(),
    }
}

async fn against<T, F: Future<Output = T>>(server: &Shared, test: impl FnOnce(Client) -> F) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = ClientOptions { first_backoff: Duration::from_millis(1), ..ClientOptions::default() };
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), options).unwrap();
    let router = Router::new().fallback(append).with_state(server.clone());
    tokio::select! {
        result = test(client) => result,
        served = async { axum::serve(listener, router).await } => unreachable!("{served:?}"),
    }
}

const ROWS: usize = 100;

fn lines() -> Vec<String> {
    (0..ROWS).map(|i| format!("{{\"id\":{i:04}}}")).collect()
}

/// Ten rows a piece.
fn pieces() -> Pieces {
    let text: String = lines().iter().map(|line| format!("{line}\n")).collect();
    let size = 10 * (lines()[0].len() + 1);
    Box::new(TextPieces::new(TextKind::Ndjson, std::io::Cursor::new(text), size))
}

/// What a journal has of a piece.
fn acked_before(number: u64, rejected: u64) -> Acked {
    let hash = pieces().nth(number as usize - 1).unwrap().unwrap().hash();
    Acked { rows: 10, rejected, hash }
}

fn sender(client: Client, stop: watch::Receiver<bool>) -> Sender {
    Sender {
        client,
        table: "a.b".parse().unwrap(),
        intent: Intent::Append,
        producer: "p".into(),
        on_error: OnError::Fail,
        compression: ArrowCompression::Zstd,
        concurrency: 3,
        stop,
    }
}

async fn run(
    client: Client,
    acked: BTreeMap<u64, Acked>,
    stop: watch::Receiver<bool>,
) -> Result<Outcome, Failure> {
    let mut progress = Progress::new(client.clone(), "test".into(), None, true);
    sender(client, stop).send(pieces(), acked, None, &mut progress).await
}

fn sorted(server: &Shared) -> Vec<String> {
    let mut rows = server.lock().unwrap().rows.clone();
    rows.sort();
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn all_rows_arrive_once_though_answers_are_lost() {
    let server = Shared::default();
    server.lock().unwrap().faults =
        [(2, (true, 503, "outcome_unknown")), (5, (false, 503, "draining")), (9, (true, 409, "in_flight"))]
            .into();
    let (_stop, stopped) = watch::channel(false);
    let outcome = against(&server, |client| run(client, BTreeMap::new(), stopped)).await.unwrap();
    assert_eq!((outcome.rows, outcome.rows_before, outcome.stopped), (ROWS as u64, 0, false));
    assert_eq!(sorted(&server), lines());
    assert_eq!(server.lock().unwrap().requests.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn acked_pieces_are_not_sent_again() {
    let server = Shared::default();
    let acked: BTreeMap<u64, Acked> = [1, 2, 4].map(|n| (n, acked_before(n, 1))).into();
    let (_stop, stopped) = watch::channel(false);
    let outcome = against(&server, |client| run(client, acked, stopped)).await.unwrap();
    assert_eq!((outcome.rows, outcome.rows_before, outcome.rejected), (ROWS as u64, 30, 3));
    let sent: BTreeSet<u64> = server.lock().unwrap().requests.iter().copied().collect();
    assert_eq!(sent, [3, 5, 6, 7, 8, 9, 10].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_that_is_too_old_was_acked_before() {
    let server = Shared::default();
    server.lock().unwrap().faults = [(1, (false, 409, "sequence_too_old"))].into();
    let (_stop, stopped) = watch::channel(false);
    let outcome = against(&server, |client| run(client, BTreeMap::new(), stopped)).await.unwrap();
    assert_eq!(outcome.rows, ROWS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_rows_end_the_run_and_are_told_where_they_are_in_the_file() {
    let server = Shared::default();
    server.lock().unwrap().faults = [(4, (false, 422, "rows_rejected"))].into();
    let (_stop, stopped) = watch::channel(false);
    let error = against(&server, |client| run(client, BTreeMap::new(), stopped)).await.unwrap_err();
    assert!(error.to_string().contains("line 31"), "{error}");
    assert!(error.to_string().contains("--on-error skip") && !error.to_string().contains('?'), "{error}");
    // By the window nothing beyond piece 4 + 3 can have been begun.
    assert!(server.lock().unwrap().requests.iter().all(|n| *n < 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_under_way_when_a_piece_failed_is_in_the_journal() {
    use crate::ingest::fingerprint::FileState;
    use crate::ingest::journal::Origin;

    let server = Shared::default();
    server.lock().unwrap().faults = [(4, (false, 422, "rows_rejected"))].into();
    let directory = tempfile::tempdir().unwrap();
    let origin = Origin {
        table: "a.b".into(),
        table_id: 1,
        table_created: String::new(),
        file: "/data/a.ndjson".into(),
        bytes: 1,
        hash: 2,
        format: crate::format::FileFormat::Ndjson,
        piece_bytes: 3,
        intent: "append".into(),
        again: 0,
    };
    let state = FileState { bytes: 1, modified: 0, hash: 2 };
    let open = || Journal::open(directory.path(), origin.clone(), state, None).unwrap();
    let (_stop, stopped) = watch::channel(false);
    let journal = open().journal;
    against(&server, |client| async {
        let mut progress = Progress::new(client.clone(), "test".into(), None, true);
        sender(client, stopped).send(pieces(), BTreeMap::new(), Some(journal), &mut progress).await
    })
    .await
    .unwrap_err();
    let written: BTreeSet<u64> = open().acked.keys().copied().collect();
    assert_eq!(written, server.lock().unwrap().known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_piece_that_is_another_one_now_ends_the_run() {
    let server = Shared::default();
    let acked = BTreeMap::from([(1, acked_before(2, 0))]);
    let (_stop, stopped) = watch::channel(false);
    let error = against(&server, |client| run(client, acked, stopped)).await.unwrap_err();
    assert!(error.to_string().contains("from line 1 on") && error.to_string().contains("--again"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_run_begins_nothing_more() {
    let server = Shared::default();
    let (stop, stopped) = watch::channel(false);
    stop.send(true).unwrap();
    let outcome = against(&server, |client| run(client, BTreeMap::new(), stopped)).await.unwrap();
    assert!(outcome.stopped);
    assert!(server.lock().unwrap().requests.is_empty());
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]

    /// Whatever a first run got done and noted, a second one completes it and doubles nothing.
    #[test]
    fn an_interrupted_run_is_completed_without_doubling(written in 0u64..0x400, noted in 0u64..0x400) {
        let server = Shared::default();
        let has = |mask: u64, n: u64| mask >> (n - 1) & 1 == 1;
        let all = lines();
        let mut acked = BTreeMap::new();
        for n in (1..=10).filter(|n| has(written, *n)) {
            let mut server = server.lock().unwrap();
            server.known.insert(n);
            server.rows.extend(all[(n as usize - 1) * 10..n as usize * 10].iter().cloned());
            if has(noted, n) {
                acked.insert(n, acked_before(n, 0));
            }
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (_stop, stopped) = watch::channel(false);
        let outcome = runtime.block_on(against(&server, |client| run(client, acked, stopped))).unwrap();
        proptest::prop_assert_eq!(outcome.rows, ROWS as u64);
        proptest::prop_assert_eq!(sorted(&server), all);
    }
}
