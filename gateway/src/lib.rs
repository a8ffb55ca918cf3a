//! The gateway: HTTP in front of shards.
//!
//! [`server`] starts everything that one process needs and listens; [`app`] is the router, and each call of the API is
//! a file under [`api`]. A gateway keeps no state of its own: what it acknowledges is in the object store, what it
//! knows is in the meta store.

pub mod api;
pub mod app;
mod auto_partition;
pub mod body;
mod closable;
pub mod config;
mod drain;
mod everywhere;
mod forward;
mod internal;
mod metrics;
mod peers;
pub mod places;
pub mod problem;
mod reachable;
pub mod request;
pub mod rows;
pub mod server;
mod stall;
pub mod targets;
mod trace;
pub mod write;

pub use app::Gateway;
pub use config::GatewayConfig;
pub use server::{Server, StartError, start};
