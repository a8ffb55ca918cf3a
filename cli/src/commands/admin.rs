//! `wadi admin`: what is done to a cluster's store from outside, before it runs or while it stands still.

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

mod adopt;
mod init;

/// Prepare buckets, and move clusters.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Prepare a bucket: make it, set what Wadi wants of it, and prove that it fences.
    Init(init::InitArgs),
    /// Give a root to the etcd named here, after it was moved.
    Adopt(adopt::AdoptArgs),
}

pub(crate) async fn run(command: AdminCommand, context: &Context) -> Result<(), Failure> {
    match command {
        AdminCommand::Init(args) => init::run(args, context).await,
        AdminCommand::Adopt(args) => adopt::run(args, context).await,
    }
}
