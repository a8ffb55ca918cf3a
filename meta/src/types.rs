//! The values that all stores share.

use std::fmt;

use bytes::Bytes;

/// A point in the history of a store. It grows with every change and is never used twice.
///
/// Revisions of one store are ordered; those of two stores have nothing to do with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of one session; never used twice in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A key, what it holds, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key, without any prefix that the store puts before all its keys.
    pub key: String,
    /// The value of the last put.
    pub value: Bytes,
    /// The revision of the put that made the key. A key that is deleted and put again has a new one.
    pub created: Revision,
    /// The revision of the last put.
    pub modified: Revision,
}

/// All keys of a prefix at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The keys, in byte order.
    pub entries: Vec<KeyValue>,
    /// The revision of the store at that moment: a watch after it misses nothing.
    pub revision: Revision,
}
