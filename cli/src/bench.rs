//! What the benchmarks are made of: rows to send, and the CPU and memory of processes.

pub(crate) mod keyed;
pub(crate) mod process;
mod random;
pub(crate) mod shape;
