//! What the benchmarks are made of: rows to send, and the CPU and memory of processes.

pub(crate) mod process;
pub(crate) mod shape;
