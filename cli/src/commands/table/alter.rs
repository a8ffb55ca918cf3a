//! `wadi table alter`.

use clap::Args;
use wadi_client::AlterTable;
use wadi_model::TableName;
use wadi_model::evolve::SchemaChange;
use wadi_model::table::ColumnSpec;
use wadi_model::types::{DataType, InvalidType, parse_columns};

use super::create::property;
use crate::commands::database::done;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Change a table. Columns are added, renamed, widened and dropped in this order.
#[derive(Debug, Args)]
pub(crate) struct AlterArgs {
    /// database.table
    table: TableName,
    #[command(flatten)]
    changes: Changes,
}

/// At least one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Changes {
    /// Add columns: `tip double, zone string`.
    #[arg(long, env = "WADI_ADD", value_name = "COLUMNS")]
    add: Option<String>,
    /// Rename a column, `old=new`; may be given many times.
    #[arg(long, env = "WADI_RENAME", value_name = "OLD=NEW", value_parser = property)]
    rename: Vec<(String, String)>,
    /// Give a column a wider type, `name=type`; may be given many times.
    #[arg(long, env = "WADI_WIDEN", value_name = "NAME=TYPE", value_parser = property)]
    widen: Vec<(String, String)>,
    /// Drop columns, with commas between.
    #[arg(long, env = "WADI_DROP", value_delimiter = ',', value_name = "NAME,…")]
    drop: Vec<String>,
    /// Set an option or property; may be given many times.
    #[arg(long, env = "WADI_SET", value_name = "NAME=VALUE", value_parser = property)]
    set: Vec<(String, String)>,
    /// Take an option or property away; may be given many times.
    #[arg(long, env = "WADI_UNSET", value_name = "NAME")]
    unset: Vec<String>,
}

pub(super) async fn run(args: AlterArgs, context: &Context) -> Result<(), Failure> {
    let alter = alter(&args.changes)?;
    let table = context.client()?.alter_table(&args.table, &alter).await?;
    if context.json {
        output::json(&table)
    } else {
        done(context, "table", &args.table.to_string(), "altered")
    }
}

fn alter(args: &Changes) -> Result<AlterTable, Failure> {
    let mut changes = Vec::new();
    if let Some(added) = &args.add {
        for (name, t) in parse_columns(added).map_err(|e| Failure::usage(e.to_string()))? {
            changes.push(SchemaChange::AddColumn(ColumnSpec::of(&name, &t.data_type, t.nullable)));
        }
    }
    for (from, to) in &args.rename {
        changes.push(SchemaChange::RenameColumn { from: from.clone(), to: to.clone() });
    }
    for (name, data_type) in &args.widen {
        let data_type: DataType =
            data_type.parse().map_err(|e: InvalidType| Failure::usage(e.to_string()))?;
        changes.push(SchemaChange::WidenColumn { name: name.clone(), data_type });
    }
    for name in &args.drop {
        changes.push(SchemaChange::DropColumn { name: name.clone() });
    }
    let set = args.set.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
    let unset = args.unset.iter().map(|name| (name.clone(), None));
    Ok(AlterTable { changes, properties: set.chain(unset).collect() })
}
