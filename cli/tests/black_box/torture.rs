//! The torture: three gateways and two compactors on a real etcd and a real S3 server, with a fault every few seconds, under load.
//!
//! [`cluster`] has the processes and the links between them, [`director`] makes trouble and heals it, [`keyed`] writes to primary-key
//! tables, [`readers`] follow logs; log tables are written by [`load`](crate::load). A fault is followed by a quiet window, in which all
//! tables must take rows again (V1). At the end everything is read through every gateway, and once more by gateways that start anew.
//!
//! `make torture MINUTES=30 SEED=7` runs it for longer. The seed chooses faults, targets and times; what comes of them is up to the machine.

mod cluster;
mod director;
mod keyed;
mod readers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all, join3};
use serde_json::json;
use tokio::sync::watch;
use wadi_model::env::Env;

use crate::harness::Api;
use crate::load::{Load, Tally, check, create_tables};
use cluster::Cluster;
use director::Director;
use keyed::Writer;

/// Log tables, of two buckets each. The readers follow the first two.
const LOG_TABLES: usize = 3;
const KEYED_TABLES: usize = 2;
const PRODUCERS: usize = 6;
const WRITERS: usize = 4;

struct Plan {
    seed: u64,
    /// For how long there are faults.
    trouble: Duration,
    /// Between two requests of a producer.
    pause: Duration,
    /// Whether faults may be long ones.
    long: bool,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_faults_loses_and_repeats_nothing() {
    let trouble = Duration::from_secs(65);
    torture(Plan { seed: 4, trouble, pause: Duration::from_millis(20), long: false }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes as long as it is told to: make torture"]
async fn for_minutes() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let minutes = number("TORTURE_MINUTES").unwrap_or(30);
    let seed = number("TORTURE_SEED").unwrap_or_else(|| Env::default().random() % 1_000_000);
    let trouble = Duration::from_secs(60 * minutes);
    torture(Plan { seed, trouble, pause: Duration::from_millis(100), long: true }).await;
}

async fn torture(plan: Plan) {
    let mut cluster = Cluster::start().await;
    let api = Api::new(cluster.url());
    let logs = create_tables(&api, LOG_TABLES).await;
    let mut keyed = Vec::with_capacity(KEYED_TABLES);
    for number in 0..KEYED_TABLES {
        keyed.push(keyed::create(&api, &format!("keyed{number}")).await);
    }

    let (stop, tally) = (AtomicBool::new(false), Tally::default());
    let urls = watch::Sender::new(cluster.url().to_owned());
    let load =
        Load { urls: urls.subscribe(), stop: &stop, give_up: 25, pause: plan.pause, tally: tally.clone() };
    let names: Vec<String> = (0..PRODUCERS).map(|n| format!("producer-{n}")).collect();
    let producers = names
        .iter()
        .enumerate()
        .map(|(n, name)| load.produce(&logs[n % LOG_TABLES], name, plan.seed + n as u64));
    let writers = (0..WRITERS).map(|n| {
        let writer = Writer::new(&keyed[n % KEYED_TABLES], n as u64, plan.seed);
        writer.write(api.clone(), plan.pause, &stop, tally.clone())
    });

    // Readers go on until they have seen what there is at the end.
    let end = watch::Sender::new(None);
    let tailing = readers::tail(&api, &logs[0], end.subscribe());
    let polling = readers::poll(&api, &logs[1], end.subscribe());
    let everything = async {
        let director = Director::new(&mut cluster, plan.seed, plan.long, &logs, tally.clone());
        let trouble = async {
            let probes = director.run(plan.trouble).await;
            stop.store(true, Ordering::Relaxed);
            probes
        };
        let (writes, writers, probes) = join3(join_all(producers), join_all(writers), trouble).await;
        end.send_replace(Some(readers::ends(&api, &logs[..2]).await));
        ([writes.concat(), probes].concat(), writers)
    };
    let ((writes, writers), (tailed, polled)) = join(everything, join(tailing, polling)).await;

    let counts = cluster.count().await;
    let mut seen = None;
    for api in cluster.gateways() {
        let places = check(&api, &writes).await;
        for (table, followed) in [(&logs[0], &tailed), (&logs[1], &polled)] {
            readers::compare(table, followed, &places[table]);
        }
        assert!(seen.is_none_or(|seen| seen == places), "{} has other rows than the gateway before", api.url);
        seen = Some(places);
        for table in &keyed {
            keyed::check(&api, table, &writers).await;
        }
    }
    let last = cluster.start_anew().await;
    assert_eq!(Some(check(&last, &writes).await), seen, "gateways that start anew have other rows");
    for table in &keyed {
        keyed::check(&last, table, &writers).await;
    }
    cluster.check_logs();
    let acked = writes.iter().filter(|write| write.is_acked()).count();
    let (sent, changed) = (writes.len(), writers.iter().map(Writer::requests).sum::<u64>());
    let summary = json!({ "seed": plan.seed, "appends": sent, "acked": acked, "keyed": changed });
    println!("all there, once, in order: {summary}\n{counts:?}");
    // Without these nothing was tried.
    for counter in ["wadi_store_takeovers_total", "wadi_compactor_pack_rounds_total"] {
        assert!(counts[counter] > 0, "{counts:?}");
    }
}
