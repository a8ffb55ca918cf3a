//! Traces and metrics at real receivers: rotel takes OTLP, Prometheus scrapes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::cluster;
use crate::harness::{Api, JSON, NDJSON, PATIENCE, Server, Setup};
use crate::peers::Peer;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// What the standard variables make faster, for tests.
const SOON: [(&str, &str); 2] = [("OTEL_METRIC_EXPORT_INTERVAL", "300"), ("OTEL_BSP_SCHEDULE_DELAY", "200")];

/// A span as a receiver has it.
#[derive(Clone, Debug, Default)]
struct Span {
    /// `place` of the process's resource.
    place: String,
    trace: String,
    parent: String,
    id: String,
    name: String,
    kind: String,
    attributes: BTreeMap<String, String>,
}

impl Span {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// `a.b: Str(text)` of a line `     -> a.b: Str(text)`.
fn attribute(line: &str) -> Option<(String, String)> {
    let (name, value) = line.trim().strip_prefix("-> ")?.split_once(": ")?;
    let (_, value) = value.split_once('(')?;
    Some((name.to_owned(), value.strip_suffix(')')?.to_owned()))
}

/// The spans in rotel's log.
fn spans(log: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let (mut place, mut in_span) = (String::new(), false);
    for line in log.lines() {
        if line.contains("Resource attributes:") {
            in_span = false;
        } else if line.starts_with("Span #") {
            spans.push(Span { place: place.clone(), ..Span::default() });
            in_span = true;
        } else if let Some((name, value)) = attribute(line) {
            match spans.last_mut().filter(|_| in_span) {
                Some(span) => drop(span.attributes.insert(name, value)),
                None if name == "place" => place = value,
                None => {}
            }
        } else if let Some(span) = spans.last_mut().filter(|_| in_span)
            && let Some((name, value)) = line.split_once(": ").or_else(|| line.split_once(" :"))
        {
            let field = match name.trim() {
                "Trace ID" => &mut span.trace,
                "Parent ID" => &mut span.parent,
                "ID" => &mut span.id,
                "Name" => &mut span.name,
                "Kind" => &mut span.kind,
                _ => continue,
            };
            value.trim().clone_into(field);
        }
    }
    spans
}

/// Waits until something is so, and gives what it tells.
async fn until<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(told) = is() {
            return told;
        }
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn table(api: &Api, name: &str, key: bool) -> String {
    let primary: &[&str] = if key { &["n"] } else { &[] };
    let columns = json!([{ "name": "n", "type": "bigint" }]);
    let spec = json!({ "name": name, "columns": columns, "primary_key": primary, "bucket_key": ["n"], "buckets": 6 });
    api.create_table(&spec).await
}

fn rows(count: u64) -> String {
    (0..count).map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_goes_over_two_gateways() {
    let (etcd, data, rotel) = (Peer::etcd().await, tempfile::tempdir().unwrap(), Peer::rotel().await);
    let setup = |place: &str| {
        let resource = format!("place={place}");
        let resource = [("OTEL_RESOURCE_ATTRIBUTES", resource.as_str())];
        cluster::setup(&etcd, &data)
            .args(&["--otlp-endpoint", rotel.url(), "--trace-sample-ratio", "0"])
            .env(&SOON)
            .env(&resource)
    };
    let setups = [setup("a"), setup("b")];
    let (a, mut b) = (setups[0].ready().await, setups[1].ready().await);
    cluster::until_even(&[&a, &b]).await;
    a.api.create_database().await;
    let log = table(&a.api, "l", false).await;
    // A trace that a client has begun is exported, whatever the ratio here is.
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", parent.as_str()), ("x-request-id", "r-1")];
    let answer = a.api.post_with(&format!("{log}/append"), NDJSON, &headers, rows(600)).await.expect(200);
    assert_eq!(answer.header("x-request-id"), "r-1");
    // One that nobody has begun is not, with this ratio; nor is one whose headers say nonsense, which fails nothing.
    let state = "x".repeat(8000);
    let hostile = [("traceparent", "00-zz-zz-01"), ("tracestate", &state)];
    b.api.post_with(&format!("{log}/append"), NDJSON, &hostile, rows(60)).await.expect(200);

    let spans = until("the spans of all parts arrive", || {
        let servers = |place: &str, spans: &[Span]| {
            spans.iter().filter(|span| span.place == place && span.kind.contains("SERVER")).count()
        };
        let spans = spans(&rotel.log());
        (servers("a", &spans) == 1 && servers("b", &spans) == 1).then_some(spans)
    })
    .await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "no other trace is exported: {spans:#?}");
    check_tree(&spans);

    // All processes tell what they count, a compactor too.
    let compactor = format!("{} --otlp-endpoint {}", cluster::flags(&etcd, &data), rotel.url());
    let compactor = Setup::compactor(&compactor).env(&SOON).env(&[("OTEL_RESOURCE_ATTRIBUTES", "place=c")]);
    let _compactor = compactor.listening().await;
    until("the acked rows of both arrive", || {
        let rows = values(&rotel.log(), "wadi_store_acked_rows");
        (rows.len() == 2 && rows.values().all(|n| *n > 0.0) && rows.values().sum::<f64>() == 660.0)
            .then_some(())
    })
    .await;
    until("the compactor's measures arrive", || {
        let shards = values(&rotel.log(), "wadi_compactor_shards");
        (shards == BTreeMap::from([("c".to_owned(), 6.0)])).then_some(())
    })
    .await;
    assert!(rotel.log().contains("-> Name: wadi_store_ack_seconds"));

    // A line of the log says of which request and trace it is: this one asks for a page that nobody has any more.
    let keyed = table(&a.api, "k", true).await;
    b.api.post(&format!("{keyed}/upsert"), NDJSON, rows(60)).await.expect(200);
    let page = b.api.get(&format!("{keyed}/scan?page_size=5")).await.expect(200).json();
    b.process.kill();
    let path = format!("{keyed}/scan?page_size=5&page_token={}", page["next_page_token"].as_str().unwrap());
    let request = a.api.request(http::Method::GET, &path).header("traceparent", &parent);
    let answer = crate::harness::send(request.header("x-request-id", "r-2")).await.unwrap().expect(503);
    assert_eq!(answer.problem()["request_id"], "r-2");
    let text = setups[0].log();
    let line = text.lines().find(|line| line.contains("request failed")).expect("the failure is logged");
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["span"]["request_id"], &line["span"]["trace_id"]),
        (&json!("r-2"), &json!(TRACE)),
        "{line}"
    );
    until("the line arrives at the receiver, as one of the trace", || {
        let log = rotel.log();
        let (_, behind) = log.split_once("Body: Str(request failed)")?;
        behind
            .lines()
            .take_while(|line| !line.starts_with("LogRecord"))
            .any(|line| line.contains(TRACE))
            .then_some(())
    })
    .await;
}

/// Checks the trace of an append at `a` of a table whose buckets are on `a` and `b`, three each.
fn check_tree(spans: &[Span]) {
    let ids: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(ids.len(), spans.len(), "each span has an id of its own");
    let children = |parent: &str, name: &str| -> Vec<&Span> {
        spans.iter().filter(|span| span.parent == parent && span.name == name).collect()
    };
    let root: Vec<&Span> = spans.iter().filter(|span| !ids.contains_key(span.parent.as_str())).collect();
    assert_eq!(root.len(), 1, "{spans:#?}");
    let root = root[0];
    assert_eq!((root.parent.as_str(), root.place.as_str()), (PARENT, "a"), "it continues the client's trace");
    assert_eq!(root.name, "POST /v1/databases/{database}/tables/{table}/append");
    assert_eq!(
        (root.attribute("request_id"), root.attribute("url.path")),
        ("r-1", "/v1/databases/t/tables/l/append")
    );
    assert_eq!(root.attribute("http.response.status_code"), "200");
    assert_eq!((children(&root.id, "receive").len(), children(&root.id, "decode").len()), (1, 1));
    let stages = |at: &Span, count: usize| {
        for stage in ["queue", "put"] {
            let stages = children(&at.id, stage);
            assert_eq!(stages.len(), count, "{stage} of {at:?}\n{spans:#?}");
            assert!(stages.iter().all(|stage| stage.place == at.place));
        }
    };
    let routes = children(&root.id, "route");
    assert_eq!(routes.len(), 3, "a part for each bucket that is here");
    routes.iter().for_each(|route| stages(route, 1));
    // Those for the other gateway go together.
    let forwards = children(&root.id, "forward");
    assert_eq!(forwards.len(), 1, "{spans:#?}");
    assert_eq!((forwards[0].place.as_str(), forwards[0].attribute("call")), ("a", "append-all"));
    let there = children(&forwards[0].id, "POST /internal/v1/shards/{shard}/{call}");
    assert_eq!(there.len(), 1, "{spans:#?}");
    assert_eq!((there[0].place.as_str(), there[0].attribute("request_id")), ("b", "r-1"));
    stages(there[0], 3);
    // Nothing of what users send, but names of tables.
    let said: BTreeSet<&str> =
        spans.iter().flat_map(|span| span.attributes.keys().map(String::as_str)).collect();
    let known = BTreeSet::from([
        "call",
        "gateway",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "request_id",
        "seq",
        "shard",
        "url.path",
    ]);
    assert!(said.is_subset(&known), "{said:?}");
}

/// The newest value of a metric without labels, by the place of its process.
fn values(log: &str, metric: &str) -> BTreeMap<String, f64> {
    let (mut place, mut here, mut values) = (String::new(), false, BTreeMap::new());
    let name = format!("-> Name: {metric}");
    for line in log.lines() {
        match (attribute(line), line.strip_prefix("Value: ")) {
            (Some((name, value)), _) if name == "place" => place = value,
            (None, Some(value)) if here => drop(values.insert(place.clone(), value.trim().parse().unwrap())),
            _ if line.contains("-> Name: ") => here = line.trim() == name,
            _ => {}
        }
    }
    values
}

/// How often the log says a thing.
fn said(setup: &Setup, what: &str) -> usize {
    setup.log().matches(what).count()
}

/// Ends a server as an operator does, which must not take long whatever the receiver does.
async fn ends_soon(mut server: Server) {
    let began = Instant::now();
    server.process.signal("TERM");
    assert_eq!(server.process.ends().await, 0);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_away_is_not_missed() {
    let mut rotel = Peer::rotel().await;
    rotel.kill();
    let setup = Setup::dev().args(&["--otlp-endpoint", rotel.url(), "--trace-sample-ratio", "1"]).env(&SOON);
    // What an earlier end left in the queue must not count.
    let setup = setup.env(&[("OTEL_BSP_MAX_QUEUE_SIZE", "64"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")]);
    let server = setup.ready().await;
    server.api.create_database().await;
    let log = table(&server.api, "l", false).await;
    for _ in 0..20 {
        // Far more spans than the queue takes.
        let append = async || server.api.post(&format!("{log}/append"), NDJSON, rows(6)).await;
        let appends = (0..20).map(|_| append());
        join_all(appends).await.into_iter().for_each(|answer| drop(answer.expect(200)));
    }
    until("the log says it", || {
        let all = ["spans", "metrics", "log lines"];
        all.iter().all(|what| said(&setup, &format!("{what} are not delivered")) == 1).then_some(())
    })
    .await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(said(&setup, "not delivered"), 3, "once for each, not for each message:\n{}", setup.log());
    assert_eq!(said(&setup, "BatchSpanProcessor"), 0, "{}", setup.log());

    rotel.start();
    let deadline = Instant::now() + PATIENCE;
    while said(&setup, "are delivered again") < 3 {
        assert!(Instant::now() < deadline, "{}", setup.log());
        server.api.post(&format!("{log}/append"), NDJSON, rows(6)).await.expect(200);
        sleep(Duration::from_millis(100)).await;
    }
    // What happens last is told at the end.
    let body = json!({ "name": "last", "columns": [{ "name": "n", "type": "bigint" }] }).to_string();
    server.api.post("/v1/databases/t/tables", JSON, body).await.expect(201);
    ends_soon(server).await;
    until("the last span arrives", || {
        let all = spans(&rotel.log());
        all.iter().any(|span| span.name == "POST /v1/databases/{database}/tables").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_answers_holds_up_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    #[allow(clippy::disallowed_methods, reason = "a test of a real network")]
    let _accepting = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            all.push(connection);
        }
    });
    let setup = Setup::dev()
        .env(&SOON)
        .env(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &url), ("OTEL_TRACES_SAMPLER", "always_on")]);
    let server = setup.ready().await;
    server.api.create_database().await;
    let log = table(&server.api, "l", false).await;
    for _ in 0..50 {
        server.api.post(&format!("{log}/append"), NDJSON, rows(6)).await.expect(200);
    }
    ends_soon(server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_a_gateway() {
    let server = Setup::dev().into_ready().await;
    let Some(prometheus) = Peer::prometheus(&[&server.api.url]).await else {
        eprintln!("SKIPPED: prometheus is not installed (`make tools`)");
        return;
    };
    server.api.create_database().await;
    let log = table(&server.api, "l", false).await;
    server.api.post(&format!("{log}/append"), NDJSON, rows(42)).await.expect(200);
    let api = Api::new(prometheus.url());
    let ask = async |query: &str| {
        let answer = api.get(&format!("/api/v1/query?query={query}")).await.expect(200).json();
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    // The latency of what was asked is there by the call's path.
    let append = "wadi_gateway_request_seconds_count{path=~\".*append\",status=\"2xx\"}";
    let append = append.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
    let deadline = Instant::now() + PATIENCE;
    for (query, value) in [("up", "1"), ("wadi_store_acked_rows_total", "42"), (append.as_str(), "1")] {
        loop {
            let told = ask(query).await;
            if told.as_deref() == Some(value) {
                break;
            }
            assert!(Instant::now() < deadline, "{query} is {told:?}\n{}", prometheus.log());
            sleep(Duration::from_millis(100)).await;
        }
    }
}
