//! Reading and writing bodies of web events: ten columns, about 300 bytes a row.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wadi_gateway::body::write::{JsonRows, csv_header, csv_rows};
use wadi_gateway::body::{BodyFormat, BodyLimits, decode};
use wadi_model::Schema;
use wadi_model::ids::TableId;
use wadi_model::table::{Table, TableSpec};

fn schema() -> Schema {
    let columns = [
        ("event_id", "bigint not null"),
        ("user_id", "bigint"),
        ("session", "string"),
        ("url", "string"),
        ("referrer", "string"),
        ("user_agent", "string"),
        ("status", "smallint"),
        ("latency_ms", "double"),
        ("price", "decimal(10,2)"),
        ("at", "timestamp_ltz(3)"),
    ];
    let spec = TableSpec::log("events", &columns);
    let name = "web.events".parse().expect("a good name");
    Table::create(TableId(1), name, &spec, 0).expect("a good table").schema().clone()
}

fn events(rows: u64) -> String {
    let event = |i: u64| {
        format!(
            concat!(
                r#"{{"event_id":{},"user_id":{},"session":"{:016x}","url":"https://shop.example.com/products/{}?ref=home","#,
                r#""referrer":"https://search.example.org/?q=shoes","user_agent":"Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0","#,
                r#""status":{},"latency_ms":{}.{},"price":{}.{:02},"at":"2026-03-{:02}T{:02}:00:00.{:03}Z"}}"#,
                "\n"
            ),
            i,
            i * 7919 % 100_000,
            i.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            i % 5000,
            200 + i % 5 * 100,
            i % 900,
            i % 1000,
            i % 300,
            i % 100,
            i % 28 + 1,
            i % 24,
            i % 1000
        )
    };
    (0..rows).map(event).collect()
}

fn bodies(c: &mut Criterion) {
    let schema = schema();
    let limits = BodyLimits::default();
    let ndjson = Bytes::from(events(50_000));
    let batch = decode(BodyFormat::Ndjson, ndjson.clone(), &schema, &limits).expect("good rows").batch;
    let mut csv = Vec::new();
    csv_header(batch.schema_ref(), &mut csv);
    csv_rows(&batch, &mut csv).expect("all types can be written");
    let csv = Bytes::from(csv);
    let mut array = vec![b'['];
    let rows = JsonRows::new(&batch).expect("all types can be written");
    rows.write_elements(&mut true, &mut array);
    array.push(b']');

    let mut group = c.benchmark_group("body");
    group.sample_size(10);
    let header = BodyFormat::Csv { header: true };
    for (name, format, body) in [
        ("read ndjson", BodyFormat::Ndjson, ndjson.clone()),
        ("read json", BodyFormat::Json, array.into()),
        ("read csv", header, csv.clone()),
    ] {
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(name, |b| {
            b.iter(|| decode(format, body.clone(), &schema, &limits).expect("good rows"))
        });
    }
    let mut out = Vec::with_capacity(ndjson.len() + 1024);
    group.throughput(Throughput::Bytes(ndjson.len() as u64));
    group.bench_function("write ndjson", |b| {
        b.iter(|| {
            out.clear();
            JsonRows::new(&batch).expect("all types can be written").write_lines(&mut out);
            out.len()
        });
    });
    group.throughput(Throughput::Bytes(csv.len() as u64));
    group.bench_function("write csv", |b| {
        b.iter(|| {
            out.clear();
            csv_rows(&batch, &mut out).expect("all types can be written");
            out.len()
        });
    });
    group.finish();
}

criterion_group!(benches, bodies);
criterion_main!(benches);
