//! Black-box tests: the real binary, real HTTP, real etcd, real S3 servers, real faults.
//!
//! `harness` starts servers and speaks HTTP to them, `peers` starts etcd and the S3 servers, `load` writes with retries
//! and afterwards compares what was acked with what is there. One crate, so that the binary's dependencies are linked
//! once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod admin;
mod api;
mod bad_arrow;
mod bad_input;
mod bad_requests;
mod balancer;
mod binary;
mod brownout;
mod cluster;
mod compactor;
mod debezium;
mod evolve;
mod examples;
mod forget;
mod formats;
mod gate;
mod harness;
mod identity;
mod idle;
mod ids;
mod internal_version;
mod keyed;
mod keyed_bad;
mod keyed_cli;
mod link;
mod load;
mod packs;
mod pages;
mod partitions;
mod peers;
mod proxy;
mod s3;
mod sigkill;
mod single_owner;
mod store_trouble;
mod tail;
mod takeover_etcd;
mod telemetry;
mod torture;
