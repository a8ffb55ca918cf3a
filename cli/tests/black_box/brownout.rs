//! An object store that answers 503 to everything for a full minute, much longer than any budget of ours: no acked row
//! is lost, everybody is told meanwhile what is wrong, and within 10 s of its healing writes are acked again (V1).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::harness::{Server, Setup};
use crate::load::{Load, Write, check, check_refusal, create_tables};
use crate::peers::{CREDENTIALS, Peer, s3_flags};
use crate::proxy::Proxy;

const BROWNOUT: Duration = Duration::from_secs(60);

/// V1.
const ACKS_AGAIN: Duration = Duration::from_secs(10);

/// Most that a request may wait for its answer: the server's patience with a shard (15 s) and with a PUT (5 s), and some.
const ANSWER: Duration = Duration::from_secs(25);

const SEED: u64 = 503;

/// Both kinds of metadata at once, since each takes more than a minute of mostly waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_503_loses_nothing_and_ends_with_the_minute() {
    let (s3, etcd) = (Peer::ministack().await, Peer::etcd().await);
    let etcd_flags = format!("--meta etcd --etcd-endpoints {}", etcd.url());
    join(survive(&s3, "embedded", ""), survive(&s3, "etcd", &etcd_flags)).await;
}

async fn survive(s3: &Peer, prefix: &str, flags: &str) {
    let proxy = Proxy::of(s3.url()).await;
    let flags = format!("{} --shards 4 --lease-ttl 6s {flags}", s3_flags(proxy.url(), prefix));
    let setup = Setup::gateway(flags.trim()).env(&CREDENTIALS);
    let server = setup.ready().await;
    let tables = create_tables(&server.api, 2).await;
    let urls = watch::Sender::new(server.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load::stubborn(urls.subscribe(), &stop);
    let producers = ["a", "b", "c", "d"];
    let producers =
        producers.iter().enumerate().map(|(n, name)| load.produce(&tables[n % 2], name, SEED + n as u64));
    let weather = async {
        sleep(Duration::from_secs(2)).await;
        proxy.refuse(true);
        let mut meanwhile = while_refused(&server, &tables).await;
        proxy.refuse(false);
        let healed = Instant::now();
        // New requests to every bucket of every table.
        let mut random = StdRng::seed_from_u64(SEED);
        let mut fresh: Vec<Write> =
            tables.iter().map(|table| Write::new(table, "fresh", 0, &mut random)).collect();
        join_all(fresh.iter_mut().map(|write| write.complete(&server.api))).await;
        let took = healed.elapsed();
        assert!(
            took <= ACKS_AGAIN,
            "{prefix}: acks came {took:?} after the store had healed\n{}",
            setup.log()
        );
        server.api.until_ready().await;
        stop.store(true, Ordering::Relaxed);
        for write in &mut meanwhile {
            write.complete(&server.api).await;
        }
        [meanwhile, fresh].concat()
    };
    // Every producer ends with an ack of its last request, or the test hangs.
    let (writes, others) = join(join_all(producers), weather).await;
    let writes = [writes.concat(), others].concat();
    assert!(writes.iter().all(Write::is_acked));
    check(&server.api, &writes).await;
}

/// Writes and asks all through the brownout. Gives the requests, few of which are acked.
async fn while_refused(server: &Server, tables: &[String]) -> Vec<Write> {
    let end = Instant::now() + BROWNOUT;
    let mut random = StdRng::seed_from_u64(SEED);
    let mut writes = Vec::new();
    let (mut told_of_store, mut since) = (false, serde_json::Value::Null);
    for number in 0.. {
        let table = &tables[number % tables.len()];
        let mut write = Write::new(table, &format!("meanwhile-{number}"), 0, &mut random);
        let sent = Instant::now();
        let answer = write.send(&server.api).await.unwrap();
        assert!(sent.elapsed() < ANSWER, "answered after {:?}: {answer:?}", sent.elapsed());
        if answer.status != 200 {
            check_refusal(&answer);
            told_of_store |= answer.problem()["detail"].as_str().unwrap().contains("503");
        }
        writes.push(write);
        assert_eq!(server.api.get("/health").await.status, 200);
        if since.is_null() {
            since = server.api.get("/v1/status").await.json()["object_store"]["since"].take();
        }
        if Instant::now() >= end {
            break;
        }
        sleep(Duration::from_millis(500)).await;
    }
    // By now it is known what is wrong, and since when. Shards that nobody writes to may still be open.
    server.api.get("/ready").await.expect(503);
    let status = server.api.get("/v1/status").await.expect(200).json();
    assert!(status["object_store"]["error"].as_str().unwrap().contains("503"), "{status}");
    assert_eq!(status["object_store"]["since"], since, "{status}");
    for shard in status["shards"].as_array().unwrap().iter().filter(|s| s["open"] == false) {
        assert!(shard["note"].is_string() && shard["since"].is_string(), "{status}");
    }
    assert!(told_of_store, "no client was told of the store: {status}");
    writes
}
