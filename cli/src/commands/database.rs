//! `wadi database`.

use clap::Subcommand;
use serde_json::json;
use wadi_client::{ClientError, DatabaseDescription};
use wadi_model::{DatabaseName, ErrorKind};

use crate::args::boolish;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;

/// Databases.
#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Create a database.
    Create {
        /// Its name.
        name: DatabaseName,
        /// It is fine if it exists.
        #[arg(long, env = "WADI_IF_NOT_EXISTS", value_parser = boolish())]
        if_not_exists: bool,
    },
    /// List all databases.
    List,
    /// Drop a database.
    Drop {
        /// Its name.
        name: DatabaseName,
        /// It is fine if it does not exist.
        #[arg(long, env = "WADI_IF_EXISTS", value_parser = boolish())]
        if_exists: bool,
    },
}

pub(crate) async fn run(command: DatabaseCommand, context: &Context) -> Result<(), Failure> {
    let client = context.client()?;
    match command {
        DatabaseCommand::Create { name, if_not_exists } => {
            let created = unless(client.create_database(&name).await, ErrorKind::Conflict, if_not_exists)?;
            done(context, "database", name.as_str(), if created { "created" } else { "exists" })
        }
        DatabaseCommand::List => list(context, &client.databases().await?),
        DatabaseCommand::Drop { name, if_exists } => {
            let dropped = unless(client.drop_database(&name).await, ErrorKind::NotFound, if_exists)?;
            done(context, "database", name.as_str(), if dropped { "dropped" } else { "absent" })
        }
    }
}

/// Whether something was done; an error of this kind counts as "there was nothing to do" if that is fine.
pub(super) fn unless<T>(done: Result<T, ClientError>, kind: ErrorKind, fine: bool) -> Result<bool, Failure> {
    match done {
        Ok(_) => Ok(true),
        Err(error) if fine && error.kind() == kind => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Tells what became of a thing.
pub(super) fn done(context: &Context, what: &str, name: &str, outcome: &str) -> Result<(), Failure> {
    if context.json {
        return output::json(&json!({ what: name, "outcome": outcome }));
    }
    context.remark(format!("{what} {name}: {outcome}"));
    Ok(())
}

fn list(context: &Context, databases: &[DatabaseDescription]) -> Result<(), Failure> {
    if context.json {
        return output::json(&databases);
    }
    let mut table = output::table(["database"]);
    for database in databases {
        table.add_row([&database.name]);
    }
    output::line(table)
}
