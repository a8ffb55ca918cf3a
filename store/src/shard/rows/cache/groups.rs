//! Prefix groups of the row cache: which rows there are under a beginning of the key.
//!
//! Groups of a table have prefixes of the same columns, so none begins with another, and at most one holds a key.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;

use super::{CachedRow, Held, RowCache};
use crate::shard::rows::{GROUP_ROWS, State};

/// What a group takes beside its prefix and the numbers of its members.
const GROUP_BYTES: usize = 192;

/// The places of groups by their prefixes.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<Box<[u8]>, u32>);

/// What is known of a prefix.
#[derive(Debug)]
pub(super) struct Group {
    prefix: Box<[u8]>,
    /// The places of all rows that there are, in the order of their keys; `None` if they are more than a group has.
    members: Option<Vec<u32>>,
}

impl Group {
    pub(super) fn size(&self) -> usize {
        let members = self.members.as_ref().map_or(0, |members| members.capacity() * size_of::<u32>());
        2 * self.prefix.len() + members + GROUP_BYTES
    }
}

/// The rows of a prefix, as far as the cache knows them.
pub(in crate::shard::rows) enum GroupRows<'a> {
    Unknown,
    /// There are more than a group has.
    Many,
    /// All that there are, in the order of their keys, absent and expired ones perhaps among them.
    All(Vec<&'a CachedRow>),
}

impl Groups {
    /// The place of the group that holds a key.
    fn around(&self, key: &[u8]) -> Option<u32> {
        let below = (Bound::Unbounded, Bound::Included(key));
        let (prefix, place) = self.0.range::<[u8], _>(below).next_back()?;
        key.starts_with(prefix).then_some(*place)
    }
}

impl RowCache {
    /// The rows whose keys begin with `within`, which begins with the prefix of a group.
    pub(in crate::shard::rows) fn group(&self, prefix: &[u8], within: &[u8]) -> GroupRows<'_> {
        let Some(place) = self.groups.0.get(prefix) else { return GroupRows::Unknown };
        let Some(Some(at)) = self.places.get(*place as usize) else { return GroupRows::Unknown };
        at.used.store(true, Ordering::Relaxed);
        let Held::Group(group) = &at.held else { return GroupRows::Unknown };
        let Some(members) = &group.members else { return GroupRows::Many };
        let row = |place: &u32| {
            let (used, row) = self.row(*place)?;
            used.store(true, Ordering::Relaxed);
            Some(row)
        };
        let first = match within.len() == prefix.len() {
            true => 0,
            false => members.partition_point(|place| self.key(*place) < within),
        };
        let inside = |place: &&u32| self.key(**place).starts_with(within);
        GroupRows::All(members[first..].iter().take_while(inside).filter_map(row).collect())
    }

    /// Notes all rows of a prefix. They are its rows now: nothing was written since they were read.
    pub(in crate::shard::rows) fn put_group(&mut self, prefix: &[u8], rows: &[(bytes::Bytes, State)]) {
        self.forget_group(prefix);
        let members: Vec<u32> = rows.iter().map(|(key, state)| self.put_row(key, state)).collect();
        for place in &members {
            if let Some(row) = self.row_mut(*place) {
                row.member = true;
            }
        }
        self.add_group(prefix, Some(members));
        self.shrink();
    }

    /// Notes that there are more rows of a prefix than a group has.
    pub(in crate::shard::rows) fn put_many(&mut self, prefix: &[u8]) {
        self.forget_group(prefix);
        self.add_group(prefix, None);
        self.shrink();
    }

    fn add_group(&mut self, prefix: &[u8], members: Option<Vec<u32>>) {
        let group = Group { prefix: prefix.into(), members };
        self.bytes += group.size();
        let place = self.take_place(Held::Group(group));
        self.groups.0.insert(prefix.into(), place);
    }

    fn forget_group(&mut self, prefix: &[u8]) {
        if let Some(place) = self.groups.0.get(prefix) {
            self.dissolve(*place);
        }
    }

    fn key(&self, place: u32) -> &[u8] {
        self.row(place).map_or(&[], |(_, row)| row.key())
    }

    fn group_mut(&mut self, place: u32) -> Option<&mut Group> {
        match &mut self.places.get_mut(place as usize)?.as_mut()?.held {
            Held::Group(group) => Some(group),
            Held::Row(_) => None,
        }
    }

    /// Takes a row that is there now into its group, if that is known.
    pub(super) fn join(&mut self, place: u32) {
        let Some(around) = self.groups.around(self.key(place)) else { return };
        let Some(Some(super::Place { held: Held::Group(Group { members: Some(members), .. }), .. })) =
            self.places.get(around as usize)
        else {
            return;
        };
        let key = self.key(place);
        let at = members.partition_point(|member| self.key(*member) < key);
        if members.get(at) == Some(&place) {
            return;
        }
        let many = members.len() >= GROUP_ROWS;
        if many {
            // It has outgrown what a group is for.
            let prefix = self.group_mut(around).map(|group| group.prefix.clone()).unwrap_or_default();
            self.dissolve(around);
            return self.add_group(&prefix, None);
        }
        self.change_members(around, |members| members.insert(at, place));
        if let Some(row) = self.row_mut(place) {
            row.member = true;
        }
    }

    /// Takes a row that is gone out of its group.
    pub(super) fn leave(&mut self, place: u32) {
        if let Some(around) = self.groups.around(self.key(place)) {
            self.change_members(around, |members| members.retain(|member| *member != place));
        }
    }

    fn change_members(&mut self, group: u32, change: impl FnOnce(&mut Vec<u32>)) {
        let Some(group) = self.group_mut(group) else { return };
        let before = group.size();
        if let Some(members) = &mut group.members {
            change(members);
        }
        let after = group.size();
        self.bytes = self.bytes + after - before;
    }

    /// Forgets the group of a member, which is driven out.
    pub(super) fn dissolve_around(&mut self, place: u32) {
        if let Some(around) = self.groups.around(self.key(place)) {
            self.dissolve(around);
        }
    }

    /// Forgets a group; its rows stay.
    pub(super) fn dissolve(&mut self, place: u32) {
        let Some(Some(at)) = self.places.get_mut(place as usize).map(Option::take) else { return };
        let Held::Group(group) = at.held else { return };
        self.bytes -= group.size();
        self.groups.0.remove(&group.prefix);
        self.free.push(place);
        for member in group.members.into_iter().flatten() {
            if let Some(row) = self.row_mut(member) {
                row.member = false;
            }
        }
    }
}
