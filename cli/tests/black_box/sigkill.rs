//! SIGKILL at any moment under load loses no acked row and repeats none.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::harness::Setup;
use crate::load::{Load, Tally, check, create_tables};

const KILLS: u32 = 20;
const SEED: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_sigkills_under_load_lose_and_repeat_nothing() {
    let setup = Setup::dev();
    let mut server = setup.ready().await;
    let tables = create_tables(&server.api, 4).await;
    let urls = watch::Sender::new(server.api.url.clone());
    let stop = AtomicBool::new(false);
    let load = Load {
        urls: urls.subscribe(),
        stop: &stop,
        give_up: 10,
        pause: Duration::from_millis(5),
        tally: Tally::default(),
    };
    let names: Vec<String> = (0..2 * tables.len()).map(|n| format!("producer-{n}")).collect();
    let producers = names
        .iter()
        .enumerate()
        .map(|(n, name)| load.produce(&tables[n % tables.len()], name, SEED + n as u64));
    let mut random = StdRng::seed_from_u64(SEED);
    let chaos = async {
        for _ in 0..KILLS {
            sleep(Duration::from_millis(random.random_range(0..600))).await;
            server.process.kill();
            // Now and then it is killed again while it starts.
            if random.random_bool(0.3) {
                let mut starting = setup.spawn();
                sleep(Duration::from_millis(random.random_range(0..100))).await;
                starting.kill();
            }
            server = setup.listening().await;
            urls.send_replace(server.api.url.clone());
        }
        server.api.until_ready().await;
        sleep(Duration::from_millis(500)).await;
        stop.store(true, Ordering::Relaxed);
        server
    };
    let (writes, server) = join(join_all(producers), chaos).await;
    let writes = writes.concat();
    println!("{} requests, {} of them acked", writes.len(), writes.iter().filter(|w| w.is_acked()).count());
    check(&server.api, &writes).await;
}
