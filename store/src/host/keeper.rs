//! The keeper of one shard: waits until the shard is to be ours, claims it, takes it over, and serves it until it ends or is to be
//! another's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wadi_meta::{Compare, MetaErrorKind, Revision, Session, Txn, TxnOutcome};
use wadi_model::ShardId;

use super::assignment::Assignment;
use super::relief::relieve;
use super::{Inner, Owner, PAUSE, has_it, owner_key};
use crate::claim::Claim;
use crate::flaws::{self, Flaw};
use crate::shard::{Ended, TakeoverError, take_over};
use crate::task::Owned;

/// How long it waits for another owner to go before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The part of the assignment that says whether one shard is to be ours.
struct Wanted {
    shard: ShardId,
    assignment: watch::Receiver<Arc<Assignment>>,
}

impl Wanted {
    /// The gateway that is to have the shard, if it is another one; `None` if it is to be ours.
    fn elsewhere(&mut self, inner: &Inner) -> Option<String> {
        match self.assignment.borrow_and_update().wanted(self.shard) {
            Some(gateway) if gateway == inner.gateway => None,
            Some(gateway) => Some(format!("gateway {gateway} is to have it")),
            None => Some("who is to have it is not known yet".to_owned()),
        }
    }

    async fn changed(&mut self) {
        if self.assignment.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until another gateway is to have the shard.
    async fn gone(&mut self, inner: &Inner) -> String {
        loop {
            // While nobody is known to be there, what we have stays ours.
            let known = self.assignment.borrow().wanted(self.shard).is_some();
            if known && let Some(note) = self.elsewhere(inner) {
                return note;
            }
            self.changed().await;
        }
    }
}

/// Keeps one shard for as long as the session lives.
pub(super) async fn keep(inner: Arc<Inner>, shard: ShardId, session: Arc<dyn Session>) {
    let key = owner_key(shard);
    let mut wanted = Wanted { shard, assignment: inner.assignment.subscribe() };
    let mut owners = inner.owners.clone();
    while !session.is_lost() && !inner.is_stopping() {
        owners.mark();
        if let Some(note) = wanted.elsewhere(&inner) {
            inner.closed(shard, note);
            // Nobody else could have the shard for as long as the session lives.
            let stray = inner.claim_of_ours(shard);
            let failed = match stray {
                Some(created) => !take_away(&inner, &key, created).await,
                None => false,
            };
            tokio::select! {
                biased;
                () = session.lost() => {}
                () = inner.until_stopping() => {}
                () = wanted.changed() => {}
                () = owners.changed() => {}
                () = sleep(PAUSE), if failed => {}
            }
            continue;
        }
        let revision = match claim(&inner, &key, session.as_ref()).await {
            Ok(Claimed::Ours(revision)) => revision,
            Ok(Claimed::Theirs { owner, created, .. }) if owner.gateway == inner.gateway => {
                // A claim of ours that we do not hold: it was not given back, or landed after we had given it up.
                if !take_away(&inner, &key, created).await {
                    sleep(PAUSE).await;
                }
                continue;
            }
            Ok(Claimed::Theirs { owner, .. }) => {
                inner.closed(shard, has_it(&owner));
                tokio::select! {
                    biased;
                    () = session.lost() => {}
                    () = inner.until_stopping() => {}
                    () = wanted.changed() => {}
                    () = owners.changed() => {}
                    () = sleep(LOOK_AGAIN) => {}
                }
                continue;
            }
            Err(error) => {
                if error.kind() == MetaErrorKind::Fenced {
                    inner.fenced.send_replace(Some(error.to_string()));
                    return;
                }
                inner.closed(shard, format!("it could not be claimed: {error}"));
                sleep(PAUSE).await;
                continue;
            }
        };
        let claim = Claim::new(shard, inner.cluster.token(revision), session.clone());
        inner.places.opening(shard);
        let note = serve(&inner, &claim, &mut wanted).await;
        claim.give_up();
        inner.closed(shard, note);
        // If that fails it is found again above, or ends with the session.
        take_away(&inner, &key, revision).await;
        if !inner.is_stopping() {
            sleep(PAUSE).await;
        }
    }
}

/// Opens a claimed shard and serves it until it ends. Says why it ended.
async fn serve(inner: &Inner, claim: &Claim, wanted: &mut Wanted) -> String {
    let begun = Instant::now();
    let taken = tokio::select! {
        biased;
        taken = take_over(&inner.context, claim) => taken,
        () = claim.session().lost() => Err(TakeoverError::Superseded("the session was lost".into())),
        // While the object store is away it would not end by itself.
        () = inner.until_stopping() => Err(TakeoverError::Superseded("the gateway is stopping".into())),
        note = wanted.gone(inner) => Err(TakeoverError::Superseded(note)),
    };
    let shard = match taken {
        Ok(shard) => shard,
        Err(error) => {
            match &error {
                TakeoverError::Damaged(_) => {
                    tracing::error!(shard = %claim.shard(), %error, "a shard cannot be opened")
                }
                _ => tracing::warn!(shard = %claim.shard(), %error, "a takeover did not succeed"),
            }
            return error.to_string();
        }
    };
    let seconds = begun.elapsed().as_secs_f64();
    inner.context.metrics.takeover_seconds.observe(seconds);
    tracing::info!(shard = %claim.shard(), token = %claim.token(), seconds, "shard open");
    inner.places.opened(shard.clone());
    let relief =
        relieve(inner.context.clone(), claim.shard(), shard.database().clone(), inner.compactors.clone());
    let _relief = Owned::spawn(relief);
    inner.context.metrics.owned_shards.set(inner.places.open() as i64);
    let ended = tokio::select! {
        biased;
        ended = shard.ended() => ended,
        () = claim.session().lost(), if !flaws::has(Flaw::AcksLate) => {
            shard.abandon("the session was lost").await;
            shard.ended().await
        }
        () = inner.until_stopping() => release(inner, claim, &shard).await,
        note = wanted.gone(inner) => {
            tracing::info!(shard = %claim.shard(), note, "the shard is given back");
            release(inner, claim, &shard).await
        }
    };
    match ended {
        Ended::Released => "it was released".to_owned(),
        Ended::Poisoned(why) => why,
    }
}

/// Ends a shard in good order: what was acked is brought to its database, so that the next owner has little to replay. A gateway
/// that cannot write leaves that to the next owner.
async fn release(inner: &Inner, claim: &Claim, shard: &crate::shard::Shard) -> Ended {
    inner.places.releasing(claim.shard());
    tokio::select! {
        biased;
        () = shard.release() => {}
        () = claim.session().lost() => shard.abandon("the session was lost while it was released").await,
        () = inner.until_unwell() => shard.abandon("it could not be written while it was released").await,
    }
    shard.ended().await
}

/// Takes a claim of ours away that we do not hold any more. Whether it is certain that it is gone.
async fn take_away(inner: &Inner, key: &str, created: Revision) -> bool {
    let gone = inner.meta.txn(Txn::new().when(Compare::created(key, created)).delete(key)).await;
    if let Err(error) = &gone {
        tracing::debug!(key, %error, "a claim of ours was not given back yet");
    }
    gone.is_ok()
}

enum Claimed {
    Ours(Revision),
    Theirs { owner: Owner, created: Revision },
}

async fn claim(inner: &Inner, key: &str, session: &dyn Session) -> Result<Claimed, wadi_meta::MetaError> {
    let nonce = format!("{:032x}", inner.context.env.unique());
    let owner = Owner { gateway: inner.gateway.clone(), address: inner.address.clone(), nonce };
    // Writing three strings as JSON cannot fail.
    let value = serde_json::to_vec(&owner).unwrap_or_default();
    let txn = Txn::new().when(Compare::absent(key)).put_in(session.id(), key, value);
    let holder = match inner.meta.txn(txn).await {
        Ok(TxnOutcome::Committed(revision)) => return Ok(Claimed::Ours(revision)),
        Ok(TxnOutcome::Refused(found)) => found.into_iter().flatten().next(),
        // It may have been done: the nonce tells.
        Err(error) if error.kind() == MetaErrorKind::Unknown => inner.meta.get(key).await?,
        Err(error) => return Err(error),
    };
    let Some(holder) = holder else { return Box::pin(claim(inner, key, session)).await };
    let unreadable = Owner { gateway: "unknown".into(), address: "unknown".into(), nonce: String::new() };
    let found: Owner = serde_json::from_slice(&holder.value).unwrap_or(unreadable);
    if found.nonce == owner.nonce {
        return Ok(Claimed::Ours(holder.created));
    }
    Ok(Claimed::Theirs { owner: found, created: holder.created })
}
