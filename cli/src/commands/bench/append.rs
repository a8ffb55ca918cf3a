//! `wadi bench append`: sends rows as fast as the server acks them.
//!
//! The bodies are made before the clock starts and sent over and over, so the client costs little beside the server. With
//! many tables it shows what small ones cost: send the same requests to one table, and compare.

use std::time::Duration;

use arrow::json;
use clap::{Args, ValueEnum};
use serde::Serialize;
use wadi_client::{Body, Client, ClientError, WriteOptions, content_type};
use wadi_model::{ErrorKind, TableName};

use super::drive::{Done, Drive, Tally};
use super::usage::{Before, Cost};
use crate::bench::shape::Shape;
use crate::bytesize::ByteSize;
use crate::commands::database::unless;
use crate::commands::ingest::CompressionArg;
use crate::context::Context;
use crate::failure::Failure;
use crate::ingest::piece::raw_bytes;
use crate::latency::Percentiles;
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
    let (tables, loads) = (tables(&args)?, loads(&args).await?);
    let drive =
        Drive { connections: args.connections, requests: args.requests, duration: args.duration, rate: None };
    let before = Before::now(args.server_pid)?;
    let tally = drive.run(|turn| send(&client, &tables, &loads, turn)).await;
    let report = Report::of(&args.table, tally, client.retries(), before.cost());
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

/// One request.
async fn send(client: &Client, tables: &[TableName], loads: &[Load], turn: u64) -> Result<Done, ClientError> {
    let place = usize::try_from(turn).unwrap_or_default();
    let (table, load) = (&tables[place % tables.len()], &loads[place % loads.len()]);
    client.append(table, load.body.clone(), &WriteOptions::default()).await?;
    Ok(Done { rows: load.rows, raw_bytes: load.raw_bytes, wire_bytes: load.body.len() as u64 })
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

impl Report {
    fn of(table: &TableName, mut tally: Tally, retries: u64, cost: Cost) -> Report {
        let seconds = tally.took.as_secs_f64().max(1e-6);
        let Done { rows, raw_bytes, wire_bytes } = tally.done;
        Report {
            table: table.to_string(),
            seconds,
            requests: tally.requests,
            rows,
            raw_bytes,
            wire_bytes,
            rows_per_second: rows as f64 / seconds,
            mb_per_second: raw_bytes as f64 / 1e6 / seconds,
            ack: tally.latencies.percentiles(),
            errors: tally.errors,
            first_error: tally.first_error,
            retries,
            cost,
        }
    }
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
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
        ("ack", report.ack.text()),
        ("errors", format!("{}, {} retries", report.errors, report.retries)),
    ];
    facts.extend(report.first_error.iter().map(|e| ("first error", e.clone())));
    facts.extend(report.cost.facts(report.raw_bytes as f64 / 1e9));
    output::line(output::facts(&facts))
}
