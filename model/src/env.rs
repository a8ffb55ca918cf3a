//! Wall time and randomness as handles, so that a simulation can own both.
//!
//! Monotonic time is tokio's (`tokio::time::Instant`), which a paused runtime drives. Wall time is only used for
//! what users see (`_timestamp`) and for names; no decision about safety rests on it.

use std::fmt;
use std::sync::Arc;

/// A source of wall time and randomness. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    source: Arc<dyn Source>,
}

/// What an [`Env`] is made of.
pub trait Source: Send + Sync {
    /// Milliseconds since 1970 in UTC.
    fn now_millis(&self) -> i64;
    /// 64 random bits.
    fn random(&self) -> u64;
}

impl Env {
    /// An environment on the given source.
    pub fn new(source: impl Source + 'static) -> Env {
        Env { source: Arc::new(source) }
    }

    /// Milliseconds since 1970 in UTC.
    pub fn now_millis(&self) -> i64 {
        self.source.now_millis()
    }

    /// 64 random bits.
    pub fn random(&self) -> u64 {
        self.source.random()
    }

    /// 128 random bits, as a name that nobody else has chosen.
    pub fn unique(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// The real world: the system's clock and the operating system's randomness.
#[derive(Debug, Default)]
pub struct System;

impl Source for System {
    // The one place that asks the system; everything else goes through `Env`.
    #[allow(clippy::disallowed_methods)]
    fn now_millis(&self) -> i64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since_1970.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }

    #[allow(clippy::disallowed_methods)]
    fn random(&self) -> u64 {
        rand::random()
    }
}

impl Default for Env {
    fn default() -> Env {
        Env::new(System)
    }
}
