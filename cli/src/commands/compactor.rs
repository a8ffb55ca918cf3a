//! `wadi compactor`: the worker beside gateways that share etcd.

use clap::Args;

use super::dev;
use crate::config::{ConfigArgs, ServerKind};
use crate::failure::Failure;

/// Start a compactor. It takes the same configuration as its gateways: of theirs it needs the object store, etcd and the lease.
/// Several share the shards; one that dies is replaced by the others.
#[derive(Debug, Args)]
pub(crate) struct CompactorArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(args: CompactorArgs) -> Result<(), Failure> {
    dev::start(ServerKind::Compactor, args.config).await
}
