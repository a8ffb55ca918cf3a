//! Engines and functions against tables of cases, and against a plain model.

use std::collections::BTreeMap;

use super::*;
use crate::ids::TableId;
use crate::table::TableSpec;

mod bitmaps;
mod engines;
mod functions;
mod properties;
mod targets;

/// A row as the bytes of its fields.
type Row = Vec<Option<Vec<u8>>>;

/// A primary-key table with key column `k`.
fn table(columns: &[(&str, &str)], properties: &[(&str, &str)]) -> Table {
    create(columns, properties, &[]).unwrap()
}

fn create(
    columns: &[(&str, &str)],
    properties: &[(&str, &str)],
    auto_increment: &[&str],
) -> Result<Table, InvalidTable> {
    let mut spec = TableSpec::log("t", &[&[("k", "int")], columns].concat());
    spec.primary_key = vec!["k".to_owned()];
    spec.auto_increment = auto_increment.iter().map(|c| c.to_string()).collect();
    spec.properties =
        properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<BTreeMap<_, _>>();
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0)
}

fn int(value: i128) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    field::put_int(&mut bytes, value);
    Some(bytes)
}

fn text(value: &str) -> Option<Vec<u8>> {
    Some(value.as_bytes().to_vec())
}

/// What a writer does; targets by name.
#[derive(Clone, Debug)]
enum Op {
    Upsert(Row, Option<Vec<&'static str>>),
    Delete(Option<Vec<&'static str>>),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
enum Became {
    Unchanged,
    Row(Row),
    Gone,
}

fn apply(table: &Table, stored: Option<&Row>, op: &Op) -> Result<Became, MergeFault> {
    let engine = MergeEngine::new(table).unwrap();
    let targets = |names: &Option<Vec<&'static str>>, verb| {
        names.as_ref().map(|names| TargetColumns::new(table, names.iter().copied(), verb).unwrap())
    };
    let empty = Row::new();
    let (change, named) = match op {
        Op::Upsert(row, names) => (row, targets(names, Verb::Upsert)),
        Op::Delete(names) => (&empty, targets(names, Verb::Delete)),
    };
    let targets = named.as_ref();
    let stored: Option<Vec<Option<&[u8]>>> =
        stored.map(|row| row.iter().map(|f| f.as_ref().map(Vec::as_slice)).collect());
    let fields: Vec<Option<&[u8]>> = change.iter().map(|f| f.as_ref().map(Vec::as_slice)).collect();
    let change = match op {
        Op::Upsert(..) => Change::Upsert { fields: &fields, targets },
        Op::Delete(_) => Change::Delete { targets },
    };
    let mut scratch = MergeScratch::default();
    Ok(match engine.merge(stored.as_deref(), change, &mut scratch)? {
        Outcome::Unchanged => Became::Unchanged,
        Outcome::Replace => Became::Row(fields.iter().map(|f| f.map(<[u8]>::to_vec)).collect()),
        Outcome::Put(row) => Became::Row(row.fields().map(|f| f.map(<[u8]>::to_vec)).collect()),
        Outcome::Delete => Became::Gone,
    })
}

/// An upsert of whole rows.
fn upsert(table: &Table, stored: Option<&Row>, row: Row) -> Became {
    apply(table, stored, &Op::Upsert(row, None)).unwrap()
}
