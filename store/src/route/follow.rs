//! Waiting for rows: a signal for each shard that moves when it has newer ones, wherever its owner is.
//!
//! A shard that is here has one of its own. For others one question per shard is open at its owner as long as anybody waits here, and
//! is answered when there are newer rows.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use wadi_model::{Bucket, LogSeq, ShardId, Token};

use super::{At, Call, Inner, Route};
use crate::host::Located;
use crate::shard::{LookupError, Shard};
use crate::task;

/// How long an owner lets a question wait.
const WAIT: Duration = Duration::from_secs(10);

/// How much longer the answer may take.
const GRACE: Duration = Duration::from_secs(5);

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// How new the rows of a shard are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Newest {
    /// The owner; what another one says is always news.
    token: Token,
    /// The newest log object that is readable.
    seq: LogSeq,
}

/// The shards elsewhere that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Followers(Mutex<BTreeMap<ShardId, Weak<watch::Sender<Newest>>>>);

/// Moves when a shard has, or may have, newer rows.
#[derive(Debug)]
pub struct Changes(Source);

#[derive(Debug)]
enum Source {
    Here(watch::Receiver<LogSeq>),
    There(watch::Receiver<Newest>),
}

impl Changes {
    /// Only what happens from now on counts.
    pub fn mark(&mut self) {
        match &mut self.0 {
            Source::Here(changes) => changes.mark_unchanged(),
            Source::There(changes) => changes.mark_unchanged(),
        }
    }

    /// Waits for newer rows. A shard that moves away counts too.
    pub async fn next(&mut self) {
        // A closed channel means that the shard has ended or moved: whoever waits looks again.
        match &mut self.0 {
            Source::Here(changes) => drop(changes.changed().await),
            Source::There(changes) => drop(changes.changed().await),
        }
    }
}

impl Route {
    /// The signal of a bucket's shard. Made before a read, it misses nothing that comes after the read.
    pub async fn changes(&self, bucket: &Bucket) -> Changes {
        let shard = self.shard(bucket);
        if let Located::Here(open) = self.inner.host.locate(shard).await {
            return Changes(Source::Here(open.changes()));
        }
        let mut all = self.inner.followers.0.lock();
        all.retain(|_, follower| follower.strong_count() > 0);
        if let Some(follower) = all.get(&shard).and_then(Weak::upgrade) {
            return Changes(Source::There(follower.subscribe()));
        }
        let (tell, changes) = watch::channel(Newest::default());
        let tell = Arc::new(tell);
        all.insert(shard, Arc::downgrade(&tell));
        task::spawn(follow(Arc::downgrade(&self.inner), shard, tell));
        Changes(Source::There(changes))
    }
}

/// Asks the owner of a shard again and again, as long as anybody waits.
async fn follow(inner: Weak<Inner>, shard: ShardId, tell: Arc<watch::Sender<Newest>>) {
    loop {
        if tell.is_closed() {
            return;
        }
        let Some(inner) = inner.upgrade() else { return };
        let route = Route { inner };
        let known = *tell.borrow();
        let asked = async {
            match route.at(shard, Instant::now() + WAIT).await {
                Ok(At::There(peer)) => {
                    let asked = peer.ask::<Newest>(Call::Wait, &known, Vec::new(), WAIT + GRACE);
                    asked.await.ok().map(|(newest, _)| newest)
                }
                // It has come here. Whoever asks again gets the shard's own signal; who has waited since before gets it from here.
                Ok(At::Here(open)) => answer(&open, known).await.ok(),
                Err(_) => None,
            }
        };
        let newest = tokio::select! {
            biased;
            () = tell.closed() => return,
            newest = asked => newest,
        };
        match newest {
            Some(newest) => {
                tell.send_if_modified(|known| std::mem::replace(known, newest) != newest);
            }
            None => sleep(PAUSE).await,
        }
    }
}

/// Answers when the shard has something newer than what is known, or after a while.
pub(super) async fn answer(shard: &Shard, known: Newest) -> Result<Newest, LookupError> {
    let mut changes = shard.changes();
    let now = |seq: LogSeq| Newest { token: shard.token(), seq };
    let newer = async {
        loop {
            let newest = now(*changes.borrow_and_update());
            if newest != known || changes.changed().await.is_err() {
                return newest;
            }
        }
    };
    let newest = match timeout(WAIT, newer).await {
        Ok(newest) => newest,
        Err(_) => known,
    };
    if !shard.claim().hold().await {
        return Err(LookupError::NotOwned);
    }
    Ok(newest)
}
