//! Rows that do not fit their table, with the place and the fix.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most rejected rows that are told one by one; the rest is only counted.
pub const MAX_TOLD: usize = 100;

/// Longest preview of a value, in characters.
const MAX_PREVIEW: usize = 80;

/// Why one row was rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RowError {
    /// The row's position in the request, from 0.
    pub row: u64,
    /// The line of the body, from 1, where the format has lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column, with the path inside it (`tags[3]`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What would be right.
    pub expected: String,
    /// What came, cut to a printable length.
    pub got: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}")?,
            None => write!(f, "row {}", self.row)?,
        }
        if let Some(column) = &self.column {
            write!(f, ", column \"{column}\"")?;
        }
        write!(f, ": expected {}, got {}", self.expected, self.got)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// The rejected rows of a request: the first fault of each, by row.
#[derive(Clone, Debug, Default)]
pub struct Rejects {
    first: BTreeMap<u64, RowError>,
    rows: std::collections::BTreeSet<u64>,
}

impl Rejects {
    /// Notes a fault. A row that is rejected already keeps its first one.
    pub fn add(&mut self, row: u64, error: impl FnOnce() -> RowError) {
        if self.rows.insert(row) && self.first.len() < MAX_TOLD {
            self.first.insert(row, error());
        }
    }

    /// Whether no row is rejected.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows are rejected.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The first [`MAX_TOLD`] faults, by row.
    pub fn told(&self) -> impl Iterator<Item = &RowError> {
        self.first.values()
    }

    /// The positions of the rejected rows.
    pub fn rows(&self) -> impl Iterator<Item = u64> + '_ {
        self.rows.iter().copied()
    }

    /// Whether this row is rejected.
    pub fn has(&self, row: u64) -> bool {
        self.rows.contains(&row)
    }

    /// Tells the lines of faults that have none, given by `line_of` for rows in ascending order.
    pub fn tell_lines(&mut self, mut line_of: impl FnMut(u64) -> Option<u64>) {
        for error in self.first.values_mut().filter(|error| error.line.is_none()) {
            error.line = line_of(error.row);
        }
    }

    /// Adds the rejects of a batch that begins at `base` in the request.
    pub fn extend(&mut self, base: u64, other: Rejects) {
        let Rejects { mut first, rows } = other;
        for row in rows {
            let told = first.remove(&row);
            self.add(base + row, || RowError { row: base + row, ..told.unwrap_or_default() });
        }
    }
}

/// A value as it is shown in an error: in one line, quoted, cut.
pub fn preview(value: &str) -> String {
    let mut shown: String = value.chars().take(MAX_PREVIEW).flat_map(char::escape_debug).collect();
    if value.chars().nth(MAX_PREVIEW).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}
