//! The commands, one file each.

pub(crate) mod admin;
pub(crate) mod bench;
pub(crate) mod compactor;
pub(crate) mod completions;
pub(crate) mod count;
pub(crate) mod database;
pub(crate) mod delete;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod gateway;
pub(crate) mod ingest;
mod keys;
pub(crate) mod log;
pub(crate) mod lookup;
pub(crate) mod partition;
pub(crate) mod scan;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod tail;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;

/// Runs the command of a command line.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(&cli.global);
    match cli.command {
        Command::Dev(args) => dev::run(args).await,
        Command::Gateway(args) => gateway::run(args, &context).await,
        Command::Compactor(args) => compactor::run(args).await,
        Command::Database(command) => database::run(command, &context).await,
        Command::Table(command) => table::run(command, &context).await,
        Command::Partition(command) => partition::run(command, &context).await,
        Command::Ingest(args) => ingest::run(args, &context).await,
        Command::Tail(args) => tail::run(args, &context).await,
        Command::Scan(args) => scan::run(args, &context).await,
        Command::Count(args) => count::run(args, &context).await,
        Command::Log(args) => log::run(args, &context).await,
        Command::Lookup(args) => lookup::run(args, &context).await,
        Command::Delete(args) => delete::run(args, &context).await,
        Command::Status(args) => status::run(args, &context).await,
        Command::Doctor(args) => doctor::run(args, &context).await,
        Command::Admin(command) => admin::run(command, &context).await,
        Command::Bench(command) => bench::run(command, &context).await,
        Command::Completions(args) => completions::run(&args),
    }
}
