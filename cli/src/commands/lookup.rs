//! `wadi lookup`: the rows of a key.

use std::io::{BufWriter, stdout};

use clap::Args;
use wadi_model::TableName;

use super::keys;
use super::scan::format_of;
use crate::context::Context;
use crate::failure::Failure;
use crate::rows::{RowFormat, RowPrinter};

/// Print the row of a key, or all rows under the first columns of a key.
#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// database.table
    table: TableName,
    /// The key, a `column=value` for each of its columns; the first columns alone find all rows under them, if they cover
    /// the bucket key.
    #[arg(required = true, value_name = "COLUMN=VALUE", value_parser = keys::part)]
    key: Vec<(String, String)>,
    /// Only these columns, with commas between.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Insert a row for a key that has none, with defaults in the other columns and the next id in an auto-increment column.
    #[arg(long, env = "WADI_INSERT_IF_NOT_EXISTS")]
    insert_if_not_exists: bool,
    /// How rows are printed [default: table; ndjson with --json].
    #[arg(long, env = "WADI_FORMAT", value_enum)]
    format: Option<RowFormat>,
}

pub(crate) async fn run(args: LookupArgs, context: &Context) -> Result<(), Failure> {
    let (client, body) = (context.client()?, keys::body(&args.key));
    let answer = match args.insert_if_not_exists {
        true => client.lookup_or_insert(&args.table, &args.columns, body).await?,
        false => client.lookup(&args.table, &args.columns, body).await?,
    };
    if answer.found == 0 {
        return Err(Failure::new(format!("{} has no row of {}", args.table, keys::shown(&args.key))));
    }
    let mut printer = RowPrinter::new(format_of(args.format, context), BufWriter::new(stdout().lock()));
    for batch in &answer.batches {
        printer.print(batch)?;
    }
    printer.finish(answer.schema.as_deref())
}
