//! `wadi partition`.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use clap::Subcommand;
use wadi_client::{NewPartition, PartitionDescription};
use wadi_model::{ErrorKind, TableName};

use super::database::{done, unless};
use crate::args::boolish;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Partitions of tables.
#[derive(Debug, Subcommand)]
pub(crate) enum PartitionCommand {
    /// List the partitions of a table.
    List {
        /// database.table
        table: TableName,
    },
    /// Create a partition. Most tables need none: writes create the partitions of their rows.
    Create {
        /// database.table
        table: TableName,
        /// Its name (`2026-01-31$eu`), or the value of each partition column (`day=2026-01-31 region=eu`).
        #[arg(required = true)]
        partition: Vec<String>,
        /// It is fine if it exists.
        #[arg(long, env = "WADI_IF_NOT_EXISTS", value_parser = boolish())]
        if_not_exists: bool,
    },
    /// Drop a partition with its rows.
    Drop {
        /// database.table
        table: TableName,
        /// Its name.
        partition: String,
        /// It is fine if it does not exist.
        #[arg(long, env = "WADI_IF_EXISTS", value_parser = boolish())]
        if_exists: bool,
    },
}

pub(crate) async fn run(command: PartitionCommand, context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    match command {
        PartitionCommand::List { table } => list(context, &client.partitions(&table).await?),
        PartitionCommand::Create { table, partition, if_not_exists } => {
            let created = client.create_partition(&table, &wanted(&partition)?).await;
            let created = match created {
                // Other conflicts, such as too many of them, are no "exists already".
                Err(error) if error.code() != Some("partition_exists") => return Err(error.into()),
                created => unless(created, ErrorKind::Conflict, if_not_exists)?,
            };
            let outcome = if created { "created" } else { "exists" };
            done(context, "partition", &format!("{} of {table}", partition.join(" ")), outcome)
        }
        PartitionCommand::Drop { table, partition, if_exists } => {
            let dropped = match client.drop_partition(&table, &partition).await {
                // A table that does not exist is another thing.
                Err(error) if error.code() != Some("partition_not_found") => return Err(error.into()),
                dropped => unless(dropped, ErrorKind::NotFound, if_exists)?,
            };
            let outcome = if dropped { "dropped" } else { "absent" };
            done(context, "partition", &format!("{partition} of {table}"), outcome)
        }
    }
}

/// Reads a name, or values by column.
fn wanted(given: &[String]) -> Result<NewPartition, Failure> {
    if let [name] = given
        && !name.contains('=')
    {
        return Ok(NewPartition::Name(name.clone()));
    }
    let mut values = BTreeMap::new();
    for text in given {
        let Some((column, value)) = text.split_once('=') else {
            return Err(Failure::usage(format!("\"{text}\" is not understood"))
                .hint("give one name, or column=value for each partition column"));
        };
        if values.insert(column.to_owned(), value.to_owned()).is_some() {
            return Err(Failure::usage(format!("column \"{column}\" is given twice")));
        }
    }
    Ok(NewPartition::Values(values))
}

fn list(context: &Context, partitions: &[PartitionDescription]) -> Result<(), Failure> {
    if context.json {
        return output::json(&partitions);
    }
    let mut table = output::table(["partition", "id", "created"]);
    for partition in partitions {
        let created = partition.rest.get("created_at").and_then(serde_json::Value::as_u64);
        let created = created.map(|millis| UNIX_EPOCH + Duration::from_millis(millis));
        let created = created.map(|at| humantime::format_rfc3339_seconds(at).to_string());
        table.add_row([partition.name.clone(), partition.id.to_string(), created.unwrap_or_default()]);
    }
    output::line(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str]) -> Result<NewPartition, Failure> {
        wanted(&given.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_partition_is_named_or_described() {
        assert_eq!(read(&["2026$eu"]).unwrap(), NewPartition::Name("2026$eu".into()));
        let values = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())];
        assert_eq!(read(&["a=1", "b="]).unwrap(), NewPartition::Values(values.into()));
        assert!(read(&["2026", "eu"]).is_err());
        assert!(read(&["a=1", "a=2"]).is_err());
    }
}
