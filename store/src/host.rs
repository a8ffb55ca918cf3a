//! The host of a gateway's shards: claims them, takes them over, watches them, and claims anew what ended.
//!
//! One session in the meta store stands for the gateway's life. In it the gateway announces itself, and one [`keeper`] per shard
//! runs the cycle: wait until the shard is to be ours ([`assignment`]), claim, take over, serve until the shard ends or is to be
//! another's, give the claim back, again. When the session is lost all shards of it end; a new session begins without claims.
//!
//! A gateway that is about to end says so ([`Host::leave`]): the others take its shards one by one as it gives them back, while it
//! still serves those that it has and finds the owners of the others. One that cannot write gives them away too ([`fitness`]).
//!
//! A takeover has no time of its own: a long log takes long, and while the object store is away it cannot end. It ends with
//! the session or the host; meanwhile [`Host::status`] says since when the shard is not open and why, and so does each refused request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use wadi_meta::followed::Followed;
use wadi_meta::members::{Members, announce};
use wadi_meta::{MetaErrorKind, MetaStore, Revision, Session};
use wadi_model::{Bucket, ShardId};

use crate::cluster::Cluster;
use crate::context::Context;
use crate::shard::Shard;
use crate::task::{Crew, Owned};
use assignment::Assignment;
use places::Places;

pub use assignment::{GATEWAYS, Member};
pub use places::{NotOpen, ShardStatus, State};
pub use relief::COMPACTORS;
#[cfg(test)]
pub(crate) use relief::relieve;

mod assignment;
mod fitness;
mod keeper;
mod places;
mod relief;

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// How often an outage of the meta store is told in the log.
const TELL_AGAIN: Duration = Duration::from_secs(10);

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

/// What the keys of owners begin with.
const SHARDS: &str = "shards/";

/// Where the owner of a shard stands in the meta store.
pub fn owner_key(shard: ShardId) -> String {
    format!("{SHARDS}{shard}/owner")
}

/// Where a shard is, as this gateway sees it.
#[derive(Clone, Debug)]
pub enum Located {
    /// Here.
    Here(Shard),
    /// At another gateway, which may have lost it meanwhile.
    There(Owner),
    /// Nowhere: it has no owner, or is being opened here; and why.
    Nowhere(String),
}

/// The shards of one gateway. Clones are the same host.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
    life: Arc<[Owned; 3]>,
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
    /// Who has which shard.
    owners: Followed,
    /// Who is to have which shard.
    assignment: watch::Sender<Arc<Assignment>>,
    /// Whether this gateway gives its shards away.
    leaving: watch::Sender<bool>,
    /// Why this gateway cannot write, if it cannot.
    unwell: watch::Sender<Option<String>>,
    /// Why the other gateways cannot reach this one, if they cannot.
    unreachable: watch::Sender<Option<String>>,
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
            owners: Followed::start(meta.clone(), SHARDS),
            assignment: watch::Sender::default(),
            leaving: watch::Sender::new(false),
            unwell: watch::Sender::new(None),
            unreachable: watch::Sender::new(None),
            context,
            meta,
            cluster,
            address,
            stopping: watch::Sender::new(false),
            stopped: watch::Sender::new(false),
            fenced: watch::Sender::new(None),
        });
        let life = [
            Owned::spawn(assign(inner.clone())),
            Owned::spawn(live(inner.clone())),
            Owned::spawn(fitness::watch(inner.clone())),
        ];
        Host { inner, life: Arc::new(life) }
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
        let shard = bucket.shard(self.inner.cluster.shards);
        let deadline = Instant::now() + patience;
        let mut moves = self.moves();
        loop {
            moves.mark();
            let note = match self.locate(shard).await {
                Located::Here(open) => return Ok(open),
                Located::There(owner) => has_it(&owner),
                Located::Nowhere(note) => note,
            };
            if tokio::time::timeout_at(deadline, moves.next()).await.is_err() {
                return Err(NotOpen { shard, note });
            }
        }
    }

    /// Where a shard is. Whoever asks will read or write it, so the lease of one that is here is made sure of.
    pub async fn locate(&self, shard: ShardId) -> Located {
        let note = match self.inner.places.get(shard) {
            Ok(open) if !open.has_ended() => match open.claim().hold().await {
                true => return Located::Here(open),
                false => "its lease has run out".to_owned(),
            },
            Ok(_) => "it has just ended".to_owned(),
            Err(note) => note,
        };
        match self.owner(shard) {
            Some(owner) if owner.gateway != self.inner.gateway => Located::There(owner),
            _ => Located::Nowhere(self.with_illness(note)),
        }
    }

    /// The owner of a shard, as the meta store said last.
    pub fn owner(&self, shard: ShardId) -> Option<Owner> {
        self.inner.owned(shard).map(|(owner, _)| owner)
    }

    /// Waits until a shard may be elsewhere than at the time of the call that made the handle.
    pub fn moves(&self) -> Moves {
        let (places, owners) = (self.inner.places.moved(), self.inner.owners.clone());
        Moves { places, owners }
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
        let mut all = self.inner.places.status();
        for status in all.iter_mut().filter(|status| !status.open) {
            let owned = self.inner.owned(status.shard);
            if let Some((owner, since)) = owned.filter(|(owner, _)| owner.gateway != self.inner.gateway) {
                status.token = Some(self.inner.cluster.token(since));
                status.owner = Some(owner);
            }
        }
        all
    }

    /// Whether every shard can be reached from here: each is open here, or another gateway has it. Not once the gateway leaves, nor
    /// while it is unwell and another one is not.
    pub fn is_ready(&self) -> bool {
        let others_are_fit = || self.gateways().values().any(Member::is_fit);
        !self.is_leaving()
            && (self.unwell().is_none() || !others_are_fit())
            && self.status().iter().all(|s| s.open || s.owner.is_some())
    }

    /// Why this gateway is not to have shards: it cannot write, or is not reached.
    pub fn unwell(&self) -> Option<String> {
        self.inner.unfit()
    }

    /// Says why the other gateways cannot reach this one, or that they can.
    pub fn set_unreachable(&self, why: Option<String>) {
        self.inner.unreachable.send_if_modified(|now| {
            // Another reason is none to announce it again.
            let changes = now.is_some() != why.is_some();
            if changes {
                match &why {
                    Some(why) => tracing::warn!(
                        why,
                        "the shards are given to other gateways, if there are any (--advertise)"
                    ),
                    None => tracing::info!("this gateway is reached at its address again"),
                }
                *now = why;
            }
            changes
        });
    }

    /// Whether it is about to end, see [`Host::leave`].
    pub fn is_leaving(&self) -> bool {
        *self.inner.leaving.borrow()
    }

    /// The gateways that are there, by id.
    pub fn gateways(&self) -> BTreeMap<String, Member> {
        self.inner.assignment.borrow().members().clone()
    }

    /// Takes back that it is about to end: it gets shards again.
    pub fn stay(&self) {
        self.inner.leaving.send_replace(false);
    }

    /// Gives all shards to other gateways, if there are any, and waits until those have them, or `patience` is over. Calls are
    /// answered as before. Says how many shards no other gateway has.
    pub async fn leave(&self, patience: Duration) -> usize {
        self.inner.leaving.send_replace(true);
        let (mut moves, mut assigned) = (self.moves(), self.inner.assignment.subscribe());
        let left = || self.status().iter().filter(|status| status.owner.is_none()).count();
        let given = async {
            loop {
                moves.mark();
                let (stays, said) = {
                    let assignment = assigned.borrow_and_update();
                    let us = assignment.members().get(&self.inner.gateway);
                    (
                        assignment.members().values().any(|member| !member.leaving),
                        us.is_some_and(|us| us.leaving),
                    )
                };
                if left() == 0 || (said && !stays) {
                    return;
                }
                tokio::select! {
                    biased;
                    () = moves.next() => {}
                    _ = assigned.changed() => {}
                }
            }
        };
        if tokio::time::timeout(patience, given).await.is_err() {
            tracing::warn!("not all shards were given to other gateways in time");
        }
        left()
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
        // Its tasks go with the last handle, as a crash would end them; here they have ended by themselves.
        let _ = &self.life;
    }
}

impl Inner {
    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Why others are to have the shards, if they are.
    fn unfit(&self) -> Option<String> {
        self.unwell.borrow().clone().or_else(|| self.unreachable.borrow().clone())
    }

    /// Who owns a shard, as the meta store said last, and since when.
    fn owned(&self, shard: ShardId) -> Option<(Owner, Revision)> {
        let key = format!("{shard}/owner");
        self.owners.look(|entries| {
            let entry = entries?.get(&key)?;
            Some((serde_json::from_slice(&entry.value).ok()?, entry.created))
        })
    }

    /// When the claim was made that the meta store still has of us for a shard, whether we hold it or not.
    fn claim_of_ours(&self, shard: ShardId) -> Option<Revision> {
        self.owned(shard).filter(|(owner, _)| owner.gateway == self.gateway).map(|(_, created)| created)
    }

    async fn until_stopping(&self) {
        let mut stopping = self.stopping.subscribe();
        if stopping.wait_for(|s| *s).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn until_unwell(&self) {
        let mut unwell = self.unwell.subscribe();
        if unwell.wait_for(Option::is_some).await.is_err() {
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
    let mut told: Option<Instant> = None;
    while !inner.is_stopping() {
        match inner.meta.session(inner.context.settings.lease_ttl).await {
            Ok(session) => {
                told = None;
                live_in(&inner, session).await;
            }
            Err(error) => {
                if error.kind() == MetaErrorKind::Fenced {
                    inner.fenced.send_replace(Some(error.to_string()));
                    break;
                }
                if told.is_none_or(|told| told.elapsed() >= TELL_AGAIN) {
                    told = Some(Instant::now());
                    tracing::warn!(%error, "no session; trying again");
                }
                sleep(PAUSE).await;
            }
        }
    }
    inner.stopped.send_replace(true);
}

async fn live_in(inner: &Arc<Inner>, session: Arc<dyn Session>) {
    let mut keepers = Crew::default();
    for shard in 0..inner.cluster.shards {
        keepers.spawn(keeper::keep(inner.clone(), ShardId(shard), session.clone()));
    }
    tokio::select! {
        biased;
        () = session.lost() => tracing::warn!("the session in the meta store was lost"),
        () = inner.until_stopping() => {}
        () = be_there(inner, session.as_ref()) => {}
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

/// Announces the gateway, again whenever what it says of itself has changed, for ever.
async fn be_there(inner: &Inner, session: &dyn Session) {
    let (mut leaving, mut unwell) = (inner.leaving.subscribe(), inner.unwell.subscribe());
    let mut unreachable = inner.unreachable.subscribe();
    loop {
        unwell.mark_unchanged();
        unreachable.mark_unchanged();
        let leaves = *leaving.borrow_and_update();
        let member = Member { address: inner.address.clone(), leaving: leaves, unwell: inner.unfit() };
        // Writing texts and a truth value as JSON cannot fail.
        let says = serde_json::to_vec(&member).unwrap_or_default();
        match announce(inner.meta.as_ref(), session, GATEWAYS, &inner.gateway, says).await {
            // The senders live as long as `inner`.
            Ok(()) => tokio::select! {
                biased;
                _ = leaving.changed() => {}
                _ = unwell.changed() => {}
                _ = unreachable.changed() => {}
            },
            Err(error) => {
                tracing::warn!(%error, "the gateway cannot announce itself; trying again");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Follows the gateways that are there, and works out who is to have which shard, for ever.
async fn assign(inner: Arc<Inner>) {
    let mut members = Members::follow(inner.meta.clone(), GATEWAYS);
    loop {
        members.changed().await;
        let shards = inner.cluster.shards;
        let now = members.look(|entries| entries.map(|entries| Assignment::of(shards, entries)));
        inner.assignment.send_replace(Arc::new(now.unwrap_or_default()));
    }
}

/// Says that another gateway has a shard.
fn has_it(owner: &Owner) -> String {
    format!("gateway {} at {} has it", owner.gateway, owner.address)
}

/// Tells when shards may have moved.
#[derive(Debug)]
pub struct Moves {
    places: watch::Receiver<u64>,
    owners: Followed,
}

impl Moves {
    /// Only what happens from now on counts.
    pub fn mark(&mut self) {
        self.places.borrow_and_update();
        self.owners.mark();
    }

    /// Waits until a shard has opened or ended here, or an owner has changed.
    pub async fn next(&mut self) {
        tokio::select! {
            biased;
            _ = self.places.changed() => {}
            () = self.owners.changed() => {}
        }
    }
}
