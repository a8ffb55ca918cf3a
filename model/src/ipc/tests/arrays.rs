//! Random types and random arrays of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

fn leaf() -> impl Strategy<Value = DataType> {
    prop::sample::select(vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 9),
        DataType::Decimal256(70, -3),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Duration(TimeUnit::Second),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::FixedSizeBinary(0),
        DataType::FixedSizeBinary(7),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Binary,
        DataType::LargeBinary,
    ])
}

/// Any type that chunks hold.
pub(super) fn stored_type() -> impl Strategy<Value = DataType> {
    leaf().prop_recursive(3, 8, 3, |inner| {
        let item = inner.clone().prop_map(|t| Arc::new(Field::new("item", t, true)));
        prop_oneof![
            item.clone().prop_map(DataType::List),
            item.clone().prop_map(DataType::LargeList),
            (item, 0..4_i32).prop_map(|(item, size)| DataType::FixedSizeList(item, size)),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|types| {
                let fields = types.into_iter().enumerate();
                DataType::Struct(fields.map(|(i, t)| Field::new(format!("f{i}"), t, true)).collect())
            }),
            inner.prop_map(|value| {
                let entries = Fields::from(vec![
                    Field::new("key", DataType::Utf8, false),
                    Field::new("value", value, true),
                ]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }),
        ]
    })
}

/// A batch of up to four random columns, cut out of the middle of a larger one.
pub(super) fn stored_batch() -> impl Strategy<Value = RecordBatch> {
    let rows = prop_oneof![Just(0_usize), 1..20_usize, 100..900_usize];
    (prop::collection::vec(stored_type(), 0..5), rows, 0..20_usize, any::<u64>()).prop_map(
        |(types, rows, skipped, seed)| {
            let mut rng = StdRng::seed_from_u64(seed);
            let columns: Vec<ArrayRef> =
                types.iter().map(|t| random_array(&mut rng, t, rows + skipped + 3, true)).collect();
            let fields: Vec<Field> =
                types.iter().enumerate().map(|(i, t)| Field::new(format!("c{i}"), t.clone(), true)).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows + skipped + 3));
            let batch =
                RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).unwrap();
            batch.slice(skipped, rows)
        },
    )
}

/// A random array; often a slice of a longer one, so that all offsets of Arrow occur.
pub(super) fn random_array(rng: &mut StdRng, data_type: &DataType, len: usize, nullable: bool) -> ArrayRef {
    let (before, after) = (rng.random_range(0..10), rng.random_range(0..10));
    let total = before + len + after;
    let nulls = (nullable && *data_type != DataType::Null && rng.random_bool(0.5))
        .then(|| NullBuffer::from_iter((0..total).map(|_| rng.random_bool(0.8))));
    let data = ArrayData::builder(data_type.clone()).len(total).nulls(nulls);
    let data = match data_type {
        DataType::Null => data,
        DataType::Boolean => data.add_buffer(random_bytes(rng, total.div_ceil(8))),
        DataType::FixedSizeBinary(size) => data.add_buffer(random_bytes(rng, total * *size as usize)),
        DataType::Utf8 | DataType::Binary => {
            let (offsets, values) = strings(rng, total);
            data.add_buffer(Buffer::from_vec(offsets)).add_buffer(values)
        }
        DataType::LargeUtf8 | DataType::LargeBinary => {
            let (offsets, values) = strings(rng, total);
            let offsets: Vec<i64> = offsets.into_iter().map(i64::from).collect();
            data.add_buffer(Buffer::from_vec(offsets)).add_buffer(values)
        }
        DataType::List(item) | DataType::Map(item, _) => {
            let (offsets, elements) = lists(rng, total);
            let child = random_array(rng, item.data_type(), elements, item.is_nullable());
            data.add_buffer(Buffer::from_vec(offsets)).add_child_data(child.to_data())
        }
        DataType::LargeList(item) => {
            let (offsets, elements) = lists(rng, total);
            let offsets: Vec<i64> = offsets.into_iter().map(i64::from).collect();
            let child = random_array(rng, item.data_type(), elements, item.is_nullable());
            data.add_buffer(Buffer::from_vec(offsets)).add_child_data(child.to_data())
        }
        DataType::FixedSizeList(item, size) => {
            let child = random_array(rng, item.data_type(), total * *size as usize, true);
            data.add_child_data(child.to_data())
        }
        DataType::Struct(fields) => fields.iter().fold(data, |data, field| {
            let child = random_array(rng, field.data_type(), total, field.is_nullable());
            data.add_child_data(child.to_data())
        }),
        other => {
            let width = other.primitive_width().unwrap();
            data.add_buffer(random_bytes(rng, total * width))
        }
    };
    make_array(data.align_buffers(true).build().unwrap()).slice(before, len)
}

/// Few distinct values, so that there is something to compress.
fn random_bytes(rng: &mut StdRng, len: usize) -> Buffer {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes.iter_mut().for_each(|byte| *byte &= 3);
    Buffer::from_vec(bytes)
}

fn strings(rng: &mut StdRng, len: usize) -> (Vec<i32>, Buffer) {
    let mut offsets = vec![0];
    let mut values = String::new();
    for _ in 0..len {
        let word = ["", "a", "click", "Grüße", "日本語", "https://example.org/path?q=1"];
        values.push_str(word[rng.random_range(0..word.len())]);
        offsets.push(values.len() as i32);
    }
    (offsets, Buffer::from_vec(values.into_bytes()))
}

fn lists(rng: &mut StdRng, len: usize) -> (Vec<i32>, usize) {
    let mut end = rng.random_range(0..3);
    let mut offsets = vec![end];
    for _ in 0..len {
        end += rng.random_range(0..3);
        offsets.push(end);
    }
    (offsets, end as usize + rng.random_range(0..3))
}
