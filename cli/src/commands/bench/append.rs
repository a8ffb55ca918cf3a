//! `wadi bench append`: sends rows as fast as the server acks them.
//!
//! The bodies are made before the clock starts and sent over and over, so the client costs little beside the server. With
//! many tables it shows what small ones cost: send the same requests to one table, and compare.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::json;
use clap::{Args, ValueEnum};
use futures::future::join_all;
use serde::Serialize;
use tokio::time::Instant;
use wadi_client::{Body, Client, WriteOptions, content_type};
use wadi_model::{ErrorKind, TableName};

use super::usage::{Before, Cost};
use crate::bench::shape::Shape;
use crate::bytesize::ByteSize;
use crate::commands::database::unless;
use crate::commands::ingest::CompressionArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::ingest::piece::raw_bytes;
use crate::latency::{Latencies, Percentiles};
use crate::output;
use crate::task::blocking;

/// Rows of which the size of a row is learned.
const PROBE_ROWS: usize = 1000;

/// Send rows as fast as the server acks them.
#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// The table; it and its database are created if they do not exist.
    #[arg(default_value = "bench.events")]
    table: TableName,
    /// Kind of rows.
    #[arg(long, env = "WADI_SHAPE", value_enum, default_value_t = Shape::Events)]
    shape: Shape,
    /// Format of the bodies.
    #[arg(long, env = "WADI_FORMAT", value_enum, default_value_t = BodyFormat::Arrow)]
    format: BodyFormat,
    /// How Arrow bodies are compressed.
    #[arg(long, env = "WADI_COMPRESSION", value_enum, default_value_t = CompressionArg::Zstd)]
    compression: CompressionArg,
    /// Connections that send at a time, each one request after the other.
    #[arg(long, env = "WADI_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Tables that the requests go to in turn; more than one get numbers behind their name.
    #[arg(long, env = "WADI_TABLES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Different bodies that are sent in turn.
    #[arg(long, env = "WADI_BODIES", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    bodies: u64,
    /// Stop after so many requests.
    #[arg(long, env = "WADI_REQUESTS", default_value_t = u64::MAX, hide_default_value = true)]
    requests: u64,
    /// How long to send.
    #[arg(long, env = "WADI_DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Rows of a body, in bytes before compression.
    #[arg(long, env = "WADI_BODY_SIZE", default_value_t = ByteSize::mib(4))]
    body_size: ByteSize,
    /// Buckets of the table, if it is created.
    #[arg(long, env = "WADI_BUCKETS", default_value_t = 4)]
    buckets: u32,
    /// The server's process on this machine, to tell its CPU time and memory.
    #[arg(long, env = "WADI_SERVER_PID")]
    server_pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BodyFormat {
    Arrow,
    Ndjson,
}

/// A body with what it stands for.
#[derive(Clone)]
struct Load {
    body: Body,
    rows: u64,
    raw_bytes: u64,
}

/// What one connection, or all of them, have done.
#[derive(Default)]
struct Tally {
    requests: u64,
    rows: u64,
    raw_bytes: u64,
    wire_bytes: u64,
    errors: u64,
    first_error: Option<String>,
    latencies: Latencies,
}

#[derive(Debug, Serialize)]
struct Report {
    table: String,
    seconds: f64,
    requests: u64,
    rows: u64,
    raw_bytes: u64,
    wire_bytes: u64,
    rows_per_second: f64,
    mb_per_second: f64,
    ack: Percentiles,
    errors: u64,
    first_error: Option<String>,
    retries: u64,
    #[serde(flatten)]
    cost: Cost,
}

pub(super) async fn run(args: AppendArgs, context: &Context) -> Result<(), Failure> {
    if args.body_size < ByteSize(1) || args.body_size > ByteSize::mib(32) {
        return Err(Failure::usage(format!("--body-size {} is not from 1 to 32MiB", args.body_size)));
    }
    let client = context.client_with(Duration::from_secs(30), args.compression.into())?;
    create(&args, context).await?;
    let load = Turns { tables: tables(&args)?, loads: loads(&args).await?, next: AtomicU64::new(0) };
    let before = Before::now(args.server_pid)?;
    let begun = Instant::now();
    let until = begun + args.duration;
    let connections = (0..args.connections).map(|_| load.send(&client, args.requests, until));
    let mut tally = Tally::default();
    for one in join_all(connections).await {
        tally.merge(one);
    }
    let report = tally.report(&args.table, begun.elapsed(), client.retries(), before.cost());
    tell(context, &report)?;
    if report.requests == 0 { Err(Failure::new("no request was acked")) } else { Ok(()) }
}

async fn create(args: &AppendArgs, context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    let database = args.table.database();
    unless(client.create_database(database).await, ErrorKind::Conflict, true)?;
    for table in tables(args)? {
        let spec = args.shape.table(table.table(), args.buckets);
        unless(client.create_table(database, &spec).await, ErrorKind::Conflict, true)?;
    }
    Ok(())
}

/// The tables that rows go to.
fn tables(args: &AppendArgs) -> Result<Vec<TableName>, Failure> {
    if args.tables == 1 {
        return Ok(vec![args.table.clone()]);
    }
    let name = |n| format!("{}_{n}", args.table).parse().map_err(|e| Failure::usage(format!("{e}")));
    (0..args.tables).map(name).collect()
}

/// Makes the bodies, on a thread of their own.
async fn loads(args: &AppendArgs) -> Result<Vec<Load>, Failure> {
    let (shape, format, compression) = (args.shape, args.format, args.compression);
    let (size, bodies) = (args.body_size.0, args.bodies);
    blocking(move || {
        let probe = raw_bytes(&shape.batch(PROBE_ROWS, 0)?).max(1);
        let rows = (size.saturating_mul(PROBE_ROWS as u64) / probe).max(1);
        let load = |seed| {
            let batch = shape.batch(rows as usize, seed)?;
            let (body, raw_bytes) = match format {
                BodyFormat::Arrow => {
                    let raw = raw_bytes(&batch);
                    (Body::arrow(&[batch], compression.into())?, raw)
                }
                BodyFormat::Ndjson => {
                    let mut writer = json::LineDelimitedWriter::new(Vec::new());
                    writer.write(&batch)?;
                    writer.finish()?;
                    let text = writer.into_inner();
                    let raw = text.len() as u64;
                    (Body::new(content_type::NDJSON, text), raw)
                }
            };
            Ok(Load { body, rows, raw_bytes })
        };
        (1..=bodies).map(load).collect()
    })
    .await
}

/// What is sent, and what comes next.
struct Turns {
    tables: Vec<TableName>,
    loads: Vec<Load>,
    next: AtomicU64,
}

impl Turns {
    /// One connection: a request after the other.
    async fn send(&self, client: &Client, requests: u64, until: Instant) -> Tally {
        let mut tally = Tally::default();
        loop {
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            let begun = Instant::now();
            if turn >= requests || begun >= until {
                return tally;
            }
            let place = usize::try_from(turn).unwrap_or_default();
            let (table, load) =
                (&self.tables[place % self.tables.len()], &self.loads[place % self.loads.len()]);
            match client.append(table, load.body.clone(), &WriteOptions::default()).await {
                Ok(_) => {
                    tally.latencies.add(begun.elapsed());
                    tally.requests += 1;
                    tally.rows += load.rows;
                    tally.raw_bytes += load.raw_bytes;
                    tally.wire_bytes += load.body.len() as u64;
                }
                Err(error) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert_with(|| error.to_string());
                    // The same request would fail the same way, as fast as it can be sent.
                    if !error.kind().is_retryable() {
                        return tally;
                    }
                }
            }
        }
    }
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.requests += other.requests;
        self.rows += other.rows;
        self.raw_bytes += other.raw_bytes;
        self.wire_bytes += other.wire_bytes;
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latencies.extend(other.latencies);
    }

    fn report(mut self, table: &TableName, took: Duration, retries: u64, cost: Cost) -> Report {
        let seconds = took.as_secs_f64().max(1e-6);
        Report {
            table: table.to_string(),
            seconds,
            requests: self.requests,
            rows: self.rows,
            raw_bytes: self.raw_bytes,
            wire_bytes: self.wire_bytes,
            rows_per_second: self.rows as f64 / seconds,
            mb_per_second: self.raw_bytes as f64 / 1e6 / seconds,
            ack: self.latencies.percentiles(),
            errors: self.errors,
            first_error: self.first_error,
            retries,
            cost,
        }
    }
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let ack = &report.ack;
    let mut facts = vec![
        ("sent", format!("{} rows in {} requests, {:.1} s", report.rows, report.requests, report.seconds)),
        ("speed", format!("{:.1} MB/s raw, {:.0} rows/s", report.mb_per_second, report.rows_per_second)),
        (
            "wire",
            format!(
                "{:.1} MB of {:.1} MB raw",
                report.wire_bytes as f64 / 1e6,
                report.raw_bytes as f64 / 1e6
            ),
        ),
        (
            "ack",
            format!(
                "p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
                ack.p50_ms, ack.p90_ms, ack.p99_ms, ack.max_ms
            ),
        ),
        ("errors", format!("{}, {} retries", report.errors, report.retries)),
    ];
    facts.extend(report.first_error.iter().map(|e| ("first error", e.clone())));
    facts.extend(report.cost.facts(report.raw_bytes as f64 / 1e9));
    output::line(output::facts(&facts))
}
