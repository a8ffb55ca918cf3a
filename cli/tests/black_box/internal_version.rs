//! Gateways of two versions refuse each other's calls, say why, and nothing is lost by it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderValue;
use serde_json::json;
use tokio::time::sleep;

use crate::gate::gate_to;
use crate::harness::{NDJSON, Setup};
use crate::load::check_refusal;
use crate::peers::Peer;

#[tokio::test(flavor = "multi_thread")]
async fn gateways_of_two_versions_refuse_each_others_calls() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let flags = format!(
        "--object-store file://{} --meta etcd --etcd-endpoints {} --lease-ttl 6s --shards 2",
        data.path().display(),
        etcd.url()
    );
    // One is behind a gate, through which the other one seems to be of a later version.
    let address = Arc::new(OnceLock::new());
    let later = Arc::new(AtomicBool::new(true));
    let seems = later.clone();
    let behind = gate_to(address.clone(), move |parts| {
        // Not for itself, when it asks whether it is reached there.
        let by_others = parts.uri.path() != "/internal/v1/gateway";
        if let Some(version) = parts.headers.get_mut("wadi-internal-version")
            && by_others
            && seems.load(Ordering::SeqCst)
        {
            *version = HeaderValue::from_static("2");
        }
        None
    })
    .await;
    let setup = Setup::gateway(&format!("{flags} --advertise {behind}"));
    let owner = setup.ready().await;
    address.set(owner.api.url.clone()).unwrap();
    owner.api.create_database().await;
    let spec = json!({ "name": "v", "columns": [{ "name": "a", "type": "int" }], "buckets": 2 });
    let table = owner.api.create_table(&spec).await;
    let other = Setup::gateway(&flags).into_ready().await;
    // Before the gate led to it, the owner seemed to be out of reach.
    let shards_of_both = async || {
        let status = other.api.get("/v1/status").await.expect(200).json();
        status["shards"].as_array().unwrap().iter().filter(|shard| shard["open"] == true).count() == 1
    };
    while !shards_of_both().await {
        sleep(Duration::from_millis(20)).await;
    }

    // Of any four rows some are for the owner behind the gate: it has one of two shards.
    let append = format!("{table}/append");
    let mut refused = Vec::new();
    for n in 0..4 {
        let answer = other.api.post(&append, NDJSON, format!("{{\"a\":{n}}}\n")).await;
        if answer.status != 200 {
            check_refusal(&answer);
            refused.push((n, answer.problem()["detail"].as_str().unwrap().to_owned()));
        }
    }
    assert!(!refused.is_empty(), "nothing went through the gate");
    for (_, detail) in &refused {
        for part in ["version \"2\"", "internal calls", env!("CARGO_PKG_VERSION"), "nothing was done"] {
            assert!(detail.contains(part), "{part:?} is missing in {detail}");
        }
    }
    // Brought to one version, all goes on; and what was refused was not done.
    later.store(false, Ordering::SeqCst);
    for (n, _) in &refused {
        other.api.post(&append, NDJSON, format!("{{\"a\":{n}}}\n")).await.expect(200);
    }
    let mut found: Vec<i64> =
        other.api.scan(&table, "").await.iter().map(|row| row["a"].as_i64().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3]);
}
