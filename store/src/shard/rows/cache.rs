//! A bounded cache of rows: the second-chance clock, which a lookup marks without a write lock.
//!
//! Rows of one beginning of the key (a *prefix group*) may be known as a whole: then a lookup of the prefix is a walk over
//! members in memory. A complete group knows each row that there is, in its newest state, so
//!
//! * a row that is new under its prefix becomes a member, and one that is gone leaves (see [`groups`]);
//! * a member that is driven out takes its group with it.
//!
//! Key and row are one allocation, and a place is a slot of one vector: entries cost little beside their bytes.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::State;
use groups::{Group, Groups};

pub(super) use groups::GroupRows;

mod groups;

/// What a row takes beside its bytes: its place, its part of the index, what the allocator rounds up.
const ROW_BYTES: usize = 96;

/// Rows up to this size are copied when they are read; larger ones are shared. A copy is cheaper than a counter in memory
/// that nobody else has touched lately.
const COPIED: usize = 1 << 10;

/// One place of the cache. Places are numbered; the clock's hand goes round them.
#[derive(Debug)]
struct Place {
    /// Whether it was asked for since the clock's hand came by.
    used: AtomicBool,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Row(CachedRow),
    Group(Group),
}

/// A row that is known, or known to be absent.
#[derive(Debug)]
pub(super) struct CachedRow {
    /// The key and the row behind it.
    bytes: Bytes,
    key_len: u32,
    present: bool,
    /// Whether it belongs to a complete group.
    member: bool,
    expires: i64,
}

impl CachedRow {
    fn new(key: &[u8], state: &State) -> CachedRow {
        let row = state.row.as_deref().unwrap_or_default();
        // Copied: as slices they would keep whole requests alive.
        let mut bytes = Vec::with_capacity(key.len() + row.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(row);
        CachedRow {
            bytes: bytes.into(),
            // SlateDB takes no key of 64 KiB.
            key_len: key.len() as u32,
            present: state.row.is_some(),
            member: false,
            expires: state.expires,
        }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    /// The row at a time.
    pub(super) fn at(&self, now: i64) -> Found<'_> {
        if !self.present || self.expires <= now {
            return Found::Absent;
        }
        let row = &self.bytes[self.key_len as usize..];
        if row.len() <= COPIED {
            Found::Small(row)
        } else {
            Found::Large(self.bytes.slice(self.key_len as usize..))
        }
    }

    /// The row and how long it lives.
    pub(super) fn state(&self) -> State {
        let row = self.present.then(|| Bytes::copy_from_slice(&self.bytes[self.key_len as usize..]));
        State { row, expires: self.expires }
    }

    fn size(&self) -> usize {
        self.bytes.len() + ROW_BYTES
    }
}

/// What is known of a row.
#[derive(Debug)]
pub(super) enum Found<'a> {
    Absent,
    /// To be copied.
    Small(&'a [u8]),
    Large(Bytes),
}

/// Rows by their database key.
#[derive(Debug)]
pub(super) struct RowCache {
    places: Vec<Option<Place>>,
    /// Places that hold nothing.
    free: Vec<u32>,
    /// The rows' places by their keys.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    groups: Groups,
    /// The place that the clock looks at next.
    hand: usize,
    bytes: usize,
    limit: usize,
}

impl RowCache {
    pub(super) fn new(limit: usize) -> RowCache {
        RowCache {
            places: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            groups: Groups::default(),
            hand: 0,
            bytes: 0,
            // Places have 32-bit numbers, and what they hold has `ROW_BYTES` at least.
            limit: limit.min(u32::MAX as usize * ROW_BYTES),
        }
    }

    /// Whether a row is known, or known to be absent.
    pub(super) fn knows(&self, key: &[u8]) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&CachedRow> {
        let (used, row) = self.row(self.find(key)?)?;
        used.store(true, Ordering::Relaxed);
        Some(row)
    }

    /// Notes a row's newest state.
    pub(super) fn put(&mut self, key: &[u8], state: &State) {
        self.put_row(key, state);
        self.shrink();
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |place| self.row(*place).is_some_and(|(_, row)| row.key() == key)).copied()
    }

    fn row(&self, place: u32) -> Option<(&AtomicBool, &CachedRow)> {
        match self.places.get(place as usize)?.as_ref()? {
            Place { used, held: Held::Row(row) } => Some((used, row)),
            _ => None,
        }
    }

    fn row_mut(&mut self, place: u32) -> Option<&mut CachedRow> {
        match self.places.get_mut(place as usize)?.as_mut()? {
            Place { held: Held::Row(row), .. } => Some(row),
            _ => None,
        }
    }

    fn put_row(&mut self, key: &[u8], state: &State) -> u32 {
        let fresh = CachedRow::new(key, state);
        let (size, present) = (fresh.size(), fresh.present);
        let place = match self.find(key) {
            Some(place) => {
                let before = self.places[place as usize].as_mut().and_then(|at| {
                    at.used.store(true, Ordering::Relaxed);
                    match &mut at.held {
                        Held::Row(row) => Some(std::mem::replace(row, fresh)),
                        Held::Group(_) => None,
                    }
                });
                let Some(before) = before else { return place };
                self.bytes = self.bytes - before.size() + size;
                match (before.member, present) {
                    // The most frequent case of a known group: one of its rows has changed.
                    (true, true) => {
                        self.row_mut(place).into_iter().for_each(|row| row.member = true);
                        return place;
                    }
                    (true, false) => self.leave(place),
                    _ => {}
                }
                place
            }
            None => {
                let place = self.take_place(Held::Row(fresh));
                let (places, hasher) = (&self.places, &self.hasher);
                let rehash = |place: &u32| match &places[*place as usize] {
                    Some(Place { held: Held::Row(row), .. }) => hasher.hash_one(row.key()),
                    // The index names rows only.
                    _ => 0,
                };
                self.index.insert_unique(hasher.hash_one(key), place, rehash);
                self.bytes += size;
                place
            }
        };
        if present {
            self.join(place);
        }
        place
    }

    fn take_place(&mut self, held: Held) -> u32 {
        let place = Some(Place { used: AtomicBool::new(false), held });
        match self.free.pop() {
            Some(free) => {
                self.places[free as usize] = place;
                free
            }
            None => {
                self.places.push(place);
                (self.places.len() - 1) as u32
            }
        }
    }

    fn shrink(&mut self) {
        // Twice around: once to take the marks away.
        let mut steps = 2 * self.places.len() + 2;
        while self.bytes > self.limit && steps > 0 {
            steps -= 1;
            self.hand = if self.hand + 1 < self.places.len() { self.hand + 1 } else { 0 };
            let Some(Some(place)) = self.places.get_mut(self.hand) else { continue };
            if !std::mem::take(place.used.get_mut()) {
                self.evict(self.hand as u32);
            }
        }
    }

    fn evict(&mut self, place: u32) {
        match self.places.get(place as usize) {
            Some(Some(Place { held: Held::Row(row), .. })) => {
                let (hash, size, member) = (self.hasher.hash_one(row.key()), row.size(), row.member);
                if member {
                    self.dissolve_around(place);
                }
                if let Ok(entry) = self.index.find_entry(hash, |at| *at == place) {
                    entry.remove();
                }
                self.bytes -= size;
                self.places[place as usize] = None;
                self.free.push(place);
            }
            Some(Some(Place { held: Held::Group(_), .. })) => self.dissolve(place),
            _ => {}
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// What all entries take; zero when there are none.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let sizes = self.places.iter().flatten().map(|place| match &place.held {
            Held::Row(row) => row.size(),
            Held::Group(group) => group.size(),
        });
        assert_eq!(sizes.sum::<usize>(), self.bytes);
        assert_eq!(self.places.iter().flatten().count() + self.free.len(), self.places.len());
        self.bytes
    }
}
