//! Retention: rows that are older than their table keeps them, or more than it keeps, leave the log, whole chunks at a time, and dropped
//! buckets leave as a whole.
//!
//! A chunk goes when its newest row is too old, or when what is behind it is as large as the bucket may be, so nothing goes early (R1).
//! What a lake-enabled table has not tiered stays. The state of primary-key tables is not touched: the log that goes is its changelog.

use std::collections::BTreeMap;

use wadi_model::{Bucket, LogSeq, Offset, Table, options};

use super::PackError;
use super::state::last_of;
use super::weigh::kept_bytes;
use crate::container::{BucketRewrite, Command, Released, Rewrite};
use crate::database;
use crate::keys::index::{self, IndexEntry, IndexedChunk};
use crate::shard::Shard;
use crate::shard::view::Bounds;
use crate::stored::{ObjectId, PackId};
use crate::task;

/// Most index entries that one command removes.
const ENTRIES: usize = 10_000;

/// What a table keeps of each bucket's log.
#[derive(Clone, Copy)]
struct Keep {
    /// Rows that were flushed at this time or later.
    from: i64,
    /// The newest rows of so many stored bytes, if that is limited.
    bytes: Option<u64>,
    /// Nothing, since it was dropped.
    gone: bool,
}

/// What trimming needs to remember of a bucket so that it need not look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Looked {
    /// Its oldest chunk that is kept, and when that was flushed.
    Oldest { start: Offset, time: i64 },
    /// It has nothing that is durable in the database.
    Empty { high_watermark: Offset },
    /// It is gone, and its index ended below its high watermark when the log was at `confirmed`. Rounds of packing leave out the rows of
    /// what is gone; so once the database has all up to there, nothing is left.
    Ended { high_watermark: Offset, confirmed: LogSeq },
}

impl Shard {
    /// Trims what has expired, and what belongs to dropped tables and partitions. Where there is nothing to do, it costs no request once it
    /// has looked at each bucket. Says how many buckets it has changed.
    pub async fn trim(&self) -> Result<usize, PackError> {
        let shard = self.clone();
        let lock = self.shared.rewriting.clone().lock_owned().await;
        let work = task::spawn(async move {
            let _lock = lock;
            shard.trim_locked().await
        });
        work.await.unwrap_or_else(|_| Err(PackError::Internal("trimming panicked".into())))
    }

    async fn trim_locked(&self) -> Result<usize, PackError> {
        let mut done = 0;
        let mut trim = Trim::default();
        let tables = self.shared.context.tables.source();
        for (bucket, bounds) in self.shared.view.buckets() {
            let table = tables.kept(&bucket).await.map_err(PackError::Unavailable)?;
            let gone = Keep { from: i64::MAX, bytes: None, gone: true };
            let Some(keep) = table.map_or(Some(gone), |table| self.keeps(&table)) else { continue };
            self.bucket(&mut trim, bucket, bounds, keep).await?;
            if trim.entries >= ENTRIES {
                done += self.send(std::mem::take(&mut trim)).await?;
            }
        }
        Ok(done + self.send(trim).await?)
    }

    /// What the table keeps; `None` if that is all.
    fn keeps(&self, table: &Table) -> Option<Keep> {
        // What the lake does not have yet must stay.
        if table.options.is_set(options::LAKE_ENABLED) {
            return None;
        }
        let (ttl, bytes) = (table.options.log_ttl(), table.options.log_retention_bytes());
        let from = ttl.map_or(i64::MIN, |ttl| {
            let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
            self.shared.context.env.now_millis().saturating_sub(ttl)
        });
        (ttl.is_some() || bytes.is_some()).then_some(Keep { from, bytes, gone: false })
    }

    /// Adds to `trim` what is to go of a bucket.
    async fn bucket(
        &self,
        trim: &mut Trim,
        bucket: Bucket,
        bounds: Bounds,
        keep: Keep,
    ) -> Result<(), PackError> {
        let shared = &self.shared;
        let looked = shared.looked.lock().get(&bucket).copied();
        let nothing = match looked {
            Some(Looked::Oldest { start, time }) => start == bounds.log_start && time >= keep.from,
            Some(Looked::Empty { high_watermark }) => high_watermark == bounds.high_watermark,
            Some(Looked::Ended { .. }) | None => false,
        };
        let nothing = nothing || bounds.log_start >= bounds.high_watermark;
        // What is too much, and how large all is.
        let heavy = match keep.bytes {
            Some(limit) => self.heavier_than(&bucket, bounds, limit).await?,
            None => None,
        };
        if !keep.gone && nothing && heavy.is_none() {
            return Ok(());
        }
        let excess = heavy.zip(keep.bytes).map(|(weight, limit)| weight.bytes.saturating_sub(limit));
        let (confirmed, flushed) = (*shared.confirmed.borrow(), shared.progress.borrow().flushed);
        let is_durable = |chunk: &IndexedChunk| match chunk.object() {
            ObjectId::Log(seq) => seq <= flushed,
            ObjectId::Pack(_) => true,
        };
        let mut change = BucketRewrite::of(&bucket);
        let mut start = bounds.log_start;
        let (mut oldest, mut removed, mut to_end) = (None, 0, true);
        let mut entries =
            shared.db.scan_with_options(index::from(&bucket, bounds.log_start), &database::near()).await?;
        'entries: while let Some(entry) = entries.next().await? {
            let (_, _, entry) = index::decode(&entry.key, &entry.value)?;
            for chunk in &entry.chunks {
                if chunk.end() <= bounds.log_start {
                    continue;
                }
                let bytes = kept_bytes(chunk, bounds.log_start);
                let too_much = excess.is_some_and(|excess| removed + bytes <= excess);
                if chunk.time >= keep.from && !too_much || !is_durable(chunk) {
                    oldest = is_durable(chunk).then_some(chunk.time);
                    to_end = false;
                    break 'entries;
                }
                start = start.max(chunk.end());
                removed += bytes;
            }
            trim.remove(&mut change, &entry);
            if change.removed.len() >= ENTRIES {
                to_end = false;
                break;
            }
        }
        let before = match looked {
            Some(Looked::Ended { high_watermark, confirmed }) if high_watermark == bounds.high_watermark => {
                confirmed
            }
            _ => confirmed,
        };
        let all = start >= bounds.high_watermark || keep.gone && to_end && before <= flushed;
        let looked = match oldest {
            Some(time) => Looked::Oldest { start, time },
            None => Looked::Empty { high_watermark: bounds.high_watermark },
        };
        if keep.gone && all {
            change.gone = true;
            shared.looked.lock().remove(&bucket);
            shared.weights.lock().remove(&bucket);
        } else if keep.gone && to_end {
            let ended = Looked::Ended { high_watermark: bounds.high_watermark, confirmed: before };
            shared.looked.lock().insert(bucket, ended);
        } else {
            // Only if there is nothing more to do for now.
            let more = change.removed.len() >= ENTRIES;
            let mut known = shared.looked.lock();
            match more || oldest.is_none() && !all {
                true => known.remove(&bucket),
                false => known.insert(bucket, looked),
            };
        }
        if start > bounds.log_start || change.gone {
            change.log_start = (!change.gone).then_some(start.0);
            trim.buckets.push(change);
        }
        Ok(())
    }

    async fn send(&self, trim: Trim) -> Result<usize, PackError> {
        let buckets = trim.buckets.len();
        if buckets == 0 {
            return Ok(0);
        }
        let released = trim.released.into_iter().map(|(id, entries)| Released {
            pack_high: (id.0 >> 64) as u64,
            pack_low: id.0 as u64,
            entries,
        });
        let rewrite = Rewrite { released: released.collect(), buckets: trim.buckets, ..Rewrite::default() };
        self.order(Command { rewrite: Some(rewrite), ..Command::default() }).await?;
        Ok(buckets)
    }
}

/// A trim that is being planned.
#[derive(Default)]
struct Trim {
    buckets: Vec<BucketRewrite>,
    released: BTreeMap<PackId, u32>,
    entries: usize,
}

impl Trim {
    fn remove(&mut self, change: &mut BucketRewrite, entry: &IndexEntry) {
        self.entries += 1;
        change.removed.extend(last_of(entry).map(|last| last.0));
        if let Some(ObjectId::Pack(id)) = entry.chunks.first().map(IndexedChunk::object) {
            *self.released.entry(id).or_default() += 1;
        }
    }
}
