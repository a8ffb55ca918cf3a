//! Appends: a part goes to the owner of its shard until its outcome is known.
//!
//! What counts is what the last try says, and whether an earlier one may have been written:
//!
//! | try | then |
//! | --- | --- |
//! | appended | done; a part that was there already has its first offsets |
//! | the shard is not there, or nothing was sent | nothing was written; find the owner again |
//! | no answer, or the owner does not know | it may be written; with a stamp send it again, the stamp finds out |
//! | our earlier try is in flight | wait and ask again |
//! | refused | nothing was written, unless an earlier try may have been |

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tracing::Instrument;
use wadi_model::Told;

use super::lanes::Taken;
use super::part::{self, PartHead};
use super::{AGAIN, ANSWER, At, Call, NoGood, Peer, Route, RouteError};
use crate::shard::{self, AppendError, Appended, Part, Prepared};
use crate::trace::TARGET;

/// The longest wait for an answer: a PUT and its repetitions, with what waits before it.
const PATIENCE: Duration = ANSWER;

impl Route {
    /// Appends a part to its bucket, wherever that is, and waits until it is durable and readable. `patience` is for finding its
    /// owner; it is over when the outcome of a try is in doubt for longer.
    pub async fn append(&self, part: Part, patience: Duration) -> Result<Appended, RouteError<AppendError>> {
        let span =
            tracing::debug_span!(target: TARGET, "route", shard = i64::from(self.shard(&part.bucket).0));
        self.append_part(part, patience).instrument(span).await
    }

    async fn append_part(&self, part: Part, patience: Duration) -> Result<Appended, RouteError<AppendError>> {
        let deadline = Instant::now() + patience;
        let shard = self.shard(&part.bucket);
        let context = self.inner.host.context();
        let (mut prepared, share) = shard::prepare(context, part).await?;
        let mut share = Some(share);
        let mut lane: Option<Taken<'_>> = None;
        let mut doubt = false;
        let unknown = || RouteError::Said(AppendError::OutcomeUnknown);
        loop {
            let at = match self.at(shard, deadline).await {
                Ok(at) => at,
                Err(_) if doubt => return Err(unknown()),
                Err(not_open) => return Err(RouteError::NotOpen(not_open)),
            };
            let tried = match at {
                At::Here(shard) => {
                    let again =
                        prepared.again().ok_or_else(|| internal("the part was merged before it was sent"))?;
                    let held = match share.take().or_else(|| context.memory.try_take(again.held())) {
                        Some(held) => Ok(held),
                        None => Err(AppendError::Overloaded),
                    };
                    match held {
                        Ok(held) => shard.append_prepared(again, held).await,
                        Err(error) => Err(error),
                    }
                }
                At::There(peer) => {
                    if prepared.stamp.is_none() {
                        prepared.stamp = Some(lane.insert(self.inner.lanes.take()).stamp().clone());
                    }
                    send(&peer, &prepared).await
                }
            };
            let late = Instant::now() + AGAIN >= deadline;
            match tried {
                Ok(appended) => return Ok(appended),
                Err(AppendError::NotOwned | AppendError::Unreachable(_)) if !late => {}
                Err(AppendError::OutcomeUnknown) => {
                    doubt = true;
                    if late || prepared.stamp.is_none() {
                        return Err(unknown());
                    }
                }
                Err(AppendError::InFlight { .. }) if doubt && !late => {}
                Err(_) if doubt => return Err(unknown()),
                Err(error) => return Err(RouteError::Said(error)),
            }
            sleep(AGAIN).await;
        }
        // The lane is free again with the end of this call: nobody sends its request any more.
    }
}

fn internal(why: &str) -> AppendError {
    AppendError::Internal(why.to_owned())
}

/// Sends a part to its owner.
async fn send(peer: &Peer, part: &Prepared) -> Result<Appended, AppendError> {
    let (head, sections): (PartHead, Vec<Bytes>) = part::write(part)?;
    match peer.ask::<Appended>(Call::Append, &head, sections, PATIENCE).await {
        Ok((appended, _)) => Ok(appended),
        Err(NoGood::Told(told)) => Err(said(told, part)),
        Err(NoGood::Unanswered(none)) if none.unsent => Err(AppendError::Unreachable(none.why)),
        Err(NoGood::Unanswered(none)) => {
            tracing::debug!(shard = %peer.shard, why = none.why, "no answer to a part; sending it again");
            Err(AppendError::OutcomeUnknown)
        }
    }
}

fn said(told: Told, part: &Prepared) -> AppendError {
    AppendError::told(told, part.stamp.as_ref())
}
