//! Rows of primary-key tables as bytes, as the shard stores and merges them.

pub mod field;
