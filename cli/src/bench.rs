//! What the benchmarks are made of: rows to send, servers of their own, what those ask of the object store, and the CPU and
//! memory of processes.

pub(crate) mod keyed;
pub(crate) mod process;
mod random;
pub(crate) mod requests;
pub(crate) mod server;
pub(crate) mod shape;
