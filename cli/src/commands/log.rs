//! `wadi log`: rows of one bucket, by offset.

use std::io::{BufWriter, stdout};

use clap::Args;
use wadi_client::LogQuery;
use wadi_model::TableName;

use super::scan::format_of;
use crate::context::Context;
use crate::failure::Failure;
use crate::rows::{RowFormat, RowPrinter};

/// Print rows of one bucket from an offset.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// database.table
    table: TableName,
    /// The bucket's number.
    #[arg(long, env = "WADI_BUCKET", default_value_t = 0)]
    bucket: u32,
    /// The partition's name, in partitioned tables.
    #[arg(long, env = "WADI_PARTITION")]
    partition: Option<String>,
    /// The first offset.
    #[arg(long, env = "WADI_OFFSET", default_value_t = 0)]
    offset: u64,
    /// Only these columns, with commas between; `_offset` and `_timestamp` can be asked for.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only rows for which this holds.
    #[arg(long, env = "WADI_FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// At most so many rows.
    #[arg(long, env = "WADI_LIMIT", default_value_t = 100)]
    limit: u64,
    /// How long to wait for rows if there are none yet, in milliseconds.
    #[arg(long, env = "WADI_WAIT_MS")]
    wait_ms: Option<u64>,
    /// How rows are printed [default: table; ndjson with --json].
    #[arg(long, env = "WADI_FORMAT", value_enum)]
    format: Option<RowFormat>,
}

pub(crate) async fn run(args: LogArgs, context: &Context) -> Result<(), Failure> {
    let query = LogQuery {
        bucket: args.bucket,
        partition: args.partition,
        offset: args.offset,
        columns: args.columns,
        filter: args.filter,
        max_bytes: None,
        max_rows: Some(args.limit),
        wait_ms: args.wait_ms,
    };
    let answer = context.client()?.log(&args.table, &query).await?;
    let mut printer = RowPrinter::new(format_of(args.format, context), BufWriter::new(stdout().lock()));
    for batch in &answer.batches {
        printer.print(batch)?;
    }
    printer.finish(answer.schema.as_deref())?;
    let (next, high, start) = (answer.next_offset, answer.high_watermark, answer.log_start);
    context.remark(format!("next offset {next}, high watermark {high}, log start {start}"));
    Ok(())
}
