//! Any gateway answers any request: finding the owner of a bucket's shard, here or elsewhere, and asking it.
//!
//! * [`Route`] is what the gateway's calls use. Each of its questions finds the owner, asks, and looks again when the shard has moved
//!   meanwhile, until the answer is there or patience is over. So a client sees one answer, whatever moves behind it.
//! * An [`append`](Route::append) that goes to another gateway has a stamp, its client's or one of ours ([`lanes`]): when no answer
//!   comes it is sent again, to whoever owns the shard then, and is written once (L3). Parts of one request for one gateway go together
//!   ([`parcel`]).
//! * Durable rows of a log are read here, by references from the owner ([`log`]); bytes go through no second gateway.
//! * [`peers`] is the way to other gateways, HTTP in earnest and a lossy link in the simulation; [`serve`] is the other side of it.
//!
//! An owner checks its claim at the end of each answer, so an answer is as good as a local one (F1, K3).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{Instrument, Span};
use wadi_model::{Bucket, ErrorKind, Fault, ShardId, Told};

use crate::host::{Host, Located, NotOpen, Owner};
use crate::shard::{LogReadError, LookupError, Shard};
use crate::trace::TARGET;
use follow::Followers;
use lanes::Lanes;
use rows::Kept;

pub use follow::Changes;
pub use peers::{Call, NoPeers, Peers, Unanswered};
pub use rows::{Scan, Snapshot};
pub use states::State;

mod append;
mod follow;
mod keys;
mod lanes;
mod log;
mod message;
mod parcel;
mod part;
mod peers;
mod rows;
mod serve;
mod states;

/// Before a shard that has just moved is looked for again.
const AGAIN: Duration = Duration::from_millis(20);

/// How long one question to another gateway may take. A read from a cold database takes its time; whoever is silent for longer is
/// asked again, if patience is left.
const ANSWER: Duration = Duration::from_secs(10);

/// The way to the owners of all shards. Clones are the same.
#[derive(Clone, Debug)]
pub struct Route {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    host: Host,
    peers: Arc<dyn Peers>,
    lanes: Lanes,
    followers: Followers,
    /// Snapshots that other gateways read page by page.
    kept: Kept,
}

/// The owner of a shard.
#[derive(Clone, Debug)]
enum At {
    Here(Shard),
    There(Peer),
}

/// The owner of a shard in another process.
#[derive(Clone, Debug)]
struct Peer {
    peers: Arc<dyn Peers>,
    owner: Owner,
    shard: ShardId,
}

/// Why a question to another gateway has no good answer.
#[derive(Debug)]
enum NoGood {
    Unanswered(Unanswered),
    Told(Told),
}

impl Peer {
    /// Asks, and gives what was answered. The error says what the owner said, or that it said nothing.
    async fn ask<A: DeserializeOwned>(
        &self,
        call: Call,
        head: &impl Serialize,
        sections: Vec<Bytes>,
        patience: Duration,
    ) -> Result<(A, Vec<Bytes>), NoGood> {
        let (address, message) = (&self.owner.address, message::write(head, sections));
        let unanswered = |unsent: bool, why: String| {
            let why = format!("gateway {} at {address}: {why}", self.owner.gateway);
            NoGood::Unanswered(Unanswered { unsent, why })
        };
        let (call_name, gateway) = (call.name(), &self.owner.gateway);
        // What is asked beside all requests belongs to no trace.
        let span = match Span::current().is_none() {
            true => Span::none(),
            false => {
                tracing::debug_span!(target: TARGET, "forward", otel.kind = "client", shard = i64::from(self.shard.0), call = call_name, %gateway)
            }
        };
        let answer = self.peers.ask(address, self.shard, call, message, patience).instrument(span).await;
        let answer = answer.map_err(|e| unanswered(e.unsent, e.why))?;
        let read = message::read::<Result<A, Told>>(&answer);
        let (answer, sections) = read.map_err(|e| unanswered(false, e.to_string()))?;
        Ok((answer.map_err(NoGood::Told)?, sections))
    }
}

/// A question was not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RouteError<E: Fault> {
    /// The shard has no owner that answers.
    #[error(transparent)]
    NotOpen(NotOpen),
    /// The owner's answer.
    #[error(transparent)]
    Said(E),
}

impl<E: Fault> From<E> for RouteError<E> {
    fn from(error: E) -> RouteError<E> {
        RouteError::Said(error)
    }
}

impl<E: Fault + 'static> Fault for RouteError<E> {
    fn kind(&self) -> ErrorKind {
        match self {
            RouteError::NotOpen(error) => error.kind(),
            RouteError::Said(error) => error.kind(),
        }
    }

    fn code(&self) -> &str {
        match self {
            RouteError::NotOpen(error) => error.code(),
            RouteError::Said(error) => error.code(),
        }
    }
}

/// An answer after which the owner is looked for again.
trait Elsewhere {
    /// Whether the shard is, or may be, elsewhere by now. Only for questions that change nothing.
    fn is_elsewhere(&self) -> bool;
}

impl Elsewhere for LookupError {
    fn is_elsewhere(&self) -> bool {
        matches!(self, LookupError::NotOwned | LookupError::Unreachable(_))
    }
}

impl Elsewhere for LogReadError {
    fn is_elsewhere(&self) -> bool {
        matches!(self, LogReadError::NotOwned | LogReadError::Unreachable(_))
    }
}

impl From<NoGood> for LookupError {
    fn from(error: NoGood) -> LookupError {
        match error {
            NoGood::Unanswered(none) => LookupError::Unreachable(none.why),
            NoGood::Told(told) => told.into(),
        }
    }
}

impl From<NoGood> for LogReadError {
    fn from(error: NoGood) -> LogReadError {
        match error {
            NoGood::Unanswered(none) => LogReadError::Unreachable(none.why),
            NoGood::Told(told) => told.into(),
        }
    }
}

impl Route {
    /// The way from a host's process.
    pub fn new(host: Host, peers: Arc<dyn Peers>) -> Route {
        let lanes = Lanes::new(host.gateway());
        let (followers, kept) = (Followers::default(), Kept::default());
        Route { inner: Arc::new(Inner { host, peers, lanes, followers, kept }) }
    }

    /// The shards of this process.
    pub fn host(&self) -> &Host {
        &self.inner.host
    }

    /// The shard of a bucket.
    pub fn shard(&self, bucket: &Bucket) -> ShardId {
        bucket.shard(self.inner.host.cluster().shards)
    }

    fn peer(&self, shard: ShardId, owner: Owner) -> Peer {
        Peer { peers: self.inner.peers.clone(), owner, shard }
    }

    /// The owner of a shard; waits for one until the deadline.
    async fn at(&self, shard: ShardId, deadline: Instant) -> Result<At, NotOpen> {
        let host = &self.inner.host;
        let mut moves = host.moves();
        loop {
            moves.mark();
            let note = match host.locate(shard).await {
                Located::Here(open) => return Ok(At::Here(open)),
                Located::There(owner) => return Ok(At::There(self.peer(shard, owner))),
                Located::Nowhere(note) => note,
            };
            if timeout_at(deadline, moves.next()).await.is_err() {
                return Err(NotOpen { shard, note });
            }
        }
    }

    /// Asks the owner of a shard something that changes nothing, again if it moves meanwhile.
    async fn ask<T, E, F>(
        &self,
        shard: ShardId,
        patience: Duration,
        question: impl Fn(At) -> F,
    ) -> Result<T, RouteError<E>>
    where
        E: Fault + Elsewhere,
        F: Future<Output = Result<T, E>>,
    {
        let deadline = Instant::now() + patience;
        loop {
            let at = self.at(shard, deadline).await.map_err(RouteError::NotOpen)?;
            match question(at).await {
                Err(error) if error.is_elsewhere() && Instant::now() + AGAIN < deadline => sleep(AGAIN).await,
                answer => return answer.map_err(RouteError::Said),
            }
        }
    }
}
