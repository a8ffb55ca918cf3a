//! Random arrays of the types of tables, with the values at which codecs break.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, ListArray,
    MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type,
};
use rand::Rng;
use rand::rngs::StdRng;

use crate::types::{DataType, Nested};

/// An array of `len` values, cut out of a longer one.
pub(crate) fn random_array(rng: &mut StdRng, data_type: &DataType, len: usize, nullable: bool) -> ArrayRef {
    let (before, after) = (rng.random_range(0..10), rng.random_range(0..10));
    let total = before + len + after;
    let nulls = (nullable && rng.random_bool(0.6))
        .then(|| NullBuffer::from_iter((0..total).map(|_| rng.random_bool(0.7))));
    whole(rng, data_type, total, nulls).slice(before, len)
}

fn whole(rng: &mut StdRng, data_type: &DataType, len: usize, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::Boolean => {
            Arc::new(BooleanArray::new((0..len).map(|_| rng.random_bool(0.5)).collect(), nulls))
        }
        DataType::TinyInt => {
            numbers::<Int8Type>(rng, len, nulls, data_type, &[0, -1, 1, i8::MIN, i8::MAX], |r| r.random())
        }
        DataType::SmallInt => {
            numbers::<Int16Type>(rng, len, nulls, data_type, &[0, -1, 63, -64, i16::MIN, i16::MAX], |r| {
                r.random()
            })
        }
        // Values that are a time or a date in every unit, too.
        DataType::Time(0..=3) => {
            numbers::<Int32Type>(rng, len, nulls, data_type, &[0, 1, 86_399], |r| r.random_range(0..86_400))
        }
        DataType::Int | DataType::Date => {
            numbers::<Int32Type>(rng, len, nulls, data_type, &[0, -1, 64, -65, i32::MIN, i32::MAX], |r| {
                r.random()
            })
        }
        DataType::Time(_) => {
            numbers::<Int64Type>(rng, len, nulls, data_type, &[0, 1], |r| r.random_range(0..86_400_000_000))
        }
        DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let edges = [0, -1, 1 << 40, i64::MIN, i64::MAX, i64::MAX / 1000, i64::MIN / 1_000_000];
            numbers::<Int64Type>(rng, len, nulls, data_type, &edges, |r| r.random())
        }
        DataType::Decimal { precision, .. } => {
            let most = 10_i128.pow((*precision).into()) - 1;
            numbers::<Decimal128Type>(rng, len, nulls, data_type, &[0, -1, most, -most], |r| {
                r.random_range(-most..=most)
            })
        }
        DataType::Float => {
            let edges = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE];
            numbers::<Float32Type>(rng, len, nulls, data_type, &edges, |r| f32::from_bits(r.random()))
        }
        DataType::Double => {
            let edges = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
            numbers::<Float64Type>(rng, len, nulls, data_type, &edges, |r| f64::from_bits(r.random()))
        }
        DataType::Char(_) | DataType::String => {
            let texts: Vec<String> = (0..len).map(|_| text(rng)).collect();
            let texts = StringArray::from_iter_values(texts);
            Arc::new(StringArray::new(texts.offsets().clone(), texts.values().clone(), nulls))
        }
        DataType::Bytes => {
            let bytes: Vec<Vec<u8>> = (0..len).map(|_| bytes(rng)).collect();
            let bytes = BinaryArray::from_iter_values(bytes);
            Arc::new(BinaryArray::new(bytes.offsets().clone(), bytes.values().clone(), nulls))
        }
        DataType::Binary(n) => {
            let bytes: Vec<u8> = (0..len * *n as usize).map(|_| rng.random_range(0..3)).collect();
            Arc::new(FixedSizeBinaryArray::new(*n as i32, bytes.into(), nulls))
        }
        DataType::Array(item) => {
            let ArrowType::List(field) = data_type.to_arrow() else { unreachable!() };
            let (offsets, count) = lists(rng, len);
            let items = nested(rng, item, count);
            Arc::new(ListArray::new(field, offsets, items, nulls))
        }
        DataType::Map(key, value) => {
            let ArrowType::Map(entries, _) = data_type.to_arrow() else { unreachable!() };
            let ArrowType::Struct(fields) = entries.data_type() else { unreachable!() };
            let (offsets, count) = lists(rng, len);
            let keys = random_array(rng, key, count, false);
            let values = nested(rng, value, count);
            let pairs = StructArray::new(fields.clone(), vec![keys, values], None);
            Arc::new(MapArray::new(entries.clone(), offsets, pairs, nulls, false))
        }
        DataType::Row(fields) => {
            let ArrowType::Struct(arrow) = data_type.to_arrow() else { unreachable!() };
            let columns = fields.iter().map(|(_, field)| nested(rng, field, len)).collect();
            Arc::new(StructArray::new(arrow, columns, nulls))
        }
    }
}

fn nested(rng: &mut StdRng, nested: &Nested, len: usize) -> ArrayRef {
    random_array(rng, &nested.data_type, len, nested.nullable)
}

fn numbers<T: ArrowPrimitiveType>(
    rng: &mut StdRng,
    len: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    edges: &[T::Native],
    any: impl Fn(&mut StdRng) -> T::Native,
) -> ArrayRef {
    let value = |rng: &mut StdRng| match rng.random_bool(0.5) {
        true => edges[rng.random_range(0..edges.len())],
        false => any(rng),
    };
    let values: Vec<T::Native> = (0..len).map(|_| value(rng)).collect();
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    let data = array.into_data().into_builder().data_type(data_type.to_arrow()).build().unwrap();
    arrow::array::make_array(data)
}

/// Texts that begin alike, around the lengths at which lengths and groups of eight grow.
fn text(rng: &mut StdRng) -> String {
    let parts = ["", "a", "a\0", "ab", "abcdefg", "abcdefgh", "ÿ", "日本語", "\u{10FFFF}"];
    let count = if rng.random_bool(0.05) { rng.random_range(20..80) } else { rng.random_range(0..4) };
    (0..count).map(|_| parts[rng.random_range(0..parts.len())]).collect()
}

fn bytes(rng: &mut StdRng) -> Vec<u8> {
    let len = rng.random_range(0..20);
    (0..len).map(|_| [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)]).collect()
}

fn lists(rng: &mut StdRng, len: usize) -> (OffsetBuffer<i32>, usize) {
    let mut end = rng.random_range(0..3);
    let mut offsets = vec![end];
    for _ in 0..len {
        end += if rng.random_bool(0.05) { rng.random_range(0..40) } else { rng.random_range(0..3) };
        offsets.push(end);
    }
    (OffsetBuffer::new(offsets.into()), end as usize + rng.random_range(0..3))
}
