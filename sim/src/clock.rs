//! Chance and wall time, both made of the seed.
//!
//! Every part of the simulation draws from a [`Dice`] of its own, forked by name, so that a change in one part moves
//! no other part's draws. Wall time is tokio's paused clock plus a skew that each gateway has for itself.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;
use wadi_model::env::Source;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The wall time at which every simulation begins, in milliseconds since 1970.
pub const EPOCH: i64 = 1_800_000_000_000;

/// A seeded source of chance. Clones draw from the same sequence.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    rng: Arc<Mutex<StdRng>>,
}

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Dice {
        Dice { seed, rng: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))) }
    }

    /// Dice for a part of this name: the same for the same seed and name, whatever was drawn before.
    pub fn fork(&self, name: &str) -> Dice {
        Dice::new(xxh3_64_with_seed(name.as_bytes(), self.seed))
    }

    /// 64 random bits.
    pub fn bits(&self) -> u64 {
        self.rng.lock().random()
    }

    /// True with this probability.
    pub fn chance(&self, probability: f64) -> bool {
        self.rng.lock().random_bool(probability.clamp(0.0, 1.0))
    }

    /// A number of a range that is not empty.
    pub fn pick(&self, range: Range<u64>) -> u64 {
        self.rng.lock().random_range(range)
    }

    /// One of several things; there must be one.
    pub fn one_of<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.pick(0..of.len() as u64) as usize]
    }

    /// A time of a range of milliseconds.
    pub fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.pick(range))
    }

    /// Roughly lognormal around a median: most are near it, few are several times as long.
    pub fn latency(&self, median: Duration) -> Duration {
        let mut rng = self.rng.lock();
        let normal: f64 = (0..4).map(|_| rng.random_range(-1.0..1.0)).sum::<f64>() * 0.87;
        median.mul_f64((normal * 0.6).exp())
    }
}

/// Wall time and randomness of one life of a gateway.
#[derive(Debug)]
pub struct SimSource {
    start: Instant,
    skew: Arc<AtomicI64>,
    dice: Dice,
}

impl SimSource {
    /// `start` is when the simulation began; `skew` are the milliseconds that this gateway's clock is ahead.
    pub fn new(start: Instant, skew: Arc<AtomicI64>, dice: Dice) -> SimSource {
        SimSource { start, skew, dice }
    }
}

impl Source for SimSource {
    fn now_millis(&self) -> i64 {
        EPOCH + self.start.elapsed().as_millis() as i64 + self.skew.load(Ordering::Relaxed)
    }

    fn random(&self) -> u64 {
        self.dice.bits()
    }
}
