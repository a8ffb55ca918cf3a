//! `wadi gateway`: a gateway on an object store.

use clap::Args;

use super::dev;
use crate::config::{ConfigArgs, ServerKind};
use crate::failure::Failure;

/// Start a gateway.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(args: GatewayArgs) -> Result<(), Failure> {
    dev::start(ServerKind::Gateway, args.config).await
}
