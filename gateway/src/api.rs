//! The calls of the HTTP API, one file each.

pub mod append;
pub mod count;
pub mod databases;
pub mod log;
pub mod lookup;
pub mod offsets;
pub mod openapi;
mod parameters;
pub mod partitions;
pub mod scan;
pub mod status;
pub mod tables;
pub mod tail;
pub mod upsert;
mod writing;
