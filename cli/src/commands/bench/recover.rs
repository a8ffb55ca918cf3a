//! `wadi bench recover`: how long a shard with a state and a log behind it takes to open, once its claim is free.
//!
//! A server of its own is filled with rows of a primary-key table. Then, round by round, rows are updated for a while, the server is
//! killed and started anew, and tells how long its takeovers took. The bytes of log objects that it got meanwhile are the log that
//! was not in the shard's database.

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use wadi_client::{ArrowCompression, Body, Client, WriteOptions};
use wadi_model::TableName;

use super::drive::{Done, Drive, Tally};
use super::packs::CALM;
use crate::bench::keyed::Keys;
use crate::bench::requests::{Counts, Requests, quiet, value};
use crate::bench::server::{BenchPlace, ServerArgs};
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

const TABLE: &str = "bench.recover";

/// Time how long shards take to open after their owner was killed.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    keys: Keys,
    /// Rows of a request.
    #[arg(long, env = "WADI_ROWS", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rows: u32,
    /// Kills.
    #[arg(long, env = "WADI_ROUNDS", default_value_t = 5)]
    rounds: u32,
    /// How long rows are updated before the first kill; each next one comes so much later.
    #[arg(long, env = "WADI_DURATION", default_value = "2s", value_parser = humantime::parse_duration)]
    duration: Duration,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Serialize)]
struct Round {
    updated_seconds: f64,
    /// Takeovers' seconds, over all shards together: they run side by side.
    takeover_seconds: f64,
    log: Requests,
    state: Requests,
}

pub(super) async fn run(args: RecoverArgs, context: &Context) -> Result<(), Failure> {
    let place = BenchPlace::new(args.server.clone())?;
    let table: TableName = TABLE.parse().map_err(|e| Failure::new(format!("{e}")))?;
    let mut server = place.start(context, &[]).await?;
    server.client.create_database(table.database()).await?;
    server.client.create_table(table.database(), &args.keys.table(table.table(), args.server.shards)).await?;
    context.remark("writing each key once");
    let rows = u64::from(args.rows);
    let requests = args.keys.count().div_ceil(rows);
    let fill = Drive { connections: 8, requests, duration: Duration::from_secs(1 << 30), rate: None };
    checked(
        fill.run(|n| {
            send(
                &server.client,
                &table,
                &args,
                (n * rows..args.keys.count().min((n + 1) * rows)).collect(),
                n,
            )
        })
        .await,
    )?;
    context.remark("waiting until all is packed and merged");
    let filled = quiet(&server.client, CALM).await?;
    let mut rounds = Vec::new();
    for n in 1..=args.rounds {
        let duration = args.duration * n;
        let load = Drive { connections: 8, requests: u64::MAX, duration, rate: None };
        let seed = u64::from(n) << 40;
        let one = |turn: u64| {
            send(
                &server.client,
                &table,
                &args,
                args.keys.random(args.rows as usize, seed + turn),
                seed + turn,
            )
        };
        checked(load.run(one).await)?;
        server.kill().await?;
        server = place.start(context, &[]).await?;
        let (counts, page) = (Counts::now(&server.client).await?, server.client.metrics().await?);
        let takeover_seconds = value(&page, "wadi_store_takeover_seconds_sum").unwrap_or_default();
        let (log, state) = (counts.kind("log"), counts.kind("state"));
        rounds.push(Round { updated_seconds: duration.as_secs_f64(), takeover_seconds, log, state });
    }
    server.kill().await?;
    tell(context, &filled, &rounds)
}

fn checked(tally: Tally) -> Result<(), Failure> {
    match tally.first_error {
        Some(why) => Err(Failure::new(format!("{} requests failed: {why}", tally.errors))),
        None => Ok(()),
    }
}

async fn send(
    client: &Client,
    table: &TableName,
    args: &RecoverArgs,
    ids: Vec<u64>,
    seed: u64,
) -> Result<Done, wadi_client::ClientError> {
    let batch = args.keys.rows(&ids, seed).map_err(wadi_client::ClientError::Encode)?;
    let body = Body::arrow(&[batch], ArrowCompression::default())?;
    let wire_bytes = body.len() as u64;
    client.upsert(table, &[], body, &WriteOptions::default()).await?;
    Ok(Done { rows: ids.len() as u64, raw_bytes: 0, wire_bytes })
}

fn tell(context: &Context, filled: &Counts, rounds: &[Round]) -> Result<(), Failure> {
    if context.json {
        return output::json(&rounds);
    }
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let mut table =
        output::table(["updates s", "takeovers s", "log MB read", "log GETs", "state MB read", "state GETs"]);
    for round in rounds {
        table.add_row([
            format!("{:.0}", round.updated_seconds),
            format!("{:.3}", round.takeover_seconds),
            megabytes(round.log.get_bytes),
            round.log.gets.to_string(),
            megabytes(round.state.get_bytes),
            round.state.gets.to_string(),
        ]);
    }
    output::line(table)?;
    output::line(format!("{} rows, {} MB raw, were there", filled.rows, megabytes(filled.raw_bytes)))
}
