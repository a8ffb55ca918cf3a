//! What the owner knows of its packs, and of the log that is not packed yet: a fold of the log.
//!
//! Changed by the actor when an object is confirmed, and by replay in the same way; read by everybody who plans.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use prost::Message;
use wadi_model::{LogSeq, Offset};

use crate::container::{BucketRewrite, Deleted, Footer, Header, NewPack, Released, Rewrite};
use crate::keys::index::{self, IndexEntry, IndexedChunk};
use crate::keys::pack::{self, PackContents, PackEntry};
use crate::keys::packing::{self, Packing};
use crate::keys::{DamagedEntry, object};
use crate::stored::{PackId, PackName};

/// Entries of the database to be written, or deleted.
pub(in super::super) type Entries = BTreeMap<Bytes, Option<Bytes>>;

/// Packs and packing.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct PackState {
    pub packing: Packing,
    pub packs: BTreeMap<PackId, PackEntry>,
    /// Rounds that are in the log, and not in the durable database: where their command stands, and up to where they packed.
    rounds: VecDeque<(LogSeq, LogSeq)>,
    /// Log objects up to here are packed in the durable database, so that no replay needs them.
    packed_for_good: LogSeq,
}

impl PackState {
    /// What the durable database says.
    pub(in super::super) fn new(packing: Packing, packs: BTreeMap<PackId, PackEntry>) -> PackState {
        let packed_for_good = LogSeq(packing.packed);
        PackState { packing, packs, rounds: VecDeque::new(), packed_for_good }
    }

    /// Log objects up to here are packed in the durable database.
    pub(in super::super) fn packed_for_good(&self) -> LogSeq {
        self.packed_for_good
    }

    /// Counts a log object that is part of the log now.
    pub(in super::super) fn add(&mut self, header: &Header, footer: &Footer) {
        if footer.chunks.iter().any(|chunk| chunk.rows > 0) {
            let bytes = footer.chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
            self.packing.add(bytes, header.time);
        }
    }

    /// Notes that the database is durable up to here.
    pub(in super::super) fn flushed(&mut self, seq: LogSeq) {
        while let Some((_, packed)) = self.rounds.pop_front_if(|(command, _)| *command <= seq) {
            self.packed_for_good = packed;
        }
    }

    /// Applies a rewrite that stands at `seq`. Gives what becomes of the database but for watermarks.
    pub(in super::super) fn rewrite(
        &mut self,
        seq: LogSeq,
        rewrite: &Rewrite,
    ) -> Result<Entries, DamagedEntry> {
        let mut entries = Entries::new();
        if let Some(round) = rewrite.round {
            self.packing.packed(round.to, round.objects, round.bytes, round.time);
            self.rounds.push_back((seq, LogSeq(round.to)));
        }
        for new in &rewrite.packs {
            let name: PackName = new.name.parse().map_err(|e| crate::keys::damaged("pack", e))?;
            let contents = PackContents { name: new.name.clone(), footer: new.footer.clone() };
            entries.insert(pack::contents_key(name.id), Some(contents.encode_to_vec().into()));
            self.packs.insert(name.id, entry_of(&name, new, seq));
            entries.insert(pack::entry_key(name.id), self.stored(name.id));
        }
        for Released { pack_high, pack_low, entries: count } in &rewrite.released {
            let id = PackId(u128::from(*pack_high) << 64 | u128::from(*pack_low));
            if let Some(entry) = self.packs.get_mut(&id) {
                entry.live = entry.live.saturating_sub(*count);
                if entry.live == 0 {
                    entry.dead_since = seq.0;
                }
                entries.insert(pack::entry_key(id), self.stored(id));
            }
        }
        for bucket in &rewrite.buckets {
            index_changes(bucket, &mut entries);
        }
        Ok(entries)
    }

    fn stored(&self, id: PackId) -> Option<Bytes> {
        self.packs.get(&id).map(|entry| entry.encode_to_vec().into())
    }

    /// Applies what was deleted. Gives what becomes of the database.
    pub(in super::super) fn deleted(&mut self, deleted: &Deleted) -> Result<Entries, DamagedEntry> {
        let mut entries = Entries::new();
        for seq in &deleted.log {
            entries.insert(object::key(LogSeq(*seq)), None);
        }
        for name in &deleted.packs {
            let name: PackName = name.parse().map_err(|e| crate::keys::damaged("pack", e))?;
            self.packs.remove(&name.id);
            entries.insert(pack::entry_key(name.id), None);
            entries.insert(pack::contents_key(name.id), None);
        }
        Ok(entries)
    }

    /// The entry that every write of a group carries.
    pub(in super::super) fn packing_entry(&self) -> (Bytes, Bytes) {
        (packing::key(), self.packing.encode_to_vec().into())
    }
}

fn entry_of(name: &PackName, new: &NewPack, seq: LogSeq) -> PackEntry {
    PackEntry {
        from: name.from.0,
        to: name.to.0,
        level: name.level,
        token: name.token.0,
        bytes: new.bytes,
        live: new.live,
        dead_since: if new.live == 0 { seq.0 } else { 0 },
    }
}

fn index_changes(change: &BucketRewrite, entries: &mut Entries) {
    let bucket = change.bucket_id();
    for last in &change.removed {
        entries.insert(index::key(&bucket, Offset(*last)), None);
    }
    // An entry that comes may have the key of one that goes.
    for entry in &change.entries {
        if let Some(last) = last_of(entry) {
            entries.insert(index::key(&bucket, last), Some(entry.encode_to_vec().into()));
        }
    }
}

/// The offset of an entry's last row.
pub(super) fn last_of(entry: &IndexEntry) -> Option<Offset> {
    let end = entry.chunks.last().map(IndexedChunk::end)?;
    Some(Offset(end.0.saturating_sub(1)))
}
