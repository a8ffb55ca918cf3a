//! `wadi gateway`: a gateway on an object store, and what can be done with one that runs.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::dev;
use crate::config::{ConfigArgs, ServerKind};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Start a gateway.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    command: Option<GatewayCommand>,
    #[command(flatten)]
    config: ConfigArgs,
}

/// What can be done with a gateway that runs: the one at --url.
#[derive(Debug, Subcommand)]
enum GatewayCommand {
    /// Give its shards to the other gateways; it answers as before, and load balancers see at /ready that it leaves.
    Drain(DrainArgs),
}

#[derive(Debug, Args)]
struct DrainArgs {
    /// Take it back: the gateway gets shards again.
    #[arg(long, env = "WADI_UNDO", value_parser = crate::args::boolish())]
    undo: bool,
    /// How long to wait until the shards are given.
    #[arg(long, env = "WADI_WAIT", value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    wait: Duration,
}

pub(crate) async fn run(args: GatewayArgs, context: &Context) -> Result<(), Failure> {
    match args.command {
        None => dev::start(ServerKind::Gateway, args.config).await,
        Some(GatewayCommand::Drain(args)) => drain(args, context).await,
    }
}

async fn drain(args: DrainArgs, context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    if args.undo {
        client.stay().await?;
        return output::line("the gateway gets shards again");
    }
    match client.drain(args.wait).await? {
        0 => output::line("other gateways have its shards; it may be ended"),
        shards => Err(Failure::new(format!("no other gateway has taken {shards} of the shards")).hint(
            "wait longer with --wait, or see in `wadi status` whether another gateway is there to take them",
        )),
    }
}
