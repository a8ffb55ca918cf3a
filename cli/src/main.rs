//! `wadi`: the one binary. Starts servers, and speaks to them for people and scripts.
//!
//! * `commands/` has one file for each command; `args` is the whole command line.
//! * Everything but `dev`, `gateway`, `compactor`, `doctor` and `admin` is a client of the HTTP API and holds no state, but for the journal of
//!   `ingest`, which lets an interrupted run continue.
//! * Results go to stdout (tables for people, JSON with `--json`), all else to stderr, errors too: with `--json` each as
//!   one JSON document. Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong.

mod args;
mod bench;
mod bucket;
mod bytesize;
mod commands;
mod config;
mod context;
mod failure;
mod format;
mod infer;
mod ingest;
mod latency;
mod output;
mod rows;
mod server;
mod task;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;
use tikv_jemallocator::Jemalloc;

use crate::args::Cli;
use crate::failure::Failure;

/// What one thread takes another one frees, and on a local directory hundreds of them read: memory must go back to the system
/// whichever thread had it. The system's allocator, and those with a heap for each thread, keep more of it (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no errors; and what is wrong with a command line is told in JSON if it asks for that.
        Err(error) if !error.use_stderr() || !args::asks_for_json() => error.exit(),
        Err(error) => return Failure::usage(error.render().to_string().trim_end()).report(true),
    };
    let json = cli.global.json;
    let done = runtime().and_then(|runtime| {
        let done = runtime.block_on(commands::run(cli));
        // A thread that waits for standard input must not hold up the end.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|e| Failure::new(format!("threads cannot be started: {e}")))
}
