//! The way from gateways to each other, with a loss for each pair and direction.
//!
//! A request that was sent arrives by itself: after its sender gave up or died, late, or twice (then its sender gets no answer). Whoever receives it may be paused or die
//! before it answers, and the answer may be lost. A connection that breaks may end the work on its request, as a server does that sees
//! nobody wait. Addresses are names of lives, so that a process that is gone is asked for a while and refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use wadi_model::ShardId;
use wadi_store::route::{Call, Peers, Route, Unanswered};
use wadi_store::task;

use crate::faults::Link;
use crate::trace::Trace;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);

/// How long it takes until a connection on which nothing comes is given up.
const GIVEN_UP: Duration = Duration::from_secs(10);

/// The median of a way.
const WAY: Duration = Duration::from_millis(1);

/// Requests that a gateway has not answered yet. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Open(Arc<AtomicUsize>);

/// Counts a request as long as it lives.
#[derive(Debug)]
pub struct OneOpen(Open);

impl Open {
    /// One more, until the answer is dropped.
    pub fn one(&self) -> OneOpen {
        self.0.fetch_add(1, Ordering::Relaxed);
        OneOpen(self.clone())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OneOpen {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One life of a gateway, as the others reach it.
#[derive(Clone, Debug)]
struct Gate {
    number: usize,
    link: Link,
    route: Route,
    open: Open,
}

#[derive(Debug)]
struct Inner {
    gates: Mutex<BTreeMap<String, Gate>>,
    /// Between whom nothing passes, from the first to the second.
    cuts: watch::Sender<BTreeSet<(usize, usize)>>,
    trace: Trace,
}

/// The network between gateways. Clones are the same.
#[derive(Clone, Debug)]
pub struct Net(Arc<Inner>);

impl Net {
    /// A network without gateways.
    pub fn new(trace: Trace) -> Net {
        Net(Arc::new(Inner { gates: Mutex::default(), cuts: watch::Sender::default(), trace }))
    }

    /// A gateway answers from now on, under the name of its link.
    pub fn born(&self, number: usize, link: &Link, route: &Route, open: &Open) {
        let gate = Gate { number, link: link.clone(), route: route.clone(), open: open.clone() };
        self.0.gates.lock().insert(link.name().to_owned(), gate);
    }

    /// It takes no requests any more.
    pub fn closed(&self, link: &Link) {
        self.0.gates.lock().remove(link.name());
    }

    /// From now on nothing passes from one gateway to another.
    pub fn cut(&self, from: usize, to: usize) {
        self.0.cuts.send_modify(|cuts| {
            cuts.insert((from, to));
        });
    }

    /// It passes again.
    pub fn mend(&self, from: usize, to: usize) {
        self.0.cuts.send_modify(|cuts| {
            cuts.remove(&(from, to));
        });
    }

    /// Everything passes again.
    pub fn heal(&self) {
        self.0.cuts.send_modify(BTreeSet::clear);
    }

    /// The way from a gateway to all.
    pub fn peers(&self, number: usize, link: Link) -> SimPeers {
        SimPeers { net: Arc::downgrade(&self.0), number, link }
    }
}

impl Inner {
    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.borrow().contains(&(from, to))
    }

    /// Waits for an answer that does not come, until this time or until the way is free.
    async fn mended(&self, from: usize, to: usize, end: Instant) {
        let mut cuts = self.cuts.subscribe();
        tokio::select! {
            biased;
            _ = cuts.wait_for(|cuts| !cuts.contains(&(from, to))) => {}
            () = sleep_until(end) => {}
        }
    }
}

impl Gate {
    /// What it answers, unless it dies before.
    async fn answer(&self, shard: ShardId, call: Call, message: Bytes) -> Option<Bytes> {
        let _open = self.open.one();
        let answer = async {
            self.link.running().await;
            let answer = self.route.answer(shard, call, message).await;
            self.link.running().await;
            Bytes::from(answer.concat())
        };
        tokio::select! {
            biased;
            () = self.link.died() => None,
            answer = answer => Some(answer),
        }
    }
}

/// The other gateways, as one reaches them.
#[derive(Debug)]
pub struct SimPeers {
    net: Weak<Inner>,
    number: usize,
    link: Link,
}

/// Ends the work on a request whose sender is gone, if that is so.
struct Waiting(Option<AbortHandle>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(work) = self.0.take() {
            work.abort();
        }
    }
}

fn unanswered(unsent: bool, why: &str) -> Unanswered {
    Unanswered { unsent, why: why.into() }
}

impl SimPeers {
    async fn send(
        &self,
        net: &Inner,
        address: &str,
        (shard, call, message): (ShardId, Call, Bytes),
        end: Instant,
    ) -> Result<Bytes, Unanswered> {
        let (dice, rates) = (self.link.dice(), self.link.rates());
        let soon = |time: Duration| end.min(Instant::now() + time);
        let gate = net.gates.lock().get(address).cloned();
        let Some(gate) = gate else {
            // A process that is gone refuses; a machine that is gone says nothing.
            sleep_until(soon(if dice.chance(0.8) { WAY } else { CONNECT })).await;
            return Err(unanswered(true, "connection refused"));
        };
        let (from, to) = (self.number, gate.number);
        if net.is_cut(from, to) {
            net.trace.count("peer requests cut off");
            // On a connection that is there nobody knows what has arrived.
            let unsent = dice.chance(0.5);
            net.mended(from, to, soon(if unsent { CONNECT } else { GIVEN_UP })).await;
            return Err(unanswered(unsent, "no answer from behind a cut"));
        }
        if dice.chance(rates.peer_lost) {
            net.trace.count("peer requests lost");
            sleep_until(soon(dice.millis(1..6_000))).await;
            return Err(unanswered(false, "the connection broke"));
        }
        let is_twice = dice.chance(rates.peer_twice);
        if is_twice {
            net.trace.count("peer requests received twice");
            let (gate, message, after) = (gate.clone(), message.clone(), dice.millis(0..5_000));
            drop(task::spawn(async move {
                sleep(after).await;
                gate.answer(shard, call, message).await;
            }));
        }
        // Nobody sends again what was answered: the answer to the first of two gets lost, or a refusal would be believed.
        let is_lost = is_twice || dice.chance(rates.peer_lost);
        let mut way = dice.latency(WAY).mul_f64(rates.slow);
        if dice.chance(rates.peer_late) {
            net.trace.count("peer requests late");
            way += dice.millis(50..12_000);
        }
        let (tell, told) = oneshot::channel();
        let there = gate.clone();
        let work = task::spawn(async move {
            sleep(way).await;
            drop(tell.send(there.answer(shard, call, message).await));
        });
        let mut waiting = Waiting(dice.chance(0.5).then(|| work.abort_handle()));
        let answer = tokio::select! {
            biased;
            answer = told => answer.ok().flatten(),
            () = sleep_until(end) => return Err(unanswered(false, "no answer in time")),
        };
        waiting.0 = None;
        let Some(answer) = answer else { return Err(unanswered(false, "the connection broke")) };
        if net.is_cut(to, from) {
            net.trace.count("peer answers cut off");
            net.mended(to, from, soon(GIVEN_UP)).await;
            return Err(unanswered(false, "no answer from behind a cut"));
        }
        if is_lost {
            net.trace.count("peer answers lost");
            sleep_until(soon(dice.millis(1..6_000))).await;
            return Err(unanswered(false, "the connection broke"));
        }
        sleep_until(soon(dice.latency(WAY))).await;
        Ok(answer)
    }
}

#[async_trait]
impl Peers for SimPeers {
    async fn ask(
        &self,
        address: &str,
        shard: ShardId,
        call: Call,
        message: Vec<Bytes>,
        patience: Duration,
    ) -> Result<Bytes, Unanswered> {
        let end = Instant::now() + patience;
        self.link.running().await;
        let Some(net) = self.net.upgrade() else { return Err(unanswered(true, "the world has ended")) };
        let answer = self.send(&net, address, (shard, call, message.concat().into()), end).await;
        self.link.running().await;
        let what = match &answer {
            Ok(_) => "answered",
            Err(none) if none.unsent => "not sent",
            Err(_) => "no answer",
        };
        net.trace.count("peer requests");
        let name = call.name();
        net.trace.note(self.link.name(), format_args!("asks {address} {name} of shard {shard}: {what}"));
        answer
    }
}
