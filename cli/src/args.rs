//! The command line. Every flag `--some-thing` has the environment variable `WADI_SOME_THING`; a test holds it to
//! that.

use clap::builder::BoolishValueParser;
use clap::{Args, Parser, Subcommand};

use crate::commands::{
    admin, bench, compactor, completions, count, database, delete, dev, doctor, gateway, ingest, log, lookup,
    partition, scan, status, table, tail,
};

#[cfg(test)]
mod tests;

/// Streaming storage on object storage: start a server, or speak to one.
#[derive(Debug, Parser)]
#[command(name = "wadi", version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of all commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The server to speak to.
    #[arg(
        long,
        env = "WADI_URL",
        default_value = "http://127.0.0.1:8080",
        global = true,
        help_heading = "Global"
    )]
    pub(crate) url: String,
    /// Answer in JSON, for programs.
    #[arg(long, env = "WADI_JSON", global = true, value_parser = boolish(), help_heading = "Global")]
    pub(crate) json: bool,
    /// No progress and no remarks on stderr.
    #[arg(long, short, env = "WADI_QUIET", global = true, value_parser = boolish(), help_heading = "Global")]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start everything in one process, on a local directory, for trying and developing.
    Dev(dev::DevArgs),
    /// Start a gateway on an object store, or drain one.
    Gateway(gateway::GatewayArgs),
    /// Start a compactor beside gateways that share etcd.
    Compactor(compactor::CompactorArgs),
    /// Create, list and drop databases.
    #[command(subcommand)]
    Database(database::DatabaseCommand),
    /// Create, list, show, alter and drop tables.
    #[command(subcommand)]
    Table(table::TableCommand),
    /// Create, list and drop partitions of tables.
    #[command(subcommand)]
    Partition(partition::PartitionCommand),
    /// Send files to a table; an interrupted run continues where it stopped.
    Ingest(ingest::IngestArgs),
    /// Follow a table: print rows as they arrive.
    Tail(tail::TailArgs),
    /// Print the rows that a table has now.
    Scan(scan::ScanArgs),
    /// Print how many rows a table has.
    Count(count::CountArgs),
    /// Print rows of one bucket from an offset.
    Log(log::LogArgs),
    /// Print the row of a key, or all rows under the first columns of a key.
    Lookup(lookup::LookupArgs),
    /// Delete the row of a key.
    Delete(delete::DeleteArgs),
    /// Show the server's version, shards and owners.
    Status(status::StatusArgs),
    /// Check that everything a server needs is there and works.
    Doctor(doctor::DoctorArgs),
    /// Prepare buckets, and move clusters.
    #[command(subcommand)]
    Admin(admin::AdminCommand),
    /// Measure a server.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Print a completion script for a shell.
    Completions(completions::CompletionsArgs),
}

/// Whether a command line that cannot be read asks for JSON all the same.
pub(crate) fn asks_for_json() -> bool {
    let variable = std::env::var("WADI_JSON").unwrap_or_default().to_lowercase();
    std::env::args().any(|arg| arg == "--json")
        || ["1", "true", "yes", "on", "y", "t"].contains(&variable.as_str())
}

/// Reads a flag's environment variable: true, false, yes, no, on, off, 1, 0.
pub(crate) fn boolish() -> BoolishValueParser {
    BoolishValueParser::new()
}
