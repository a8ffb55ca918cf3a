//! Runs many seeds of the simulation (docs/testing.md).

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use wadi_sim::{Script, Summary, run};

/// Simulates gateways on failing stores, and checks that nothing is lost, repeated or reordered.
#[derive(Parser)]
struct Args {
    /// How many seeds to run, from the first on.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Begin no seed after so many minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The first seed. With --seeds 1 this is how a run is repeated.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated seconds in which things go wrong, per seed.
    #[arg(long, default_value_t = 60)]
    trouble: u64,
    /// Print every operation.
    #[arg(long)]
    verbose: bool,
    /// Nothing fails: gateways only come, and go in good order, and nothing may be refused.
    #[arg(long)]
    calm: bool,
    /// Run each seed twice and compare the traces.
    #[arg(long)]
    twice: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let script = Script {
        trouble: Duration::from_secs(args.trouble),
        verbose: args.verbose,
        calm: args.calm,
        flaw: None,
    };
    // Only how long the program runs depends on real time, never what a seed does.
    let start = tokio::time::Instant::now();
    let mut summary = Summary::default();
    let mut failed = false;
    for seed in args.seed..args.seed.saturating_add(args.seeds) {
        if start.elapsed().as_secs_f64() > args.minutes * 60.0 {
            break;
        }
        let report = match run(seed, script) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                return ExitCode::FAILURE;
            }
        };
        println!("{report}");
        if args.twice && run(seed, script).is_ok_and(|again| again.hash != report.hash) {
            println!("seed {seed} has another trace the second time");
            failed = true;
        }
        summary.add(&report);
    }
    println!("\n{summary}");
    if failed || !summary.broken.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
