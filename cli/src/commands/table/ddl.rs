//! A table's definition as text, as `--dry-run` prints it.

use wadi_model::table::ColumnSpec;
use wadi_model::{DatabaseName, TableSpec};

/// The definition in the SQL that Fluss's users know: bucket key and number stand among the options.
pub(super) fn ddl(database: &DatabaseName, spec: &TableSpec) -> String {
    let mut lines: Vec<String> = spec.columns.iter().map(column).collect();
    if !spec.primary_key.is_empty() {
        lines.push(format!("primary key ({})", names(&spec.primary_key)));
    }
    let mut text = format!("create table {}.{} (\n  {}\n)", database, name(&spec.name), lines.join(",\n  "));
    if let Some(comment) = &spec.comment {
        text.push_str(&format!(" comment {}", literal(comment)));
    }
    if !spec.partition_by.is_empty() {
        text.push_str(&format!(" partitioned by ({})", names(&spec.partition_by)));
    }
    let mut options = Vec::new();
    if !spec.bucket_key.is_empty() {
        options.push(("bucket.key", spec.bucket_key.join(",")));
    }
    if let Some(buckets) = spec.buckets {
        options.push(("bucket.num", buckets.to_string()));
    }
    if !spec.auto_increment.is_empty() {
        options.push(("auto-increment.fields", spec.auto_increment.join(",")));
    }
    options.extend(spec.properties.iter().map(|(k, v)| (k.as_str(), v.clone())));
    if !options.is_empty() {
        let options = options.iter().map(|(k, v)| format!("{} = {}", literal(k), literal(v)));
        text.push_str(&format!(" with (\n  {}\n)", options.collect::<Vec<_>>().join(",\n  ")));
    }
    text
}

fn column(column: &ColumnSpec) -> String {
    let mut text = format!("{} {}", name(&column.name), column.column_type);
    if let Some(default) = &column.default {
        let default = default.as_str().map_or_else(|| default.to_string(), literal);
        text.push_str(&format!(" default {default}"));
    }
    if let Some(comment) = &column.comment {
        text.push_str(&format!(" comment {}", literal(comment)));
    }
    text
}

fn names(list: &[String]) -> String {
    list.iter().map(|n| name(n)).collect::<Vec<_>>().join(", ")
}

fn name(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use wadi_model::types::parse_columns;

    use super::*;

    #[test]
    fn a_definition_names_everything_and_its_columns_read_back() {
        let mut spec =
            TableSpec::log("t", &[("id", "bigint not null"), ("a b", "row<x int>"), ("d", "date")]);
        spec.primary_key = vec!["id".into(), "d".into()];
        spec.partition_by = vec!["d".into()];
        spec.bucket_key = vec!["id".into()];
        spec.buckets = Some(4);
        spec.properties.insert("owner".into(), "o'hara".into());
        let text = ddl(&"nyc".parse().unwrap(), &spec);
        let want = "create table nyc.t (\n  id bigint not null,\n  `a b` row<x int>,\n  d date,\n  primary key (id, d)\n) \
            partitioned by (d) with (\n  'bucket.key' = 'id',\n  'bucket.num' = '4',\n  'owner' = 'o''hara'\n)";
        assert_eq!(text, want);
        let columns: Vec<String> = spec.columns.iter().map(column).collect();
        assert_eq!(parse_columns(&columns.join(", ")).unwrap().len(), 3);
    }
}
