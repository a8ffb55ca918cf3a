//! Two gateways on one cluster: what one is asked for is answered by the owner, whatever happens to the messages between them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use futures::future::join_all;
use parking_lot::Mutex;
use wadi_meta::{Compare, MetaStore, Txn};
use wadi_model::Fault;

use super::faults::Faulty;
use super::keyed::{Keyed, value};
use super::*;
use crate::cluster::Cluster;
use crate::host::{Host, Owner, owner_key};
use crate::objects::{Guarded, Health};
use crate::route::{Call, Peers, Route, RouteError, Unanswered};

const PATIENCE: Duration = Duration::from_secs(20);

/// What happens to one message in so many.
#[derive(Debug, Default)]
struct Wire {
    routes: Mutex<BTreeMap<String, Route>>,
    messages: AtomicU64,
    /// The answer is lost.
    lost: AtomicU64,
    /// It arrives twice.
    twice: AtomicU64,
    /// It is not sent.
    unsent: AtomicU64,
}

impl Wire {
    fn one_in(&self, number: u64, rate: &AtomicU64) -> bool {
        number.checked_rem(rate.load(Ordering::Relaxed)) == Some(0)
    }
}

#[async_trait]
impl Peers for Wire {
    async fn ask(
        &self,
        address: &str,
        shard: ShardId,
        call: Call,
        message: Vec<Bytes>,
        _: Duration,
    ) -> Result<Bytes, Unanswered> {
        let number = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        let none = |unsent| Unanswered { unsent, why: "the test lost it".into() };
        if self.one_in(number, &self.unsent) {
            return Err(none(true));
        }
        let route = self.routes.lock().get(address).cloned().ok_or_else(|| none(true))?;
        let message: Bytes = message.concat().into();
        if self.one_in(number, &self.twice) {
            route.answer(shard, call, message.clone()).await;
        }
        let answer = route.answer(shard, call, message).await;
        if self.one_in(number, &self.lost) {
            return Err(none(false));
        }
        Ok(answer.concat().into())
    }
}

/// The owner of the only shard, and another gateway.
struct Two {
    keyed: Keyed,
    wire: Arc<Wire>,
    owner: Route,
    other: Route,
}

impl Two {
    async fn start() -> Two {
        Two::with(World::with(|settings| settings.own_chunk_bytes = 4 << 10)).await
    }

    async fn with(world: World) -> Two {
        let keyed = Keyed::on(world, &[]);
        let wire = Arc::new(Wire::default());
        let owner = gateway(&keyed.world, &wire, "a");
        while !owner.host().is_ready() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let other = gateway(&keyed.world, &wire, "b");
        let mut two = Two { keyed, wire, owner, other };
        two.settle().await;
        two
    }

    /// Waits until one of them has the shard and both know it.
    async fn settle(&mut self) {
        let bucket = self.keyed.world.bucket(0);
        loop {
            let has = |route: &Route| route.host().open_shard(ShardId(0)).is_some();
            let sees = |route: &Route| route.host().owner(ShardId(0)).map(|owner| owner.gateway);
            if has(&self.other) && !has(&self.owner) {
                std::mem::swap(&mut self.owner, &mut self.other);
            }
            let members = [&self.owner, &self.other].map(|route| route.host().gateways().len());
            let known = Some(self.owner.host().gateway().to_owned());
            if has(&self.owner) && members == [2, 2] && sees(&self.other) == known {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(self.other.state(&bucket, PATIENCE).await.is_ok());
    }

    fn world(&self) -> &World {
        &self.keyed.world
    }

    async fn ids(&self, route: &Route, bucket: u32) -> Vec<i64> {
        let mut request = self.world().request(bucket, Offset(0));
        request.max_bytes = 20 << 10;
        let mut all = Vec::new();
        loop {
            let answer = route.read(&request, PATIENCE).await.unwrap();
            all.extend(ids(self.world(), &answer, &request.columns));
            if answer.next_offset >= answer.bounds.high_watermark {
                return all;
            }
            assert!(answer.next_offset > request.offset, "a read must move on");
            request.offset = answer.next_offset;
        }
    }
}

fn gateway(world: &World, wire: &Arc<Wire>, address: &str) -> Route {
    gateway_in(world.context.clone(), world, wire, address)
}

/// A gateway in surroundings of its own.
fn gateway_in(context: Context, world: &World, wire: &Arc<Wire>, address: &str) -> Route {
    let cluster = Cluster { id: "c".into(), format: 1, shards: 1, generation: 1, meta: None };
    let meta: Arc<dyn MetaStore> = world.meta.clone();
    let host = Host::start(context, meta, cluster, address.to_owned());
    let route = Route::new(host, wire.clone());
    wire.routes.lock().insert(address.to_owned(), route.clone());
    route
}

#[tokio::test]
async fn a_gateway_that_owns_nothing_answers_as_the_owner_does() {
    let two = Two::start().await;
    // Few rows, which are encoded with others, and many, which are a chunk of their own.
    for (from, to) in [(0, 3), (3, 2_000), (2_000, 2_001)] {
        let appended = two.other.append(two.world().part(1, from..to), PATIENCE).await.unwrap();
        assert_eq!((appended.base_offset, appended.rows), (Offset(from as u64), (to - from) as u32));
    }
    let all: Vec<i64> = (0..2_001).collect();
    assert_eq!(two.ids(&two.owner, 1).await, all);
    assert_eq!(two.ids(&two.other, 1).await, all);
    let buckets = [two.world().bucket(0), two.world().bucket(1)];
    let states = two.other.states(&buckets, PATIENCE).await.unwrap();
    assert_eq!(states, two.owner.states(&buckets, PATIENCE).await.unwrap());
    assert_eq!(states[1].bounds.high_watermark, Offset(2_001));
    let at = two.other.offset_at(buckets[1], i64::MAX, PATIENCE).await.unwrap();
    assert_eq!(at, Offset(2_001));
    // An offset that is out of range is told with the bounds.
    let beyond = two.world().request(1, Offset(3_000));
    let error = two.other.read(&beyond, PATIENCE).await.unwrap_err();
    assert!(
        matches!(error, RouteError::Said(LogReadError::OutOfRange { bounds, .. }) if bounds.high_watermark == Offset(2_001))
    );
}

#[tokio::test]
async fn rows_with_keys_are_merged_by_the_owner() {
    let two = Two::start().await;
    let keyed = &two.keyed;
    two.other.append(keyed.upsert(&[(1, "a", 1), (2, "b", 2), (3, "c", 3)]), PATIENCE).await.unwrap();
    two.other.append(keyed.update_n(&[(2, 20), (4, 40)]), PATIENCE).await.unwrap();
    two.other.append(keyed.delete(&[1, 9]), PATIENCE).await.unwrap();
    let shard = two.owner.host().open_shard(ShardId(0)).unwrap();
    let state = keyed.state(&shard).await;
    assert_eq!(state.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(state[&2], value("b", 20));

    let keys = keyed.keys(&[3, 1, 2]);
    let here = two.owner.lookup(keyed.bucket(), &keys, PATIENCE).await.unwrap();
    assert_eq!(two.other.lookup(keyed.bucket(), &keys, PATIENCE).await.unwrap(), here);
    assert_eq!(here.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);

    let snapshot = two.other.snapshot(keyed.bucket(), PATIENCE).await.unwrap();
    two.other.append(keyed.upsert(&[(5, "later", 5)]), PATIENCE).await.unwrap();
    let mut scan = snapshot.scan_after(None).await.unwrap();
    let mut rows = Vec::new();
    loop {
        let page = scan.page(2, 1 << 20).await.unwrap();
        rows.extend(page.rows);
        if !page.more {
            break;
        }
    }
    let seen: State = keyed.values(&rows).into_iter().collect();
    assert_eq!(seen, state, "as it was, not as it is");
    // What the owner keeps for others goes when they need it no more.
    drop((snapshot, scan));
    let limit = Limit { rows: 2, bytes: 1 << 20 };
    let all = keyed.keys(&[2, 3]);
    let found =
        two.other.lookup_prefixes(keyed.bucket(), &all, &all, limit, PATIENCE).await.unwrap().unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let none = Limit { rows: 1, bytes: 1 << 20 };
    assert_eq!(two.other.lookup_prefixes(keyed.bucket(), &all, &all, none, PATIENCE).await.unwrap(), None);
}

type State = BTreeMap<i64, super::keyed::Value>;

#[tokio::test]
async fn what_is_sent_again_is_written_once() {
    let two = Two::start().await;
    two.wire.lost.store(3, Ordering::Relaxed);
    two.wire.twice.store(4, Ordering::Relaxed);
    two.wire.unsent.store(5, Ordering::Relaxed);
    let part = |n: i64| two.world().part(0, n * 10..n * 10 + 10);
    for round in 0..20 {
        let parts = (0..8).map(|n| part(round * 8 + n));
        let appended = match round % 2 {
            0 => join_all(parts.map(|part| two.other.append(part, PATIENCE))).await,
            _ => two.other.append_all(parts.collect(), PATIENCE).await,
        };
        assert!(appended.into_iter().all(|appended| appended.unwrap().rows == 10));
    }
    two.wire.lost.store(0, Ordering::Relaxed);
    two.wire.unsent.store(0, Ordering::Relaxed);
    let mut all = two.ids(&two.other, 0).await;
    assert_eq!(all.len(), 1_600);
    all.sort_unstable();
    assert!(all.into_iter().eq(0..1_600), "each row once");
}

#[tokio::test]
async fn parts_for_one_gateway_go_together() {
    let two = Two::start().await;
    let part = |n: i64| two.world().part(n as u32 % 4, n * 10..n * 10 + 10);
    let messages = |before: u64| two.wire.messages.load(Ordering::Relaxed) - before;
    let before = messages(0);
    let appended = two.other.append_all((0..40).map(part).collect(), PATIENCE).await;
    assert_eq!(messages(before), 1);
    // Each answer is that of its part.
    for (n, appended) in appended.into_iter().enumerate() {
        let (at, ids) = (appended.unwrap().base_offset, two.ids(&two.owner, n as u32 % 4).await);
        assert_eq!(ids[at.0 as usize], n as i64 * 10);
    }
    // One that cannot be written does not keep the others back, and large ones go on their own.
    let mut parts: Vec<Part> = (40..44).map(part).collect();
    let stamped = |fingerprint| {
        let stamp = Stamp { producer: "p".into(), sequence: 1, fingerprint, once: false };
        Part { stamp: Some(stamp), ..two.world().part(1, 0..1) }
    };
    two.owner.append(stamped(1), PATIENCE).await.unwrap();
    parts[1] = stamped(2);
    parts.push(two.world().part(2, 0..200_000));
    let before = messages(0);
    let appended = two.other.append_all(parts, PATIENCE).await;
    assert_eq!(messages(before), 2);
    let told: Vec<bool> = appended.iter().map(Result::is_ok).collect();
    assert_eq!(told, [true, false, true, true, true]);
    assert_eq!(appended[1].as_ref().unwrap_err().code(), "key_reused");
    // What is here and what is there.
    let both = two.owner.append_all((50..54).map(part).collect(), PATIENCE).await;
    assert!(both.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_shard_that_moves_is_found_again() {
    let mut two = Two::start().await;
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    for round in 0..3 {
        let first = round * 1_000;
        let more = async |count: u64| {
            let until = written.load(Ordering::Relaxed) + count;
            while written.load(Ordering::Relaxed) < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let (owner, other) = (two.owner.clone(), two.other.clone());
        let writes = async {
            let mut next = first;
            while !stop.load(Ordering::Relaxed) {
                let part = two.keyed.world.part(0, next..next + 1);
                // No request fails, whoever is asked.
                let route = if next % 2 == 0 { &owner } else { &other };
                let more = two.keyed.world.part(1, next..next + 1);
                for appended in route.append_all(vec![part, more], PATIENCE).await {
                    appended.unwrap();
                }
                assert_eq!(two.ids(&other, 0).await.last(), Some(&next), "what is acked is read everywhere");
                next += 1;
                written.fetch_add(1, Ordering::Relaxed);
            }
        };
        let moves = async {
            more(3).await;
            owner.host().leave(PATIENCE).await;
            assert!(owner.host().open_shard(ShardId(0)).is_none(), "it was given away");
            more(3).await;
            stop.store(true, Ordering::Relaxed);
        };
        tokio::join!(writes, moves);
        stop.store(false, Ordering::Relaxed);
        // A gateway that has left does not come back; another one comes.
        owner.host().shutdown().await;
        let address = format!("n{round}");
        let new = gateway(two.world(), &two.wire, &address);
        (two.owner, two.other) = (other, new);
        two.settle().await;
    }
    let all = two.ids(&two.other, 0).await;
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
}

#[tokio::test]
async fn a_claim_that_was_not_given_back_is_taken_away() {
    let two = Two::start().await;
    let (meta, key) = (&two.world().meta, owner_key(ShardId(0)));
    let held = meta.get(&key).await.unwrap().unwrap();
    let ours = |route: &Route| Owner {
        gateway: route.host().gateway().to_owned(),
        address: "nowhere".to_owned(),
        nonce: String::new(),
    };
    // As if its give-back had been lost: its session lives, and the other one is to have the shard.
    let stray = serde_json::to_vec(&ours(&two.other)).unwrap();
    let put = Txn::new().when(Compare::created(&key, held.created)).delete(&key);
    meta.txn(put).await.unwrap();
    meta.txn(Txn::new().when(Compare::absent(&key)).put(&key, stray)).await.unwrap();
    let gone = async {
        while meta.get(&key).await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("nobody else could have the shard");
}

#[tokio::test]
async fn a_gateway_that_cannot_write_gives_its_shard_away_until_it_can() {
    let world = World::with(|settings| {
        settings.unwell_after = Duration::from_millis(200);
        settings.put_budget = Duration::from_millis(100);
    });
    let (wire, health) = (Arc::new(Wire::default()), Health::default());
    let faulty = Faulty::over(world.context.objects.clone());
    let objects = Arc::new(Guarded::new(faulty.clone(), health.clone()));
    let sick = gateway_in(Context { objects, health, ..world.context.clone() }, &world, &wire, "sick");
    let has = |route: &Route| route.host().open_shard(ShardId(0)).is_some();
    let until = async |holds: &dyn Fn() -> bool| {
        let holds = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, holds).await.expect("it comes to pass");
    };
    until(&|| has(&sick)).await;
    sick.append(world.part(0, 0..10), PATIENCE).await.unwrap();
    // Alone it keeps what it has, ready or not: nobody else could do better.
    faulty.read_only.store(true, Ordering::SeqCst);
    let refused = sick.append(world.part(0, 10..20), Duration::from_millis(300)).await;
    assert!(refused.is_err());
    until(&|| sick.host().unwell().is_some()).await;
    let said = sick.host().unwell().unwrap_or_default();
    assert!(said.contains("503 SlowDown"), "{said}");
    // With another one it is without a shard, and still answers.
    let fit = gateway(&world, &wire, "fit");
    until(&|| has(&fit) && !has(&sick)).await;
    until(&|| sick.host().gateways().values().any(|member| member.unwell.is_some())).await;
    assert!(!sick.host().is_ready() && fit.host().is_ready());
    let appended = sick.append(world.part(0, 20..30), PATIENCE).await.unwrap();
    assert!(appended.base_offset >= Offset(10));
    // With it alone again, which can write, it is as before.
    faulty.read_only.store(false, Ordering::SeqCst);
    until(&|| sick.host().unwell().is_none()).await;
    fit.host().leave(PATIENCE).await;
    until(&|| has(&sick) && sick.host().is_ready()).await;
    sick.append(world.part(0, 30..40), PATIENCE).await.unwrap();
    let shard = sick.host().open_shard(ShardId(0)).unwrap();
    let all = world.read_all(&shard, 0, 0).await;
    for acked in [0..10, 20..30, 30..40] {
        assert!(acked.clone().all(|id| all.iter().filter(|found| **found == id).count() == 1), "{acked:?}");
    }
}

#[tokio::test]
async fn a_reader_elsewhere_is_woken() {
    let two = Two::start().await;
    let bucket = two.world().bucket(0);
    let mut changes = two.other.changes(&bucket).await;
    // The first answer tells where the shard is now.
    changes.next().await;
    changes.mark();
    let woken = async {
        tokio::time::timeout(Duration::from_secs(5), changes.next()).await.expect("a signal comes");
        two.ids(&two.other, 0).await
    };
    let written = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        two.owner.append(two.world().part(0, 0..5), PATIENCE).await.unwrap();
    };
    let (seen, ()) = tokio::join!(woken, written);
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn history_is_read_from_the_object_store() {
    // Nothing is kept in memory, so all is history.
    let two = Two::with(World::with(|settings| settings.tail_bytes = 0)).await;
    for n in 0..5 {
        two.owner.append(two.world().part(0, n * 100..n * 100 + 100), PATIENCE).await.unwrap();
    }
    assert_eq!(two.ids(&two.other, 0).await, (0..500).collect::<Vec<_>>());
}

#[tokio::test]
async fn messages_that_are_damaged_are_answered() {
    let two = Two::start().await;
    let answer = |call: Call, message: Vec<u8>| two.owner.answer(ShardId(0), call, message.into());
    let mut random = 7u64;
    let mut next = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize
    };
    let head =
        format!("{{\"head\":{},\"sections\":[4,4]}}", serde_json::to_string(&two.world().bucket(0)).unwrap());
    let whole = [&(head.len() as u32).to_le_bytes()[..], head.as_bytes(), &[0; 200]].concat();
    for call in Call::ALL {
        assert!(!answer(call, Vec::new()).await.is_empty());
        for _ in 0..50 {
            let mut message = whole.clone();
            for _ in 0..1 + next() % 3 {
                let at = next() % message.len();
                message[at] = next() as u8;
            }
            message.truncate(next() % (message.len() + 1));
            if call != Call::Wait {
                assert!(!answer(call, message).await.is_empty());
            }
        }
    }
    // A bucket of another shard is refused, and so is a shard that is not here.
    let elsewhere = two.owner.answer(ShardId(1), Call::Lookup, whole.into()).await.concat();
    assert!(String::from_utf8_lossy(&elsewhere).contains("is not of shard"));
}
