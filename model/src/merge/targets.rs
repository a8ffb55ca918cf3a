//! The columns that a partial update or delete names.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, Fault};
use crate::options::MergeKind;
use crate::suggest::did_you_mean;
use crate::table::Table;

/// What the columns are named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// To be written.
    Upsert,
    /// To become NULL.
    Delete,
}

/// The target columns of a partial update or delete, checked against a table's newest schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetColumns {
    verb: Verb,
    /// By position in the schema.
    named: Box<[bool]>,
    full: bool,
}

/// Columns that cannot be the targets of a partial update or delete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum InvalidTargets {
    #[error("a table without a primary key has no partial updates")]
    NoKey,
    #[error("merge engine {engine} takes whole rows only, no partial updates")]
    Engine { engine: &'static str },
    #[error("column \"{column}\" is not in the table{hint}")]
    Unknown { column: String, hint: String },
    #[error("column \"{column}\" is named twice")]
    Twice { column: String },
    #[error("the named columns leave out \"{column}\", which is part of the primary key")]
    MissingKey { column: String },
    #[error(
        "column \"{column}\" is the auto-increment column; its values come from the server, leave it out"
    )]
    AutoIncrement { column: String },
    #[error(
        "the named columns leave out \"{column}\", which is not null and has no default: a new row would have no value for it"
    )]
    MissingNotNull { column: String },
    #[error("column \"{column}\" is not null, so that it cannot be deleted alone")]
    DeletesNotNull { column: String },
}

impl Fault for InvalidTargets {
    fn kind(&self) -> ErrorKind {
        match self {
            InvalidTargets::NoKey | InvalidTargets::Engine { .. } => ErrorKind::NotSupported,
            _ => ErrorKind::Rejected,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            InvalidTargets::NoKey | InvalidTargets::Engine { .. } => "partial_update_not_allowed",
            InvalidTargets::Unknown { .. } => "unknown_column",
            InvalidTargets::Twice { .. } => "duplicate_column",
            InvalidTargets::MissingKey { .. } => "missing_key_column",
            InvalidTargets::AutoIncrement { .. } => "auto_increment_column",
            InvalidTargets::MissingNotNull { .. } => "missing_column",
            InvalidTargets::DeletesNotNull { .. } => "not_null_column",
        }
    }
}

impl TargetColumns {
    /// The columns of these names, in any order.
    pub fn new<'n>(
        table: &Table,
        names: impl IntoIterator<Item = &'n str>,
        verb: Verb,
    ) -> Result<TargetColumns, InvalidTargets> {
        if !table.has_primary_key() {
            return Err(InvalidTargets::NoKey);
        }
        let engine = table.options.merge_engine();
        if matches!(engine, MergeKind::FirstRow | MergeKind::Versioned) {
            return Err(InvalidTargets::Engine { engine: engine.name() });
        }
        let schema = table.schema();
        let positions = schema.positions();
        let mut named = BTreeSet::new();
        for name in names {
            let Some(position) = positions.get(name) else {
                let hint = did_you_mean(schema.nearest(name));
                let column = name.chars().take(crate::name::MAX_NAME).collect();
                return Err(InvalidTargets::Unknown { column, hint });
            };
            if !named.insert(*position) {
                return Err(InvalidTargets::Twice { column: name.to_owned() });
            }
        }
        for (i, column) in schema.columns().iter().enumerate() {
            let name = || column.name.clone();
            let (named, key) = (named.contains(&i), table.primary_key.contains(&column.id));
            let auto = table.auto_increment == Some(column.id);
            match verb {
                _ if key && !named => return Err(InvalidTargets::MissingKey { column: name() }),
                _ if auto && named => return Err(InvalidTargets::AutoIncrement { column: name() }),
                _ if auto || key || column.nullable => {}
                Verb::Upsert if !named && schema.default_of(i).is_none() => {
                    return Err(InvalidTargets::MissingNotNull { column: name() });
                }
                Verb::Delete if named => return Err(InvalidTargets::DeletesNotNull { column: name() }),
                _ => {}
            }
        }
        let columns = schema.columns();
        let is_target = |i: &usize| named.contains(i) || table.auto_increment == Some(columns[*i].id);
        let full = (0..columns.len()).all(|i| is_target(&i));
        Ok(TargetColumns { verb, named: (0..columns.len()).map(|i| named.contains(&i)).collect(), full })
    }

    /// What the columns were named for.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Whether the column at this position of the schema is named.
    pub fn contains(&self, position: usize) -> bool {
        self.named.get(position).copied().unwrap_or(false)
    }

    /// Whether all columns are named that a writer may name: the update is one of whole rows.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Whether they were made for this verb and for a schema of so many columns.
    pub(super) fn fits(&self, verb: Verb, columns: usize) -> bool {
        self.verb == verb && self.named.len() == columns
    }
}
