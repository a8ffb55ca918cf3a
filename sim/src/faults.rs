//! What can go wrong between one gateway and its stores, and how likely it is just now.
//!
//! Each life of a gateway has a [`Link`] of its own: its rates are redrawn every few seconds (quiet times included), and
//! it can be paused, cut off, or dead. Dead is what a crash looks like from outside: nothing of that process is heard of
//! again, but requests that were on their way may still arrive.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Dice;

/// How likely each fault is, per operation.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Latencies are multiplied by this.
    pub slow: f64,
    /// 503 without effect.
    pub refused: f64,
    /// 409 on a create, without effect.
    pub conflict: f64,
    /// The operation took effect and an error comes back.
    pub lost_reply: f64,
    /// An error comes back, and the operation takes effect later.
    pub late: f64,
    /// Nothing comes back for long; the operation may take effect meanwhile.
    pub hang: f64,
    /// The meta store says that it is not available.
    pub meta_refused: f64,
    /// The meta store's answer to a transaction is lost.
    pub meta_unknown: f64,
    /// A request to another gateway gets lost, or its answer.
    pub peer_lost: f64,
    /// A request to another gateway arrives late.
    pub peer_late: f64,
    /// It arrives twice.
    pub peer_twice: f64,
}

impl Rates {
    /// Nothing goes wrong.
    pub const QUIET: Rates = Rates {
        slow: 1.0,
        refused: 0.0,
        conflict: 0.0,
        lost_reply: 0.0,
        late: 0.0,
        hang: 0.0,
        meta_refused: 0.0,
        meta_unknown: 0.0,
        peer_lost: 0.0,
        peer_late: 0.0,
        peer_twice: 0.0,
    };

    /// A new draw: a third of the time quiet, else some faults at once, now and then very often.
    pub fn draw(dice: &Dice) -> Rates {
        if dice.chance(0.33) {
            return Rates::QUIET;
        }
        let worst = if dice.chance(0.15) { 0.5 } else { 0.08 };
        let rate = |share: f64| {
            if dice.chance(0.5) { 0.0 } else { worst * share * dice.pick(1..101) as f64 / 100.0 }
        };
        Rates {
            slow: if dice.chance(0.2) { dice.pick(2..12) as f64 } else { 1.0 },
            refused: rate(1.0),
            conflict: rate(0.6),
            lost_reply: rate(1.0),
            late: rate(0.6),
            hang: rate(0.15),
            meta_refused: rate(1.0),
            meta_unknown: rate(1.0),
            peer_lost: rate(1.0),
            peer_late: rate(0.4),
            peer_twice: rate(1.0),
        }
    }
}

/// Whether a gateway reaches its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It does, with the faults of its rates.
    Up,
    /// Nothing moves, as in a stopped process; all goes on later.
    Paused,
    /// No packet arrives at the object store or comes back.
    NoObjects,
    /// No packet arrives at the meta store or comes back.
    NoMeta,
    /// The process is gone.
    Dead,
}

/// The way between one life of a gateway and its stores. Clones are the same way.
#[derive(Clone, Debug)]
pub struct Link {
    name: Arc<str>,
    reach: Arc<watch::Sender<Reach>>,
    rates: Arc<Mutex<Rates>>,
    dice: Dice,
}

impl Link {
    /// A link that is up and quiet.
    pub fn new(name: &str, dice: Dice) -> Link {
        let reach = Arc::new(watch::Sender::new(Reach::Up));
        Link { name: name.into(), reach, rates: Arc::new(Mutex::new(Rates::QUIET)), dice }
    }

    /// Whose it is, for the trace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The chance of this link.
    pub fn dice(&self) -> &Dice {
        &self.dice
    }

    /// Changes what the gateway reaches. A dead one stays dead.
    pub fn set(&self, reach: Reach) {
        self.reach.send_if_modified(|now| {
            let change = *now != Reach::Dead && *now != reach;
            if change {
                *now = reach;
            }
            change
        });
    }

    /// Makes requests that hang find out that their connections are broken, if the link is up.
    pub fn wake(&self) {
        self.reach.send_modify(|_| {});
    }

    /// What the gateway reaches now.
    pub fn reach(&self) -> Reach {
        *self.reach.borrow()
    }

    /// The rates just now.
    pub fn rates(&self) -> Rates {
        *self.rates.lock()
    }

    /// Changes the rates.
    pub fn set_rates(&self, rates: Rates) {
        *self.rates.lock() = rates;
    }

    /// Returns at once in a running process, later in a paused one, and never in a dead one.
    pub async fn running(&self) {
        self.until(|reach| !matches!(reach, Reach::Paused | Reach::Dead)).await;
    }

    /// Returns when the process is dead.
    pub async fn died(&self) {
        self.until(|reach| reach == Reach::Dead).await;
    }

    async fn until(&self, wanted: impl Fn(Reach) -> bool) {
        let mut reach = self.reach.subscribe();
        if reach.wait_for(|now| wanted(*now)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits as one does for an answer that does not come: for `timeout`, or until the link is up and quiet again,
    /// which is when broken connections are found out.
    pub async fn silence(&self, timeout: Duration) {
        let end = Instant::now() + timeout;
        let mut reach = self.reach.subscribe();
        let healed = async {
            loop {
                if reach.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                if *reach.borrow_and_update() == Reach::Up {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = healed => {}
            () = tokio::time::sleep_until(end) => {}
        }
        self.running().await;
    }
}
