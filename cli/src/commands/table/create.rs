//! `wadi table create`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use wadi_model::table::ColumnSpec;
use wadi_model::types::parse_table;
use wadi_model::{ErrorKind, Table, TableId, TableName, TableSpec};

use super::ddl::ddl;
use crate::args::boolish;
use crate::commands::database::{done, unless};
use crate::context::Context;
use crate::failure::Failure;
use crate::format::FileFormat;
use crate::{infer, output};

/// Create a table.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// database.table
    table: TableName,
    /// The columns: `id bigint not null, name string, tags array<string>`; the primary key may stand at their end:
    /// `…, primary key (id)`.
    #[arg(long, env = "WADI_COLUMNS", required_unless_present = "like", conflicts_with = "like")]
    columns: Option<String>,
    /// Take the columns from a file: declared in Parquet and Arrow, inferred from the first rows of CSV and NDJSON.
    #[arg(long, env = "WADI_LIKE", value_name = "FILE")]
    like: Option<PathBuf>,
    /// The format of that file, if its name does not tell.
    #[arg(long, env = "WADI_FORMAT", value_enum)]
    format: Option<FileFormat>,
    /// Columns of the primary key, with commas between. Makes it a primary-key table.
    #[arg(long, env = "WADI_PRIMARY_KEY", value_delimiter = ',')]
    primary_key: Vec<String>,
    /// Columns whose hash chooses the bucket [default: the primary key without partition columns].
    #[arg(long, env = "WADI_BUCKET_KEY", value_delimiter = ',')]
    bucket_key: Vec<String>,
    /// The column whose values the server hands out, in a primary-key table.
    #[arg(long, env = "WADI_AUTO_INCREMENT", value_name = "COLUMN")]
    auto_increment: Option<String>,
    /// Number of buckets, of the table or of each partition [default: 1].
    #[arg(long, env = "WADI_BUCKETS")]
    buckets: Option<u32>,
    /// Columns whose values choose the partition.
    #[arg(long, env = "WADI_PARTITION_BY", value_delimiter = ',')]
    partition_by: Vec<String>,
    /// An option or property, `name=value`; may be given many times.
    #[arg(long, env = "WADI_PROPERTY", value_name = "NAME=VALUE", value_parser = property)]
    property: Vec<(String, String)>,
    /// A comment for people.
    #[arg(long, env = "WADI_COMMENT")]
    comment: Option<String>,
    /// It is fine if the table exists (its definition is not compared).
    #[arg(long, env = "WADI_IF_NOT_EXISTS", value_parser = boolish())]
    if_not_exists: bool,
    /// Print the definition and create nothing.
    #[arg(long, env = "WADI_DRY_RUN", value_parser = boolish())]
    dry_run: bool,
}

pub(super) async fn run(args: CreateArgs, context: &Context) -> Result<(), Failure> {
    let database = args.table.database().clone();
    let spec = spec(&args, context)?;
    // The server checks this too; here it serves the dry run, and saves a round trip.
    Table::create(TableId(0), args.table.clone(), &spec, 0).map_err(|e| Failure::usage(e.to_string()))?;
    if args.dry_run {
        return if context.json { output::json(&spec) } else { output::line(ddl(&database, &spec)) };
    }
    let created = context.client()?.create_table(&database, &spec).await;
    let created = unless(created, ErrorKind::Conflict, args.if_not_exists)?;
    done(context, "table", &args.table.to_string(), if created { "created" } else { "exists" })
}

fn spec(args: &CreateArgs, context: &Context) -> Result<TableSpec, Failure> {
    let mut primary_key = args.primary_key.clone();
    let columns = match (&args.columns, &args.like) {
        (Some(text), _) => {
            let (columns, key) = parse_table(text).map_err(|e| Failure::usage(e.to_string()))?;
            if !key.is_empty() && !primary_key.is_empty() {
                return Err(Failure::usage("the primary key stands in --columns and in --primary-key"));
            }
            primary_key.extend(key);
            columns.iter().map(|(name, t)| ColumnSpec::of(name, &t.data_type, t.nullable)).collect()
        }
        (None, Some(path)) => {
            let inferred = infer::columns(path, FileFormat::of(path, args.format)?)?;
            inferred.remarks.iter().for_each(|remark| context.remark(remark));
            inferred.columns
        }
        (None, None) => return Err(Failure::usage("give --columns or --like")),
    };
    Ok(TableSpec {
        name: args.table.table().to_owned(),
        columns,
        primary_key,
        bucket_key: args.bucket_key.clone(),
        buckets: args.buckets,
        partition_by: args.partition_by.clone(),
        auto_increment: args.auto_increment.iter().cloned().collect(),
        properties: args.property.iter().cloned().collect::<BTreeMap<_, _>>(),
        comment: args.comment.clone(),
    })
}

/// Reads `name=value`.
pub(in crate::commands) fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write it as name=value".to_owned()),
    }
}
