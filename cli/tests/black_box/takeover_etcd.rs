//! Two gateways on one directory and one etcd: who was paused or killed loses its shards, and nothing is lost or
//! doubled (F1, L1 to L4).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::harness::{Answer, Server, Setup};
use crate::load::{Load, Tally, Write, check, check_refusal, create_tables};
use crate::peers::Peer;

const SEED: u64 = 6;

/// Two setups of gateways that share everything.
fn gateways(etcd: &Peer, data: &tempfile::TempDir) -> [Setup; 2] {
    let url = etcd.url();
    let flags = format!(
        "--object-store file://{} --meta etcd --etcd-endpoints {url} --lease-ttl 6s --shards 4",
        data.path().display()
    );
    [Setup::gateway(&flags), Setup::gateway(&flags)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_owner_acks_nothing_when_it_wakes() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let [first, second] = gateways(&etcd, &data);
    let first = first.ready().await;
    let tables = create_tables(&first.api, 2).await;
    let second = second.listening().await;

    let urls = watch::Sender::new(first.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load {
        urls: urls.subscribe(),
        stop: &stop,
        give_up: 0,
        pause: Duration::from_millis(5),
        tally: Tally::default(),
    };
    let producers = (0..4).map(|n| load.produce(&tables[n % 2], NAMES[n], SEED + n as u64));
    let chaos = async {
        sleep(Duration::from_secs(1)).await;
        // Some requests of the load are anywhere between arrival and ack now.
        first.process.signal("STOP");
        let paused = while_paused(&first, &second, &tables, &urls).await;
        stop.store(true, Ordering::Relaxed);
        paused
    };
    let (loaded, mut paused) = join(join_all(producers), chaos).await;

    // Awake, it owns nothing and says so, or it is the owner again and answers as one: with all that was acked.
    let mut random = StdRng::seed_from_u64(SEED);
    let mut late = Write::new(&tables[0], "late", 0, &mut random);
    let log = format!("{}/log?bucket=0", tables[0]);
    let acked = high_watermark(&second.api.get(&log).await.expect(200));
    let (write, read) = join(late.send(&first.api), first.api.get(&log)).await;
    match write.unwrap() {
        answer if answer.status == 200 => {}
        answer => check_refusal(&answer),
    }
    match read.status {
        200 => assert!(high_watermark(&read) >= acked, "a stale read: {read:?}"),
        _ => assert!(read.status == 503 && read.problem()["retryable"] == true, "{read:?}"),
    }

    // What it did not ack is sent to the new owner, under the same numbers.
    late.complete(&second.api).await;
    for write in &mut paused {
        write.complete(&second.api).await;
    }
    let writes = [loaded.concat(), paused, vec![late]].concat();
    check(&second.api, &writes).await;
}

fn high_watermark(answer: &Answer) -> u64 {
    answer.header("wadi-high-watermark").parse().unwrap()
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Waits until every shard is open at this gateway.
async fn until_owner_of_all(server: &Server) {
    loop {
        let status = server.api.get("/v1/status").await.expect(200).json();
        if status["shards"].as_array().unwrap().iter().all(|shard| shard["open"] == true) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Sends requests to the paused gateway, lets the second take over and write, and wakes the first. Gives the requests
/// back with what the first said to them.
async fn while_paused(
    first: &Server,
    second: &Server,
    tables: &[String],
    urls: &watch::Sender<String>,
) -> Vec<Write> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut paused: Vec<Write> =
        (0..20).map(|n| Write::new(&tables[n % 2], &format!("paused-{n}"), 0, &mut random)).collect();
    let sending = join_all(paused.iter_mut().map(|write| write.send(&first.api)));
    let elsewhere = async {
        urls.send_replace(second.api.url.clone());
        until_owner_of_all(second).await;
        sleep(Duration::from_secs(1)).await;
        first.process.signal("CONT");
    };
    let (answers, ()) = join(sending, elsewhere).await;
    for answer in answers.into_iter().flatten().filter(|answer| answer.status != 200) {
        check_refusal(&answer);
    }
    paused
}

#[tokio::test(flavor = "multi_thread")]
async fn another_gateway_serves_when_the_owner_is_killed() {
    let (etcd, data) = (Peer::etcd().await, tempfile::tempdir().unwrap());
    let setups = gateways(&etcd, &data);
    let mut owner = setups[0].ready().await;
    let tables = create_tables(&owner.api, 2).await;
    let urls = watch::Sender::new(owner.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load {
        urls: urls.subscribe(),
        stop: &stop,
        give_up: 10,
        pause: Duration::from_millis(5),
        tally: Tally::default(),
    };
    let producers = (0..4).map(|n| load.produce(&tables[n % 2], NAMES[n], SEED + n as u64));
    let chaos = async {
        // There and back again.
        for round in 1..=2 {
            let mut other = setups[round % 2].listening().await;
            sleep(Duration::from_millis(500)).await;
            owner.process.kill();
            urls.send_replace(other.api.url.clone());
            until_owner_of_all(&other).await;
            std::mem::swap(&mut owner, &mut other);
        }
        sleep(Duration::from_secs(1)).await;
        stop.store(true, Ordering::Relaxed);
        owner
    };
    let (writes, owner) = join(join_all(producers), chaos).await;
    check(&owner.api, &writes.concat()).await;
}
