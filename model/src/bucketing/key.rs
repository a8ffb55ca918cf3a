//! Key bytes of one row, column by column: Fluss's compacted key, and Iceberg's bytes for its bucket transform.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, GenericByteArray, PrimitiveArray,
};
use arrow::datatypes::{
    BinaryType, DataType as ArrowType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, Utf8Type,
};

use crate::fault::{ErrorKind, Fault};
use crate::varint;

/// A column whose values cannot choose a bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column \"{column}\" is {data_type} and cannot choose a bucket")]
pub struct UnsupportedKey {
    column: String,
    data_type: ArrowType,
}

impl Fault for UnsupportedKey {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_table"
    }
}

/// The units that times and timestamps are stored in, per second.
type PerSecond = i64;

/// A key column, typed once so that rows need no downcast.
pub(super) enum KeyColumn<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a PrimitiveArray<Int8Type>),
    Int16(&'a PrimitiveArray<Int16Type>),
    Int32(&'a PrimitiveArray<Int32Type>),
    Int64(&'a PrimitiveArray<Int64Type>),
    Float32(&'a PrimitiveArray<Float32Type>),
    Float64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>, u8),
    Utf8(&'a GenericByteArray<Utf8Type>),
    Binary(&'a GenericByteArray<BinaryType>),
    FixedBinary(&'a FixedSizeBinaryArray),
    Date(&'a PrimitiveArray<Date32Type>),
    Time(Box<dyn Fn(usize) -> i64 + 'a>, &'a dyn Array, PerSecond),
    Timestamp(Box<dyn Fn(usize) -> i64 + 'a>, &'a dyn Array, PerSecond),
}

impl<'a> KeyColumn<'a> {
    pub(super) fn new(field: &Field, array: &'a ArrayRef) -> Result<KeyColumn<'a>, UnsupportedKey> {
        macro_rules! ticks {
            ($kind:ident, $arrow:ty, $per_second:expr) => {{
                let typed = array.as_primitive::<$arrow>();
                KeyColumn::$kind(Box::new(|row| i64::from(typed.value(row))), array.as_ref(), $per_second)
            }};
        }
        const MILLIS: PerSecond = 1000;
        const MICROS: PerSecond = 1_000_000;
        const NANOS: PerSecond = 1_000_000_000;
        Ok(match array.data_type() {
            ArrowType::Boolean => KeyColumn::Boolean(array.as_boolean()),
            ArrowType::Int8 => KeyColumn::Int8(array.as_primitive()),
            ArrowType::Int16 => KeyColumn::Int16(array.as_primitive()),
            ArrowType::Int32 => KeyColumn::Int32(array.as_primitive()),
            ArrowType::Int64 => KeyColumn::Int64(array.as_primitive()),
            ArrowType::Float32 => KeyColumn::Float32(array.as_primitive()),
            ArrowType::Float64 => KeyColumn::Float64(array.as_primitive()),
            ArrowType::Decimal128(precision, _) => KeyColumn::Decimal(array.as_primitive(), *precision),
            ArrowType::Utf8 => KeyColumn::Utf8(array.as_string()),
            ArrowType::Binary => KeyColumn::Binary(array.as_binary()),
            ArrowType::FixedSizeBinary(_) => KeyColumn::FixedBinary(array.as_fixed_size_binary()),
            ArrowType::Date32 => KeyColumn::Date(array.as_primitive()),
            ArrowType::Time32(TimeUnit::Second) => ticks!(Time, Time32SecondType, 1),
            ArrowType::Time32(TimeUnit::Millisecond) => ticks!(Time, Time32MillisecondType, MILLIS),
            ArrowType::Time64(TimeUnit::Microsecond) => ticks!(Time, Time64MicrosecondType, MICROS),
            ArrowType::Time64(TimeUnit::Nanosecond) => ticks!(Time, Time64NanosecondType, NANOS),
            ArrowType::Timestamp(TimeUnit::Second, _) => ticks!(Timestamp, TimestampSecondType, 1),
            ArrowType::Timestamp(TimeUnit::Millisecond, _) => {
                ticks!(Timestamp, TimestampMillisecondType, MILLIS)
            }
            ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
                ticks!(Timestamp, TimestampMicrosecondType, MICROS)
            }
            ArrowType::Timestamp(TimeUnit::Nanosecond, _) => {
                ticks!(Timestamp, TimestampNanosecondType, NANOS)
            }
            data_type => {
                return Err(UnsupportedKey { column: field.name().clone(), data_type: data_type.clone() });
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            KeyColumn::Boolean(a) => *a,
            KeyColumn::Int8(a) => *a,
            KeyColumn::Int16(a) => *a,
            KeyColumn::Int32(a) => *a,
            KeyColumn::Int64(a) => *a,
            KeyColumn::Float32(a) => *a,
            KeyColumn::Float64(a) => *a,
            KeyColumn::Decimal(a, _) => *a,
            KeyColumn::Utf8(a) => *a,
            KeyColumn::Binary(a) => *a,
            KeyColumn::FixedBinary(a) => *a,
            KeyColumn::Date(a) => *a,
            KeyColumn::Time(_, a, _) | KeyColumn::Timestamp(_, a, _) => *a,
        }
    }

    /// Fluss's compacted key: no null bits, variable-length little-endian integers without zigzag. A null adds
    /// nothing, so that all rows with a null key meet in one bucket.
    pub(super) fn write_compacted(&self, row: usize, out: &mut Vec<u8>) {
        if self.array().is_null(row) {
            return;
        }
        match self {
            KeyColumn::Boolean(a) => out.push(u8::from(a.value(row))),
            KeyColumn::Int8(a) => out.push(a.value(row) as u8),
            KeyColumn::Int16(a) => out.extend_from_slice(&a.value(row).to_le_bytes()),
            KeyColumn::Int32(a) => varint::put(out, a.value(row) as u32),
            KeyColumn::Int64(a) => varint::put(out, a.value(row) as u64),
            KeyColumn::Float32(a) => out.extend_from_slice(&a.value(row).to_le_bytes()),
            KeyColumn::Float64(a) => out.extend_from_slice(&a.value(row).to_le_bytes()),
            KeyColumn::Decimal(a, precision) if *precision <= 18 => {
                varint::put(out, a.value(row) as i64 as u64)
            }
            KeyColumn::Decimal(a, _) => write_bytes(minimal_big_endian(&a.value(row).to_be_bytes()), out),
            KeyColumn::Utf8(a) => write_bytes(a.value(row).as_bytes(), out),
            KeyColumn::Binary(a) => write_bytes(a.value(row), out),
            KeyColumn::FixedBinary(a) => write_bytes(a.value(row), out),
            KeyColumn::Date(a) => varint::put(out, a.value(row) as u32),
            // Fluss keeps times as whole milliseconds.
            KeyColumn::Time(value, _, per_second) => {
                let millis = rescale(value(row), *per_second, 1000);
                varint::put(out, millis as i32 as u32);
            }
            KeyColumn::Timestamp(value, _, per_second) => {
                let ticks = value(row);
                varint::put(out, rescale(ticks, *per_second, 1000) as u64);
                if *per_second > 1000 {
                    let nanos_of_milli = ticks.rem_euclid(per_second / 1000) * (1_000_000_000 / per_second);
                    varint::put(out, nanos_of_milli as u32);
                }
            }
        }
    }

    /// The bytes that Iceberg's bucket transform hashes. A null adds nothing.
    pub(super) fn write_iceberg(&self, row: usize, out: &mut Vec<u8>) {
        if self.array().is_null(row) {
            return;
        }
        let mut long = |value: i64| out.extend_from_slice(&value.to_le_bytes());
        match self {
            KeyColumn::Boolean(a) => long(i64::from(a.value(row))),
            KeyColumn::Int8(a) => long(i64::from(a.value(row))),
            KeyColumn::Int16(a) => long(i64::from(a.value(row))),
            KeyColumn::Int32(a) => long(i64::from(a.value(row))),
            KeyColumn::Int64(a) => long(a.value(row)),
            KeyColumn::Date(a) => long(i64::from(a.value(row))),
            KeyColumn::Time(value, _, per_second) | KeyColumn::Timestamp(value, _, per_second) => {
                long(rescale(value(row), *per_second, 1_000_000));
            }
            KeyColumn::Float32(a) => long(f64::from(a.value(row)).to_bits() as i64),
            KeyColumn::Float64(a) => long(a.value(row).to_bits() as i64),
            KeyColumn::Decimal(a, _) => {
                out.extend_from_slice(minimal_big_endian(&a.value(row).to_be_bytes()))
            }
            KeyColumn::Utf8(a) => out.extend_from_slice(a.value(row).as_bytes()),
            KeyColumn::Binary(a) => out.extend_from_slice(a.value(row)),
            KeyColumn::FixedBinary(a) => out.extend_from_slice(a.value(row)),
        }
    }
}

fn rescale(ticks: i64, from: PerSecond, to: PerSecond) -> i64 {
    if from <= to { ticks.saturating_mul(to / from) } else { ticks.div_euclid(from / to) }
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The shortest two's complement of the same value.
fn minimal_big_endian(bytes: &[u8; 16]) -> &[u8] {
    let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
    let spare = |i: &usize| bytes[*i] == fill && (bytes[i + 1] ^ fill) & 0x80 == 0;
    let start = (0..15).take_while(spare).count();
    &bytes[start..]
}
