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
use wadi_model::{ShardId, Told};

use super::lanes::{Lanes, Taken};
use super::part::{self, PartHead};
use super::{AGAIN, ANSWER, At, Call, NoGood, Peer, Route, RouteError};
use crate::context::Share;
use crate::shard::{self, AppendError, Appended, Part, Prepared, Shard};
use crate::trace::TARGET;

/// The longest wait for an answer: a PUT and its repetitions, with what waits before it.
pub(super) const PATIENCE: Duration = ANSWER;

/// A part on its way, until its outcome is known.
pub(super) struct Sending<'a> {
    pub(super) shard: ShardId,
    pub(super) part: Prepared,
    /// What it holds of the budget, until its shard here has it.
    share: Option<Share>,
    lane: Option<Taken<'a>>,
    /// Whether an earlier try may have been written.
    doubt: bool,
}

/// What became of a try.
pub(super) type Tried = Result<Appended, AppendError>;

impl<'a> Sending<'a> {
    /// The part with a stamp, by which it is known when it comes a second time.
    pub(super) fn stamped(mut self, lanes: &'a Lanes) -> Sending<'a> {
        if self.part.stamp.is_none() {
            self.part.stamp = Some(self.lane.insert(lanes.take()).stamp().clone());
        }
        self
    }
}

impl Route {
    /// Appends a part to its bucket, wherever that is, and waits until it is durable and readable. `patience` is for finding its
    /// owner; it is over when the outcome of a try is in doubt for longer.
    pub async fn append(&self, part: Part, patience: Duration) -> Result<Appended, RouteError<AppendError>> {
        let deadline = Instant::now() + patience;
        let sending = self.prepare(part).await?;
        self.bring(sending, None, deadline).await
    }

    pub(super) async fn prepare(&self, part: Part) -> Result<Sending<'_>, AppendError> {
        let shard = self.shard(&part.bucket);
        let (part, share) = shard::prepare(self.inner.host.context(), part).await?;
        Ok(Sending { shard, part, share: Some(share), lane: None, doubt: false })
    }

    /// Brings a part to its owner, however often it takes. It may have been tried once already.
    pub(super) async fn bring<'a>(
        &'a self,
        sending: Sending<'a>,
        tried: Option<Tried>,
        deadline: Instant,
    ) -> Result<Appended, RouteError<AppendError>> {
        let span = tracing::debug_span!(target: TARGET, "route", shard = i64::from(sending.shard.0));
        self.bring_on(sending, tried, deadline).instrument(span).await
    }

    async fn bring_on<'a>(
        &'a self,
        mut sending: Sending<'a>,
        mut tried: Option<Tried>,
        deadline: Instant,
    ) -> Result<Appended, RouteError<AppendError>> {
        let unknown = || RouteError::Said(AppendError::OutcomeUnknown);
        loop {
            let outcome = match tried.take() {
                Some(outcome) => outcome,
                None => match self.at(sending.shard, deadline).await {
                    Ok(At::Here(shard)) => self.append_here(&shard, &mut sending).await,
                    Ok(At::There(peer)) => {
                        sending = sending.stamped(&self.inner.lanes);
                        send(&peer, &sending.part).await
                    }
                    Err(_) if sending.doubt => return Err(unknown()),
                    Err(not_open) => return Err(RouteError::NotOpen(not_open)),
                },
            };
            let late = Instant::now() + AGAIN >= deadline;
            match outcome {
                Ok(appended) => return Ok(appended),
                Err(AppendError::NotOwned | AppendError::Unreachable(_)) if !late => {}
                Err(AppendError::OutcomeUnknown) => {
                    sending.doubt = true;
                    if late || sending.part.stamp.is_none() {
                        return Err(unknown());
                    }
                }
                Err(AppendError::InFlight { .. }) if sending.doubt && !late => {}
                Err(_) if sending.doubt => return Err(unknown()),
                Err(error) => return Err(RouteError::Said(error)),
            }
            sleep(AGAIN).await;
        }
        // The lane is free again with the end of this call: nobody sends its request any more.
    }

    async fn append_here(&self, shard: &Shard, sending: &mut Sending<'_>) -> Tried {
        let again = sending.part.again().ok_or_else(|| internal("the part was merged before it was sent"))?;
        let memory = &self.inner.host.context().memory;
        let share = sending.share.take().or_else(|| memory.try_take(again.held()));
        shard.append_prepared(again, share.ok_or(AppendError::Overloaded)?).await
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
        Err(none) => Err(no_good(none, part)),
    }
}

/// What it means for a part that there is no good answer.
pub(super) fn no_good(none: NoGood, part: &Prepared) -> AppendError {
    match none {
        NoGood::Told(told) => said(told, part),
        NoGood::Unanswered(none) if none.unsent => AppendError::Unreachable(none.why),
        NoGood::Unanswered(none) => {
            tracing::debug!(bucket = %part.bucket, why = none.why, "no answer to a part; sending it again");
            AppendError::OutcomeUnknown
        }
    }
}

pub(super) fn said(told: Told, part: &Prepared) -> AppendError {
    AppendError::told(told, part.stamp.as_ref())
}
