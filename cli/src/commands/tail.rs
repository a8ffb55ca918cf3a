//! `wadi tail`: rows as they arrive, a JSON object a line.

use std::io::{Write, stdout};

use clap::Args;
use futures::StreamExt;
use wadi_client::TailQuery;
use wadi_model::TableName;

use crate::context::Context;
use crate::failure::Failure;

/// Follow a table: print rows as they arrive.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    /// database.table
    table: TableName,
    /// Where to begin: earliest, latest, a time (2026-01-31T12:00:00Z), or a cursor.
    #[arg(long, env = "WADI_FROM", default_value = "latest")]
    from: String,
    /// Only this partition, in partitioned tables.
    #[arg(long, env = "WADI_PARTITION")]
    partition: Option<String>,
    /// Only these columns, with commas between; system columns such as `_offset` can be asked for.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Only rows for which this holds.
    #[arg(long, env = "WADI_FILTER", allow_hyphen_values = true)]
    filter: Option<String>,
    /// End after so many rows.
    #[arg(long, env = "WADI_LIMIT")]
    limit: Option<u64>,
}

pub(crate) async fn run(args: TailArgs, context: &Context) -> Result<(), Failure> {
    let query = TailQuery {
        from: Some(args.from),
        partition: args.partition,
        columns: args.columns,
        filter: args.filter,
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut lines = context.client()?.tail_lines(&args.table, &query).await?;
    let mut printed = 0;
    while printed < limit
        && let Some(line) = lines.next().await
    {
        let line = line?;
        let mut out = stdout().lock();
        let written = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        // Stdout keeps a terminal's lines flowing by itself; a pipe's reader waits for each row, too.
        written.and_then(|()| out.flush()).map_err(|e| Failure::output(&e))?;
        printed += 1;
    }
    if printed < limit { Err(Failure::new("the server has ended the stream")) } else { Ok(()) }
}
