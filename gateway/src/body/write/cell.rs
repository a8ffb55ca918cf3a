//! A column whose values are written row by row: downcast once, so that a row costs one branch per value.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{self as t, DataType as ArrowType, TimeUnit};
use arrow::error::ArrowError;
use wadi_model::DataType;

use super::scalar;

/// Decimals of more digits are written as strings.
const EXACT_DIGITS: u8 = 15;

/// A column.
pub(super) struct Cell {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Nothing,
    Boolean(BooleanArray),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    Decimal { values: ScalarBuffer<i128>, scale: u8, quoted: bool },
    Text(StringArray),
    Bytes(BinaryArray),
    Fixed(FixedSizeBinaryArray),
    Date(ScalarBuffer<i32>),
    Time32 { values: ScalarBuffer<i32>, unit: TimeUnit },
    Time64 { values: ScalarBuffer<i64>, unit: TimeUnit },
    Timestamp { values: ScalarBuffer<i64>, unit: TimeUnit, zoned: bool },
    Array { ends: OffsetBuffer<i32>, items: Box<Cell> },
    Map { ends: OffsetBuffer<i32>, keys: Box<Cell>, values: Box<Cell> },
    Row { names: Vec<Vec<u8>>, fields: Vec<Cell> },
}

impl Cell {
    /// Prepares a column of any type; types that tables do not have are written as their nearest or as text.
    pub(super) fn new(array: &ArrayRef) -> Result<Cell, ArrowError> {
        let values = match array.data_type() {
            ArrowType::Null => Values::Nothing,
            ArrowType::Boolean => Values::Boolean(array.as_boolean().clone()),
            ArrowType::Int8 => Values::Int8(array.as_primitive::<t::Int8Type>().values().clone()),
            ArrowType::Int16 => Values::Int16(array.as_primitive::<t::Int16Type>().values().clone()),
            ArrowType::Int32 => Values::Int32(array.as_primitive::<t::Int32Type>().values().clone()),
            ArrowType::Int64 => Values::Int64(array.as_primitive::<t::Int64Type>().values().clone()),
            ArrowType::Float32 => Values::Float(array.as_primitive::<t::Float32Type>().values().clone()),
            ArrowType::Float64 => Values::Double(array.as_primitive::<t::Float64Type>().values().clone()),
            ArrowType::Decimal128(precision, scale @ 0..) => Values::Decimal {
                values: array.as_primitive::<t::Decimal128Type>().values().clone(),
                scale: *scale as u8,
                quoted: *precision > EXACT_DIGITS,
            },
            ArrowType::Utf8 => Values::Text(array.as_string().clone()),
            ArrowType::Binary => Values::Bytes(array.as_binary().clone()),
            ArrowType::FixedSizeBinary(_) => Values::Fixed(array.as_fixed_size_binary().clone()),
            ArrowType::Date32 => Values::Date(array.as_primitive::<t::Date32Type>().values().clone()),
            ArrowType::Time32(unit) => {
                let values = match unit {
                    TimeUnit::Second => array.as_primitive::<t::Time32SecondType>().values(),
                    _ => array.as_primitive::<t::Time32MillisecondType>().values(),
                };
                Values::Time32 { values: values.clone(), unit: *unit }
            }
            ArrowType::Time64(unit) => {
                let values = match unit {
                    TimeUnit::Microsecond => array.as_primitive::<t::Time64MicrosecondType>().values(),
                    _ => array.as_primitive::<t::Time64NanosecondType>().values(),
                };
                Values::Time64 { values: values.clone(), unit: *unit }
            }
            ArrowType::Timestamp(unit, zone) => {
                let values = match unit {
                    TimeUnit::Second => array.as_primitive::<t::TimestampSecondType>().values(),
                    TimeUnit::Millisecond => array.as_primitive::<t::TimestampMillisecondType>().values(),
                    TimeUnit::Microsecond => array.as_primitive::<t::TimestampMicrosecondType>().values(),
                    TimeUnit::Nanosecond => array.as_primitive::<t::TimestampNanosecondType>().values(),
                };
                Values::Timestamp { values: values.clone(), unit: *unit, zoned: zone.is_some() }
            }
            ArrowType::List(_) => {
                let list = array.as_list::<i32>();
                Values::Array { ends: list.offsets().clone(), items: Box::new(Cell::new(list.values())?) }
            }
            ArrowType::LargeList(item)
            | ArrowType::ListView(item)
            | ArrowType::LargeListView(item)
            | ArrowType::FixedSizeList(item, _) => {
                return Cell::new(&cast(array, &ArrowType::List(item.clone()))?);
            }
            ArrowType::Map(..) => {
                let map = array.as_map();
                Values::Map {
                    ends: map.offsets().clone(),
                    keys: Box::new(Cell::new(map.keys())?),
                    values: Box::new(Cell::new(map.values())?),
                }
            }
            ArrowType::Struct(fields) => Values::Row {
                names: scalar::names(fields),
                fields: array.as_struct().columns().iter().map(Cell::new).collect::<Result<_, _>>()?,
            },
            other => {
                let nearest = DataType::from_arrow(other).map(|t| t.to_arrow()).filter(|t| t != other);
                return Cell::new(&cast(array, &nearest.unwrap_or(ArrowType::Utf8))?);
            }
        };
        Ok(Cell { nulls: array.nulls().cloned(), values })
    }

    /// Whether there is a value that can be written.
    pub(super) fn has_value(&self, row: usize) -> bool {
        if self.nulls.as_ref().is_some_and(|n| n.is_null(row)) {
            return false;
        }
        match &self.values {
            Values::Nothing => false,
            Values::Float(v) => v[row].is_finite(),
            Values::Double(v) => v[row].is_finite(),
            Values::Date(v) => scalar::has_year(i64::from(v[row])),
            Values::Timestamp { values, unit, .. } => scalar::has_year(scalar::day_of(values[row], *unit)),
            _ => true,
        }
    }

    /// Whether values are written as JSON even where plain text is asked for.
    pub(super) fn is_nested(&self) -> bool {
        matches!(self.values, Values::Array { .. } | Values::Map { .. } | Values::Row { .. })
    }

    /// The value of a text column.
    pub(super) fn text(&self, row: usize) -> Option<&str> {
        match &self.values {
            Values::Text(v) => Some(v.value(row)),
            _ => None,
        }
    }

    /// Appends a value as JSON.
    pub(super) fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        if !self.has_value(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &self.values {
            Values::Text(v) => scalar::string(v.value(row), out),
            Values::Array { ends, items } => {
                out.push(b'[');
                for (i, item) in range(ends, row).enumerate() {
                    comma(i, out);
                    items.write_json(item, out);
                }
                out.push(b']');
            }
            Values::Map { ends, keys, values } => write_map(range(ends, row), keys, values, out),
            Values::Row { names, fields } => scalar::object(names, fields, row, out),
            Values::Nothing
            | Values::Boolean(_)
            | Values::Int8(_)
            | Values::Int16(_)
            | Values::Int32(_)
            | Values::Int64(_)
            | Values::Float(_)
            | Values::Double(_)
            | Values::Decimal { quoted: false, .. } => self.write_plain(row, out),
            // What these write needs no escapes.
            Values::Decimal { .. }
            | Values::Bytes(_)
            | Values::Fixed(_)
            | Values::Date(_)
            | Values::Time32 { .. }
            | Values::Time64 { .. }
            | Values::Timestamp { .. } => {
                out.push(b'"');
                self.write_plain(row, out);
                out.push(b'"');
            }
        }
    }

    /// Appends a value as plain text.
    pub(super) fn write_plain(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Nothing => {}
            Values::Boolean(v) => out.extend_from_slice(if v.value(row) { b"true" } else { b"false" }),
            Values::Int8(v) => scalar::number(&v[row], out),
            Values::Int16(v) => scalar::number(&v[row], out),
            Values::Int32(v) => scalar::number(&v[row], out),
            Values::Int64(v) => scalar::number(&v[row], out),
            Values::Float(v) => scalar::number(&v[row], out),
            Values::Double(v) => scalar::number(&v[row], out),
            Values::Decimal { values, scale, .. } => scalar::decimal(values[row], *scale, out),
            Values::Text(v) => out.extend_from_slice(v.value(row).as_bytes()),
            Values::Bytes(v) => scalar::base64(v.value(row), out),
            Values::Fixed(v) => scalar::base64(v.value(row), out),
            Values::Date(v) => scalar::date(i64::from(v[row]), out),
            Values::Time32 { values, unit } => scalar::time(i64::from(values[row]), *unit, out),
            Values::Time64 { values, unit } => scalar::time(values[row], *unit, out),
            Values::Timestamp { values, unit, zoned } => scalar::timestamp(values[row], *unit, *zoned, out),
            Values::Array { .. } | Values::Map { .. } | Values::Row { .. } => self.write_json(row, out),
        }
    }
}

fn write_map(entries: std::ops::Range<usize>, keys: &Cell, values: &Cell, out: &mut Vec<u8>) {
    let pairs = keys.is_nested();
    out.push(if pairs { b'[' } else { b'{' });
    for (i, entry) in entries.enumerate() {
        comma(i, out);
        if pairs {
            out.extend_from_slice(b"{\"key\":");
            keys.write_json(entry, out);
            out.extend_from_slice(b",\"value\":");
            values.write_json(entry, out);
            out.push(b'}');
            continue;
        }
        match keys.text(entry) {
            Some(text) => scalar::string(text, out),
            None => {
                out.push(b'"');
                keys.write_plain(entry, out);
                out.push(b'"');
            }
        }
        out.push(b':');
        values.write_json(entry, out);
    }
    out.push(if pairs { b']' } else { b'}' });
}

fn range(ends: &OffsetBuffer<i32>, row: usize) -> std::ops::Range<usize> {
    ends[row] as usize..ends[row + 1] as usize
}

fn comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}
