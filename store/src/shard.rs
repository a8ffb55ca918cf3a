//! An open shard: appends in order, durable before they are acked; reads of what is durable.
//!
//! One [`actor`] per shard orders everything that changes it and never waits for storage. Around it:
//!
//! * [`encode`] turns rows into chunks on the CPU pool, [`flush`] makes an object of them and PUTs it, one at a time;
//! * [`producers`] remembers requests, so that a retry finds its first try (L3);
//! * [`ids`] are those that buckets have for auto-increment columns;
//! * [`group`] gathers confirmed changes and brings them to SlateDB, one write for many objects;
//! * [`packs`] are what the log becomes: planned and committed, trimmed and deleted, all by commands in the log;
//! * [`view`] is what readers see: only durable rows ever enter it (L4); [`read`] serves log reads from it;
//! * [`merging`] turns rows of primary-key tables into changes of what [`rows`] holds; [`lookup`] and [`prefixes`] answer by key;
//! * [`takeover`] opens a shard after its claim, fencing all earlier owners (F1, L1), and [`replay`] brings its database up to date.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex as SyncMutex, RwLock};
use slatedb::Db;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use wadi_model::row as model_row;
use wadi_model::{Bucket, LogSeq, Offset, Token};

use crate::claim::Claim;
use crate::context::{Context, Share};
use crate::trace::Stages;
use actor::Command;
use packs::{Looked, PackState, Weight};
use rows::{Keep, Rows};
use view::View;

pub(crate) use encode::{EncodedChunk, Payload, Prepared};
pub use lookup::{LookupError, RowPage, RowScan};
pub use merging::Keyed;
pub(crate) use merging::KeyedRows;
pub use packs::{Deletable, Holdings, Inputs, PackError, Round};
pub use part::{AppendError, Appended, Part, Stamp, raw_bytes};
pub use prefixes::Limit;
pub(crate) use read::{Chunks, Found, read_found, settled};
pub use read::{LogAnswer, LogRead, LogReadError, Piece};
pub use snapshot::RowSnapshot;
pub use takeover::{TakeoverError, take_over};
pub use targets::Targets;
pub use view::Bounds;

mod actor;
mod encode;
mod flush;
mod group;
mod ids;
mod lookup;
mod merging;
mod open;
mod packs;
mod part;
mod prefixes;
pub mod producers;
mod read;
mod replay;
mod rows;
mod snapshot;
mod takeover;
mod targets;
#[cfg(test)]
mod tests;
mod view;

/// How chunks are made and read, for those who make packs of them.
pub(crate) mod chunks {
    pub(crate) use super::encode::{EncodedChunk, encode_together};
    pub(crate) use super::merging::stored_schema;
    pub(crate) use super::read::{MAX_RAW, plain};
}

/// Commands that may wait for the actor. Parts hold their share of the memory budget while they wait.
const COMMANDS: usize = 1024;

/// Why a shard is no longer served here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was given up in good order: everything acked is durable, nothing is in doubt.
    Released,
    /// An outcome is unknown, the lease was lost, or another owner was met. A new claim takes over.
    Poisoned(String),
}

/// A handle of an open shard. Clones are the same shard.
#[derive(Clone, Debug)]
pub struct Shard {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

/// What the actor and the readers share.
struct Shared {
    context: Context,
    claim: Claim,
    db: Db,
    view: View,
    rows: Arc<Rows>,
    packs: RwLock<PackState>,
    /// Held by whoever changes where rows are found, from its look at the index until its command is applied.
    rewriting: Arc<Mutex<()>>,
    /// What trimming has found in each bucket when it looked last.
    looked: SyncMutex<BTreeMap<Bucket, Looked>>,
    /// How large it has found the logs of buckets whose size is limited.
    weights: SyncMutex<BTreeMap<Bucket, Weight>>,
    /// Log objects up to here are deleted, and reported to be.
    deleted: SyncMutex<LogSeq>,
    /// How far the database is.
    progress: watch::Sender<Progress>,
    /// The newest confirmed log position; readers at the tail wait for it to move.
    confirmed: watch::Sender<LogSeq>,
    /// Set once, when the actor ends.
    ended: watch::Sender<Option<Ended>>,
}

/// How far a shard's database is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// It has everything up to here …
    applied: LogSeq,
    /// … and for good up to here.
    flushed: LogSeq,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// Encodes a part for whoever owns its shard, with its share of the budget of bytes that wait to be acked.
pub(crate) async fn prepare(context: &Context, part: Part) -> Result<(Prepared, Share), AppendError> {
    let raw = raw_bytes(&part.rows);
    if raw > context.settings.object_bytes {
        return Err(AppendError::TooLarge { bytes: raw, limit: context.settings.object_bytes });
    }
    let share =
        context.memory.try_take(encode::held(raw, part.keyed.is_some())).ok_or(AppendError::Overloaded)?;
    Ok((encode::prepare(context, part, raw).await?, share))
}

impl Shard {
    /// The claim under which it is open.
    pub fn claim(&self) -> &Claim {
        &self.shared.claim
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.shared.claim.token()
    }

    /// Its database.
    pub(crate) fn database(&self) -> &Db {
        &self.shared.db
    }

    /// Appends a part and waits until it is durable and readable.
    ///
    /// If the caller goes away the part may still be written; its producer finds out by sending it again.
    pub async fn append(&self, part: Part) -> Result<Appended, AppendError> {
        let (prepared, share) = prepare(&self.shared.context, part).await?;
        self.append_prepared(prepared, share).await
    }

    /// Appends a part that was prepared before, maybe in another process.
    pub(crate) async fn append_prepared(
        &self,
        mut prepared: Prepared,
        share: Share,
    ) -> Result<Appended, AppendError> {
        if let Payload::Keyed(keyed) = &mut prepared.payload {
            keyed.read(&self.shared, Keep::Missing).await?;
        }
        prepared.stages = Stages::queued(self.shared.claim.shard().0);
        let (reply, answer) = oneshot::channel();
        let append = Command::Append { part: Box::new(prepared), share, reply };
        self.commands.send(append).await.map_err(|_| AppendError::NotOwned)?;
        answer.await.map_err(|_| AppendError::OutcomeUnknown)?
    }

    /// The rows of these primary keys of a bucket, as they are stored, in their order; `None` where there is none.
    pub async fn lookup(
        &self,
        bucket: &Bucket,
        keys: &model_row::Rows,
    ) -> Result<Vec<Option<Bytes>>, LookupError> {
        lookup::lookup(&self.shared, &merging::database_keys(bucket, keys)).await
    }

    /// All rows of a bucket under each of some prefixes, as they are stored, in the order of their keys. `None` if they are more
    /// than the limit.
    ///
    /// `groups` are the encoded bucket keys that the encoded `prefixes` begin with, one for each: rows of one bucket key are
    /// kept in memory together, so their columns must be the first ones of the primary key.
    pub async fn lookup_prefixes(
        &self,
        bucket: &Bucket,
        groups: &model_row::Rows,
        prefixes: &model_row::Rows,
        limit: Limit,
    ) -> Result<Option<Vec<Vec<Bytes>>>, LookupError> {
        prefixes::lookup(&self.shared, bucket, groups, prefixes, limit).await
    }

    /// The rows of a bucket whose encoded primary key begins with `prefix`, in the order of their keys, at one point in
    /// time that is not before this call.
    pub async fn scan_rows(&self, bucket: &Bucket, prefix: &[u8]) -> Result<RowScan, LookupError> {
        RowScan::begin(&self.shared, bucket, prefix).await
    }

    /// The rows of a bucket at one point in time that is not before this call.
    pub fn snapshot_rows(&self, bucket: &Bucket) -> Result<RowSnapshot, LookupError> {
        RowSnapshot::take(&self.shared, bucket)
    }

    /// How many rows a bucket of a primary-key table has, and the ends of its log then. `None` if its changelog does not tell.
    /// Rows whose time to live is over count until they are removed.
    pub fn count_rows(&self, bucket: &Bucket) -> (Option<u64>, Bounds) {
        let mark = self.shared.view.watermark(bucket);
        let bounds = Bounds { log_start: Offset(mark.start), high_watermark: Offset(mark.high) };
        (mark.count(), bounds)
    }

    /// The ends of a bucket's log.
    pub fn bounds(&self, bucket: &Bucket) -> Bounds {
        self.shared.view.bounds(bucket)
    }

    /// Reads a bucket's log.
    pub async fn read(&self, request: &LogRead<'_>) -> Result<LogAnswer, LogReadError> {
        read::read(&self.shared, request).await
    }

    /// What a bucket has from an offset on, for another process that reads it by itself.
    pub(crate) async fn tell_chunks(
        &self,
        bucket: &Bucket,
        offset: Offset,
    ) -> Result<(Bounds, Vec<Found>), LogReadError> {
        read::settled(|| read::tell(&self.shared, bucket, offset)).await
    }

    /// The first offset whose row was flushed at `time` (milliseconds since 1970) or later.
    pub async fn offset_at(&self, bucket: &Bucket, time: i64) -> Result<Offset, LogReadError> {
        read::offset_at(&self.shared, bucket, time).await
    }

    /// How many log objects its database does not have for good yet: what a takeover would replay.
    pub fn lag(&self) -> u64 {
        let (confirmed, progress) = (*self.shared.confirmed.borrow(), *self.shared.progress.borrow());
        confirmed.0.saturating_sub(progress.flushed.0)
    }

    /// Changes whenever rows of the shard become readable, and closes when the shard ends.
    pub fn changes(&self) -> watch::Receiver<LogSeq> {
        self.shared.confirmed.subscribe()
    }

    /// Why the shard ended; waits until it does.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.shared.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(Ended::Released),
            Err(_) => Ended::Poisoned("its actor died".into()),
        }
    }

    /// Whether the shard has ended.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.borrow().is_some()
    }

    /// Ends the shard at once; what is not acked stays in doubt.
    pub async fn abandon(&self, why: &'static str) {
        self.shared.claim.give_up();
        // If the actor is gone the shard has ended already.
        let _ = self.commands.send(Command::Abandon(why)).await;
    }

    /// Takes no more appends, flushes what waits, brings everything to SlateDB, and ends.
    pub async fn release(&self) {
        // If the actor is gone there is nothing left to release.
        let _ = self.commands.send(Command::Release).await;
        self.ended().await;
    }
}
