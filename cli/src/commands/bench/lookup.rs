//! `wadi bench lookup`: finds rows of a primary-key table that `wadi bench upsert` has filled, by random keys.
//!
//! Each body is asked once before the clock starts, so a cache that holds the rows asked for is warm.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use wadi_client::{Body, Client, ClientError};
use wadi_model::TableName;

use super::drive::{Done, Drive, Told};
use super::usage::{Before, Cost};
use crate::bench::keyed::Keys;
use crate::commands::ingest::CompressionArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use crate::task::blocking;

/// Find rows by their keys.
#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// The table, as `wadi bench upsert` fills it with the same keys.
    #[arg(default_value = "bench.keyed")]
    table: TableName,
    #[command(flatten)]
    keys: Keys,
    /// Look up all rows of an owner at a time, instead of whole keys.
    #[arg(long, env = "WADI_PREFIX")]
    prefix: bool,
    /// Keys or prefixes of a request.
    #[arg(long, env = "WADI_BATCH", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: u32,
    /// Columns of the answers, separated by commas [default: all].
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Keys or prefixes that are asked for in a second, if not as many as are answered.
    #[arg(long, env = "WADI_RATE", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Connections that ask at a time, each one request after the other.
    #[arg(long, env = "WADI_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Different bodies that are sent in turn.
    #[arg(long, env = "WADI_BODIES", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    bodies: u64,
    /// How long to ask.
    #[arg(long, env = "WADI_DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// The server's process on this machine, to tell its CPU time and memory.
    #[arg(long, env = "WADI_SERVER_PID")]
    server_pid: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Report {
    table: String,
    /// Keys or prefixes that were asked for.
    asked: u64,
    asked_per_second: f64,
    #[serde(flatten)]
    told: Told,
    retries: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) async fn run(args: LookupArgs, context: &Context) -> Result<(), Failure> {
    if args.prefix && !args.keys.grouped() {
        return Err(Failure::usage("--prefix needs --group, as the table was filled with"));
    }
    let client = context.client_with(Duration::from_secs(30), CompressionArg::None.into())?;
    let bodies = bodies(&args).await?;
    let ask = |turn: u64| ask(&client, &args, &bodies[turn as usize % bodies.len()]);
    let warm = Drive {
        connections: args.connections,
        requests: args.bodies,
        duration: Duration::from_secs(1 << 30),
        rate: None,
    };
    if let Some(why) = warm.run(ask).await.first_error {
        return Err(Failure::new(format!("the table cannot be asked: {why}")));
    }
    let rate = args.rate.map(|rate| f64::from(rate) / f64::from(args.batch));
    let drive = Drive { requests: u64::MAX, duration: args.duration, rate, ..warm };
    let before = Before::now(args.server_pid)?;
    let told = drive.run(ask).await.told();
    let cost = before.cost();
    let asked = told.requests * u64::from(args.batch);
    let asked_per_second = asked as f64 / told.seconds;
    let (table, retries) = (args.table.to_string(), client.retries());
    let report = Report { table, asked, asked_per_second, told, retries, cost };
    tell(context, &args, &report)?;
    if report.told.rows == 0 { Err(Failure::new("no row was found")) } else { Ok(()) }
}

/// Makes the bodies, on a thread of their own.
async fn bodies(args: &LookupArgs) -> Result<Vec<Body>, Failure> {
    let (keys, batch, prefix, bodies) = (args.keys, args.batch as usize, args.prefix, args.bodies);
    let body = move |seed| Ok(Body::arrow(&[keys.asked(batch, prefix, seed)?], CompressionArg::None.into())?);
    blocking(move || (1..=bodies).map(body).collect()).await
}

async fn ask(client: &Client, args: &LookupArgs, body: &Body) -> Result<Done, ClientError> {
    let answer = client.lookup(&args.table, &args.columns, body.clone()).await?;
    Ok(Done { rows: answer.found, ..Done::default() })
}

fn tell(context: &Context, args: &LookupArgs, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let told = &report.told;
    let what = if args.prefix { "prefixes" } else { "keys" };
    let asked = format!("{} {what} in {} requests, {:.1} s", report.asked, told.requests, told.seconds);
    let mut facts = vec![
        ("asked", asked),
        (
            "speed",
            format!("{:.0} {what}/s, {:.0} rows/s found", report.asked_per_second, told.rows_per_second),
        ),
        ("latency", told.latency.text()),
        ("errors", format!("{}, {} retries", told.errors, report.retries)),
    ];
    facts.extend(told.first_error.iter().map(|e| ("first error", e.clone())));
    facts.extend(report.cost.facts_of(report.asked, what));
    output::line(output::facts(&facts))
}
