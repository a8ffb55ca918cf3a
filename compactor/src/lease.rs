//! The lease of a shard, as its works see it.

use tokio::sync::watch;
use wadi_meta::Compare;
use wadi_model::ShardId;

/// That a shard is ours to work on. Clones are the same lease.
#[derive(Clone, Debug)]
pub struct Lease {
    shard: ShardId,
    fence: Compare,
    over: watch::Receiver<bool>,
}

impl Lease {
    pub(crate) fn new(shard: ShardId, fence: Compare, over: watch::Receiver<bool>) -> Lease {
        Lease { shard, fence, over }
    }

    /// The shard.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// Holds as long as the lease is ours: to be compared by every change in the meta store that rests on it.
    pub fn fence(&self) -> Compare {
        self.fence.clone()
    }

    /// Waits until the works of the shard are to end.
    pub async fn over(&self) {
        // A dropped sender ends them too.
        let _ = self.over.clone().wait_for(|over| *over).await;
    }
}
