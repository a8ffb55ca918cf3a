//! The shard's log becomes packs, and packs become larger ones, as its owner plans it.

use std::time::Duration;

use async_trait::async_trait;
use wadi_store::pack::Made;
use wadi_store::shard::{PackError, Round};
use wadi_store::stored::StoredObject;

use super::deletion::delete_all;
use super::{Failure, Work};
use crate::metrics::Debt;
use crate::{Ground, Lease};

/// The pause while there is more to do.
const SOON: Duration = Duration::from_millis(100);

/// The work on one shard's log.
pub(super) struct Packs {
    ground: Ground,
    debt: Debt,
}

impl Packs {
    pub(super) fn new(ground: Ground) -> Packs {
        let debt = ground.metrics.log_debt();
        Packs { ground, debt }
    }

    /// Makes the packs of a round and hands them to the owner.
    async fn pack(&self, lease: &Lease, round: Round) -> Result<(), Failure> {
        let Ground { owners, maker, metrics, .. } = &self.ground;
        let shard = lease.shard();
        let Made { packs, read, written } = maker.make(shard, &round).await?;
        metrics.pack_read_bytes.inc_by(read);
        metrics.pack_written_bytes.inc_by(written);
        let (level, count) = (round.level, packs.len());
        let paths =
            packs.iter().map(|name| StoredObject::pack(&self.ground.place.root, shard, name).path).collect();
        let done = owners.commit_packs(shard, round, packs).await;
        if matches!(done, Err(PackError::Stale(_) | PackError::Refused(_))) {
            // Nobody will ever use them. Where the outcome is not known they stay; orphans are looked for once a day.
            delete_all(self.ground.place.objects.as_ref(), paths).await?;
        }
        match done {
            Ok(()) => {
                metrics.pack_rounds.inc();
                tracing::debug!(%shard, level, packs = count, read, written, "packed");
                Ok(())
            }
            // The shard has moved, or others were faster.
            Err(error @ PackError::Stale(_)) => {
                tracing::info!(%shard, %error, "a round was in vain");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl Work for Packs {
    fn name(&self) -> &'static str {
        "packs"
    }

    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure> {
        let look = self.ground.settings.pack_interval;
        let round = match self.ground.owners.next_round(lease.shard()).await {
            Ok(round) => round,
            // Nobody has it for a moment.
            Err(PackError::NotOwned) => return Ok(look),
            Err(error) => return Err(error.into()),
        };
        // It is only shown, so that it is not known now holds up nothing.
        if let Ok(bytes) = self.ground.owners.unpacked_bytes(lease.shard()).await {
            self.debt.set(bytes);
        }
        let Some(round) = round else { return Ok(look) };
        let turns = self.ground.packing.clone();
        let work = async {
            let _turn = turns.acquire().await?;
            self.pack(lease, round).await
        };
        tokio::select! {
            biased;
            () = lease.over() => Ok(look),
            done = work => done.map(|()| SOON),
        }
    }
}
