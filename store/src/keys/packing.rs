//! How far the shard's log was turned into packs, and how much of it was not.

use bytes::Bytes;
use prost::Message;

use super::{DamagedEntry, damaged, kind};

/// The state of packing. A fold of the log like everything else; written with every group.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Packing {
    /// Rows of log objects up to here lie in packs, or are not needed any more.
    #[prost(uint64, tag = "1")]
    pub packed: u64,
    /// Log objects with rows behind it.
    #[prost(uint64, tag = "2")]
    pub objects: u64,
    /// Bytes of their chunks.
    #[prost(uint64, tag = "3")]
    pub bytes: u64,
    /// When the first of them was flushed, in milliseconds since 1970, or earlier.
    #[prost(int64, tag = "4")]
    pub oldest: i64,
}

impl Packing {
    /// Counts a new log object.
    pub fn add(&mut self, bytes: u64, time: i64) {
        if self.objects == 0 {
            self.oldest = time;
        }
        self.objects += 1;
        self.bytes += bytes;
    }

    /// Counts what a round has packed.
    pub fn packed(&mut self, to: u64, objects: u64, bytes: u64, time: i64) {
        self.packed = to;
        self.objects = self.objects.saturating_sub(objects);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.oldest = self.oldest.max(time);
    }
}

/// The one key.
pub fn key() -> Bytes {
    Bytes::from_static(&[kind::PACKING])
}

/// Reads the value.
pub fn decode(value: &[u8]) -> Result<Packing, DamagedEntry> {
    Packing::decode(value).map_err(|e| damaged("packing", e))
}
