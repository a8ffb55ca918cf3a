//! Packs: what the owner knows of each, and apart from it, as only readers need it, what lies where in it.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use wadi_model::{LogSeq, Token};

use super::{DamagedEntry, all_of, damaged, kind};
use crate::container::Footer;
use crate::stored::{PackId, PackName};

/// What is known of a pack.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PackEntry {
    /// The first log position whose rows it holds.
    #[prost(uint64, tag = "1")]
    pub from: u64,
    /// The last one.
    #[prost(uint64, tag = "2")]
    pub to: u64,
    /// How often its rows were merged.
    #[prost(uint32, tag = "3")]
    pub level: u32,
    /// The token in its name.
    #[prost(uint64, tag = "4")]
    pub token: u64,
    /// Its bytes.
    #[prost(uint64, tag = "5")]
    pub bytes: u64,
    /// Index entries that point into it.
    #[prost(uint32, tag = "6")]
    pub live: u32,
    /// The log position of the command that left none; 0 while there are some. From then on nobody needs it.
    #[prost(uint64, tag = "7")]
    pub dead_since: u64,
}

impl PackEntry {
    /// Its name.
    pub fn name(&self, id: PackId) -> PackName {
        let (from, to, token) = (LogSeq(self.from), LogSeq(self.to), Token(self.token));
        PackName { from, to, level: self.level, token, id }
    }
}

/// A pack as readers need it.
#[derive(Clone, PartialEq, Message)]
pub struct PackContents {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its footer as it is stored.
    #[prost(bytes = "bytes", tag = "2")]
    pub footer: Bytes,
}

fn key(kind: u8, id: PackId) -> Bytes {
    let mut key = BytesMut::with_capacity(17);
    key.put_u8(kind);
    key.put_u128(id.0);
    key.freeze()
}

/// The key of what is known of a pack.
pub fn entry_key(id: PackId) -> Bytes {
    key(kind::PACK, id)
}

/// The prefix of all such keys.
pub fn prefix() -> Bytes {
    all_of(kind::PACK)
}

/// The key of a pack's contents.
pub fn contents_key(id: PackId) -> Bytes {
    key(kind::PACK_CONTENTS, id)
}

/// The prefix of all such keys.
pub fn contents_prefix() -> Bytes {
    all_of(kind::PACK_CONTENTS)
}

/// Reads what is known of a pack.
pub fn decode_entry(key: &[u8], value: &[u8]) -> Result<(PackId, PackEntry), DamagedEntry> {
    let id = key.get(1..).and_then(|id| id.try_into().ok());
    let id = id.ok_or_else(|| damaged("pack", "its key has no id"))?;
    let entry = PackEntry::decode(value).map_err(|e| damaged("pack", e))?;
    Ok((PackId(u128::from_be_bytes(id)), entry))
}

/// Reads a pack's contents.
pub fn decode_contents(value: &[u8]) -> Result<(PackName, Footer), DamagedEntry> {
    let contents = PackContents::decode(value).map_err(|e| damaged("pack", e))?;
    let name = contents.name.parse().map_err(|e| damaged("pack", e))?;
    Ok((name, Footer::decode(&contents.footer).map_err(|e| damaged("pack", e))?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_read_back(id in any::<u128>(), from in any::<u64>(), live in any::<u32>()) {
            let entry = PackEntry { from, to: from / 2, level: 3, token: 9, bytes: 77, live, dead_since: 4 };
            let read = decode_entry(&entry_key(PackId(id)), &entry.encode_to_vec()).unwrap();
            prop_assert_eq!(read, (PackId(id), entry));
        }

        #[test]
        fn keys_are_in_the_order_of_ids(a in any::<u128>(), b in any::<u128>()) {
            prop_assert_eq!(a.cmp(&b), entry_key(PackId(a)).cmp(&entry_key(PackId(b))));
        }
    }
}
