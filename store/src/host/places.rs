//! Where the shards of a cluster are, as one gateway sees them, and since when.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;
use wadi_model::env::Env;
use wadi_model::time::rfc3339;
use wadi_model::{ErrorKind, Fault, ShardId, Token};

use super::Owner;
use crate::shard::Shard;

/// A shard as this gateway sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ShardStatus {
    /// The shard.
    pub shard: ShardId,
    /// Whether it is open here.
    pub open: bool,
    /// What happens to it here.
    pub state: State,
    /// Since when it is open here, or not.
    pub since: String,
    /// The fencing token, of its owner wherever that is.
    pub token: Option<Token>,
    /// How many log objects its database does not have for good yet, if it is open here: what a takeover would replay.
    pub lag: Option<u64>,
    /// What happened last, if it is not open here.
    pub note: Option<String>,
    /// The gateway that owns it, if it is another one.
    pub owner: Option<Owner>,
}

/// What happens to a shard at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is served.
    Open,
    /// It was claimed, and is being taken over.
    Opening,
    /// What was acked is brought to its database, before it is given back.
    Releasing,
    /// It is not here.
    Closed,
}

/// The shard is not open here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shard {shard} is not open at this gateway: {note}")]
pub struct NotOpen {
    /// The shard.
    pub shard: ShardId,
    /// What happened last.
    pub note: String,
}

impl Fault for NotOpen {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }

    fn code(&self) -> &'static str {
        "shard_not_open"
    }
}

/// Where a shard is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Open(Shard),
    /// It is still read.
    Releasing(Shard),
    Opening,
    Closed,
}

#[derive(Clone, Debug)]
struct Placed {
    place: Place,
    /// When it was opened, or when it was not open any more. A shard that is tried again and again stays not open since
    /// the first time.
    since: i64,
    /// Why it is not open.
    note: String,
}

/// The places of all shards.
#[derive(Debug)]
pub(super) struct Places {
    env: Env,
    placed: RwLock<BTreeMap<ShardId, Placed>>,
    /// Moves whenever a shard opens or ends.
    moved: watch::Sender<u64>,
}

impl Places {
    /// None of so many shards is open yet.
    pub(super) fn new(shards: u32, env: Env) -> Places {
        let since = env.now_millis();
        let closed = || Placed { place: Place::Closed, since, note: "it was not claimed yet".to_owned() };
        let placed = (0..shards).map(|shard| (ShardId(shard), closed())).collect();
        Places { env, placed: RwLock::new(placed), moved: watch::Sender::new(0) }
    }

    /// Changes whenever a shard opens or ends.
    pub(super) fn moved(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// The open shard, or why it is not open.
    pub(super) fn get(&self, shard: ShardId) -> Result<Shard, String> {
        let placed = self.placed.read();
        let Some(placed) = placed.get(&shard) else { return Err("there is no such shard".to_owned()) };
        match &placed.place {
            Place::Open(open) | Place::Releasing(open) => Ok(open.clone()),
            Place::Opening => Err(opening(&placed.note)),
            Place::Closed => Err(placed.note.clone()),
        }
    }

    /// Notes that the shard is open here.
    pub(super) fn opened(&self, shard: Shard) {
        self.put(shard.claim().shard(), Place::Open(shard), None);
    }

    /// Notes that an open shard is being given back.
    pub(super) fn releasing(&self, shard: ShardId) {
        let mut placed = self.placed.write();
        if let Some(placed) = placed.get_mut(&shard)
            && let Place::Open(open) = &placed.place
        {
            placed.place = Place::Releasing(open.clone());
        }
    }

    /// Notes that the shard is being taken over.
    pub(super) fn opening(&self, shard: ShardId) {
        self.put(shard, Place::Opening, None);
    }

    /// Notes that the shard is not here, and why.
    pub(super) fn closed(&self, shard: ShardId, note: String) {
        self.put(shard, Place::Closed, Some(note));
    }

    fn put(&self, shard: ShardId, place: Place, note: Option<String>) {
        let now = self.env.now_millis();
        let mut placed = self.placed.write();
        let before = placed.get(&shard);
        let is_open = |place: &Place| matches!(place, Place::Open(_) | Place::Releasing(_));
        let same = before.filter(|before| is_open(&before.place) == is_open(&place));
        let since = same.map_or(now, |before| before.since);
        let note = note.or_else(|| before.map(|before| before.note.clone())).unwrap_or_default();
        placed.insert(shard, Placed { place, since, note });
        drop(placed);
        self.moved.send_modify(|n| *n += 1);
    }

    /// How many shards are open here.
    pub(super) fn open(&self) -> usize {
        self.placed.read().values().filter(|p| matches!(p.place, Place::Open(_))).count()
    }

    /// All shards.
    pub(super) fn status(&self) -> Vec<ShardStatus> {
        let status = |(shard, placed): (&ShardId, &Placed)| {
            let here = match &placed.place {
                Place::Open(open) | Place::Releasing(open) if !open.has_ended() => Some(open),
                _ => None,
            };
            let (state, token, note) = match &placed.place {
                Place::Open(open) | Place::Releasing(open) if open.has_ended() => {
                    (State::Closed, None, "it has just ended".to_owned())
                }
                Place::Releasing(open) => (State::Releasing, Some(open.token()), String::new()),
                Place::Open(open) => (State::Open, Some(open.token()), String::new()),
                Place::Opening => (State::Opening, None, opening(&placed.note)),
                Place::Closed => (State::Closed, None, placed.note.clone()),
            };
            ShardStatus {
                shard: *shard,
                open: token.is_some(),
                state,
                since: rfc3339(placed.since),
                token,
                note: (!note.is_empty()).then_some(note),
                lag: here.map(Shard::lag),
                owner: None,
            }
        };
        self.placed.read().iter().map(status).collect()
    }
}

fn opening(before: &str) -> String {
    format!("it is being opened; before that: {before}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use wadi_model::env::Source;

    use super::*;

    #[derive(Clone)]
    struct Clock(Arc<AtomicI64>);

    impl Source for Clock {
        fn now_millis(&self) -> i64 {
            self.0.fetch_add(1000, Ordering::SeqCst)
        }
        fn random(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_shard_that_is_tried_again_and_again_is_not_open_since_the_first_time() {
        let places = Places::new(1, Env::new(Clock(Arc::default())));
        let first = places.status()[0].since.clone();
        for _ in 0..3 {
            places.opening(ShardId(0));
            let status = places.status().remove(0);
            assert_eq!((status.state, status.open, &status.since), (State::Opening, false, &first));
            places.closed(ShardId(0), "no answer".to_owned());
            places.opening(ShardId(0));
            assert!(places.get(ShardId(0)).unwrap_err().contains("before that: no answer"));
        }
        assert_eq!(places.status()[0].since, first);
    }
}
