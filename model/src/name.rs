//! Names of databases and tables, in Fluss's rules.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, Fault};

/// Longest name of a database, table or partition, in bytes.
pub const MAX_NAME: usize = 200;

/// What the names of tables of rejected rows end with.
const REJECTED: &str = "__rejected";

/// A name that breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} name \"{}\" is not allowed: {why}", .name.escape_debug())]
pub struct InvalidName {
    /// What it should name: `database`, `table`, …
    pub what: &'static str,
    /// The name as given, cut to a printable length.
    pub name: String,
    /// The rule that it breaks.
    pub why: &'static str,
}

impl Fault for InvalidName {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_name"
    }
}

/// Checks a name of a database, table or partition: 1 to 200 letters, digits, `_` and `-`, not beginning with `__`.
pub fn check_name(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 200 characters"
    } else if !name.chars().all(allowed) {
        "only letters, digits, \"_\" and \"-\" may stand in it"
    } else if name.starts_with("__") {
        "names that begin with \"__\" belong to the system"
    } else {
        return Ok(());
    };
    Err(InvalidName { what, name: name.chars().take(MAX_NAME).collect(), why })
}

/// The name of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DatabaseName(String);

impl DatabaseName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for DatabaseName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<DatabaseName, InvalidName> {
        check_name("database", &name)?;
        Ok(DatabaseName(name))
    }
}

impl FromStr for DatabaseName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<DatabaseName, InvalidName> {
        name.to_owned().try_into()
    }
}

impl From<DatabaseName> for String {
    fn from(name: DatabaseName) -> String {
        name.0
    }
}

impl fmt::Display for DatabaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The full name of a table, written `database.table`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TableName {
    database: DatabaseName,
    table: String,
}

impl TableName {
    /// A table's name from its two parts.
    pub fn new(database: DatabaseName, table: &str) -> Result<TableName, InvalidName> {
        check_name("table", table)?;
        Ok(TableName { database, table: table.to_owned() })
    }

    /// The name of a system table of `database`, which users cannot choose (`__…` or `…__rejected`).
    pub fn rejected_of(&self) -> TableName {
        TableName { database: self.database.clone(), table: format!("{}{REJECTED}", self.table) }
    }

    /// Checks that a user may choose this name for a new table.
    pub fn check_free(&self) -> Result<(), InvalidName> {
        if !self.table.ends_with(REJECTED) {
            return Ok(());
        }
        let why = "names that end with \"__rejected\" belong to the rows that other tables rejected";
        Err(InvalidName { what: "table", name: self.table.clone(), why })
    }

    /// The database.
    pub fn database(&self) -> &DatabaseName {
        &self.database
    }

    /// The table's own name.
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl FromStr for TableName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<TableName, InvalidName> {
        let (database, table) = name.split_once('.').ok_or_else(|| InvalidName {
            what: "table",
            name: name.chars().take(MAX_NAME).collect(),
            why: "write it as database.table",
        })?;
        TableName::new(database.parse()?, table)
    }
}

impl TryFrom<String> for TableName {
    type Error = InvalidName;

    fn try_from(name: String) -> Result<TableName, InvalidName> {
        name.parse()
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> String {
        name.to_string()
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules() {
        assert_eq!("nyc.flights".parse::<TableName>().unwrap().to_string(), "nyc.flights");
        for bad in ["", "a", "a.", ".b", "a.b.c", "a.__b", "a.b c", "a.ü", &format!("a.{}", "x".repeat(201))]
        {
            assert!(bad.parse::<TableName>().is_err(), "{bad} was taken");
        }
    }
}
