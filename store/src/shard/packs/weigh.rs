//! How large a bucket's log is, for tables that keep only so many bytes of it.
//!
//! The index tells each chunk's stored bytes. They are summed up once, and then only what has come since; so a bucket where nothing
//! happens is not looked at. Packing makes chunks smaller behind the back of the sum, so before anything goes it is made anew:
//! what is believed to be too much may not be, and R1 wants that nothing goes early.

use wadi_model::{Bucket, Offset};

use crate::database;
use crate::keys::index::{self, IndexedChunk};
use crate::shard::Shard;
use crate::shard::packs::PackError;
use crate::shard::view::Bounds;

/// The bytes of a bucket's log, from `start` on and below `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Weight {
    start: Offset,
    end: Offset,
    pub(super) bytes: u64,
    /// Those of the first chunk.
    oldest: Option<u64>,
}

impl Weight {
    fn of_nothing(start: Offset) -> Weight {
        Weight { start, end: start, bytes: 0, oldest: None }
    }

    /// Whether the first chunk can go so that the rest is still as large as the limit.
    fn is_over(&self, limit: u64) -> bool {
        self.oldest.is_some_and(|oldest| self.bytes.saturating_sub(oldest) >= limit)
    }
}

/// The stored bytes of a chunk; where it begins before the log does, the share of its rows that are kept.
pub(super) fn kept_bytes(chunk: &IndexedChunk, log_start: Offset) -> u64 {
    let rows = u64::from(chunk.rows);
    let kept = chunk.end().0.saturating_sub(chunk.base_offset.max(log_start.0));
    // Both factors fit 32 bits.
    u64::from(chunk.bytes) * kept.min(rows) / rows.max(1)
}

impl Shard {
    /// How large a bucket's log is, if its oldest chunk is more than the limit leaves room for.
    pub(super) async fn heavier_than(
        &self,
        bucket: &Bucket,
        bounds: Bounds,
        limit: u64,
    ) -> Result<Option<Weight>, PackError> {
        let known = self.shared.weights.lock().get(bucket).copied();
        let known = known.filter(|known| known.start == bounds.log_start);
        let mut weight = known.unwrap_or_else(|| Weight::of_nothing(bounds.log_start));
        if weight.end < bounds.high_watermark {
            weight = self.weigh(bucket, weight).await?;
        }
        if known.is_some() && weight.is_over(limit) {
            weight = self.weigh(bucket, Weight::of_nothing(bounds.log_start)).await?;
        }
        self.shared.weights.lock().insert(*bucket, weight);
        Ok(weight.is_over(limit).then_some(weight))
    }

    /// Adds what the index has behind the end.
    async fn weigh(&self, bucket: &Bucket, mut weight: Weight) -> Result<Weight, PackError> {
        let mut entries =
            self.shared.db.scan_with_options(index::from(bucket, weight.end), &database::near()).await?;
        while let Some(entry) = entries.next().await? {
            let (_, _, entry) = index::decode(&entry.key, &entry.value)?;
            for chunk in entry.chunks.iter().filter(|chunk| chunk.end() > weight.end) {
                let bytes = kept_bytes(chunk, weight.start);
                weight.oldest.get_or_insert(bytes);
                weight.bytes += bytes;
            }
            weight.end = entry.chunks.last().map_or(weight.end, |last| last.end().max(weight.end));
        }
        Ok(weight)
    }
}
