//! The clock that SlateDB runs by.
//!
//! SlateDB stamps every write and fails when its clock runs back. Wall clocks do, between two processes and at one
//! machine's correction. So the clock starts at the stamp of the last write, or at the wall time if that is later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use slatedb_common::clock::{DefaultSystemClock, SystemClock, SystemClockTicker};

/// Wall time at the start, then monotonic; never behind the stamps in the database.
pub(super) struct MetaClock {
    base: DefaultSystemClock,
    ahead_ms: AtomicI64,
}

impl MetaClock {
    pub(super) fn new() -> Self {
        Self { base: DefaultSystemClock::new(), ahead_ms: AtomicI64::new(0) }
    }

    /// Never shows a time before `stamp_ms` (Unix milliseconds) any more.
    pub(super) fn not_before(&self, stamp_ms: i64) {
        let behind = stamp_ms.saturating_sub(self.base.now().timestamp_millis());
        self.ahead_ms.fetch_max(behind, Ordering::SeqCst);
    }
}

impl fmt::Debug for MetaClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetaClock").field("ahead_ms", &self.ahead_ms).finish_non_exhaustive()
    }
}

impl SystemClock for MetaClock {
    fn now(&self) -> DateTime<Utc> {
        let ahead = TimeDelta::milliseconds(self.ahead_ms.load(Ordering::SeqCst));
        let now = self.base.now();
        now.checked_add_signed(ahead).unwrap_or(now)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.base.sleep(duration)
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_on_from_a_stamp_that_is_ahead_of_the_wall_clock() {
        let clock = MetaClock::new();
        let stamp = clock.now().timestamp_millis() + 60_000;
        clock.not_before(stamp);
        let first = clock.now().timestamp_millis();
        assert!(first >= stamp);
        tokio::time::advance(Duration::from_millis(7)).await;
        assert_eq!(clock.now().timestamp_millis(), first + 7);
        clock.not_before(stamp - 120_000);
        assert_eq!(clock.now().timestamp_millis(), first + 7);
    }
}
