//! What a compactor asks the owners of shards, wherever they are.
//!
//! The host of this process answers by itself; other processes are asked through the gateways' internal API. Everything that is asked
//! may be asked again.

use async_trait::async_trait;
use wadi_meta::catalog::Dropped;
use wadi_model::{LogSeq, ShardId};

use crate::host::Host;
use crate::shard::{Deletable, PackError, Round, Shard};
use crate::stored::PackName;

/// The owners of a cluster's shards.
#[async_trait]
pub trait Owners: std::fmt::Debug + Send + Sync {
    /// The next round of packing or merging; see [`Shard::next_round`].
    async fn next_round(&self, shard: ShardId) -> Result<Option<Round>, PackError>;

    /// Takes the packs of a round; see [`Shard::commit_packs`].
    async fn commit_packs(&self, shard: ShardId, round: Round, packs: Vec<PackName>)
    -> Result<(), PackError>;

    /// Trims what has expired or was dropped, and says how many buckets that changed; see [`Shard::trim`].
    async fn trim(&self, shard: ShardId) -> Result<usize, PackError>;

    /// What may be deleted, log objects from behind `after` on; see [`Shard::deletable`].
    async fn deletable(&self, shard: ShardId, after: LogSeq) -> Result<Deletable, PackError>;

    /// Notes what was deleted; see [`Shard::note_deleted`].
    async fn note_deleted(&self, shard: ShardId, gone: Deletable) -> Result<(), PackError>;

    /// Which of these packs are known; see [`Shard::known_packs`].
    async fn known_packs(&self, shard: ShardId, packs: Vec<PackName>) -> Result<Vec<PackName>, PackError>;

    /// Bytes of the shard's log that no pack holds yet; see [`Shard::unpacked_bytes`].
    async fn unpacked_bytes(&self, shard: ShardId) -> Result<u64, PackError>;

    /// Of which of these something is left; see [`Shard::remains`].
    async fn remains(&self, shard: ShardId, dropped: Vec<Dropped>) -> Result<Vec<Dropped>, PackError>;
}

#[async_trait]
impl Owners for Host {
    async fn next_round(&self, shard: ShardId) -> Result<Option<Round>, PackError> {
        open(self, shard)?.next_round().await
    }

    async fn commit_packs(
        &self,
        shard: ShardId,
        round: Round,
        packs: Vec<PackName>,
    ) -> Result<(), PackError> {
        open(self, shard)?.commit_packs(round, packs).await
    }

    async fn trim(&self, shard: ShardId) -> Result<usize, PackError> {
        open(self, shard)?.trim().await
    }

    async fn deletable(&self, shard: ShardId, after: LogSeq) -> Result<Deletable, PackError> {
        open(self, shard)?.deletable(after).await
    }

    async fn note_deleted(&self, shard: ShardId, gone: Deletable) -> Result<(), PackError> {
        open(self, shard)?.note_deleted(gone).await
    }

    async fn known_packs(&self, shard: ShardId, packs: Vec<PackName>) -> Result<Vec<PackName>, PackError> {
        Ok(open(self, shard)?.known_packs(&packs))
    }

    async fn unpacked_bytes(&self, shard: ShardId) -> Result<u64, PackError> {
        Ok(open(self, shard)?.unpacked_bytes())
    }

    async fn remains(&self, shard: ShardId, dropped: Vec<Dropped>) -> Result<Vec<Dropped>, PackError> {
        open(self, shard)?.remains(&dropped).await
    }
}

fn open(host: &Host, shard: ShardId) -> Result<Shard, PackError> {
    host.open_shard(shard).ok_or(PackError::NotOwned)
}
