//! Results on stdout: tables for people, JSON for programs.

use std::io::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// Writes text and a line end.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<(), Failure> {
    writeln!(std::io::stdout().lock(), "{text}").map_err(|e| Failure::output(&e))
}

/// Writes one JSON document.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    line(text.map_err(|e| Failure::new(format!("the result is no JSON: {e}")))?)
}

/// A table in the style of all commands.
pub(crate) fn table(header: impl IntoIterator<Item = impl ToString>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.into_iter().map(|h| h.to_string()));
    table
}

/// Names and values, one below the other.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {value}");
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A JSON value in a cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|i| !i.is_object() && !i.is_array()) => {
            items.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Whatever the server tells as an object: scalars as facts, objects as parts, lists of objects as tables.
pub(crate) fn document(value: &Value) -> String {
    let Value::Object(object) = value else { return cell(value) };
    let is_table = |v: &Value| v.as_array().is_some_and(|a| a.iter().any(Value::is_object));
    let is_scalar = |v: &Value| !v.is_null() && !v.is_object() && !is_table(v);
    let scalars: Vec<_> =
        object.iter().filter(|(_, v)| is_scalar(v)).map(|(name, v)| (name.as_str(), cell(v))).collect();
    let mut parts = vec![facts(&scalars)];
    for (name, inner) in object.iter().filter(|(_, v)| v.is_object()) {
        parts.push(format!("{name}\n{}", document(inner)));
    }
    for (name, list) in object.iter().filter(|(_, v)| is_table(v)) {
        parts.push(format!("{name}\n{}", objects(list.as_array().map(Vec::as_slice).unwrap_or_default())));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Objects as a table with a column for each name that occurs.
fn objects(list: &[Value]) -> Table {
    let mut names: Vec<&String> = Vec::new();
    for name in list.iter().filter_map(Value::as_object).flat_map(|o| o.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut table = table(names.iter());
    for item in list {
        table.add_row(names.iter().map(|name| item.get(name.as_str()).map(cell).unwrap_or_default()));
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_the_server_tells_is_shown() {
        let shown = document(&json!({
            "version": "1", "live": ["a", "b"], "nothing": null, "store": {"since": "noon"},
            "shards": [{"shard": 0, "owner": "g1"}, {"shard": 1, "state": "opening"}]
        }));
        for part in ["version  1", "live     a, b", "store\nsince  noon", "shards\n", "g1", "opening"] {
            assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
        }
        assert!(!shown.contains("nothing"), "{shown}");
    }
}
