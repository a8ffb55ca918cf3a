//! Rows that are kept no longer leave the log: the owner trims it when it is asked to.

use std::time::Duration;

use async_trait::async_trait;
use wadi_store::shard::PackError;

use super::{Failure, Work};
use crate::{Ground, Lease};

/// The work on one shard's retention.
pub(super) struct Retention {
    ground: Ground,
}

impl Retention {
    pub(super) fn new(ground: Ground) -> Retention {
        Retention { ground }
    }
}

#[async_trait]
impl Work for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    async fn round(&mut self, lease: &Lease) -> Result<Duration, Failure> {
        let shard = lease.shard();
        match self.ground.owners.trim(shard).await {
            Ok(0) | Err(PackError::NotOwned) => {}
            Ok(buckets) => {
                self.ground.metrics.trims.inc();
                tracing::info!(%shard, buckets, "the log was trimmed");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(self.ground.settings.retention_interval)
    }
}
