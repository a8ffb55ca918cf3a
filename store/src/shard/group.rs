//! Confirmed changes on their way to SlateDB: one write for many log objects.
//!
//! A group is always the fold of whole log objects, and its write carries the last one's position as `seqnum`. So the
//! database is at every moment the fold of a prefix of the log, and replay goes on exactly behind it (K1, L1).

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;
use slatedb::WriteBatch;
use slatedb::config::{PutOptions, Ttl};
use tokio::time::Instant;
use wadi_model::{Bucket, LogSeq, Offset};

use super::packs::Entries;
use super::producers::{Lifetimes, ProducerKey};
use super::rows::{Key, State};
use crate::container::{Footer, Header};
use crate::keyed::FOREVER;
use crate::keys::applied::{self, Applied};
use crate::keys::ids::{self, IdRanges};
use crate::keys::index::{self, IndexEntry, IndexedChunk};
use crate::keys::producer::{self, ProducerEntry};
use crate::keys::watermark::{self, Watermark};
use crate::keys::{object, producer::SeenRequest};
use crate::memtables::ENTRY_BYTES;
use crate::stored::ObjectId;

/// Changes of consecutive log objects.
#[derive(Debug)]
pub(super) struct Group {
    began: Instant,
    objects: usize,
    bytes: usize,
    last: Option<Applied>,
    footers: Vec<(LogSeq, Bytes)>,
    index: BTreeMap<Bucket, Vec<IndexedChunk>>,
    watermarks: BTreeMap<Bucket, Watermark>,
    /// Changes of rows, in order; the last one of a key counts.
    rows: Vec<(Bytes, State)>,
    ids: BTreeMap<Bucket, IdRanges>,
    /// What commands say, and the state that every write carries.
    entries: Entries,
}

impl Group {
    /// An empty group.
    pub(super) fn new() -> Group {
        Group {
            began: Instant::now(),
            objects: 0,
            bytes: 0,
            last: None,
            footers: Vec::new(),
            index: BTreeMap::new(),
            watermarks: BTreeMap::new(),
            rows: Vec::new(),
            ids: BTreeMap::new(),
            entries: Entries::new(),
        }
    }

    /// Adds the next log object; what else is known of its buckets stands beside their high watermarks.
    pub(super) fn add(
        &mut self,
        header: &Header,
        footer: &Footer,
        footer_bytes: Bytes,
        known: impl Fn(&Bucket) -> Watermark,
    ) {
        if self.objects == 0 {
            self.began = Instant::now();
        }
        self.objects += 1;
        // FENCEs have no chunks, and nobody asks for their footers.
        if !footer.chunks.is_empty() {
            self.bytes += footer_bytes.len();
            self.footers.push((header.seq, footer_bytes));
        }
        for (position, chunk) in footer.chunks.iter().enumerate() {
            if chunk.rows == 0 {
                // It only says that a request changed nothing.
                continue;
            }
            self.bytes += 32;
            let indexed = IndexedChunk::new(ObjectId::Log(header.seq), position, chunk);
            self.index.entry(chunk.bucket_id()).or_default().push(indexed);
        }
        for mark in &footer.high_watermarks {
            let bucket = mark.bucket_id();
            self.watermarks.insert(bucket, Watermark { high: mark.offset, ..known(&bucket) });
        }
        self.last = Some(Applied {
            seq: header.seq.0,
            token: header.token.0,
            put_id: Bytes::copy_from_slice(&header.put_id.to_le_bytes()),
            time: header.time,
        });
    }

    /// Adds the changes of rows that the object brought, in their order.
    pub(super) fn add_rows<'a>(&mut self, changes: impl IntoIterator<Item = &'a (Bytes, State)>) {
        for (key, state) in changes {
            self.bytes += key.len() + state.row.as_ref().map_or(0, Bytes::len);
            self.rows.push((key.clone(), state.clone()));
        }
    }

    /// Adds the ids that a bucket has left.
    pub(super) fn add_ids(&mut self, bucket: Bucket, left: IdRanges) {
        self.bytes += 32;
        self.ids.insert(bucket, left);
    }

    /// Adds entries, of which the last one of a key counts.
    pub(super) fn add_entries(&mut self, entries: impl IntoIterator<Item = (Bytes, Option<Bytes>)>) {
        for (key, value) in entries {
            self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.entries.insert(key, value);
        }
    }

    /// Adds where a bucket's log begins now.
    pub(super) fn add_start(&mut self, bucket: Bucket, mark: Watermark) {
        self.watermarks.insert(bucket, mark);
    }

    /// Removes a bucket of which nothing is kept.
    pub(super) fn forget(&mut self, bucket: &Bucket) {
        self.watermarks.remove(bucket);
        self.entries.insert(watermark::key(bucket), None);
        self.ids.remove(bucket);
        self.entries.insert(ids::key(bucket), None);
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// When its first object was added.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Log objects in it.
    pub(super) fn objects(&self) -> usize {
        self.objects
    }

    /// About how many bytes its write has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// About how many bytes of memory SlateDB holds for its write until they are flushed.
    pub(super) fn memory(&self) -> usize {
        let of_log = self.footers.len() + self.index.len() + self.watermarks.len();
        let entries = of_log + self.rows.len() + self.ids.len() + self.entries.len();
        self.bytes + entries * ENTRY_BYTES
    }

    /// The write, and the log position that it brings the database to.
    pub(super) fn into_write(
        self,
        producers: Vec<(ProducerKey, ProducerEntry)>,
        lifetimes: Lifetimes,
    ) -> Option<(WriteBatch, LogSeq)> {
        let last = self.last?;
        let mut write = WriteBatch::new();
        // First: a bucket that was forgotten may have come back, by a write that was on its way.
        for (key, value) in self.entries {
            match value {
                Some(value) => write.put_bytes(key, value),
                None => write.delete(key),
            }
        }
        for (seq, footer) in self.footers {
            write.put_bytes(object::key(seq), footer);
        }
        for (bucket, chunks) in self.index {
            let Some(end) = chunks.last().map(IndexedChunk::end) else { continue };
            let entry = IndexEntry { chunks };
            write.put(index::key(&bucket, Offset(end.0.saturating_sub(1))), entry.encode_to_vec());
        }
        for (bucket, mark) in self.watermarks {
            write.put(watermark::key(&bucket), mark.encode_to_vec());
        }
        for (key, State { row, expires }) in last_of_each(self.rows) {
            let ttl = if expires == FOREVER { Ttl::NoExpiry } else { Ttl::ExpireAtMillis(expires) };
            match row {
                Some(row) => write.put_bytes_with_options(key, row, &PutOptions { ttl }),
                None => write.delete(key),
            }
        }
        for (bucket, left) in self.ids {
            write.put(ids::key(&bucket), left.encode_to_vec());
        }
        for ((bucket, name), entry) in producers {
            let ttl = Ttl::ExpireAtMillis(lifetimes.end(&entry));
            write.put_with_options(producer::key(&bucket, &name), entry.encode_to_vec(), &PutOptions { ttl });
        }
        write.put(applied::key(), last.encode_to_vec());
        Some((write, LogSeq(last.seq)))
    }
}

/// The last change of each key, in the order of the keys: SlateDB's maps take sorted keys in a fraction of the time, as each finds
/// its place beside the one before.
fn last_of_each(changes: Vec<(Bytes, State)>) -> impl Iterator<Item = (Bytes, State)> {
    let mut order: Vec<(Key, usize)> =
        changes.iter().enumerate().map(|(at, (key, _))| (Key::from(key), at)).collect();
    order.sort_unstable();
    let mut changes: Vec<_> = changes.into_iter().map(Some).collect();
    let mut order = order.into_iter().peekable();
    std::iter::from_fn(move || {
        let (mut key, mut at) = order.next()?;
        while let Some(later) = order.next_if(|(next, _)| *next == key) {
            (key, at) = later;
        }
        changes[at].take()
    })
}

/// The requests that an object's chunks carry, with the producer that each belongs to.
pub(super) fn requests_in(footer: &Footer) -> impl Iterator<Item = (ProducerKey, bool, SeenRequest)> + '_ {
    footer.chunks.iter().flat_map(|chunk| {
        chunk.producers.iter().map(|p| {
            let key = (chunk.bucket_id(), super::producers::name_of(p.once, &p.id));
            let request = SeenRequest {
                sequence: p.sequence,
                fingerprint: p.fingerprint,
                base_offset: p.base_offset,
                rows: p.rows,
            };
            (key, p.once, request)
        })
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn of_each_key_the_last_change_is_written_in_order(
            changes in proptest::collection::vec((0u8..20, any::<bool>(), 0usize..60), 0..100),
        ) {
            // Short keys and long ones.
            let key = |k: u8, len| Bytes::from([vec![k], vec![k; if k.is_multiple_of(3) { 50 } else { 1 + len % 2 }]].concat());
            let changes: Vec<_> = changes
                .into_iter()
                .enumerate()
                .map(|(i, (k, there, len))| (key(k, len), State::lasting(there.then(|| Bytes::from(i.to_string())))))
                .collect();
            let expected: BTreeMap<Bytes, State> = changes.iter().cloned().collect();
            let found: Vec<_> = last_of_each(changes).collect();
            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
