//! Replay: the part of the log that a shard's database does not have yet, brought into it.
//!
//! Step 6 of the [takeover](super::takeover). Index, watermarks and producers follow from the footers; rows of
//! primary-key tables are the fold of their changelog (K1), so their chunks are read again, and so are commands. They are still there: nothing
//! behind the database's durable position is ever deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt8Type;
use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::RwLock;
use slatedb::Db;
use tokio::sync::{oneshot, watch};
use wadi_model::changelog::ChangeType;
use wadi_model::{Bucket, LogSeq, Offset, ShardId};

use super::actor::Start;
use super::group::{Group, requests_in};
use super::merging::{database_keys, stored_schema};
use super::packs::{PackState, obey};
use super::producers::{Lifetimes, ProducerKey, remember};
use super::read::{whole_chunk, whole_command};
use super::rows::{Rows, State};
use super::takeover::{Scan, TakeoverError, superseded};
use super::view::View;
use super::{Progress, Shared};
use crate::claim::Claim;
use crate::container::{BucketRewrite, Chunk, ChunkKind, Command, Header};
use crate::context::Context;
use crate::database;
use crate::keyed::KeyedTable;
use crate::keys::ids::{self, IdRanges};
use crate::keys::producer::{self, ProducerEntry};
use crate::keys::watermark::{self, Watermark};
use crate::keys::{DamagedEntry, applied, pack, packing};
use crate::log::LogObject;
use crate::task;

mod swept;

/// Log objects whose rows and producers are read at once: as many as these, or as have so many bytes; and as many again while the
/// first are folded. One by one, some hundred objects would take longer than a lease.
const WINDOW_OBJECTS: usize = 32;
const WINDOW_BYTES: u64 = 8 << 20;

/// Producers of one object that are read at once.
const PRODUCERS_AHEAD: usize = 64;

/// Brings the database to the fence, and gathers what the actor starts from.
pub(super) async fn replay(
    context: &Context,
    claim: &Claim,
    db: &Db,
    durable: LogSeq,
    scan: Scan,
) -> Result<(Shared, Start), TakeoverError> {
    check_applied(db, durable, claim).await?;
    let mut applied = durable;
    let mut replay = Replay {
        context,
        db,
        watermarks: load_all(db, watermark::prefix(), watermark::decode).await?,
        ids: load_all(db, ids::prefix(), ids::decode).await?,
        packs: load_packs(db).await?,
        producers: BTreeMap::new(),
        asked: BTreeSet::new(),
        dirty: BTreeSet::new(),
        group: Group::new(),
        bytes: 0,
    };
    let mut objects = scan.objects.into_iter().filter(|o| o.header.seq > durable);
    let mut ahead = replay.begin_next(claim.shard(), &mut objects);
    while let Some(window) = ahead {
        let fetched = window.fetched().await?;
        // While these are folded.
        ahead = replay.begin_next(claim.shard(), &mut objects);
        for fetched in fetched {
            replay.begin_swept(&fetched.object).await?;
            replay.add(fetched)?;
            if replay.is_full() {
                applied = replay.write().await?;
            }
        }
    }
    if !replay.group.is_empty() {
        applied = replay.write().await?;
    }
    let Replay { watermarks, ids, packs, bytes: replayed_bytes, .. } = replay;
    let next_offsets: BTreeMap<Bucket, Offset> =
        watermarks.iter().map(|(b, w)| (*b, Offset(w.high))).collect();
    let next_seq = scan.fence.next();
    let (flushed, time) = (durable, scan.time);
    let start = Start { next_seq, applied, flushed, replayed_bytes, time, next_offsets, ids };
    let shared = Shared {
        context: context.clone(),
        claim: claim.clone(),
        db: db.clone(),
        view: View::new(watermarks, applied, context.settings.tail_bytes),
        rows: Arc::new(Rows::new(context.settings.row_cache_bytes)),
        packs: RwLock::new(packs),
        rewriting: Arc::default(),
        looked: Default::default(),
        weights: Default::default(),
        deleted: Default::default(),
        progress: watch::Sender::new(Progress { applied, flushed }),
        confirmed: watch::Sender::new(scan.fence),
        ended: watch::Sender::new(None),
    };
    Ok((shared, start))
}

/// The database must be the fold of exactly the log that its manifest says.
async fn check_applied(db: &Db, durable: LogSeq, claim: &Claim) -> Result<(), TakeoverError> {
    let stored = db.get(applied::key()).await?;
    let applied = stored.map(|value| applied::decode(&value)).transpose()?.unwrap_or_default();
    if applied.seq != durable.0 {
        return Err(TakeoverError::Damaged(format!(
            "the database says log position {} and its manifest {durable}",
            applied.seq
        )));
    }
    if applied.token > claim.token().0 {
        return Err(superseded(durable, wadi_model::Token(applied.token)));
    }
    Ok(())
}

/// Reads key and value of an entry.
type Decode<K, T> = fn(&[u8], &[u8]) -> Result<(K, T), DamagedEntry>;

/// All entries of a kind.
async fn load_all<K: Ord, T>(
    db: &Db,
    prefix: Bytes,
    decode: Decode<K, T>,
) -> Result<BTreeMap<K, T>, TakeoverError> {
    let mut entries = db.scan_prefix_with_options(prefix, .., &database::far()).await?;
    let mut all = BTreeMap::new();
    while let Some(entry) = entries.next().await? {
        let (of, value) = decode(&entry.key, &entry.value)?;
        all.insert(of, value);
    }
    Ok(all)
}

async fn load_packs(db: &Db) -> Result<PackState, TakeoverError> {
    let packing = db.get(packing::key()).await?;
    let packing = packing.map(|value| packing::decode(&value)).transpose()?.unwrap_or_default();
    Ok(PackState::new(packing, load_all(db, pack::prefix(), pack::decode_entry).await?))
}

/// The next objects, as many as are read at once.
fn next_window(objects: &mut impl Iterator<Item = LogObject>) -> Vec<LogObject> {
    let mut window = Vec::new();
    let mut bytes = 0;
    let raw = |o: &LogObject| o.footer.chunks.iter().map(|chunk| chunk.raw_len).sum::<u64>();
    while window.len() < WINDOW_OBJECTS && bytes < WINDOW_BYTES {
        let Some(object) = objects.next() else { break };
        bytes += raw(&object);
        window.push(object);
    }
    window
}

/// Objects that are being read, on other threads than those of the fold.
struct Window {
    fetched: oneshot::Receiver<Result<Vec<Fetched>, TakeoverError>>,
    _reading: task::Owned,
}

impl Window {
    async fn fetched(self) -> Result<Vec<Fetched>, TakeoverError> {
        let stopped = |_| Err(TakeoverError::Unavailable("reading the log panicked".into()));
        self.fetched.await.unwrap_or_else(stopped)
    }
}

/// An object with what replay must read for it.
struct Fetched {
    object: LogObject,
    /// What each of its chunks says.
    said: Vec<Said>,
    /// Producers that no object before it has.
    producers: Vec<(ProducerKey, ProducerEntry)>,
}

/// What a chunk says beyond its entry in the footer.
enum Said {
    /// Changes of rows; none if it is of no primary-key table, or of one that is gone.
    Rows(Changed),
    Command(Command),
}

/// What a changelog chunk says.
struct Changed {
    /// Changes of rows, in order.
    rows: Vec<(Bytes, State)>,
    /// How many rows more there are, if that is told.
    growth: Option<i64>,
}

impl Changed {
    fn none() -> Changed {
        Changed { rows: Vec::new(), growth: Some(0) }
    }
}

/// What was replayed and is not written yet.
struct Replay<'a> {
    context: &'a Context,
    db: &'a Db,
    watermarks: BTreeMap<Bucket, Watermark>,
    ids: BTreeMap<Bucket, IdRanges>,
    packs: PackState,
    /// All that were met. None may leave: what the database says of one may be older.
    producers: BTreeMap<ProducerKey, ProducerEntry>,
    /// Those that the objects have that were read, or are being read.
    asked: BTreeSet<ProducerKey>,
    dirty: BTreeSet<ProducerKey>,
    group: Group,
    /// Bytes of memory that was written so far takes.
    bytes: usize,
}

impl Replay<'_> {
    /// Begins to read the next objects, if there are any.
    fn begin_next(
        &mut self,
        shard: ShardId,
        objects: &mut impl Iterator<Item = LogObject>,
    ) -> Option<Window> {
        let window = next_window(objects);
        if window.is_empty() {
            return None;
        }
        let mut fetches = Vec::with_capacity(window.len());
        for object in window {
            let names = requests_in(&object.footer).map(|(key, ..)| key);
            let names = names.filter(|name| self.asked.insert(name.clone())).collect();
            fetches.push(fetch(self.context.clone(), self.db.clone(), shard, object, names));
        }
        let (tell, fetched) = oneshot::channel();
        let reading = task::Owned::spawn(async move {
            // Who does not wait any more has given up the shard.
            drop(tell.send(try_join_all(fetches).await));
        });
        Some(Window { fetched, _reading: reading })
    }

    fn add(&mut self, fetched: Fetched) -> Result<(), TakeoverError> {
        let Fetched { object, said, producers } = fetched;
        let seq = object.header.seq;
        self.packs.add(&object.header, &object.footer);
        let mut orders = Vec::new();
        for (chunk, said) in object.footer.chunks.iter().zip(said) {
            if let (true, Said::Command(command)) = (chunk.is_of_shard(), &said) {
                orders.push(command.clone());
                continue;
            }
            let bucket = chunk.bucket_id();
            let mark = self.watermarks.entry(bucket).or_default();
            if chunk.base_offset != mark.high {
                let (found, high) = (chunk.base_offset, mark.high);
                return Err(TakeoverError::Damaged(format!(
                    "log position {seq}: {bucket} goes on at offset {found} instead of {high}"
                )));
            }
            mark.high = chunk.end().0;
            match said {
                Said::Rows(changed) => {
                    mark.grow(changed.growth);
                    self.group.add_rows(&changed.rows);
                }
                Said::Command(Command { ids, .. }) => {
                    if let Some(left) = ids {
                        self.ids.insert(bucket, left.clone());
                        self.group.add_ids(bucket, left);
                    }
                }
            }
        }
        self.producers.extend(producers);
        for (key, once, request) in requests_in(&object.footer) {
            remember(self.producers.entry(key.clone()).or_default(), once, request, object.header.time);
            self.dirty.insert(key);
        }
        let known = |bucket: &Bucket| self.watermarks.get(bucket).copied().unwrap_or_default();
        self.group.add(&object.header, &object.footer, object.footer_bytes, known);
        for command in orders {
            self.obey(seq, &command)?;
        }
        let (key, value) = self.packs.packing_entry();
        self.group.add_entries([(key, Some(value))]);
        Ok(())
    }

    /// Applies a command for the shard, after the rows of its object as the owner did.
    fn obey(&mut self, seq: LogSeq, command: &Command) -> Result<(), TakeoverError> {
        let (watermarks, ids) = (&mut self.watermarks, &mut self.ids);
        let marks = |change: &BucketRewrite| {
            let bucket = change.bucket_id();
            if change.gone {
                watermarks.remove(&bucket);
                ids.remove(&bucket);
                return None;
            }
            let mark = watermarks.get_mut(&bucket)?;
            mark.start = mark.start.max(change.log_start?);
            Some(*mark)
        };
        Ok(obey(&mut self.packs, &mut self.group, seq, command, marks)?)
    }

    fn is_full(&self) -> bool {
        let settings = &self.context.settings;
        self.group.objects() >= settings.group_objects || self.group.bytes() >= settings.group_bytes
    }

    async fn write(&mut self) -> Result<LogSeq, TakeoverError> {
        let settings = &self.context.settings;
        let lifetimes = Lifetimes { producer: settings.producer_ttl, key: settings.key_ttl };
        let group = std::mem::replace(&mut self.group, Group::new());
        self.bytes += group.memory();
        let changed = std::mem::take(&mut self.dirty).into_iter();
        let entry = |name: ProducerKey| self.producers.get(&name).map(|entry| (name.clone(), entry.clone()));
        let producers = changed.filter_map(entry).collect();
        let Some((write, seq)) = group.into_write(producers, lifetimes) else {
            return Err(TakeoverError::Damaged("nothing to replay, not even our own fence".into()));
        };
        database::write(self.db, write, seq).await?;
        Ok(seq)
    }
}

/// Reads what replay needs of an object; of its producers those that are named.
async fn fetch(
    context: Context,
    db: Db,
    shard: ShardId,
    object: LogObject,
    names: Vec<ProducerKey>,
) -> Result<Fetched, TakeoverError> {
    let mut folds = Vec::with_capacity(object.footer.chunks.len());
    for chunk in &object.footer.chunks {
        folds.push(read(&context, shard, &object.header, chunk));
    }
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        entries.push(load_producer(&db, name));
    }
    let producers = stream::iter(entries).buffered(PRODUCERS_AHEAD).try_collect();
    let (said, producers) = try_join(try_join_all(folds), producers).await?;
    Ok(Fetched { object, said, producers })
}

async fn load_producer(db: &Db, name: ProducerKey) -> Result<(ProducerKey, ProducerEntry), TakeoverError> {
    let stored = db.get(producer::key(&name.0, &name.1)).await?;
    let entry = stored.map(|value| producer::decode(&value)).transpose()?.unwrap_or_default();
    Ok((name, entry))
}

async fn read(
    context: &Context,
    shard: ShardId,
    header: &Header,
    chunk: &Chunk,
) -> Result<Said, TakeoverError> {
    match chunk.kind() {
        ChunkKind::Command => Ok(Said::Command(whole_command(context, shard, header.seq, chunk).await?)),
        ChunkKind::Changelog if chunk.rows > 0 => Ok(Said::Rows(fold(context, shard, header, chunk).await?)),
        _ => Ok(Said::Rows(Changed::none())),
    }
}

/// The changes of rows that a changelog chunk says, in order. Of a table that is gone, none.
async fn fold(
    context: &Context,
    shard: ShardId,
    header: &Header,
    chunk: &Chunk,
) -> Result<Changed, TakeoverError> {
    let (seq, time) = (header.seq, header.time);
    let bucket = chunk.bucket_id();
    let table = context.tables.in_log(bucket.table, chunk.schema()).await;
    let Some(table) = table.map_err(TakeoverError::Unavailable)? else { return Ok(Changed::none()) };
    let damaged = |why: String| TakeoverError::Damaged(format!("log position {seq}: {bucket}: {why}"));
    let Some(codec) = table.codec(chunk.schema()) else {
        return Err(damaged(format!("schema version {} is not known", chunk.schema_id)));
    };
    let schema = Arc::new(stored_schema(codec.schema().arrow()));
    let stored = whole_chunk(context, shard, seq, chunk).await?;
    let chunk = chunk.clone();
    let work = move || {
        let batch = stored.decode(&chunk, &schema).map_err(|e| e.to_string())?;
        changes_in(&table, &chunk, &batch, time)
    };
    let changes = context.cpu.run(work).await;
    changes.unwrap_or_else(|| Err("decoding panicked".into())).map_err(damaged)
}

fn changes_in(table: &KeyedTable, chunk: &Chunk, batch: &RecordBatch, time: i64) -> Result<Changed, String> {
    let (types, rows) = (batch.column(0).as_primitive::<UInt8Type>(), batch.columns()[1..].to_vec());
    let codec = table.codec(chunk.schema()).ok_or("its schema version is not known")?;
    let columns: Vec<usize> = (0..rows.len()).collect();
    let stored = codec.encode_columns(&columns, &rows, batch.num_rows()).map_err(|e| e.to_string())?;
    let rows = RecordBatch::try_new(codec.schema().arrow().clone(), rows).map_err(|e| e.to_string())?;
    let primary = table.keys_of(&rows, chunk.schema()).map_err(|e| e.to_string())?;
    let keys = database_keys(&chunk.bucket_id(), &primary);
    let life = table.life(chunk.schema());
    let mut changes = Vec::with_capacity(keys.len());
    let known = |change: &u8| ChangeType::of(*change).ok_or_else(|| format!("{change} is no change type"));
    let types = types.values().iter().map(known).collect::<Result<Vec<_>, _>>()?;
    for (row, (key, change)) in keys.into_iter().zip(&types).enumerate() {
        match change.effect() {
            Some(true) => changes.push((key, State::written(Some(stored.slice(row)), &life, time))),
            Some(false) => changes.push((key, State::lasting(None))),
            None => {}
        }
    }
    Ok(Changed { rows: changes, growth: table.growth(types) })
}
