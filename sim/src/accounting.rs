//! T4: a listing of the object store against what the owners of shards know.
//!
//! Every object must be some shard's, and needed: a log object that is not packed for good, or a FENCE, or a pack into which the index
//! points, or a file of a database. And what the index points into must be there. Files of databases are not looked at: SlateDB
//! judges their age by the system's clock, so that none gets old enough in a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use object_store::path::Path;
use wadi_model::{LogSeq, ShardId};
use wadi_store::container::Kind;
use wadi_store::shard::Holdings;
use wadi_store::stored::PackName;

/// The objects of a store, by shard.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Of each shard.
    pub shards: BTreeMap<ShardId, Objects>,
    /// What belongs to nobody.
    pub strange: Vec<Path>,
}

/// A shard's objects.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Log objects.
    pub log: BTreeMap<LogSeq, Kind>,
    /// Packs.
    pub packs: BTreeSet<PackName>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// An object that is needed is not there.
    Missing(String),
    /// An object is there that its owner knows to be of no use.
    Dead(String),
    /// A pack that no owner took. A compactor that died has left it; after a day it goes.
    Orphan(String),
    /// An object that belongs to nobody.
    Strange(String),
    /// Rows whose time is long over are still served.
    Expired(String),
    /// Something of what was dropped is left.
    Dropped(String),
    /// It cannot be said now, or work is due.
    Busy(String),
}

impl Finding {
    /// The invariant that it breaks if it stays so.
    pub fn invariant(&self) -> &'static str {
        match self {
            Finding::Expired(_) => "R1",
            Finding::Busy(_) => "V1",
            _ => "T4",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Missing(what) => write!(f, "{what} is not there"),
            Finding::Dead(what) => write!(f, "{what} is of no use, and still there"),
            Finding::Orphan(what) => write!(f, "{what} was taken by no owner"),
            Finding::Strange(what) => write!(f, "{what} belongs to nobody"),
            Finding::Expired(what) | Finding::Dropped(what) | Finding::Busy(what) => f.write_str(what),
        }
    }
}

/// Holds a shard's objects against what its owner knows.
pub fn account(shard: ShardId, objects: &Objects, held: &Holdings) -> Vec<Finding> {
    let of = |what: String| format!("{what} of shard {shard}");
    let mut findings = Vec::new();
    let known: BTreeSet<LogSeq> = held.log.iter().copied().collect();
    for (seq, kind) in &objects.log {
        let unknown = *seq <= held.flushed && !known.contains(seq);
        if *kind != Kind::Fence && (*seq <= held.deletable || unknown) {
            findings.push(Finding::Dead(of(format!("log object {seq}"))));
        }
    }
    for seq in known.iter().filter(|seq| **seq > held.deletable && !objects.log.contains_key(*seq)) {
        findings.push(Finding::Missing(of(format!("log object {seq}"))));
    }
    for name in &objects.packs {
        if held.dead.contains(name) {
            findings.push(Finding::Dead(of(format!("pack {name}"))));
        } else if !held.live.contains(name) {
            findings.push(Finding::Orphan(of(format!("pack {name}"))));
        }
    }
    for name in held.live.iter().filter(|name| !objects.packs.contains(*name)) {
        findings.push(Finding::Missing(of(format!("pack {name}"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use wadi_model::Token;
    use wadi_store::stored::PackId;

    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn pack(id: u128) -> PackName {
        PackName { from: LogSeq(2), to: LogSeq(4), level: 0, token: Token(1), id: PackId(id) }
    }

    /// A FENCE, a packed log up to 4, the command that packed it, and two log objects behind, the last one not applied yet.
    fn good() -> (Objects, Holdings) {
        let log = [(1, Kind::Fence), (5, Kind::Data), (6, Kind::Data), (7, Kind::Data)];
        let log = log.into_iter().map(|(seq, kind)| (LogSeq(seq), kind)).collect();
        let objects = Objects { log, packs: [pack(1)].into() };
        let held = Holdings {
            log: vec![LogSeq(5), LogSeq(6)],
            deletable: LogSeq(4),
            flushed: LogSeq(6),
            live: vec![pack(1)],
            dead: Vec::new(),
        };
        (objects, held)
    }

    #[test]
    fn what_is_needed_and_there_is_fine() {
        let (objects, mut held) = good();
        assert_eq!(account(SHARD, &objects, &held), []);
        // Deleted, and the report was lost.
        held.log.push(LogSeq(3));
        held.dead.push(pack(9));
        assert_eq!(account(SHARD, &objects, &held), []);
    }

    #[test]
    fn each_object_too_many_and_too_few_is_found() {
        let found = |change: fn(&mut Objects, &mut Holdings)| {
            let (mut objects, mut held) = good();
            change(&mut objects, &mut held);
            let [finding] = account(SHARD, &objects, &held).try_into().unwrap();
            finding
        };
        assert!(matches!(
            found(|o, _| {
                o.log.remove(&LogSeq(5));
            }),
            Finding::Missing(_)
        ));
        assert!(matches!(
            found(|o, _| {
                o.packs.clear();
            }),
            Finding::Missing(_)
        ));
        assert!(matches!(
            found(|o, _| {
                o.log.insert(LogSeq(4), Kind::Data);
            }),
            Finding::Dead(_)
        ));
        assert!(
            matches!(
                found(|_, h| {
                    h.log.remove(0);
                }),
                Finding::Dead(_)
            ),
            "an object that the index forgot"
        );
        assert!(matches!(
            found(|o, _| {
                o.packs.insert(pack(2));
            }),
            Finding::Orphan(_)
        ));
        let dead = found(|o, h| {
            o.packs.insert(pack(2));
            h.dead.push(pack(2));
        });
        assert!(matches!(dead, Finding::Dead(_)));
        assert_eq!((dead.invariant(), Finding::Expired(String::new()).invariant()), ("T4", "R1"));
    }
}
