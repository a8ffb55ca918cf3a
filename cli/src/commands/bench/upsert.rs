//! `wadi bench upsert`: updates rows of a primary-key table as fast as the server acks them.
//!
//! Each key is written once first, in order; this is not measured. Then random keys are updated, with bodies that were made
//! before the clock started and are sent over and over.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use wadi_client::{Body, Client, ClientError, WriteOptions};
use wadi_model::{ErrorKind, TableName};

use super::drive::{Done, Drive, Told};
use super::usage::{Before, Cost};
use crate::bench::keyed::Keys;
use crate::bench::requests::value;
use crate::commands::database::unless;
use crate::commands::ingest::CompressionArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::ingest::piece::raw_bytes;
use crate::output;
use crate::task::blocking;

/// Update rows of a primary-key table as fast as the server acks them.
#[derive(Debug, Args)]
pub(crate) struct UpsertArgs {
    /// The table; it and its database are created if they do not exist.
    #[arg(default_value = "bench.keyed")]
    table: TableName,
    #[command(flatten)]
    keys: Keys,
    /// Rows of a request.
    #[arg(long, env = "WADI_ROWS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rows: u32,
    /// Whether the changelog shows rows before their update, if the table is created.
    #[arg(long, env = "WADI_CHANGELOG", value_enum, default_value_t = Changelog::Full)]
    changelog: Changelog,
    /// How bodies are compressed.
    #[arg(long, env = "WADI_COMPRESSION", value_enum, default_value_t = CompressionArg::Zstd)]
    compression: CompressionArg,
    /// Connections that send at a time, each one request after the other.
    #[arg(long, env = "WADI_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Different bodies that are sent in turn.
    #[arg(long, env = "WADI_BODIES", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    bodies: u64,
    /// How long to send.
    #[arg(long, env = "WADI_DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Buckets of the table, if it is created.
    #[arg(long, env = "WADI_BUCKETS", default_value_t = 4)]
    buckets: u32,
    /// Do not write each key once before the clock starts: the rows are there.
    #[arg(long, env = "WADI_FILLED")]
    filled: bool,
    /// The server's process on this machine, to tell its CPU time and memory.
    #[arg(long, env = "WADI_SERVER_PID")]
    server_pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Changelog {
    Full,
    Wal,
}

/// Rows as they are sent.
struct Load {
    body: Body,
    done: Done,
}

#[derive(Debug, Serialize)]
struct Report {
    table: String,
    keys: u64,
    #[serde(flatten)]
    told: Told,
    raw_bytes: u64,
    wire_bytes: u64,
    /// Bytes of log objects that the server has written meanwhile.
    put_bytes: u64,
    put_objects: u64,
    retries: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) async fn run(args: UpsertArgs, context: &Context) -> Result<(), Failure> {
    let client = context.client_with(Duration::from_secs(30), args.compression.into())?;
    create(&args, &client).await?;
    if !args.filled {
        fill(&args, &client).await?;
    }
    let loads = loads(&args).await?;
    let drive =
        Drive { connections: args.connections, requests: u64::MAX, duration: args.duration, rate: None };
    let put = Put::so_far(&client).await?;
    let before = Before::now(args.server_pid)?;
    let tally = drive.run(|turn| send(&client, &args.table, &loads[turn as usize % loads.len()])).await;
    let cost = before.cost();
    let (put, done) = (Put::so_far(&client).await?.since(put), tally.done);
    let report = Report {
        table: args.table.to_string(),
        keys: args.keys.count(),
        told: tally.told(),
        raw_bytes: done.raw_bytes,
        wire_bytes: done.wire_bytes,
        put_bytes: put.bytes,
        put_objects: put.objects,
        retries: client.retries(),
        cost,
    };
    tell(context, &report)?;
    if report.told.requests == 0 { Err(Failure::new("no request was acked")) } else { Ok(()) }
}

async fn create(args: &UpsertArgs, client: &Client) -> Result<(), Failure> {
    let database = args.table.database();
    unless(client.create_database(database).await, ErrorKind::Conflict, true)?;
    let mut spec = args.keys.table(args.table.table(), args.buckets);
    if args.changelog == Changelog::Wal {
        spec.properties.insert("table.changelog.image".to_owned(), "wal".to_owned());
    }
    unless(client.create_table(database, &spec).await, ErrorKind::Conflict, true)?;
    Ok(())
}

/// Writes each key once, in their order.
async fn fill(args: &UpsertArgs, client: &Client) -> Result<(), Failure> {
    let rows = u64::from(args.rows);
    let requests = args.keys.count().div_ceil(rows);
    let drive =
        Drive { connections: args.connections, requests, duration: Duration::from_secs(1 << 30), rate: None };
    let one = async |turn: u64| {
        let ids: Vec<u64> = (turn * rows..args.keys.count().min((turn + 1) * rows)).collect();
        send(client, &args.table, &load(args.keys, args.compression, &ids, turn)?).await
    };
    match drive.run(one).await.first_error {
        Some(why) => Err(Failure::new(format!("the table could not be filled: {why}"))),
        None => Ok(()),
    }
}

/// Makes the bodies, on a thread of their own.
async fn loads(args: &UpsertArgs) -> Result<Vec<Load>, Failure> {
    let (keys, compression, rows, bodies) = (args.keys, args.compression, args.rows as usize, args.bodies);
    // Other rows than those of the first time.
    let seeds = (1 << 32)..(1 << 32) + bodies;
    blocking(move || seeds.map(|seed| Ok(load(keys, compression, &keys.random(rows, seed), seed)?)).collect())
        .await
}

fn load(keys: Keys, compression: CompressionArg, ids: &[u64], seed: u64) -> Result<Load, ClientError> {
    let batch = keys.rows(ids, seed).map_err(ClientError::Encode)?;
    let raw_bytes = raw_bytes(&batch);
    let body = Body::arrow(&[batch], compression.into())?;
    let done = Done { rows: ids.len() as u64, raw_bytes, wire_bytes: body.len() as u64 };
    Ok(Load { body, done })
}

async fn send(client: &Client, table: &TableName, load: &Load) -> Result<Done, ClientError> {
    client.upsert(table, &[], load.body.clone(), &WriteOptions::default()).await?;
    Ok(load.done)
}

/// What the server has put into its log.
#[derive(Clone, Copy, Debug)]
struct Put {
    bytes: u64,
    objects: u64,
}

impl Put {
    async fn so_far(client: &Client) -> Result<Put, Failure> {
        let text = client.metrics().await?;
        let counter = |name| {
            let told = value(&text, name).map(|value| value as u64);
            told.ok_or_else(|| Failure::new(format!("the server does not tell {name}")))
        };
        let bytes = counter("wadi_store_log_object_bytes_total")?;
        Ok(Put { bytes, objects: counter("wadi_store_log_objects_total")? })
    }

    fn since(self, before: Put) -> Put {
        let bytes = self.bytes.saturating_sub(before.bytes);
        Put { bytes, objects: self.objects.saturating_sub(before.objects) }
    }
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let told = &report.told;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let mut facts = vec![
        ("sent", format!("{} rows in {} requests, {:.1} s", told.rows, told.requests, told.seconds)),
        (
            "speed",
            format!(
                "{:.0} rows/s, {:.1} MB/s raw",
                told.rows_per_second,
                megabytes(report.raw_bytes) / told.seconds
            ),
        ),
        (
            "put",
            format!(
                "{:.1} MB in {} log objects, of {:.1} MB raw",
                megabytes(report.put_bytes),
                report.put_objects,
                megabytes(report.raw_bytes)
            ),
        ),
        ("ack", told.latency.text()),
        ("errors", format!("{}, {} retries", told.errors, report.retries)),
    ];
    facts.extend(told.first_error.iter().map(|e| ("first error", e.clone())));
    facts.extend(report.cost.facts_of(told.rows, "rows"));
    output::line(output::facts(&facts))
}
