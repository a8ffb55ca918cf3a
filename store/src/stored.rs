//! Which object of a shard, and where it lies in the object store: a log object, or a pack.
//!
//! Log objects are known by their position in the log. Packs are known by an id, which is new for each and stands at the end of the name;
//! the rest of the name says what the pack holds, so that a listing of the bucket explains itself.

use std::fmt;
use std::str::FromStr;

use object_store::path::Path;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use ulid::Ulid;
use wadi_model::env::Env;
use wadi_model::{LogSeq, ShardId, Token};

use crate::log::object_path;

/// A pack, for ever: no two packs of all shards have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(pub u128);

impl PackId {
    /// A new one, which carries the time.
    pub fn new(env: &Env) -> PackId {
        let millis = u64::try_from(env.now_millis()).unwrap_or(0);
        PackId(Ulid::from_parts(millis, env.unique()).0)
    }

    /// When it was made, in milliseconds since 1970, by the clock of who made it.
    pub fn made(self) -> i64 {
        i64::try_from(Ulid(self.0).timestamp_ms()).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ulid(self.0).fmt(f)
    }
}

/// The level of packs that have rows of one bucket alone and are large. All others are shared, and merged with others of their level.
pub const FINAL: u32 = 99;

/// A pack's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackName {
    /// The first log position whose rows it holds.
    pub from: LogSeq,
    /// The last one.
    pub to: LogSeq,
    /// How often its rows were merged; [`FINAL`] if they will not be again.
    pub level: u32,
    /// The token of the owner that planned it.
    pub token: Token,
    /// The pack.
    pub id: PackId,
}

impl fmt::Display for PackName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PackName { from, to, level, token, id } = self;
        write!(f, "{:020}-{:020}-{level}-{token}-{id}", from.0, to.0)
    }
}

/// A text that is no pack's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the name of a pack")]
pub struct NotAPack(String);

impl Serialize for PackName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PackName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PackName, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for PackName {
    type Err = NotAPack;

    fn from_str(name: &str) -> Result<PackName, NotAPack> {
        let not = || NotAPack(name.to_owned());
        let parts: Vec<&str> = name.split('-').collect();
        let [from, to, level, token, id] = parts.as_slice() else { return Err(not()) };
        let number = |text: &str| text.parse().map_err(|_| not());
        let read = PackName {
            from: LogSeq(number(from)?),
            to: LogSeq(number(to)?),
            level: level.parse().map_err(|_| not())?,
            token: Token(number(token)?),
            id: PackId(Ulid::from_string(id).map_err(|_| not())?.0),
        };
        // One name has one spelling, so that nothing is deleted under another.
        if read.to_string() == name { Ok(read) } else { Err(not()) }
    }
}

/// An object of a shard's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// A log object.
    Log(LogSeq),
    /// A pack.
    Pack(PackId),
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectId::Log(seq) => write!(f, "log object {seq}"),
            ObjectId::Pack(id) => write!(f, "pack {id}"),
        }
    }
}

/// An object of a shard's history, and where it lies.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// The shard that it belongs to.
    pub shard: ShardId,
    /// Which object.
    pub id: ObjectId,
    /// Its name in the object store.
    pub path: Path,
}

impl StoredObject {
    /// A log object.
    pub fn log(root: &Path, shard: ShardId, seq: LogSeq) -> StoredObject {
        StoredObject { shard, id: ObjectId::Log(seq), path: object_path(root, shard, seq) }
    }

    /// A pack.
    pub fn pack(root: &Path, shard: ShardId, name: &PackName) -> StoredObject {
        let path = Path::from(format!("{}/{name}", packs(root, shard)));
        StoredObject { shard, id: ObjectId::Pack(name.id), path }
    }
}

/// Where all packs of a shard lie.
pub fn packs(root: &Path, shard: ShardId) -> Path {
    Path::from(format!("{root}/shard/{shard}/pack"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_read_back(from in any::<u64>(), to in any::<u64>(), level in any::<u32>(), token in any::<u64>(), id in any::<u128>()) {
            let name = PackName { from: LogSeq(from), to: LogSeq(to), level, token: Token(token), id: PackId(id) };
            prop_assert_eq!(name.to_string().parse::<PackName>().unwrap(), name);
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let id = PackId(u128::MAX >> 8);
        for name in [
            format!("1-2-0-5-{id}"),
            format!("{:020}-{:020}-0-5-{}", 1, 2, id.to_string().to_lowercase()),
            format!("{:020}-{:020}-+0-5-{id}", 1, 2),
            format!("{:020}-{:020}-0-5-{id}-", 1, 2),
            String::new(),
        ] {
            assert!(name.parse::<PackName>().is_err(), "{name}");
        }
    }
}
