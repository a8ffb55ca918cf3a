//! Parts of one request for one other gateway go together, in one message: what a message costs is more than what a small part costs.
//!
//! That is only their first try. Each part has its own answer, and goes on alone from there (`append`): to the next owner if the shard has
//! moved, again under its stamp if no answer came.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{join, join_all};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use wadi_model::{ShardId, Told};

use super::append::{PATIENCE, Sending, Tried, no_good, said};
use super::part::{self, PartHead};
use super::{Call, NoGood, Peer, Route, RouteError};
use crate::host::Owner;
use crate::shard::{AppendError, Appended, Part};

/// Parts and bytes of a parcel. What is larger gains nothing by it, and makes the others wait.
const MOST_PARTS: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// A part in a parcel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Item {
    pub(super) shard: ShardId,
    pub(super) part: PartHead,
    /// How many of the sections are its own.
    pub(super) sections: usize,
}

type Outcome = Result<Appended, RouteError<AppendError>>;

impl Route {
    /// Appends the parts of a request, all at once; their outcomes are in their order. See [`append`](Route::append).
    pub async fn append_all(&self, parts: Vec<Part>, patience: Duration) -> Vec<Outcome> {
        let deadline = Instant::now() + patience;
        let (mut alone, mut together) = (Vec::new(), BTreeMap::new());
        for (place, part) in parts.into_iter().enumerate() {
            match self.elsewhere(self.shard(&part.bucket)) {
                Some(owner) => {
                    let (_, parts) =
                        together.entry(owner.address.clone()).or_insert_with(|| (owner, Vec::new()));
                    parts.push((place, part));
                }
                None => alone.push((place, part)),
            }
        }
        let alone =
            alone.into_iter().map(|(place, part)| async move { (place, self.append(part, patience).await) });
        let together =
            together.into_values().map(|(owner, parts)| self.append_together(owner, parts, deadline));
        let (mut outcomes, together) = join(join_all(alone), join_all(together)).await;
        outcomes.extend(together.into_iter().flatten());
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// The owner of a shard that is at another gateway, as it was known last.
    fn elsewhere(&self, shard: ShardId) -> Option<Owner> {
        let host = &self.inner.host;
        if host.open_shard(shard).is_some() {
            return None;
        }
        host.owner(shard).filter(|owner| owner.gateway != host.gateway())
    }

    async fn append_together(
        &self,
        owner: Owner,
        parts: Vec<(usize, Part)>,
        deadline: Instant,
    ) -> Vec<(usize, Outcome)> {
        let prepare = |(place, part)| async move { (place, self.prepare(part).await) };
        let (mut outcomes, mut parcels) = (Vec::new(), Vec::<(usize, Vec<_>)>::new());
        for (place, prepared) in join_all(parts.into_iter().map(prepare)).await {
            let sending = match prepared {
                Ok(sending) => sending,
                Err(error) => {
                    outcomes.push((place, Err(RouteError::Said(error))));
                    continue;
                }
            };
            let size = sending.part.held();
            match parcels.last_mut() {
                Some((bytes, parcel)) if *bytes + size <= MOST_BYTES && parcel.len() < MOST_PARTS => {
                    *bytes += size;
                    parcel.push((place, sending));
                }
                _ => parcels.push((size, vec![(place, sending)])),
            }
        }
        let bring = parcels.into_iter().map(|(_, parcel)| self.bring_parcel(owner.clone(), parcel, deadline));
        outcomes.extend(join_all(bring).await.into_iter().flatten());
        outcomes
    }

    async fn bring_parcel<'a>(
        &'a self,
        owner: Owner,
        parcel: Vec<(usize, Sending<'a>)>,
        deadline: Instant,
    ) -> Vec<(usize, Outcome)> {
        let (places, mut parts): (Vec<usize>, Vec<Sending<'_>>) = parcel.into_iter().unzip();
        let mut tried: Vec<Option<Tried>> = Vec::new();
        if parts.len() > 1 {
            parts = parts.into_iter().map(|part| part.stamped(&self.inner.lanes)).collect();
            let peer = self.peer(parts[0].shard, owner);
            tried = send_all(&peer, &parts).await.into_iter().map(Some).collect();
        }
        tried.resize_with(parts.len(), || None);
        let bring = |(sending, tried)| async move {
            match tried {
                Some(Ok(appended)) => Ok(appended),
                tried => self.bring(sending, tried, deadline).await,
            }
        };
        let outcomes = join_all(parts.into_iter().zip(tried).map(bring)).await;
        places.into_iter().zip(outcomes).collect()
    }
}

/// Sends parts to the gateway that owns their shards. What was sent is answered for each.
async fn send_all(peer: &Peer, parts: &[Sending<'_>]) -> Vec<Tried> {
    let all =
        |error: &dyn Fn(&Sending<'_>) -> AppendError| parts.iter().map(|part| Err(error(part))).collect();
    let (mut items, mut sections): (Vec<Item>, Vec<Bytes>) = (Vec::new(), Vec::new());
    for sending in parts {
        match part::write(&sending.part) {
            Ok((part, own)) => {
                items.push(Item { shard: sending.shard, part, sections: own.len() });
                sections.extend(own);
            }
            Err(error) => return all(&|_| error.clone()),
        }
    }
    match peer.ask::<Vec<Result<Appended, Told>>>(Call::AppendAll, &items, sections, PATIENCE).await {
        Ok((answers, _)) if answers.len() == parts.len() => {
            let told = |(answer, sending): (Result<Appended, Told>, &Sending<'_>)| {
                answer.map_err(|told| said(told, &sending.part))
            };
            answers.into_iter().zip(parts).map(told).collect()
        }
        // They were received, and nobody knows what became of which.
        Ok(_) => all(&|_| AppendError::OutcomeUnknown),
        Err(NoGood::Told(told)) => all(&|sending| said(told.clone(), &sending.part)),
        Err(NoGood::Unanswered(none)) => {
            all(&|sending| no_good(NoGood::Unanswered(none.clone()), &sending.part))
        }
    }
}
