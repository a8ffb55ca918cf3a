//! A steady load of rows that never repeat: what the bill depends on is how they compress, alone and together.

use std::time::Duration;

use clap::Args;
use wadi_client::{ArrowCompression, Body, Client, ClientError, WriteOptions};
use wadi_model::TableName;

use super::drive::{Done, Drive, Tally};
use crate::bench::keyed::Keys;
use crate::bench::shape::Shape;
use crate::bytesize::ByteSize;
use crate::failure::Failure;
use crate::ingest::piece::raw_bytes;

/// Rows of which the size of a row is learned.
const PROBE_ROWS: usize = 1000;

/// The tables get numbers behind it.
const TABLE: &str = "bench.load";

/// What is sent.
#[derive(Clone, Debug, Args)]
pub(super) struct LoadArgs {
    /// Tables that the requests go to in turn.
    #[arg(long, env = "WADI_TABLES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tables: u32,
    /// Buckets of each table.
    #[arg(long, env = "WADI_BUCKETS", default_value_t = 4)]
    buckets: u32,
    /// Raw bytes a second, over all tables.
    #[arg(long, env = "WADI_RATE", default_value_t = ByteSize(16_000_000))]
    rate: ByteSize,
    /// Rows of a request, in bytes before compression.
    #[arg(long, env = "WADI_BODY_SIZE", default_value_t = ByteSize::mib(1))]
    body_size: ByteSize,
    /// How long to send.
    #[arg(long, env = "WADI_DURATION", default_value = "3m", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Connections that send at a time.
    #[arg(long, env = "WADI_CONNECTIONS", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Update random rows of primary-key tables instead of sending web events to log tables.
    #[arg(long, env = "WADI_KEYED")]
    keyed: bool,
    #[command(flatten)]
    keys: Keys,
}

/// A load whose tables are there.
pub(super) struct Load {
    args: LoadArgs,
    tables: Vec<TableName>,
    rows: usize,
    raw_bytes: u64,
}

impl LoadArgs {
    /// Makes the tables.
    pub(super) async fn create(self, client: &Client) -> Result<Load, Failure> {
        let name = |n| format!("{TABLE}_{n}").parse().map_err(|e| Failure::new(format!("{e}")));
        let tables: Vec<TableName> = (0..self.tables).map(name).collect::<Result<_, Failure>>()?;
        for (n, table) in tables.iter().enumerate() {
            if n == 0 {
                client.create_database(table.database()).await?;
            }
            let spec = match self.keyed {
                true => self.keys.table(table.table(), self.buckets),
                false => Shape::Events.table(table.table(), self.buckets),
            };
            client.create_table(table.database(), &spec).await?;
        }
        let (probe, size) = (self.batch(PROBE_ROWS, 0)?, self.body_size.0);
        let probe = raw_bytes(&probe).max(1);
        let rows = (size.saturating_mul(PROBE_ROWS as u64) / probe).max(1);
        Ok(Load { tables, rows: rows as usize, raw_bytes: rows * probe / PROBE_ROWS as u64, args: self })
    }

    fn batch(&self, rows: usize, seed: u64) -> Result<arrow::array::RecordBatch, Failure> {
        match self.keyed {
            true => Ok(self.keys.rows(&self.keys.random(rows, seed), seed)?),
            false => Shape::Events.batch(rows, seed),
        }
    }
}

impl Load {
    /// The first table.
    pub(super) fn first(&self) -> &TableName {
        &self.tables[0]
    }

    /// Sends it, and nothing else.
    pub(super) async fn run(&self, client: &Client) -> Result<Tally, Failure> {
        let args = &self.args;
        let rate = Some(args.rate.0 as f64 / self.raw_bytes.max(1) as f64);
        let (connections, duration) = (args.connections, args.duration);
        let drive = Drive { connections, requests: u64::MAX, duration, rate };
        let tally = drive.run(|turn| self.send(client, turn)).await;
        match &tally.first_error {
            // A request that failed may be written all the same, or not: its bytes belong to neither side.
            Some(why) => Err(Failure::new(format!("{} requests failed: {why}", tally.errors))),
            None => Ok(tally),
        }
    }

    async fn send(&self, client: &Client, turn: u64) -> Result<Done, ClientError> {
        let batch = self
            .args
            .batch(self.rows, turn + 1)
            .map_err(|e| ClientError::BadAnswer { why: e.to_string() })?;
        let (rows, raw_bytes) = (batch.num_rows() as u64, raw_bytes(&batch));
        let body = Body::arrow(&[batch], ArrowCompression::default())?;
        let done = Done { rows, raw_bytes, wire_bytes: body.len() as u64 };
        let table = &self.tables[(turn % self.tables.len() as u64) as usize];
        match self.args.keyed {
            true => client.upsert(table, &[], body, &WriteOptions::default()).await?,
            false => client.append(table, body, &WriteOptions::default()).await?,
        };
        Ok(done)
    }
}
