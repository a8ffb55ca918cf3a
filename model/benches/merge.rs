//! Merges per second, on rows whose fields have been found already.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wadi_model::TableId;
use wadi_model::merge::{Change, MergeEngine, MergeScratch, Outcome, TargetColumns, Verb};
use wadi_model::row::field;
use wadi_model::table::{Table, TableSpec};

const ROWS: usize = 1000;

/// Eight columns, about 100 bytes.
fn table(properties: &[(&str, &str)]) -> Table {
    let columns = [
        ("id", "bigint"),
        ("clicks", "bigint"),
        ("price", "decimal(18,2)"),
        ("at", "timestamp(6)"),
        ("user", "string"),
        ("page", "string"),
        ("score", "double"),
        ("paid", "boolean"),
    ];
    let mut spec = TableSpec::log("t", &columns);
    spec.primary_key = vec!["id".to_owned()];
    spec.properties = properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Table::create(TableId(1), "a.t".parse().expect("it is a name"), &spec, 0).expect("it is a table")
}

fn row(seed: i128) -> Vec<Option<Vec<u8>>> {
    let int = |value: i128| {
        let mut bytes = Vec::new();
        field::put_int(&mut bytes, value);
        Some(bytes)
    };
    vec![
        int(seed),
        int(seed * 7),
        int(seed * 1999),
        int(1_700_000_000_000_000 + seed),
        Some(format!("user-{seed:020}").into_bytes()),
        Some(format!("/a/page/of/some/length/{seed:010}").into_bytes()),
        Some((seed as f64).to_le_bytes().to_vec()),
        Some(vec![1]),
    ]
}

fn merges(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    group.throughput(Throughput::Elements(ROWS as u64));
    let rows: Vec<_> = (0..ROWS as i128 + 1).map(row).collect();
    let fields: Vec<Vec<Option<&[u8]>>> =
        rows.iter().map(|r| r.iter().map(|f| f.as_deref()).collect()).collect();
    let versioned = [("table.merge-engine", "versioned"), ("table.merge-engine.versioned.ver-column", "at")];
    let aggregation = [
        ("table.merge-engine", "aggregation"),
        ("fields.clicks.agg", "sum"),
        ("fields.price.agg", "sum"),
        ("fields.at.agg", "max"),
        ("fields.score.agg", "sum"),
        ("fields.paid.agg", "bool_and"),
    ];
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);
    let cases: [Case<'_>; 4] = [
        ("default", &[], false),
        ("partial update", &[], true),
        ("versioned", &versioned, false),
        ("aggregation", &aggregation, false),
    ];
    for (name, properties, partial) in cases {
        let table = table(properties);
        let engine = MergeEngine::new(&table).expect("it has a key");
        let targets = partial.then(|| {
            TargetColumns::new(&table, ["id", "user", "score"], Verb::Upsert).expect("they are targets")
        });
        let mut scratch = MergeScratch::default();
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut bytes = 0;
                for i in 0..ROWS {
                    let change = Change::Upsert { fields: &fields[i + 1], targets: targets.as_ref() };
                    bytes += match engine.merge(Some(&fields[i]), change, &mut scratch).expect("it merges") {
                        Outcome::Put(row) => row.fields().flatten().map(<[u8]>::len).sum(),
                        _ => 1,
                    };
                }
                bytes
            });
        });
    }
    group.finish();
}

criterion_group!(benches, merges);
criterion_main!(benches);
