//! `wadi dev`: everything in one process, on a local directory.

use clap::Args;

use crate::config::{ConfigArgs, ServerConfig, ServerKind};
use crate::failure::Failure;
use crate::{output, server, telemetry};

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
    let mut telemetry = telemetry::start(kind, &config)?;
    let done = match kind {
        ServerKind::Dev | ServerKind::Gateway => server::serve(config, &mut telemetry).await,
        ServerKind::Compactor => server::compact_alone(config, &mut telemetry).await,
    };
    telemetry.stop().await;
    done
}
