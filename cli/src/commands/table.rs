//! `wadi table`.

mod alter;
mod create;
mod ddl;

pub(super) use create::property;

use clap::Subcommand;
use wadi_client::{TableDescription, TableSummary};
use wadi_model::time::rfc3339;
use wadi_model::{DatabaseName, ErrorKind, TableName};

use super::database::{done, unless};
use crate::args::boolish;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Tables.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Create a table from a column list, or like a file.
    Create(create::CreateArgs),
    /// List the tables of a database.
    List {
        /// The database.
        database: DatabaseName,
    },
    /// Describe a table.
    Show {
        /// database.table
        table: TableName,
    },
    /// Change a table's columns and options, all or nothing.
    Alter(alter::AlterArgs),
    /// Drop a table.
    Drop {
        /// database.table
        table: TableName,
        /// It is fine if it does not exist.
        #[arg(long, env = "WADI_IF_EXISTS", value_parser = boolish())]
        if_exists: bool,
    },
}

pub(crate) async fn run(command: TableCommand, context: &Context) -> Result<(), Failure> {
    match command {
        TableCommand::Create(args) => create::run(args, context).await,
        TableCommand::List { database } => list(context, &context.client()?.tables(&database).await?),
        TableCommand::Show { table } => show(context, &context.client()?.table(&table).await?),
        TableCommand::Alter(args) => alter::run(args, context).await,
        TableCommand::Drop { table, if_exists } => {
            let dropped = context.client()?.drop_table(&table).await;
            let dropped = unless(dropped, ErrorKind::NotFound, if_exists)?;
            done(context, "table", &table.to_string(), if dropped { "dropped" } else { "absent" })
        }
    }
}

fn list(context: &Context, tables: &[TableSummary]) -> Result<(), Failure> {
    if context.json {
        return output::json(&tables);
    }
    let scalar = |(_, value): &(&String, &serde_json::Value)| !value.is_array() && !value.is_object();
    let names = tables.first().map(|t| t.rest.iter().filter(scalar).map(|(name, _)| name).collect());
    let names: Vec<&String> = names.unwrap_or_default();
    let header = ["table".to_owned()].into_iter().chain(names.iter().map(|name| name.to_string()));
    let mut shown = output::table(header);
    for table in tables {
        let rest =
            names.iter().map(|name| table.rest.get(*name).map(|v| value_of(name, v)).unwrap_or_default());
        shown.add_row([table.name.clone()].into_iter().chain(rest));
    }
    output::line(shown)
}

/// A member of a table's description, for people.
fn value_of(name: &str, value: &serde_json::Value) -> String {
    match value.as_i64() {
        Some(millis) if name == "created_at" => rfc3339(millis),
        _ => output::cell(value),
    }
}

fn show(context: &Context, table: &TableDescription) -> Result<(), Failure> {
    if context.json {
        return output::json(table);
    }
    let mut columns = output::table(["column", "type", "default", "comment"]);
    for column in &table.columns {
        let rest = |name| column.rest.get(name).map(output::cell).unwrap_or_default();
        columns.add_row([&column.name, &column.column_type, &rest("default"), &rest("comment")]);
    }
    let properties: Vec<_> = table.properties.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut facts = vec![
        ("table", table.name.clone()),
        ("id", table.id.to_string()),
        ("primary key", table.primary_key.join(", ")),
        ("bucket key", table.bucket_key.join(", ")),
        ("buckets", table.buckets.to_string()),
        ("partitioned by", table.partition_by.join(", ")),
        ("auto increment", table.auto_increment.join(", ")),
        ("merge engine", table.merge_engine.clone().unwrap_or_default()),
        ("properties", properties.join(", ")),
    ];
    let (nested, plain): (Vec<_>, Vec<_>) = table.rest.iter().partition(|(_, value)| value.is_object());
    facts.extend(plain.into_iter().map(|(name, value)| (name.as_str(), value_of(name, value))));
    facts.retain(|(_, value)| !value.is_empty());
    output::line(output::facts(&facts))?;
    output::line(columns)?;
    for (name, value) in nested {
        output::line(format!("\n{name}\n{}", output::document(value)))?;
    }
    Ok(())
}
