//! What is left of tables and partitions that were dropped: the catalog forgets them only when that is nothing.
//!
//! As long as anything is left, its schema may be needed: a takeover replays log objects, and packs are merged. So all of it counts: what
//! the shard has in memory, what the database has, durable or not, and every log object and pack that is not reported to be deleted,
//! whether or not the index still points into it. What the actor has taken and not yet confirmed is not seen; whoever asks asks twice,
//! with more time between than a PUT may take.

use std::collections::BTreeSet;

use bytes::Bytes;
use slatedb::config::{DurabilityLevel, ScanOptions};
use wadi_meta::catalog::Dropped;
use wadi_model::{PartitionId, TableId};

use super::PackError;
use crate::container::Footer;
use crate::database;
use crate::keys::{self, DamagedEntry, object, pack};
use crate::shard::Shard;

impl Shard {
    /// Of which of these something is left in the shard.
    ///
    /// # Errors
    ///
    /// `NotOwned` without a lease too: another owner may have what this one has never seen.
    pub async fn remains(&self, dropped: &[Dropped]) -> Result<Vec<Dropped>, PackError> {
        let shared = &self.shared;
        // Nothing moves from log objects to packs meanwhile.
        let _lock = shared.rewriting.lock().await;
        let mut left = Left { asked: dropped.iter().copied().collect(), found: BTreeSet::new() };
        for (bucket, _) in shared.view.buckets() {
            left.note(bucket.table, bucket.partition);
        }
        for level in [DurabilityLevel::Memory, DurabilityLevel::Remote] {
            self.look(&mut left, level).await?;
        }
        if !shared.claim.is_live() || self.has_ended() {
            return Err(PackError::NotOwned);
        }
        Ok(left.found.into_iter().collect())
    }

    async fn look(&self, left: &mut Left, level: DurabilityLevel) -> Result<(), PackError> {
        for one in left.unknown() {
            for prefix in keys::all_of_table(one.table, one.partition) {
                if self.has_prefix(prefix, level).await? {
                    left.found.insert(one);
                    break;
                }
            }
        }
        self.look_into(left, level, object::prefix(), object::decode).await?;
        self.look_into(left, level, pack::contents_prefix(), |value| {
            pack::decode_contents(value).map(|(_, footer)| footer)
        })
        .await
    }

    /// Whether there is any entry under a prefix.
    async fn has_prefix(&self, prefix: Bytes, level: DurabilityLevel) -> Result<bool, PackError> {
        let options = ScanOptions { durability_filter: level, ..ScanOptions::default() };
        let mut entries = self.shared.db.scan_prefix_with_options(prefix, .., &options).await?;
        Ok(entries.next().await?.is_some())
    }

    /// Looks for chunks in footers.
    async fn look_into(
        &self,
        left: &mut Left,
        level: DurabilityLevel,
        prefix: Bytes,
        footer: fn(&[u8]) -> Result<Footer, DamagedEntry>,
    ) -> Result<(), PackError> {
        if left.unknown().is_empty() {
            return Ok(());
        }
        let options = ScanOptions { durability_filter: level, ..database::far() };
        let mut entries = self.shared.db.scan_prefix_with_options(prefix, .., &options).await?;
        while let Some(entry) = entries.next().await? {
            for chunk in footer(&entry.value)?.chunks.iter().filter(|chunk| !chunk.is_of_shard()) {
                let bucket = chunk.bucket_id();
                left.note(bucket.table, bucket.partition);
            }
        }
        Ok(())
    }
}

/// What is asked about, and what of it was found.
struct Left {
    asked: BTreeSet<Dropped>,
    found: BTreeSet<Dropped>,
}

impl Left {
    /// Something of this partition was found.
    fn note(&mut self, table: TableId, partition: PartitionId) {
        for partition in [None, Some(partition)] {
            let one = Dropped { table, partition };
            if self.asked.contains(&one) {
                self.found.insert(one);
            }
        }
    }

    fn unknown(&self) -> Vec<Dropped> {
        self.asked.difference(&self.found).copied().collect()
    }
}
