//! `wadi delete`: the row of a key.

use clap::Args;
use wadi_client::WriteOptions;
use wadi_model::TableName;

use super::database::done;
use super::keys;
use crate::context::Context;
use crate::failure::Failure;

/// Delete the row of a key; `wadi ingest --delete` takes many keys from a file.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// database.table
    table: TableName,
    /// The key, a `column=value` for each of its columns.
    #[arg(required = true, value_name = "COLUMN=VALUE", value_parser = keys::part)]
    key: Vec<(String, String)>,
    /// Only empty these columns, with commas between; the row goes when nothing but its key is left. The key is named too.
    #[arg(long, env = "WADI_COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
}

pub(crate) async fn run(args: DeleteArgs, context: &Context) -> Result<(), Failure> {
    let body = keys::body(&args.key);
    let answer = context.client()?.delete(&args.table, &args.columns, body, &WriteOptions::default()).await?;
    // What changes nothing has no offsets: the row was not there, or the table ignores deletions.
    let outcome = if answer.offsets.is_empty() { "unchanged" } else { "deleted" };
    done(context, "row", &keys::shown(&args.key), outcome)
}
