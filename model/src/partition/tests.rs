mod auto;
mod names;
mod rows;

use crate::ids::TableId;
use crate::table::{InvalidTable, Table, TableSpec};

/// Milliseconds of a time in RFC 3339.
fn at(time: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(time).unwrap().timestamp_millis()
}

/// A table of these columns, partitioned by these, with these options.
fn try_table(columns: &[(&str, &str)], by: &[&str], options: &[(&str, &str)]) -> Result<Table, InvalidTable> {
    let mut spec = TableSpec::log("t", columns);
    spec.partition_by = by.iter().map(|c| c.to_string()).collect();
    spec.properties =
        options.iter().map(|(name, value)| (format!("table.{name}"), value.to_string())).collect();
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0)
}

fn table(columns: &[(&str, &str)], by: &[&str], options: &[(&str, &str)]) -> Table {
    try_table(columns, by, options).unwrap()
}
