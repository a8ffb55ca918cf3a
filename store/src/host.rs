//! The host of a gateway's shards: claims them, takes them over, watches them, and claims anew what ended.
//!
//! One session in the meta store stands for the gateway's life. In it, one keeper per shard runs the cycle: claim,
//! take over, serve until the shard ends, give the claim back, again. When the session is lost all shards of it end;
//! a new session begins without claims.
//!
//! Every gateway claims every shard that has no owner. How shards spread over several gateways is decided above, by
//! assignment; until then the first gateway has all, and another takes over what it loses.
//!
//! A takeover has no time of its own: a long log takes long, and while the object store is away it cannot end. It ends with
//! the session or the host; meanwhile [`Host::status`] says since when the shard is not open and why, and so does each refused request.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wadi_meta::members::Members;
use wadi_meta::{Compare, MetaErrorKind, MetaStore, Revision, Session, Txn, TxnOutcome};
use wadi_model::{Bucket, ShardId};

use crate::claim::Claim;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::shard::{Ended, Shard, TakeoverError, take_over};
use crate::task::{Crew, Owned};
use places::Places;

pub use places::{NotOpen, ShardStatus, State};
pub use relief::COMPACTORS;
pub(crate) use relief::relieve;

mod places;
mod relief;

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a keeper waits for another owner to go before it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Who owns a shard, as the meta store says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The gateway's id.
    pub gateway: String,
    /// Where it answers.
    pub address: String,
    /// Chosen anew for each claim, so that a claim with an unknown outcome is recognised.
    pub nonce: String,
}

/// Where the owner of a shard stands in the meta store.
pub fn owner_key(shard: ShardId) -> String {
    format!("shards/{shard}/owner")
}

/// The shards of one gateway. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
    keeper: Arc<Owned>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    meta: Arc<dyn MetaStore>,
    cluster: Cluster,
    gateway: String,
    address: String,
    places: Places,
    /// The compactors that are alive.
    compactors: Members,
    stopping: watch::Sender<bool>,
    stopped: watch::Sender<bool>,
    /// Set when this process must end: another one has taken its meta store.
    fenced: watch::Sender<Option<String>>,
}

impl Host {
    /// Begins to claim shards. `address` is where other gateways reach this one.
    pub fn start(context: Context, meta: Arc<dyn MetaStore>, cluster: Cluster, address: String) -> Host {
        let inner = Arc::new(Inner {
            gateway: format!("{:016x}", context.env.random()),
            places: Places::new(cluster.shards, context.env.clone()),
            compactors: Members::follow(meta.clone(), COMPACTORS),
            context,
            meta,
            cluster,
            address,
            stopping: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            fenced: watch::Sender::new(None),
        });
        let keeper = Arc::new(Owned::spawn(live(inner.clone())));
        Host { inner, keeper }
    }

    /// The surroundings of the shards.
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// The gateway's id.
    pub fn gateway(&self) -> &str {
        &self.inner.gateway
    }

    /// The open shard of a bucket; waits up to `patience` for one that is opening.
    pub async fn shard_of(&self, bucket: &Bucket, patience: Duration) -> Result<Shard, NotOpen> {
        let id = bucket.shard(self.inner.cluster.shards);
        let deadline = Instant::now() + patience;
        let mut moved = self.inner.places.moved();
        loop {
            moved.borrow_and_update();
            let note = match self.inner.places.get(id) {
                // Whoever asks for a shard will read or write it, so the lease is made sure of here.
                Ok(shard) if !shard.has_ended() => match shard.claim().hold().await {
                    true => return Ok(shard),
                    false => "its lease has run out".to_owned(),
                },
                Ok(_) => "it has just ended".to_owned(),
                Err(note) => note,
            };
            match tokio::time::timeout_at(deadline, moved.changed()).await {
                Ok(Ok(())) => {}
                _ => return Err(NotOpen { shard: id, note: self.with_illness(note) }),
            }
        }
    }

    /// A shard, if it is open here.
    pub fn open_shard(&self, shard: ShardId) -> Option<Shard> {
        self.inner.places.get(shard).ok().filter(|shard| !shard.has_ended())
    }

    /// Adds what is wrong with the object store, which may be what is behind it all.
    fn with_illness(&self, note: String) -> String {
        match self.inner.context.health.illness() {
            Some(illness) => format!("{note}; {illness}"),
            None => note,
        }
    }

    /// All shards of the cluster as this gateway sees them.
    pub fn status(&self) -> Vec<ShardStatus> {
        self.inner.places.status(self.inner.is_stopping())
    }

    /// Whether every shard is open here.
    pub fn is_ready(&self) -> bool {
        self.status().iter().all(|s| s.open)
    }

    /// Waits until this process must end because another one has taken its place, and says why.
    pub async fn fenced(&self) -> String {
        let mut fenced = self.inner.fenced.subscribe();
        match fenced.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives all shards up in good order and ends the session.
    pub async fn shutdown(&self) {
        let mut stopped = self.inner.stopped.subscribe();
        self.inner.stopping.send_replace(true);
        // The sender lives as long as we do, so this ends when the last session has.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        // The keeper goes with the last handle, as a crash would end it; here it has ended by itself.
        let _ = &self.keeper;
    }
}

impl Inner {
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    async fn until_stopping(&self) {
        let mut stopping = self.stopping.subscribe();
        if stopping.wait_for(|s| *s).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn closed(&self, shard: ShardId, note: String) {
        self.places.closed(shard, note);
        self.context.metrics.owned_shards.set(self.places.open() as i64);
    }
}

/// The gateway's life: one session after the other.
async fn live(inner: Arc<Inner>) {
    while !inner.is_stopping() {
        match inner.meta.session(inner.context.settings.lease_ttl).await {
            Ok(session) => live_in(&inner, session).await,
            Err(error) => {
                if error.kind() == MetaErrorKind::Fenced {
                    inner.fenced.send_replace(Some(error.to_string()));
                    break;
                }
                tracing::warn!(%error, "no session; trying again");
                sleep(PAUSE).await;
            }
        }
    }
    inner.stopped.send_replace(true);
}

async fn live_in(inner: &Arc<Inner>, session: Arc<dyn Session>) {
    let mut keepers = Crew::default();
    for shard in 0..inner.cluster.shards {
        keepers.spawn(keep(inner.clone(), ShardId(shard), session.clone()));
    }
    tokio::select! {
        biased;
        () = session.lost() => tracing::warn!("the session in the meta store was lost"),
        () = inner.until_stopping() => {}
    }
    // Each ends by itself once the session is lost or the host stops.
    keepers.join().await;
    if let Err(error) = session.close().await {
        if error.kind() == MetaErrorKind::Fenced {
            inner.fenced.send_replace(Some(error.to_string()));
        }
        tracing::debug!(%error, "the session did not close cleanly");
    }
}

/// Keeps one shard for as long as the session lives.
async fn keep(inner: Arc<Inner>, shard: ShardId, session: Arc<dyn Session>) {
    let key = owner_key(shard);
    while !session.is_lost() && !inner.is_stopping() {
        let revision = match claim(&inner, &key, session.as_ref()).await {
            Ok(Claimed::Ours(revision)) => revision,
            Ok(Claimed::Theirs { owner, created, .. }) if owner.gateway == inner.gateway => {
                // A claim of ours that we do not hold: it was not given back, or landed after we had given it up.
                let stray = Txn::new().when(Compare::created(&key, created)).delete(&key);
                if let Err(error) = inner.meta.txn(stray).await {
                    tracing::debug!(%shard, %error, "an old claim of ours was not taken away yet");
                    sleep(PAUSE).await;
                }
                continue;
            }
            Ok(Claimed::Theirs { owner, seen, .. }) => {
                inner.closed(shard, format!("gateway {} at {} has it", owner.gateway, owner.address));
                wait_for_change(&inner, &key, seen, session.as_ref()).await;
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
        let note = serve(&inner, &claim).await;
        claim.give_up();
        inner.closed(shard, note);
        let give_back = Txn::new().when(Compare::created(&key, revision)).delete(&key);
        if let Err(error) = inner.meta.txn(give_back).await {
            tracing::debug!(%shard, %error, "the claim was not given back; it ends with the session");
        }
        if !inner.is_stopping() {
            sleep(PAUSE).await;
        }
    }
}

/// Opens a claimed shard and serves it until it ends. Says why it ended.
async fn serve(inner: &Inner, claim: &Claim) -> String {
    let begun = Instant::now();
    let taken = tokio::select! {
        biased;
        taken = take_over(&inner.context, claim) => taken,
        () = claim.session().lost() => Err(TakeoverError::Superseded("the session was lost".into())),
        // While the object store is away it would not end by itself.
        () = inner.until_stopping() => Err(TakeoverError::Superseded("the gateway is stopping".into())),
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
        () = claim.session().lost() => {
            shard.abandon("the session was lost").await;
            shard.ended().await
        }
        () = inner.until_stopping() => {
            tokio::select! {
                biased;
                () = shard.release() => {}
                () = claim.session().lost() => shard.abandon("the session was lost while it was released").await,
            }
            shard.ended().await
        }
    };
    match ended {
        Ended::Released => "it was released".to_owned(),
        Ended::Poisoned(why) => why,
    }
}

enum Claimed {
    Ours(Revision),
    Theirs { owner: Owner, created: Revision, seen: Revision },
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
    Ok(Claimed::Theirs { owner: found, created: holder.created, seen: holder.modified })
}

async fn wait_for_change(inner: &Inner, key: &str, seen: Revision, session: &dyn Session) {
    let change = async {
        match inner.meta.watch(key, seen).await {
            Ok(mut watch) => drop(watch.next().await),
            Err(_) => sleep(LOOK_AGAIN).await,
        }
    };
    tokio::select! {
        biased;
        () = change => {}
        () = sleep(LOOK_AGAIN) => {}
        () = session.lost() => {}
        () = inner.until_stopping() => {}
    }
}
