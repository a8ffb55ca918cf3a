//! `wadi bench read`: reads a table's log, first one column of it, then all.

use clap::Args;
use futures::stream::{StreamExt, TryStreamExt, iter};
use serde::Serialize;
use tokio::time::Instant;
use wadi_client::{BucketOffset, Client, LogQuery};
use wadi_model::TableName;

use super::usage::{Before, Cost};
use crate::bytesize::ByteSize;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Read a table's log with one column and with all.
#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The table, as `wadi bench append` fills it.
    #[arg(default_value = "bench.events")]
    table: TableName,
    /// The column of the narrow read [default: the first].
    #[arg(long, env = "WADI_COLUMN")]
    column: Option<String>,
    /// Buckets that are read at a time.
    #[arg(long, env = "WADI_CONNECTIONS", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// About how many bytes an answer has.
    #[arg(long, env = "WADI_ANSWER_SIZE", default_value_t = ByteSize::mib(8))]
    answer_size: ByteSize,
    /// The server's process on this machine, to tell its CPU time and memory.
    #[arg(long, env = "WADI_SERVER_PID")]
    server_pid: Option<u32>,
}

/// What one pass over the table has done.
#[derive(Debug, Serialize)]
struct Pass {
    columns: usize,
    seconds: f64,
    rows: u64,
    wire_bytes: u64,
    rows_per_second: f64,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Debug, Serialize)]
struct Report {
    table: String,
    one: Pass,
    all: Pass,
    times_faster: f64,
    times_fewer_bytes: f64,
}

pub(super) async fn run(args: ReadArgs, context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    let names: Vec<String> = client.table(&args.table).await?.columns.into_iter().map(|c| c.name).collect();
    let column = args.column.clone().or_else(|| names.first().cloned());
    let column: Vec<String> = column.into_iter().collect();
    let (from, to) =
        (client.offsets(&args.table, "earliest").await?, client.offsets(&args.table, "latest").await?);
    let ranges = ranges(from, &to);
    if ranges.is_empty() {
        return Err(Failure::new(format!("{} has no rows to read", args.table))
            .hint("fill it with `wadi bench append`"));
    }
    let one = pass(&client, &args, &ranges, &column, column.len()).await?;
    let all = pass(&client, &args, &ranges, &[], names.len()).await?;
    let report = Report {
        table: args.table.to_string(),
        times_faster: all.seconds / one.seconds.max(1e-9),
        times_fewer_bytes: all.wire_bytes as f64 / (one.wire_bytes as f64).max(1.0),
        one,
        all,
    };
    tell(context, &report)
}

/// The first offset of each bucket that has rows, and its end.
pub(super) fn ranges(from: Vec<BucketOffset>, to: &[BucketOffset]) -> Vec<(BucketOffset, u64)> {
    let end = |b: &BucketOffset| to.iter().find(|t| (&t.partition, t.bucket) == (&b.partition, b.bucket));
    let range = |b: BucketOffset| end(&b).map(|t| t.offset).filter(|end| *end > b.offset).map(|end| (b, end));
    from.into_iter().filter_map(range).collect()
}

/// Reads all ranges with the given columns.
async fn pass(
    client: &Client,
    args: &ReadArgs,
    ranges: &[(BucketOffset, u64)],
    columns: &[String],
    count: usize,
) -> Result<Pass, Failure> {
    let before = Before::now(args.server_pid)?;
    let begun = Instant::now();
    let buckets = iter(
        ranges.iter().map(|(bucket, end)| read(client, &args.table, args.answer_size, bucket, *end, columns)),
    );
    let read: Vec<(u64, u64)> = buckets.buffer_unordered(usize::from(args.connections)).try_collect().await?;
    let seconds = begun.elapsed().as_secs_f64();
    let rows = read.iter().map(|(rows, _)| rows).sum();
    Ok(Pass {
        columns: count,
        seconds,
        rows,
        wire_bytes: read.iter().map(|(_, bytes)| bytes).sum(),
        rows_per_second: rows as f64 / seconds.max(1e-9),
        cost: before.cost(),
    })
}

/// Rows and bytes of one bucket.
pub(super) async fn read(
    client: &Client,
    table: &TableName,
    answer_size: ByteSize,
    bucket: &BucketOffset,
    end: u64,
    columns: &[String],
) -> Result<(u64, u64), Failure> {
    let mut query = LogQuery {
        bucket: bucket.bucket,
        partition: Some(bucket.partition.clone()).filter(|p| !p.is_empty()),
        offset: bucket.offset,
        columns: columns.to_vec(),
        max_bytes: Some(answer_size.0),
        ..LogQuery::default()
    };
    let (mut rows, mut bytes) = (0, 0);
    while query.offset < end {
        let answer = client.log(table, &query).await?;
        if answer.next_offset <= query.offset {
            return Err(Failure::new(format!(
                "bucket {} gives nothing at offset {}",
                query.bucket, query.offset
            )));
        }
        rows += answer.rows();
        bytes += answer.body_bytes;
        query.offset = answer.next_offset;
    }
    Ok((rows, bytes))
}

fn tell(context: &Context, report: &Report) -> Result<(), Failure> {
    if context.json {
        return output::json(report);
    }
    let mut table =
        output::table(["columns", "rows", "seconds", "rows/s", "wire MB", "server CPU s", "client CPU s"]);
    for pass in [&report.one, &report.all] {
        let cpu = |seconds: Option<f64>| seconds.map(|s| format!("{s:.2}")).unwrap_or_default();
        table.add_row([
            pass.columns.to_string(),
            pass.rows.to_string(),
            format!("{:.3}", pass.seconds),
            format!("{:.0}", pass.rows_per_second),
            format!("{:.1}", pass.wire_bytes as f64 / 1e6),
            cpu(pass.cost.server_cpu_seconds),
            cpu(pass.cost.client_cpu_seconds),
        ]);
    }
    output::line(table)?;
    let (faster, fewer) = (report.times_faster, report.times_fewer_bytes);
    output::line(format!("one column is {faster:.1} times faster and {fewer:.1} times fewer bytes than all"))
}
