//! `wadi dev`: everything in one process, on a local directory.

use clap::Args;

use crate::config::{ConfigArgs, ServerConfig, ServerKind};
use crate::failure::Failure;
use crate::{logging, output, server};

/// Start everything in one process, on a local directory.
#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(args: DevArgs) -> Result<(), Failure> {
    start(ServerKind::Dev, args.config).await
}

/// Loads the configuration and starts what it describes, or prints it.
pub(super) async fn start(kind: ServerKind, args: ConfigArgs) -> Result<(), Failure> {
    let config = ServerConfig::load(kind, &args)?;
    if args.print_config {
        return output::line(config.to_toml()?.trim_end());
    }
    logging::start(&config)?;
    match kind {
        ServerKind::Dev | ServerKind::Gateway => server::serve(config).await,
        ServerKind::Compactor => server::compact_alone(config).await,
    }
}
