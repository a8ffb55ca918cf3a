//! Takeover: how a gateway becomes the one effective writer of a shard.
//!
//! Called by the [host](crate::host) after its claim succeeded in the meta store; gives an open [`Shard`], or an error
//! after which the claim is given back. The meta store only says who should write; safety comes from here.
//!
//! 1. Read the manifest: epoch E and `last_l0_seq`, behind which the log is the truth.
//! 2. Read the header at `last_l0_seq` and the log forward to the first missing position m. A higher token anywhere:
//!    another gateway is ahead of us, give up.
//! 3. Create a FENCE with our token at m. If an object is there after all, it is valid: include it, go on behind it.
//! 4. Open SlateDB as the writer after E. If another opened it meanwhile, begin again as long as the claim holds.
//! 5. If the manifest just fenced is already at or beyond m, the scan began too low: log objects were deleted under
//!    it, and the fence stands below the live end. Begin again; now nobody else moves the manifest.
//! 6. Replay what lies between the manifest and m into SlateDB, and rebuild bounds and offsets ([`super::replay`]). Which objects
//!    these are the scan has said; their names are not listed again: a late FENCE may lie where a deleted object was.
//! 7. Check the lease once more, and serve.
//!
//! With one PUT in flight, the owner before has at most the object at m left, so the fence ends it: no lower token can
//! appear behind it. Fences are never deleted, so a writer that stalled before it can never pass it.
//!
//! Holds F1, L1, L4. The model with all interleavings is `wadi-sim`'s `takeover_model`.
//!
//! | we die after | the next owner finds | and does |
//! | --- | --- | --- |
//! | the fence | a FENCE of a lower token at m | reads on, fences at m + 1 |
//! | the open | a higher epoch, the same `last_l0_seq` | opens after that epoch, replays the same objects |
//! | part of the replay | nothing of it, or a flushed prefix | replays from there |

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use slatedb::Db;
use tokio::time::Instant;
use wadi_model::LogSeq;

use super::replay::replay;
use super::{Shard, actor};
use crate::claim::Claim;
use crate::clock::ShardClock;
use crate::container::{Header, Kind, seal};
use crate::context::Context;
use crate::database::{self, ManifestView};
use crate::flaws::{self, Flaw};
use crate::keys::DamagedEntry;
use crate::log::{LogObject, PutOutcome, ReadError, create, object_path, read_header, read_object};

/// Log objects read ahead of the scan. Reading beyond the end costs a 404 each.
const READ_AHEAD: usize = 8;

/// Why a takeover did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    /// Another gateway has a higher token, or the lease ran out.
    #[error("the claim is no longer the newest: {0}")]
    Superseded(String),
    /// The store did not answer in time. A new claim may succeed.
    #[error("the object store: {0}")]
    Unavailable(String),
    /// The log or the database is damaged. A human must look.
    #[error("the shard is damaged: {0}")]
    Damaged(String),
}

impl From<ReadError> for TakeoverError {
    fn from(error: ReadError) -> TakeoverError {
        match error {
            ReadError::Store { .. } => TakeoverError::Unavailable(error.to_string()),
            ReadError::Damaged { .. } => TakeoverError::Damaged(error.to_string()),
        }
    }
}

impl From<slatedb::Error> for TakeoverError {
    fn from(error: slatedb::Error) -> TakeoverError {
        match error.kind() {
            slatedb::ErrorKind::Data => TakeoverError::Damaged(error.to_string()),
            _ if database::is_fenced(&error) => TakeoverError::Superseded(error.to_string()),
            _ => TakeoverError::Unavailable(error.to_string()),
        }
    }
}

impl From<DamagedEntry> for TakeoverError {
    fn from(error: DamagedEntry) -> TakeoverError {
        TakeoverError::Damaged(error.to_string())
    }
}

/// Takes a shard over under a fresh claim.
pub async fn take_over(context: &Context, claim: &Claim) -> Result<Shard, TakeoverError> {
    let mut ours = Vec::new();
    loop {
        if !claim.hold().await {
            return Err(TakeoverError::Superseded("the lease ran out".into()));
        }
        let manifest = database::read_manifest(context, claim.shard()).await?;
        let Some(scan) = scan_and_fence(context, claim, manifest, &mut ours).await? else { continue };
        let clock = ShardClock::new(context.env.clone(), manifest.clock.max(scan.time));
        let db = match database::open(context, claim.shard(), manifest.epoch, &clock).await {
            Ok(db) => db,
            // Somebody opened it between 1 and 4: the claim decides who goes on.
            Err(error) if database::is_fenced(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        // The owner before may have flushed since the manifest was read, and its clock may be ahead of ours.
        clock.raise(database::newest_time(context, claim.shard(), &db).await?);
        let durable = LogSeq(db.manifest().last_l0_seq());
        if durable >= scan.fence {
            close(&db).await;
            continue;
        }
        let shared = match replay(context, claim, &db, durable, scan).await {
            Ok(ready) => ready,
            Err(error) => {
                close(&db).await;
                return Err(error);
            }
        };
        if !claim.hold().await {
            close(&db).await;
            return Err(TakeoverError::Superseded("the lease ran out during the takeover".into()));
        }
        context.metrics.takeovers.inc();
        let (shared, start) = shared;
        return Ok(actor::start(Arc::new(shared), start));
    }
}

async fn close(db: &Db) {
    // What the database has not made durable, the log has.
    if let Err(error) = db.close().await {
        tracing::debug!(%error, "a shard database did not close cleanly");
    }
}

/// The log from the manifest to our fence.
pub(super) struct Scan {
    pub objects: Vec<LogObject>,
    pub fence: LogSeq,
    pub time: i64,
}

/// Steps 2 and 3. `None`: begin again. `ours` are the put ids of our own fences, from earlier rounds.
async fn scan_and_fence(
    context: &Context,
    claim: &Claim,
    manifest: ManifestView,
    ours: &mut Vec<u128>,
) -> Result<Option<Scan>, TakeoverError> {
    let store = context.objects.as_ref();
    let path = |seq| object_path(&context.root, claim.shard(), seq);
    let floor = manifest.last_l0_seq;
    let mut highest = wadi_model::Token(0);
    let mut time = i64::MIN;
    if floor > LogSeq(0) {
        let Some(last) = read_header(store, &path(floor)).await? else {
            // It is kept as long as the manifest ends there; deleted, the manifest has moved on since it was read.
            if database::read_manifest(context, claim.shard()).await?.last_l0_seq > floor {
                return Ok(None);
            }
            let why = format!("log object {floor}, the last one in the database, is missing");
            return Err(TakeoverError::Damaged(why));
        };
        (highest, time) = (last.token, last.time);
        if highest > claim.token() {
            return Err(superseded(floor, highest));
        }
    }
    let mut objects: Vec<LogObject> = Vec::new();
    let mut next = floor.next();
    loop {
        let mut ahead = stream::iter(next.0..)
            .map(|seq| async move { read_object(store, &path(LogSeq(seq))).await })
            .buffered(READ_AHEAD);
        while let Some(object) = ahead.try_next().await? {
            let Some(object) = object else { break };
            let Header { seq, token, put_id, .. } = object.header;
            if seq != next || object.header.shard != claim.shard() {
                return Err(TakeoverError::Damaged(format!(
                    "the object at log position {next} says it is {seq}"
                )));
            }
            if token > claim.token() {
                return Err(superseded(seq, token));
            }
            if token == claim.token() && !ours.contains(&put_id) {
                return Err(TakeoverError::Damaged(format!(
                    "log position {seq} has our token and is not ours"
                )));
            }
            if token < highest {
                // Either part of the log was deleted while we read, or fencing has failed.
                let now = database::read_manifest(context, claim.shard()).await?;
                if now.last_l0_seq > floor {
                    return Ok(None);
                }
                return Err(TakeoverError::Damaged(format!(
                    "log position {seq} has token {token}, below token {highest} before it"
                )));
            }
            highest = token;
            time = time.max(object.header.time);
            objects.push(object);
            next = next.next();
        }
        drop(ahead);
        match fence(context, claim, next, time).await {
            Fencing::Done(fence) => {
                ours.push(fence.header.put_id);
                let time = fence.header.time;
                objects.push(fence);
                return Ok(Some(Scan { objects, fence: next, time }));
            }
            Fencing::Taken => {}
            Fencing::Unknown(why) => return Err(TakeoverError::Unavailable(why)),
        }
    }
}

pub(super) fn superseded(seq: LogSeq, token: wadi_model::Token) -> TakeoverError {
    TakeoverError::Superseded(format!("log position {seq} has the higher token {token}"))
}

enum Fencing {
    Done(LogObject),
    /// An object was there; it is part of the log.
    Taken,
    Unknown(String),
}

async fn fence(context: &Context, claim: &Claim, seq: LogSeq, time: i64) -> Fencing {
    let header = Header {
        kind: Kind::Fence,
        shard: claim.shard(),
        seq,
        last: seq,
        token: claim.token(),
        put_id: context.env.unique(),
        time: time.max(context.env.now_millis()),
    };
    let object = seal(header, Vec::new());
    if flaws::has(Flaw::SkipsFence) {
        return Fencing::Done(LogObject { header, footer: object.footer, footer_bytes: object.footer_bytes });
    }
    let path = object_path(&context.root, claim.shard(), seq);
    let deadline = Instant::now() + context.settings.put_budget;
    match create(context.objects.as_ref(), &path, &header, &object.pieces, deadline).await {
        PutOutcome::Written => {
            Fencing::Done(LogObject { header, footer: object.footer, footer_bytes: object.footer_bytes })
        }
        PutOutcome::Taken(_) => Fencing::Taken,
        PutOutcome::Unknown(why) => Fencing::Unknown(why),
    }
}
