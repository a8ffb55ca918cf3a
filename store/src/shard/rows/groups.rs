//! All rows of a prefix: from the cache where their group is complete, else read from SlateDB and kept as a group.
//!
//! | | what voids the read of a group |
//! | --- | --- |
//! | a write under its prefix is confirmed | the rows read may be older: they are not kept |
//! | a row of it leaves the cache | nothing: all of them are put there again |
//!
//! What was read is a right answer all the same, as it shows the rows at one point in time after the read began.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::cache::{Found, GroupRows};
use super::copies::Copies;
use super::{Inner, Rows, State};
use crate::shard::prefixes::Limit;

/// What is in memory of a prefix's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shard) enum PrefixRows {
    /// Nothing for certain.
    Unknown,
    /// They are more than a group has.
    Many,
    /// All of them, in the order of their keys.
    All(Vec<Bytes>),
}

impl Rows {
    /// What is known of all rows whose keys begin with each of `within`, each of which begins with the prefix of a group.
    /// `None` if these are more than the limit, which is reduced by them.
    pub(in crate::shard) fn groups<'a>(
        &self,
        asked: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        now: i64,
        limit: &mut Limit,
    ) -> Option<Vec<PrefixRows>> {
        let mut copies = Copies::default();
        let mut found = Vec::new();
        {
            let inner = self.inner.read();
            for (prefix, within) in asked {
                found.push(match inner.cache.group(prefix, within) {
                    GroupRows::Unknown => Err(PrefixRows::Unknown),
                    GroupRows::Many => Err(PrefixRows::Many),
                    GroupRows::All(rows) => {
                        let mut group = Vec::with_capacity(rows.len());
                        for row in rows.into_iter().map(|row| row.at(now)) {
                            match &row {
                                Found::Absent => continue,
                                Found::Small(row) => limit.take(row)?,
                                Found::Large(row) => limit.take(row)?,
                            }
                            group.push(copies.take(row));
                        }
                        Ok(group)
                    }
                });
            }
        }
        let taken = copies.taken();
        let rows = |group: Vec<_>| group.into_iter().filter_map(|copy| taken.row(copy)).collect();
        Some(
            found
                .into_iter()
                .map(|group| group.map_or_else(|unknown| unknown, |g| PrefixRows::All(rows(g))))
                .collect(),
        )
    }

    /// Registers a read of all rows of a prefix.
    pub(in crate::shard) fn begin_group(self: &Arc<Rows>, prefix: Bytes) -> GroupRead {
        let mut inner = self.inner.write();
        let load = inner.fresh_load();
        let load = inner.group_loads.entry(prefix.clone()).or_insert(load);
        load.readers += 1;
        GroupRead { rows: self.clone(), load: load.id, prefix }
    }
}

impl Inner {
    /// Voids the reads of groups that hold a key.
    pub(super) fn void_group_loads(&mut self, key: &[u8]) {
        if self.group_loads.is_empty() {
            return;
        }
        let below = (Bound::Unbounded, Bound::Included(key));
        let around = self.group_loads.range::<[u8], _>(below).next_back();
        // Groups of a table have prefixes of the same columns, so at most one holds the key.
        if let Some(prefix) =
            around.map(|(prefix, _)| prefix).filter(|prefix| key.starts_with(prefix)).cloned()
        {
            self.group_loads.remove(&prefix);
        }
    }

    fn group_counts(&self, read: &GroupRead) -> bool {
        self.group_loads.get(&read.prefix).is_some_and(|load| load.id == read.load)
    }
}

/// A registered read of a group.
#[derive(Debug)]
pub(in crate::shard) struct GroupRead {
    rows: Arc<Rows>,
    prefix: Bytes,
    load: u64,
}

impl GroupRead {
    /// Keeps all rows of the prefix, in the order of their keys, unless one was written meanwhile.
    pub(in crate::shard) fn finish(&self, rows: &[(Bytes, State)]) {
        let mut inner = self.rows.inner.write();
        if inner.group_counts(self) {
            inner.cache.put_group(&self.prefix, rows);
        }
    }

    /// Notes that the prefix has more rows than a group.
    pub(in crate::shard) fn finish_many(&self) {
        let mut inner = self.rows.inner.write();
        if inner.group_counts(self) {
            inner.cache.put_many(&self.prefix);
        }
    }
}

impl Drop for GroupRead {
    fn drop(&mut self) {
        let mut inner = self.rows.inner.write();
        if let Some(load) = inner.group_loads.get_mut(&self.prefix).filter(|load| load.id == self.load) {
            load.readers -= 1;
            if load.readers == 0 {
                inner.group_loads.remove(&self.prefix);
            }
        }
    }
}
