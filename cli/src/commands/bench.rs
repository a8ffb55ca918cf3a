//! `wadi bench`: measures a server. Figures of server and client are told apart.

mod append;
mod bill;
mod drive;
mod load;
mod lookup;
mod packs;
mod read;
mod recover;
mod upsert;
mod usage;

use clap::Subcommand;

use crate::context::Context;
use crate::failure::Failure;

/// Measure a server.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Send rows as fast as the server acks them.
    Append(append::AppendArgs),
    /// Read a table's log with one column and with all.
    Read(read::ReadArgs),
    /// Update rows of a primary-key table as fast as the server acks them.
    Upsert(upsert::UpsertArgs),
    /// Find rows by their keys.
    Lookup(lookup::LookupArgs),
    /// Count what rows cost in requests and bytes written, until they are packed.
    Bill(bill::BillArgs),
    /// Count the requests that read a bucket, before and after it is packed.
    Packs(packs::PacksArgs),
    /// Time how long shards take to open after their owner was killed.
    Recover(recover::RecoverArgs),
}

pub(crate) async fn run(command: BenchCommand, context: &Context) -> Result<(), Failure> {
    match command {
        BenchCommand::Append(args) => append::run(args, context).await,
        BenchCommand::Read(args) => read::run(args, context).await,
        BenchCommand::Upsert(args) => upsert::run(args, context).await,
        BenchCommand::Lookup(args) => lookup::run(args, context).await,
        BenchCommand::Bill(args) => bill::run(args, context).await,
        BenchCommand::Packs(args) => packs::run(args, context).await,
        BenchCommand::Recover(args) => recover::run(args, context).await,
    }
}
