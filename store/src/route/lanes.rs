//! Stamps for parts that go to other gateways without one of their client.
//!
//! A part whose answer was lost is sent again, maybe to another owner, and must be written once. So it goes in a *lane*: a producer of
//! this process that has one request at a time. A bucket remembers of each lane its last request only, which is enough, since a lane
//! is used again only when nobody sends its last request any more: a late copy of that is older than the lane's next one, and refused.
//! There are as many lanes as parts that were ever on their way at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::shard::Stamp;

/// What the names of lanes begin with. No client's producer does: names of clients come in headers, which cannot carry it.
const MARK: char = '\u{1}';

/// The lanes of a process.
#[derive(Debug)]
pub(super) struct Lanes {
    process: String,
    made: AtomicU64,
    free: Mutex<Vec<Lane>>,
}

#[derive(Debug)]
struct Lane {
    producer: Arc<str>,
    next: u64,
}

/// A lane in use. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    lanes: &'a Lanes,
    lane: Option<Lane>,
    stamp: Stamp,
}

impl Taken<'_> {
    /// The stamp of its request.
    pub(super) fn stamp(&self) -> &Stamp {
        &self.stamp
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            self.lanes.free.lock().push(lane);
        }
    }
}

impl Lanes {
    /// The lanes of a process, whose name is never used again.
    pub(super) fn new(process: &str) -> Lanes {
        Lanes { process: process.to_owned(), made: AtomicU64::new(0), free: Mutex::default() }
    }

    /// A free lane for one request.
    pub(super) fn take(&self) -> Taken<'_> {
        let lane = self.free.lock().pop();
        let mut lane = lane.unwrap_or_else(|| {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            Lane { producer: format!("{MARK}{}/{number}", self.process).into(), next: 0 }
        });
        let stamp =
            Stamp { producer: lane.producer.clone(), sequence: lane.next, fingerprint: 0, once: true };
        lane.next += 1;
        Taken { lanes: self, lane: Some(lane), stamp }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_one_request_at_a_time_and_never_the_same_twice() {
        let lanes = Lanes::new("p");
        let (one, two) = (lanes.take(), lanes.take());
        assert_ne!(one.stamp().producer, two.stamp().producer);
        let (producer, sequence) = (one.stamp().producer.clone(), one.stamp().sequence);
        drop(one);
        let again = lanes.take();
        assert_eq!((&again.stamp().producer, again.stamp().sequence), (&producer, sequence + 1));
        assert!(producer.starts_with(MARK));
    }
}
