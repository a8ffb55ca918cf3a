//! `wadi status`.

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Show the server's version, shards and owners.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {}

pub(crate) async fn run(_args: StatusArgs, context: &Context) -> Result<(), Failure> {
    let status = context.client()?.status().await?;
    if context.json { output::json(&status) } else { output::line(output::document(&status)) }
}
