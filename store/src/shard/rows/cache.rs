//! A bounded cache of rows: the second-chance clock, which a lookup marks without a write lock.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::Row;

/// What an entry takes beside its key and row.
const ENTRY_BYTES: usize = 160;

#[derive(Debug)]
struct Entry {
    row: Row,
    /// Whether it was asked for since the clock's hand came by.
    used: AtomicBool,
}

/// Rows by their database key.
#[derive(Debug)]
pub(super) struct RowCache {
    entries: HashMap<Bytes, Entry>,
    /// All keys, in the order in which the hand meets them.
    hand: VecDeque<Bytes>,
    bytes: usize,
    limit: usize,
}

impl RowCache {
    pub(super) fn new(limit: usize) -> RowCache {
        RowCache { entries: HashMap::new(), hand: VecDeque::new(), bytes: 0, limit }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Row> {
        let entry = self.entries.get(key)?;
        entry.used.store(true, Ordering::Relaxed);
        Some(entry.row.clone())
    }

    /// Notes a row's newest state. Keys and rows are copied: as slices they would keep whole requests alive.
    pub(super) fn put(&mut self, key: &Bytes, row: Row) {
        let row = row.map(|row| Bytes::copy_from_slice(&row));
        let size = |row: &Row| row.as_ref().map_or(0, Bytes::len);
        match self.entries.get_mut(key) {
            Some(entry) => {
                self.bytes = self.bytes - size(&entry.row) + size(&row);
                entry.row = row;
                entry.used.store(true, Ordering::Relaxed);
            }
            None => {
                let key = Bytes::copy_from_slice(key);
                self.bytes += key.len() + size(&row) + ENTRY_BYTES;
                self.hand.push_back(key.clone());
                self.entries.insert(key, Entry { row, used: AtomicBool::new(false) });
            }
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.limit {
            let Some(key) = self.hand.pop_front() else { return };
            let Some(entry) = self.entries.get(&key) else { continue };
            if entry.used.swap(false, Ordering::Relaxed) {
                self.hand.push_back(key);
                continue;
            }
            self.bytes -= key.len() + entry.row.as_ref().map_or(0, Bytes::len) + ENTRY_BYTES;
            self.entries.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
