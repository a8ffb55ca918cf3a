//! Speed of the chunk codec on a table of web events: ten columns, about 130 bytes a row.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wadi_model::ipc::{Compression, Layout, decode, encode, project_message};

const ROWS: usize = 50_000;

fn strings(rng: &mut StdRng, make: impl Fn(&mut StdRng) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| make(rng))))
}

fn web_events() -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(7);
    let rng = &mut rng;
    let start = 1_700_000_000_000_000_i64;
    let at = (0..ROWS as i64).map(|row| start + row * 950 + rng.random_range(0..900));
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(at));
    let user: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| rng.random_range(0..200_000))));
    let session =
        strings(rng, |rng| format!("{:016x}", rng.random_range(0..80_000_u64) * 0x9E37_79B9_7F4A_7C15));
    let event = strings(rng, |rng| ["view", "click", "scroll", "buy"][rng.random_range(0..4)].to_owned());
    let url = strings(rng, |rng| {
        format!(
            "https://shop.example.com/item/{}?ref={}",
            rng.random_range(0..5_000),
            rng.random_range(0..20)
        )
    });
    let country = strings(rng, |rng| ["DE", "FR", "US", "JP", "BR"][rng.random_range(0..5)].to_owned());
    let status: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..ROWS).map(|_| [200, 200, 200, 304, 404][rng.random_range(0..5)]),
    ));
    let duration: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..ROWS).map(|_| rng.random_bool(0.9).then(|| rng.random_range(1..3_000))),
    ));
    let price: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..ROWS).map(|_| f64::from(rng.random_range(0..10_000)) / 100.0),
    ));
    let mobile: ArrayRef = Arc::new(BooleanArray::from_iter((0..ROWS).map(|_| Some(rng.random_bool(0.6)))));
    RecordBatch::try_from_iter(vec![
        ("at", at),
        ("user", user),
        ("session", session),
        ("event", event),
        ("url", url),
        ("country", country),
        ("status", status),
        ("duration_ms", duration),
        ("price", price),
        ("mobile", mobile),
    ])
    .expect("columns of one length")
}

fn codec(criterion: &mut Criterion) {
    let batch = web_events();
    let compressions =
        [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd-1", Compression::Zstd { level: 1 })];
    for (name, compression) in compressions {
        let encoded = encode(&batch, compression).expect("plain types");
        let plain = encoded.uncompressed_len;
        println!("{name}: {plain} bytes plain, {} encoded", encoded.message.len());
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(plain));
        group.bench_function("encode", |bench| bench.iter(|| encode(black_box(&batch), compression)));
        group.bench_function("decode", |bench| {
            bench.iter(|| decode(black_box(&encoded.message), batch.schema_ref(), u64::MAX))
        });
        let metadata = &encoded.message[..encoded.metadata_len as usize];
        group.bench_function("layout", |bench| {
            bench.iter(|| Layout::parse(black_box(metadata), batch.schema_ref()))
        });
        group.bench_function("project 1 of 10", |bench| {
            bench.iter(|| project_message(black_box(&encoded.message), batch.schema_ref(), &[1]))
        });
        group.finish();
    }
}

criterion_group!(benches, codec);
criterion_main!(benches);
