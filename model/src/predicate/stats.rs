//! What is known of a column's values in one chunk: least, greatest, number of nulls.

use super::literal::{Literal, Value};
use arrow::array::{Array, ArrayAccessor, ArrayIter, ArrayRef, AsArray};
use arrow::compute;
use arrow::datatypes::{
    ArrowNumericType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};

/// Bounds of strings and bytes are cut to this length (an incremented last character may need up to 3 bytes more).
const MAX_BOUND: usize = 32;

/// Bounds on the values of one column in one chunk. They hold, but need not be reached: long strings are cut.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnStatistics {
    /// No value is below; `None` if unknown.
    pub min: Option<Literal>,
    /// No value is above; `None` if unknown.
    pub max: Option<Literal>,
    /// Rows without a value.
    pub null_count: u64,
}

impl ColumnStatistics {
    /// Of a column that a chunk does not have: null in all rows.
    pub fn all_null(rows: u64) -> Self {
        Self { min: None, max: None, null_count: rows }
    }

    /// Of the values of an array. Lists, maps and structs get the null count only; a bound that is NaN is left out,
    /// as NaNs of other payloads may lie beyond it.
    pub fn compute(array: &ArrayRef) -> Self {
        let (min, max) = bounds(array).unwrap_or_default();
        Self { min, max, null_count: array.null_count() as u64 }
    }
}

type Bounds = (Option<Literal>, Option<Literal>);

fn bounds(array: &ArrayRef) -> Option<Bounds> {
    use DataType::*;
    Some(match array.data_type() {
        Boolean => {
            let array = array.as_boolean();
            let literal = |value| Literal::new(Boolean, Value::Boolean(value));
            (compute::min_boolean(array).and_then(literal), compute::max_boolean(array).and_then(literal))
        }
        Int8 => of::<Int8Type>(array, int),
        Int16 => of::<Int16Type>(array, int),
        Int32 => of::<Int32Type>(array, int),
        Int64 => of::<Int64Type>(array, int),
        Float32 => of::<Float32Type>(array, |value| float(value.into())),
        Float64 => of::<Float64Type>(array, float),
        Decimal128(_, _) => of::<Decimal128Type>(array, |value| Some(Value::Decimal(value))),
        Date32 => of::<Date32Type>(array, int),
        Time32(TimeUnit::Second) => of::<Time32SecondType>(array, int),
        Time32(TimeUnit::Millisecond) => of::<Time32MillisecondType>(array, int),
        Time64(TimeUnit::Microsecond) => of::<Time64MicrosecondType>(array, int),
        Time64(TimeUnit::Nanosecond) => of::<Time64NanosecondType>(array, int),
        Timestamp(TimeUnit::Second, _) => of::<TimestampSecondType>(array, int),
        Timestamp(TimeUnit::Millisecond, _) => of::<TimestampMillisecondType>(array, int),
        Timestamp(TimeUnit::Microsecond, _) => of::<TimestampMicrosecondType>(array, int),
        Timestamp(TimeUnit::Nanosecond, _) => of::<TimestampNanosecondType>(array, int),
        Utf8 => {
            let literal = |value| Literal::new(Utf8, Value::Utf8(value));
            let (min, max) = extremes(array.as_string::<i32>())?;
            (literal(cut(min).to_owned()), string_above(max).and_then(literal))
        }
        Binary => binary(extremes(array.as_binary::<i32>())?),
        FixedSizeBinary(_) => binary(extremes(array.as_fixed_size_binary())?),
        _ => return None,
    })
}

fn of<T: ArrowNumericType>(array: &ArrayRef, value: impl Fn(T::Native) -> Option<Value>) -> Bounds {
    let literal = |bound| Literal::new(array.data_type().clone(), value(bound)?);
    let array = array.as_primitive::<T>();
    (compute::min(array).and_then(literal), compute::max(array).and_then(literal))
}

fn int(value: impl Into<i64>) -> Option<Value> {
    Some(Value::Int(value.into()))
}

fn float(value: f64) -> Option<Value> {
    (!value.is_nan()).then_some(Value::Float(value))
}

fn binary((min, max): (&[u8], &[u8])) -> Bounds {
    let literal = |bytes| Literal::new(DataType::Binary, Value::Binary(bytes));
    (literal(min[..min.len().min(MAX_BOUND)].to_vec()), bytes_above(max).and_then(literal))
}

/// The least and the greatest value; `None` if all are null.
fn extremes<T: AsRef<[u8]> + Copy>(array: impl ArrayAccessor<Item = T>) -> Option<(T, T)> {
    let mut values = ArrayIter::new(array).flatten();
    let first = values.next()?;
    let wider = |(min, max), value: T| {
        if below(value.as_ref(), T::as_ref(&min)) {
            (value, max)
        } else if below(T::as_ref(&max), value.as_ref()) {
            (min, value)
        } else {
            (min, max)
        }
    };
    Some(values.fold((first, first), wider))
}

/// Whether `a` comes before `b`. By words and then by bytes: the values of a column differ early, which takes less
/// than a call that compares slices of any length.
fn below(mut a: &[u8], mut b: &[u8]) -> bool {
    while let (Some((x, after_x)), Some((y, after_y))) = (a.split_first_chunk(), b.split_first_chunk()) {
        let (x, y) = (u64::from_be_bytes(*x), u64::from_be_bytes(*y));
        if x != y {
            return x < y;
        }
        (a, b) = (after_x, after_y);
    }
    a.iter().lt(b)
}

/// The longest beginning within the limit that ends between characters.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BOUND)]
}

/// A short string that is not below `text`; `None` if no character of its beginning can be incremented.
fn string_above(text: &str) -> Option<String> {
    let mut bound = cut(text).to_owned();
    if bound.len() == text.len() {
        return Some(bound);
    }
    while let Some(last) = bound.pop() {
        if let Some(next) = next_char(last) {
            bound.push(next);
            return Some(bound);
        }
    }
    None
}

/// The next character in the order of code points, which is the byte order of UTF-8.
fn next_char(c: char) -> Option<char> {
    match c {
        // The surrogates in between are no characters.
        '\u{D7FF}' => Some('\u{E000}'),
        _ => char::from_u32(u32::from(c) + 1),
    }
}

fn bytes_above(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() <= MAX_BOUND {
        return Some(bytes.to_vec());
    }
    let mut bound = bytes[..MAX_BOUND].to_vec();
    while let Some(last) = bound.pop() {
        if let Some(next) = last.checked_add(1) {
            bound.push(next);
            return Some(bound);
        }
    }
    None
}
