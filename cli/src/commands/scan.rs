//! `wadi scan`: the rows that a table has now.

use std::io::{BufWriter, stdout};

use clap::Args;
use futures::StreamExt;
use wadi_client::ScanQuery;
use wadi_model::TableName;

use crate::context::Context;
use crate::failure::Failure;
use crate::rows::{RowFormat, RowPrinter};

/// Rows of a table for people when no limit is given: all of them would be collected before the first is shown.
const TABLE_LIMIT: u64 = 100;

/// Rows that are asked for at once where there may be many.
const PAGE_ROWS: u64 = 10_000;

/// Print the rows that a table has now.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    /// database.table
    table: TableName,
    /// Only this partition, in partitioned tables.
    #[arg(long, env = "WADI_PARTITION")]
    partition: Option<String>,
    /// Only these columns, with commas between.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only rows for which this holds: `carrier = 'UA' and dep_delay > 60`.
    #[arg(long, env = "WADI_FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// At most so many rows [default: 100 as a table, else all].
    #[arg(long, env = "WADI_LIMIT")]
    limit: Option<u64>,
    /// How rows are printed [default: table; ndjson with --json].
    #[arg(long, env = "WADI_FORMAT", value_enum)]
    format: Option<RowFormat>,
}

pub(crate) async fn run(args: ScanArgs, context: &Context) -> Result<(), Failure> {
    let format = format_of(args.format, context);
    let default_limit = (format == RowFormat::Table).then_some(TABLE_LIMIT);
    let query = ScanQuery {
        partition: args.partition,
        columns: args.columns,
        filter: args.filter,
        limit: args.limit.or(default_limit),
    };
    let client = context.client()?;
    let mut printer = RowPrinter::new(format, BufWriter::new(stdout().lock()));
    let is_long = query.limit.is_none_or(|limit| limit > PAGE_ROWS);
    if is_long && !client.table(&args.table).await?.primary_key.is_empty() {
        // Pages can be asked for again where a stream would break off.
        let mut page = client.scan_page(&args.table, &query, None, PAGE_ROWS).await?;
        loop {
            page.batches.iter().try_for_each(|batch| printer.print(batch))?;
            let Some(next) = &page.next else { break };
            page = client.scan_page(&args.table, &query, Some(next), PAGE_ROWS).await?;
        }
        printer.finish(page.schema.as_deref())?;
    } else {
        let mut batches = client.scan(&args.table, &query).await?;
        while let Some(batch) = batches.next().await {
            printer.print(&batch?)?;
        }
        printer.finish(batches.schema().as_deref())?;
    }
    if args.limit.is_none() && default_limit.is_some_and(|limit| printer.rows() >= limit) {
        context.remark(format!("the first {TABLE_LIMIT} rows; --limit N shows more"));
    }
    Ok(())
}

/// The format asked for, or what fits the reader.
pub(super) fn format_of(asked: Option<RowFormat>, context: &Context) -> RowFormat {
    asked.unwrap_or(if context.json { RowFormat::Ndjson } else { RowFormat::Table })
}
