//! Parameters that several calls have, as the API's description names them.

#![allow(dead_code, reason = "only their descriptions are used; the handlers read what is given by name")]

use utoipa::IntoParams;

/// The table in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct InTable {
    database: String,
    table: String,
}

/// Which columns and rows a read is about.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Chosen {
    /// Columns with commas between, in the order wanted; all if not given. System columns (`_offset`, `_timestamp`,
    /// `_change_type`, `_bucket`, `_partition`) can be asked for. A name with a comma stands in double quotes.
    columns: Option<String>,
    /// SQL condition on columns, system columns too: `price > 10 and _timestamp >= '2026-01-31T12:00:00Z'`.
    filter: Option<String>,
}
