//! Packs become part of the shard: compared with its index, then put in place of what they were made of.
//!
//! The owner reads the packs' footers itself, and believes nothing else. For each bucket it takes the entries of its index that point
//! into the round's inputs; the packs must hold exactly the rows of those, under the same schema versions. Rows that have expired meanwhile,
//! or whose table is gone, may be missing. What else stood in such an entry stays, in entries of its own.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use wadi_model::{Bucket, Offset};

use super::plan::{Inputs, Round};
use super::state::last_of;
use super::{PackError, PackState};
use crate::container::{BucketRewrite, Chunk, Command, Footer, Kind, LogRound, NewPack, Released, Rewrite};
use crate::database;
use crate::flaws::{self, Flaw};
use crate::keys::index::{self, IndexEntry, IndexedChunk};
use crate::keys::{object, pack};
use crate::log::{LogObject, read_object};
use crate::shard::{Shard, Shared};
use crate::stored::{FINAL, ObjectId, PackId, PackName, StoredObject};
use crate::task;

/// Packs older than this are not taken any more, so that whoever looks for orphans knows when one is. By the clocks of two machines.
const OLDEST: i64 = 12 * 3600 * 1000;

/// Footers that are read at once.
const AHEAD: usize = 8;

/// Most index entries that one bucket's share of a round may touch, so that memory is bounded.
const ENTRIES: usize = 1 << 20;

impl Shard {
    /// Takes the packs that a compactor has made of a round. Asking again after an unknown outcome is safe.
    ///
    /// # Errors
    ///
    /// `Stale` if the round is not the shard's any more, `Refused` if the packs do not hold its rows: nothing has changed, and the
    /// packs are of no use. After `OutcomeUnknown` and `NotOwned` they may be in use.
    pub async fn commit_packs(&self, round: Round, packs: Vec<PackName>) -> Result<(), PackError> {
        let shard = self.clone();
        // The command must not outlive the lock, whatever becomes of the caller.
        let lock = self.shared.rewriting.clone().lock_owned().await;
        let work = task::spawn(async move {
            let _lock = lock;
            if shard.has_all(&packs) {
                return Ok(());
            }
            let command = Commit::plan(&shard.shared, &round, &packs).await?;
            shard.order(command).await
        });
        work.await.unwrap_or_else(|_| Err(PackError::Internal("a commit of packs panicked".into())))
    }

    /// Whether all these packs are part of the shard, as they are after a commit whose answer was lost.
    fn has_all(&self, packs: &[PackName]) -> bool {
        let state = self.shared.packs.read();
        !packs.is_empty() && packs.iter().all(|name| state.packs.contains_key(&name.id))
    }
}

/// A commit that is being planned.
struct Commit<'a> {
    shared: &'a Shared,
    /// What the inputs hold, by object.
    inputs: BTreeMap<ObjectId, Footer>,
    packs: Vec<(PackName, LogObject)>,
    live: BTreeMap<PackId, u32>,
    released: BTreeMap<PackId, u32>,
}

impl Commit<'_> {
    async fn plan(shared: &Shared, round: &Round, names: &[PackName]) -> Result<Command, PackError> {
        let now = shared.context.env.now_millis();
        if round.token != shared.claim.token() {
            return Err(PackError::Stale(format!("it was planned under token {}", round.token)));
        }
        for name in names {
            let of_round = (name.from, name.to, name.token) == (round.from, round.to, round.token);
            if !of_round || ![round.level, FINAL].contains(&name.level) {
                return Err(PackError::Refused(format!("{name} is not of this round")));
            }
            if now.saturating_sub(name.id.made()) > OLDEST {
                return Err(PackError::Stale(format!("{name} was made too long ago")));
            }
        }
        let inputs = inputs(shared, round).await?;
        let packs = read_packs(shared, names).await?;
        let mut commit = Commit { shared, inputs, packs, live: BTreeMap::new(), released: BTreeMap::new() };
        let buckets = commit.buckets().await?;
        Ok(Command { rewrite: Some(commit.rewrite(round, buckets)), ..Command::default() })
    }

    /// What changes in the index.
    async fn buckets(&mut self) -> Result<Vec<BucketRewrite>, PackError> {
        let mut ends: BTreeMap<Bucket, (Offset, Offset)> = BTreeMap::new();
        for chunk in self.inputs.values().flat_map(|footer| &footer.chunks).filter(|chunk| chunk.rows > 0) {
            let (first, end) = ends.entry(chunk.bucket_id()).or_insert((Offset(u64::MAX), Offset(0)));
            (*first, *end) = ((*first).min(chunk.first()), (*end).max(chunk.end()));
        }
        let mut made = self.made();
        let mut changes = Vec::new();
        for (bucket, (first, end)) in ends {
            let entries = self.entries(&bucket, first, end).await?;
            let made = made.remove(&bucket).unwrap_or_default();
            changes.extend(self.bucket(&bucket, entries, &made).await?);
        }
        match made.keys().next() {
            Some(bucket) => Err(PackError::Refused(format!("{bucket} has no rows in the round"))),
            None => Ok(changes),
        }
    }

    /// The chunks of the packs, by bucket.
    fn made(&self) -> BTreeMap<Bucket, Vec<(IndexedChunk, Chunk)>> {
        let mut made: BTreeMap<Bucket, Vec<(IndexedChunk, Chunk)>> = BTreeMap::new();
        for (name, object) in &self.packs {
            for (position, chunk) in object.footer.chunks.iter().enumerate() {
                let indexed = IndexedChunk::new(ObjectId::Pack(name.id), position, chunk);
                made.entry(chunk.bucket_id()).or_default().push((indexed, chunk.clone()));
            }
        }
        for chunks in made.values_mut() {
            chunks.sort_by_key(|(indexed, _)| indexed.base_offset);
        }
        made
    }

    /// The entries of a bucket that may point into the inputs.
    async fn entries(
        &self,
        bucket: &Bucket,
        first: Offset,
        end: Offset,
    ) -> Result<Vec<IndexEntry>, PackError> {
        let mut found = Vec::new();
        let mut scan =
            self.shared.db.scan_with_options(index::from(bucket, first), &database::near()).await?;
        while let Some(entry) = scan.next().await? {
            let (_, _, entry) = index::decode(&entry.key, &entry.value)?;
            if entry.chunks.first().is_none_or(|chunk| chunk.base_offset >= end.0) {
                break;
            }
            if entry.chunks.iter().any(|chunk| self.inputs.contains_key(&chunk.object())) {
                found.push(entry);
            }
            if found.len() > ENTRIES {
                return Err(PackError::Internal(format!("{bucket} has too many entries in its index")));
            }
        }
        Ok(found)
    }

    /// What changes in a bucket's index; nothing if it has no rows in the round any more.
    async fn bucket(
        &mut self,
        bucket: &Bucket,
        entries: Vec<IndexEntry>,
        made: &[(IndexedChunk, Chunk)],
    ) -> Result<Option<BucketRewrite>, PackError> {
        let is_input = |chunk: &IndexedChunk| self.inputs.contains_key(&chunk.object());
        let start = self.shared.view.bounds(bucket).log_start;
        let old: Vec<IndexedChunk> = entries.iter().flat_map(|entry| &entry.chunks).copied().collect();
        let replaced: Vec<IndexedChunk> = old.iter().copied().filter(is_input).collect();
        if replaced.is_empty() {
            return Ok(None);
        }
        let kept = match self.compare(bucket, start, &replaced, made) {
            Ok(kept) => kept,
            // Rows of a table that is gone may be left out, all of them.
            Err(_) if made.is_empty() && self.is_gone(bucket).await? => Vec::new(),
            Err(why) => return Err(PackError::Refused(format!("{bucket}: {why}"))),
        };
        for entry in &entries {
            if let Some(ObjectId::Pack(id)) = entry.chunks.first().map(IndexedChunk::object) {
                *self.released.entry(id).or_default() += 1;
            }
        }
        let mut change = BucketRewrite::of(bucket);
        change.removed = entries.iter().filter_map(last_of).map(|last| last.0).collect();
        let others = old.into_iter().filter(|chunk| !is_input(chunk));
        let mut all: Vec<IndexedChunk> = others.chain(kept).collect();
        all.sort_by_key(|chunk| chunk.base_offset);
        for entry in all.chunk_by(together) {
            if let ObjectId::Pack(id) = entry[0].object() {
                *self.live.entry(id).or_default() += 1;
            }
            change.entries.push(IndexEntry { chunks: entry.to_vec() });
        }
        Ok(Some(change))
    }

    /// Compares the chunks of the packs with those that they replace, and gives those that are still kept. `start` is where the
    /// bucket's log begins.
    fn compare(
        &self,
        bucket: &Bucket,
        start: Offset,
        replaced: &[IndexedChunk],
        made: &[(IndexedChunk, Chunk)],
    ) -> Result<Vec<IndexedChunk>, String> {
        if flaws::has(Flaw::TakesAnyPack) {
            return Ok(made.iter().map(|(indexed, _)| *indexed).collect());
        }
        let mut kept: BTreeMap<u64, IndexedChunk> = BTreeMap::new();
        for run in replaced.chunk_by(|a, b| a.end().0 == b.base_offset) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let (mut at, end) = (Offset(first.base_offset).max(start), last.end());
            let from = at;
            let of_run =
                made.iter().filter(|(indexed, _)| indexed.end() > from && indexed.base_offset < end.0);
            for (indexed, _) in of_run {
                // What has expired meanwhile may still stand before the first row that is kept.
                let begins = indexed.base_offset == at.0 || indexed.base_offset < at.0 && at <= start;
                if !begins || indexed.end() > end {
                    let (found, to) = (indexed.base_offset, indexed.end());
                    return Err(format!("its rows {found} to {to} do not fit those from {at} to {end}"));
                }
                at = indexed.end();
                kept.insert(indexed.base_offset, *indexed);
            }
            if at < end {
                return Err(format!("its rows {at} to {end} are missing"));
            }
        }
        for (indexed, chunk) in made {
            let runs: u64 = chunk.runs.iter().map(|run| u64::from(run.rows)).sum();
            if runs != u64::from(chunk.rows) || chunk.rows == 0 {
                return Err(format!("{runs} of the {} rows of a chunk have a time", chunk.rows));
            }
            let mut of = replaced
                .iter()
                .filter(|r| r.base_offset < indexed.end().0 && r.end().0 > indexed.base_offset);
            if of.clone().next().is_none() && indexed.end() > start {
                return Err(format!("rows from {} on are not of the round", indexed.base_offset));
            }
            if !of.all(|r| self.same(r, bucket, chunk)) {
                return Err(format!("rows from {} on have another schema version", indexed.base_offset));
            }
        }
        Ok(kept.into_values().collect())
    }

    /// Whether rows of an input lie in the pack under the same kind and schema version.
    fn same(&self, replaced: &IndexedChunk, bucket: &Bucket, made: &Chunk) -> bool {
        let footer = self.inputs.get(&replaced.object());
        let source = footer.and_then(|footer| footer.chunks.get(replaced.position as usize));
        source.is_some_and(|source| {
            source.bucket_id() == *bucket && (source.kind, source.schema_id) == (made.kind, made.schema_id)
        })
    }

    /// Whether nothing of the bucket's table is left.
    async fn is_gone(&self, bucket: &Bucket) -> Result<bool, PackError> {
        let kept = self.shared.context.tables.source().kept(bucket).await;
        kept.map(|kept| kept.is_none()).map_err(PackError::Unavailable)
    }

    fn rewrite(&self, round: &Round, buckets: Vec<BucketRewrite>) -> Rewrite {
        let pack = |(name, object): &(PackName, LogObject)| NewPack {
            name: name.to_string(),
            bytes: object.footer.chunks.iter().map(|chunk| u64::from(chunk.len)).sum(),
            live: self.live.get(&name.id).copied().unwrap_or(0),
            footer: object.footer_bytes.clone(),
        };
        let released = self.released.iter().map(|(id, entries)| Released {
            pack_high: (id.0 >> 64) as u64,
            pack_low: id.0 as u64,
            entries: *entries,
        });
        Rewrite {
            round: self.log_round(round),
            packs: self.packs.iter().map(pack).collect(),
            released: released.collect(),
            buckets,
        }
    }

    fn log_round(&self, round: &Round) -> Option<LogRound> {
        let Inputs::Log(_) = round.inputs else { return None };
        let with_rows = |footer: &&Footer| footer.chunks.iter().any(|chunk| chunk.rows > 0);
        let counted = || self.inputs.values().filter(with_rows);
        let bytes = counted().flat_map(|footer| &footer.chunks).map(|chunk| u64::from(chunk.len)).sum();
        let time = self.inputs.values().map(|footer| footer.time).max().unwrap_or(0);
        Some(LogRound { to: round.to.0, objects: counted().count() as u64, bytes, time })
    }
}

/// Whether two chunks that follow each other stand in one entry: those of one pack, or of log objects, without gap.
fn together(a: &IndexedChunk, b: &IndexedChunk) -> bool {
    let same = match (a.object(), b.object()) {
        (ObjectId::Log(_), ObjectId::Log(_)) => true,
        (a, b) => a == b,
    };
    same && a.end().0 == b.base_offset
}

/// The footers of a round's inputs, as the database has them, if the round is still the shard's.
async fn inputs(shared: &Shared, round: &Round) -> Result<BTreeMap<ObjectId, Footer>, PackError> {
    let stale = |why: String| PackError::Stale(why);
    match &round.inputs {
        Inputs::Log(log) => {
            let (packed, flushed) = (shared.packs.read().packing.packed, shared.progress.borrow().flushed);
            if round.from.0 != packed + 1 {
                return Err(stale(format!("the log is packed up to {packed}")));
            }
            if round.to > flushed || round.to < round.from {
                return Err(stale(format!("the database is durable up to {flushed}")));
            }
            let mut inputs = BTreeMap::new();
            let range = object::key(round.from)..=object::key(round.to);
            let mut entries = shared.db.scan_with_options(range, &database::far()).await?;
            while let Some(entry) = entries.next().await? {
                inputs.insert(ObjectId::Log(object::seq(&entry.key)?), object::decode(&entry.value)?);
            }
            let same = log.iter().map(|seq| ObjectId::Log(*seq)).eq(inputs.keys().copied());
            if same { Ok(inputs) } else { Err(stale("it has other log objects".into())) }
        }
        Inputs::Packs(names) => {
            let mut inputs = BTreeMap::new();
            for name in names {
                if !is_alive(&shared.packs.read(), name) {
                    return Err(stale(format!("{name} is not a shared pack any more")));
                }
                let stored = shared.db.get(pack::contents_key(name.id)).await?;
                let stored = stored.ok_or_else(|| PackError::Internal(format!("{name} has no footer")))?;
                inputs.insert(ObjectId::Pack(name.id), pack::decode_contents(&stored)?.1);
            }
            Ok(inputs)
        }
    }
}

fn is_alive(state: &PackState, name: &PackName) -> bool {
    let entry = state.packs.get(&name.id);
    entry.is_some_and(|entry| entry.level != FINAL && entry.dead_since == 0 && entry.name(name.id) == *name)
}

/// The packs themselves, each checked to be what its name says.
async fn read_packs(shared: &Shared, names: &[PackName]) -> Result<Vec<(PackName, LogObject)>, PackError> {
    let (context, shard) = (&shared.context, shared.claim.shard());
    let read = |name: PackName| async move {
        let place = StoredObject::pack(&context.root, shard, &name);
        let object = read_object(context.objects.as_ref(), &place.path).await?;
        let object = object.ok_or_else(|| PackError::Refused(format!("{name} is not there")))?;
        let header = &object.header;
        let says = (header.kind, header.shard, header.seq, header.last, header.token, header.put_id);
        if says != (Kind::Pack, shard, name.from, name.to, name.token, name.id.0) {
            return Err(PackError::Refused(format!("{name} says that it is another object")));
        }
        Ok((name, object))
    };
    let reads: Vec<_> = names.iter().copied().map(read).collect();
    stream::iter(reads).buffered(AHEAD).try_collect().await
}
