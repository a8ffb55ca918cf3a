//! Searches the model of the shard takeover and prints what catches each mutant (docs/takeover-model.md).

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use wadi_sim::takeover_model::{Bounds, Expect, MUTANTS, Mutant, Search, Takeover};

/// Searches the model of the shard takeover.
#[derive(Parser)]
struct Args {
    /// How far to search the base protocol. Mutants have bounds of their own.
    #[arg(long, value_enum, default_value = "small")]
    bounds: Size,
    /// Search this mutant only; `base` is the protocol itself.
    #[arg(long)]
    mutant: Option<String>,
    /// Print the way to a world that violates this property (L1, F2, …, or `sometimes_…`).
    #[arg(long)]
    trace: Option<String>,
    /// Threads; with more than one a trace is perhaps not the shortest.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Size {
    Small,
    Full,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let base = match args.bounds {
        Size::Small => Bounds::SMALL,
        Size::Full => Bounds::FULL,
    };
    let wanted = args.mutant.as_deref();
    let mutant = wanted.filter(|name| *name != "base").map(|name| Mutant::named(name).ok_or(name));
    let mutant = match mutant.transpose() {
        Ok(mutant) => mutant,
        Err(name) => {
            let names: Vec<_> = MUTANTS.iter().map(|mutant| mutant.name).collect();
            eprintln!("no mutant `{name}`; there are: base {}", names.join(" "));
            return ExitCode::FAILURE;
        }
    };
    if let Some(property) = &args.trace {
        let model = mutant.map_or(Takeover::base(base), Takeover::mutant);
        return match Search::new(model, args.threads).trace(property) {
            Some(trace) => {
                print!("{trace}");
                ExitCode::SUCCESS
            }
            None => {
                eprintln!("{property}: no such property, or no such world within the bounds");
                ExitCode::FAILURE
            }
        };
    }
    println!("{:26} {:>9} {:>5}  {:24} as expected", "mutant", "worlds", "depth", "caught by");
    let mut expected = true;
    if mutant.is_none() {
        expected &= row("base", Takeover::base(base), Expect::Survives("it is the protocol"), args.threads);
    }
    let table = if wanted == Some("base") { &[] } else { MUTANTS };
    for one in table.iter().filter(|one| mutant.is_none_or(|mutant| mutant.name == one.name)) {
        expected &= row(one.name, Takeover::mutant(one), one.expect, args.threads);
        println!("    {}", one.wrong);
        if let Expect::Survives(why) = one.expect {
            println!("    not caught: {why}");
        }
    }
    if expected { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line. True if the search ended as expected.
fn row(name: &str, model: Takeover, expect: Expect, threads: usize) -> bool {
    let search = Search::new(model, threads);
    let (outcome, as_expected) = match expect {
        Expect::Caught(by) => {
            let outcome = search.until(by);
            let caught = by.iter().all(|property| outcome.violated.contains(property));
            (outcome, caught)
        }
        Expect::Survives(_) => {
            let outcome = search.all();
            let holds = outcome.violated.is_empty();
            (outcome, holds)
        }
    };
    let caught_by = if outcome.violated.is_empty() { "-".to_owned() } else { outcome.violated.join(" ") };
    let answer = if as_expected { "yes" } else { "NO" };
    println!("{name:26} {:>9} {:>5}  {caught_by:24} {answer}", outcome.worlds, outcome.depth);
    as_expected
}
