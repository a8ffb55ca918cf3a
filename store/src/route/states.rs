//! How buckets are: the ends of their logs and their counts of rows, many at once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use wadi_model::{Bucket, Offset, ShardId, Token};

use super::{ANSWER, At, Call, Route, RouteError};
use crate::shard::{Bounds, LogReadError, LookupError, Shard};

/// How a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its shard.
    pub shard: ShardId,
    /// The token of its owner.
    pub token: Token,
    /// The ends of its log.
    pub bounds: Bounds,
    /// How many rows a bucket of a primary-key table has, if its changelog tells.
    pub count: Option<u64>,
}

impl Route {
    /// How these buckets are, in their order. Each shard is asked once.
    pub async fn states(
        &self,
        buckets: &[Bucket],
        patience: Duration,
    ) -> Result<Vec<State>, RouteError<LookupError>> {
        let mut by_shard: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (place, bucket) in buckets.iter().enumerate() {
            by_shard.entry(self.shard(bucket)).or_default().push(place);
        }
        let of_shard = |(shard, places): (ShardId, Vec<usize>)| async move {
            let asked: Vec<Bucket> = places.iter().map(|place| buckets[*place]).collect();
            let states = self.ask(shard, patience, |at| states_at(at, asked.clone())).await?;
            Ok::<_, RouteError<LookupError>>(places.into_iter().zip(states).collect::<Vec<_>>())
        };
        let found = try_join_all(by_shard.into_iter().map(of_shard)).await?;
        let mut found: Vec<(usize, State)> = found.into_iter().flatten().collect();
        found.sort_unstable_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, state)| state).collect())
    }

    /// How one bucket is.
    pub async fn state(&self, bucket: &Bucket, patience: Duration) -> Result<State, RouteError<LookupError>> {
        let states = self.states(std::slice::from_ref(bucket), patience).await?;
        let missing = || LookupError::Internal("a bucket was asked for and not answered".into());
        Ok(states.into_iter().next().ok_or_else(missing)?)
    }

    /// The first offset of a bucket whose row was flushed at `time` or later; see [`Shard::offset_at`].
    pub async fn offset_at(
        &self,
        bucket: Bucket,
        time: i64,
        patience: Duration,
    ) -> Result<Offset, RouteError<LogReadError>> {
        let question = move |at: At| async move {
            match at {
                At::Here(shard) => shard.offset_at(&bucket, time).await,
                At::There(peer) => {
                    Ok(peer.ask::<Offset>(Call::OffsetAt, &(bucket, time), Vec::new(), ANSWER).await?.0)
                }
            }
        };
        self.ask(self.shard(&bucket), patience, question).await
    }
}

async fn states_at(at: At, buckets: Vec<Bucket>) -> Result<Vec<State>, LookupError> {
    match at {
        At::Here(shard) => answer(&shard, &buckets).await,
        At::There(peer) => {
            let (states, _) = peer.ask::<Vec<State>>(Call::States, &buckets, Vec::new(), ANSWER).await?;
            if states.len() != buckets.len() {
                return Err(LookupError::Internal("other buckets were answered than were asked for".into()));
            }
            Ok(states)
        }
    }
}

/// How buckets of a shard are.
pub(super) async fn answer(shard: &Shard, buckets: &[Bucket]) -> Result<Vec<State>, LookupError> {
    let (id, token) = (shard.claim().shard(), shard.token());
    let state = |bucket: &Bucket| {
        let (count, bounds) = shard.count_rows(bucket);
        State { shard: id, token, bounds, count }
    };
    let states = buckets.iter().map(state).collect();
    // What a later owner has moved is not missed.
    if !shard.claim().hold().await {
        return Err(LookupError::NotOwned);
    }
    Ok(states)
}
