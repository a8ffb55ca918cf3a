//! The words of Wadi as types: tables, schemas, rows as Arrow columns, keys, buckets, filters, errors.
//!
//! Nothing here does I/O, spawns or waits; every other crate stands on this one. What is stored or sent in a
//! fixed form (names, types, option spellings, bucket hashes, record batch messages) is defined here once.

pub mod batch;
pub mod bucketing;
pub mod changelog;
mod columns;
pub mod env;
pub mod evolve;
pub mod fault;
pub mod ids;
pub mod ipc;
pub mod key;
pub mod merge;
pub mod name;
pub mod options;
pub mod partition;
pub mod predicate;
pub mod reject;
pub mod row;
pub mod schema;
pub mod split;
pub mod suggest;
pub mod system;
pub mod table;
pub mod time;
pub mod types;
pub mod varint;

pub use fault::{ErrorKind, Fault, Told};
pub use ids::{Bucket, FieldId, LogSeq, Offset, PartitionId, SchemaId, ShardId, TableId, Token};
pub use name::{DatabaseName, TableName};
pub use partition::Partition;
pub use schema::{Column, Schema};
pub use table::{Table, TableSpec};
pub use types::DataType;
