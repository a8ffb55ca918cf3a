//! Speed of the codec of stored rows: eight columns, 92 bytes a row; and of their keys.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wadi_model::key::KeyCodec;
use wadi_model::row::{RowCodec, RowUpgrade};
use wadi_model::{Column, FieldId, Schema, SchemaId};

const ROWS: usize = 1_000;

fn schema(version: u16, types: [&str; 8]) -> Schema {
    let column = |(i, data_type): (usize, &str)| Column {
        id: FieldId(i as u32),
        name: format!("c{i}"),
        data_type: data_type.parse().expect("a type"),
        nullable: true,
        comment: None,
        default: None,
    };
    Schema::new(SchemaId(version), types.into_iter().enumerate().map(column).collect())
}

fn orders(schema: &Schema) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(7);
    let rng = &mut rng;
    let ids = Int64Array::from_iter_values((0..ROWS).map(|_| rng.random_range(0..1_000_000)));
    let at = (0..ROWS as i64).map(|row| 1_700_000_000_000_000 + row * 950);
    let user = StringArray::from_iter_values((0..ROWS).map(|_| format!("{:016x}", rng.random::<u64>())));
    let item = StringArray::from_iter_values((0..ROWS).map(|_| {
        format!("https://shop.example.com/articles/number/{}", rng.random_range(1_000_000..9_000_000))
    }));
    let count =
        Int32Array::from_iter((0..ROWS).map(|_| rng.random_bool(0.9).then(|| rng.random_range(1..50))));
    let price = Decimal128Array::from_iter_values((0..ROWS).map(|_| rng.random_range(100..1_000_000)))
        .with_precision_and_scale(10, 2)
        .expect("ten digits");
    let weight = Float64Array::from_iter_values((0..ROWS).map(|_| rng.random()));
    let paid = BooleanArray::from_iter((0..ROWS).map(|_| Some(rng.random_bool(0.6))));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ids),
        Arc::new(TimestampMicrosecondArray::from_iter_values(at)),
        Arc::new(user),
        Arc::new(item),
        Arc::new(count),
        Arc::new(price),
        Arc::new(weight),
        Arc::new(paid),
    ];
    RecordBatch::try_new(schema.arrow().clone(), columns).expect("columns of the schema")
}

fn codec(criterion: &mut Criterion) {
    let types = ["bigint", "timestamp(6)", "string", "string", "int", "decimal(10,2)", "double", "boolean"];
    let schema_1 = schema(1, types);
    let codec = RowCodec::new(&schema_1);
    let batch = orders(&schema_1);
    let rows = codec.encode(&batch).expect("columns of the schema");
    println!("{} bytes a row", rows.bytes().len() / ROWS);

    let mut group = criterion.benchmark_group("row");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("encode", |bench| bench.iter(|| codec.encode(black_box(&batch))));
    let all: Vec<usize> = (0..types.len()).collect();
    group.bench_function("decode", |bench| bench.iter(|| codec.decode(black_box(&rows).iter(), &all)));
    group.bench_function("decode 1 of 8", |bench| bench.iter(|| codec.decode(black_box(&rows).iter(), &[5])));
    group.bench_function("split", |bench| {
        let mut fields = Vec::new();
        bench.iter(|| {
            for row in black_box(&rows).iter() {
                fields.clear();
                codec.split(row, &mut fields).expect("whole rows");
                black_box(&fields);
            }
        })
    });
    group.bench_function("split and join", |bench| {
        let (mut fields, mut out) = (Vec::new(), Vec::new());
        bench.iter(|| {
            out.clear();
            for row in black_box(&rows).iter() {
                fields.clear();
                codec.split(row, &mut fields).expect("whole rows");
                codec.join(&fields, &mut out);
            }
        })
    });
    let mut wider = types;
    wider[1] = "timestamp(9)";
    wider[4] = "bigint";
    let upgrade = RowUpgrade::new(&codec, &RowCodec::new(&schema(2, wider)));
    group.bench_function("upgrade", |bench| {
        let mut out = Vec::new();
        bench.iter(|| {
            out.clear();
            for row in black_box(&rows).iter() {
                upgrade.upgrade(row, &mut out).expect("whole rows");
            }
        })
    });
    let key = [schema_1.columns()[2].data_type.clone(), schema_1.columns()[0].data_type.clone()];
    let key = KeyCodec::new(&key).expect("simple types");
    let columns = [batch.column(2).clone(), batch.column(0).clone()];
    group.bench_function("key", |bench| bench.iter(|| key.encode(black_box(&columns), ROWS)));
    group.finish();
}

criterion_group!(benches, codec);
criterion_main!(benches);
