//! What nobody uses costs nothing: a gateway on S3 that is left alone writes no object, and reads few.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use serde_json::json;
use tokio::time::sleep;

use crate::harness::{NDJSON, Setup};
use crate::peers::{CREDENTIALS, Peer, s3_flags};
use crate::proxy::Proxy;

const SHARDS: usize = 4;

/// Until the last write of a table has gone all its ways: a shard brings its database to the store after a minute.
const SETTLED: Duration = Duration::from_secs(70);

const WATCHED: Duration = Duration::from_secs(30);

/// Each database looks once a minute whether it is still the newest, and its compactor whether there is work.
const READS_OF_A_DATABASE: usize = 6;

/// Both kinds of metadata at once, since each takes minutes of waiting.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_gateway_writes_nothing_and_reads_little() {
    let (s3, etcd) = (Peer::ministack().await, Peer::etcd().await);
    let etcd_flags = format!(" --meta etcd --etcd-endpoints {}", etcd.url());
    // With embedded metadata there is one database more.
    join(watch(&s3, "embedded", "", SHARDS + 1), watch(&s3, "etcd", &etcd_flags, SHARDS)).await;
}

async fn watch(s3: &Peer, prefix: &str, flags: &str, databases: usize) {
    let proxy = Proxy::of(s3.url()).await;
    let flags = format!("{} --shards {SHARDS}{flags}", s3_flags(proxy.url(), prefix));
    let server = Setup::gateway(&flags).env(&CREDENTIALS).into_ready().await;
    server.api.create_database().await;
    let columns = json!([{ "name": "a", "type": "bigint" }]);
    let table = server.api.create_table(&json!({ "name": "idle", "columns": columns, "buckets": 8 })).await;
    for a in 0..8 {
        server.api.post(&format!("{table}/append"), NDJSON, json!({ "a": a }).to_string()).await.expect(200);
    }
    sleep(SETTLED).await;
    proxy.take_seen();
    sleep(WATCHED).await;
    let seen = proxy.take_seen();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for request in &seen {
        *kinds.entry(request.split(' ').next().unwrap()).or_default() += 1;
    }
    println!("{prefix}: {kinds:?} in {WATCHED:?}");
    let writes: Vec<_> = seen.iter().filter(|r| !r.starts_with("GET ") && !r.starts_with("HEAD ")).collect();
    assert!(writes.is_empty(), "{prefix}: an idle gateway writes: {writes:#?}");
    assert!(seen.len() <= READS_OF_A_DATABASE * databases, "{prefix}: too many reads: {seen:#?}");
}
