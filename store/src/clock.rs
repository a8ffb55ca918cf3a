//! The clock of a shard's SlateDB: never behind what the database has seen.
//!
//! SlateDB fails writes when the clock runs back, and a new owner's wall clock may well be behind the last one's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use slatedb_common::clock::{SystemClock, SystemClockTicker};
use wadi_model::env::Env;

/// Wall time, but not below the highest time seen so far.
#[derive(Clone, Debug)]
pub struct ShardClock {
    env: Env,
    floor: Arc<AtomicI64>,
}

impl ShardClock {
    /// A clock that begins at `floor` milliseconds since 1970 or later.
    pub fn new(env: Env, floor: i64) -> ShardClock {
        ShardClock { env, floor: Arc::new(AtomicI64::new(floor)) }
    }

    /// Raises the floor to a time that the log has seen.
    pub fn raise(&self, seen: i64) {
        self.floor.fetch_max(seen, Ordering::Relaxed);
    }

    /// Milliseconds since 1970, never less than before.
    pub fn now_millis(&self) -> i64 {
        let now = self.env.now_millis();
        now.max(self.floor.fetch_max(now, Ordering::Relaxed))
    }
}

impl SystemClock for ShardClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.now_millis()).unwrap_or(DateTime::UNIX_EPOCH)
    }

    fn sleep<'a>(
        &'a self,
        duration: Duration,
    ) -> std::pin::Pin<Box<dyn std::future::Future<Output = ()> + Send + 'a>> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
