//! Rows that expire (`table.kv.row.ttl`): absent everywhere once their time has come, through restarts, without a trace in
//! the changelog.

use proptest::prelude::*;

use super::keyed::{Keyed, State, Value, value};
use super::*;

const TTL: (&str, &str) = ("table.kv.row.ttl", "1s");

/// Rows begin to live at the time of their key.
const BY_KEY: (&str, &str) = ("table.kv.row.ttl.time-column", "k");

/// A table whose rows are soon in the database, or stay in the overlay until the shard is closed.
fn keyed(cache: usize, group_interval: u64, properties: &[(&str, &str)]) -> Keyed {
    let world = World::with(|settings| {
        settings.row_cache_bytes = cache;
        settings.group_interval = Duration::from_millis(group_interval);
    });
    Keyed::on(world, properties)
}

fn said(changes: &[(&str, i64, i32)]) -> Vec<(String, i64, Value)> {
    changes.iter().map(|(change, k, n)| ((*change).to_owned(), *k, value("x", *n))).collect()
}

async fn all_ways(properties: &[(&str, &str)], run: impl AsyncFn(Keyed)) {
    for cache in [0, 1 << 20] {
        for group_interval in [1, 3_600_000] {
            run(keyed(cache, group_interval, properties)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_lives_for_its_time_after_its_last_write() {
    all_ways(&[TTL], async |keyed: Keyed| {
        let shard = keyed.world.open().await;
        keyed.world.set_time(10_000);
        shard.append(keyed.upsert(&[(1, "x", 1), (2, "x", 2), (3, "x", 3)])).await.unwrap();
        keyed.world.set_time(10_500);
        shard.append(keyed.upsert(&[(2, "x", 22)])).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        keyed.world.set_time(10_999);
        assert_eq!(keyed.lookup(&shard, &[1, 2]).await, [Some(value("x", 1)), Some(value("x", 22))]);
        keyed.world.set_time(11_000);
        assert_eq!(keyed.lookup(&shard, &[1, 2]).await, [None, Some(value("x", 22))]);
        assert_eq!(keyed.state(&shard).await, State::from([(2, value("x", 22))]));

        shard.append(keyed.upsert(&[(1, "x", 11)])).await.unwrap();
        shard.append(keyed.delete(&[3])).await.unwrap();
        let shard = keyed.world.open().await;
        keyed.world.set_time(11_499);
        assert_eq!(keyed.state(&shard).await, State::from([(1, value("x", 11)), (2, value("x", 22))]));
        keyed.world.set_time(11_500);
        assert_eq!(keyed.lookup(&shard, &[1, 2, 3]).await, [Some(value("x", 11)), None, None]);
        shard.append(keyed.upsert(&[(2, "x", 23)])).await.unwrap();
        let log = said(&[
            ("+I", 1, 1),
            ("+I", 2, 2),
            ("+I", 3, 3),
            ("-U", 2, 2),
            ("+U", 2, 22),
            ("+I", 1, 11),
            ("+I", 2, 23),
        ]);
        assert_eq!(
            keyed.changelog(&shard).await,
            log,
            "who expires is not deleted, and who comes back is new"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_lives_from_the_time_that_it_says() {
    all_ways(&[TTL, BY_KEY], async |keyed: Keyed| {
        let shard = keyed.world.open().await;
        keyed.world.set_time(10_000);
        // The first one is over when it is written, also for what meets it on its way.
        let parts = [
            keyed.upsert(&[(9_000, "x", 1), (9_400, "x", 1)]),
            keyed.upsert(&[(9_000, "x", 2), (9_400, "x", 2)]),
        ];
        let appends = parts.into_iter().map(|part| shard.append(part));
        futures::future::join_all(appends).await.into_iter().for_each(|appended| assert!(appended.is_ok()));
        tokio::time::sleep(Duration::from_secs(3)).await;
        for shard in [shard, keyed.world.open().await] {
            keyed.world.set_time(10_399);
            assert_eq!(keyed.lookup(&shard, &[9_000, 9_400]).await, [None, Some(value("x", 2))]);
            assert_eq!(keyed.state(&shard).await, State::from([(9_400, value("x", 2))]));
            keyed.world.set_time(10_400);
            assert!(keyed.state(&shard).await.is_empty());
            let log = said(&[
                ("+I", 9_000, 1),
                ("+I", 9_400, 1),
                ("+I", 9_000, 2),
                ("-U", 9_400, 1),
                ("+U", 9_400, 2),
            ]);
            assert_eq!(keyed.changelog(&shard).await, log);
        }
    })
    .await;
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(i64, i32),
    Delete(i64),
    Pass(i64),
    /// Real time, in which groups are written.
    Wait,
    Takeover,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..5i64, any::<i32>()).prop_map(|(k, n)| Step::Upsert(k, n)),
        1 => (0..5i64).prop_map(Step::Delete),
        3 => (1..700i64).prop_map(Step::Pass),
        1 => Just(Step::Wait),
        1 => Just(Step::Takeover),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A shard whose rows expire is a map whose rows expire, and says so with the right changes.
    #[test]
    fn a_shard_is_a_map_that_forgets(steps in proptest::collection::vec(step(), 1..40), cache in prop_oneof![Just(0usize), Just(700), Just(1 << 20)]) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let keyed = keyed(cache, 1_000, &[TTL]);
            let mut shard = keyed.world.open().await;
            let (mut now, mut map, mut log) = (10_000, std::collections::BTreeMap::new(), Vec::new());
            keyed.world.set_time(now);
            for step in steps {
                match step {
                    Step::Upsert(k, n) => {
                        shard.append(keyed.upsert(&[(k, "x", n)])).await.unwrap();
                        match map.insert(k, (n, now + 1_000)).filter(|(_, end)| *end > now) {
                            Some((before, _)) => log.extend([("-U", k, before), ("+U", k, n)]),
                            None => log.push(("+I", k, n)),
                        }
                    }
                    Step::Delete(k) => {
                        shard.append(keyed.delete(&[k])).await.unwrap();
                        let before = map.remove(&k).filter(|(_, end)| *end > now);
                        log.extend(before.map(|(n, _)| ("-D", k, n)));
                    }
                    Step::Pass(millis) => {
                        now += millis;
                        keyed.world.set_time(now);
                    }
                    Step::Wait => tokio::time::sleep(Duration::from_secs(2)).await,
                    Step::Takeover => shard = keyed.world.open().await,
                }
                let alive = |k: &i64| map.get(k).filter(|(_, end)| *end > now).map(|(n, _)| value("x", *n));
                let keys: Vec<i64> = (0..5).collect();
                assert_eq!(keyed.lookup(&shard, &keys).await, keys.iter().map(alive).collect::<Vec<_>>());
                assert_eq!(keyed.state(&shard).await, keys.iter().filter_map(|k| Some((*k, alive(k)?))).collect());
            }
            assert_eq!(keyed.changelog(&shard).await, said(&log));
        });
    }
}
