//! `wadi count`: how many rows a table has.

use clap::Args;
use wadi_model::TableName;

use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Print how many rows a table has now.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    /// database.table
    table: TableName,
    /// Only this partition, in partitioned tables.
    #[arg(long, env = "WADI_PARTITION")]
    partition: Option<String>,
}

pub(crate) async fn run(args: CountArgs, context: &Context) -> Result<(), Failure> {
    let count = context.client()?.count(&args.table, args.partition.as_deref()).await?;
    if context.json {
        return output::json(&count);
    }
    if count.upper_bound {
        context.remark("at most: rows whose time to live is over may be among them".to_owned());
    }
    output::line(count.rows)
}
