//! What a bucket remembers of a producer, so that a retry finds its first try.

use bytes::{BufMut, Bytes};
use prost::Message;
use wadi_model::Bucket;

use super::{DamagedEntry, bucket_key, damaged, kind};

/// The newest requests of a producer in one bucket.
#[derive(Clone, PartialEq, Message)]
pub struct ProducerEntry {
    /// By sequence, at most [`WINDOW`](crate::shard::producers::WINDOW).
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<SeenRequest>,
    /// When it was last heard of, in milliseconds since 1970.
    #[prost(int64, tag = "2")]
    pub heard: i64,
    /// Whether it is an idempotency key.
    #[prost(bool, tag = "3")]
    pub once: bool,
}

/// A request that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct SeenRequest {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// What it said, as a hash.
    #[prost(fixed64, tag = "2")]
    pub fingerprint: u64,
    /// The offset of its first row in the bucket.
    #[prost(uint64, tag = "3")]
    pub base_offset: u64,
    /// Its rows in the bucket.
    #[prost(uint32, tag = "4")]
    pub rows: u32,
}

/// The key of a producer in a bucket.
pub fn key(bucket: &Bucket, producer: &str) -> Bytes {
    let mut key = bucket_key(kind::PRODUCER, bucket, producer.len());
    key.put_slice(producer.as_bytes());
    key.freeze()
}

/// Reads the value.
pub fn decode(value: &[u8]) -> Result<ProducerEntry, DamagedEntry> {
    ProducerEntry::decode(value).map_err(|e| damaged("producer", e))
}
