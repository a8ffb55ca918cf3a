//! Column statistics as bytes, for the footers of stored objects.
//!
//! `flags` (1: min, 2: max), `null count` varint, then if a bound is there the type (tag byte, and for decimals
//! precision and scale) and the bounds: booleans one byte, integers and decimals as zigzag varints, floats as eight
//! bytes little endian, strings and bytes with a length varint. The container carries the version.

use super::error::StatisticsError;
use super::literal::{Literal, Value};
use super::stats::ColumnStatistics;
use crate::varint::{self, unzigzag, zigzag};
use arrow::datatypes::{DataType, TimeUnit};

const HAS_MIN: u8 = 1;
const HAS_MAX: u8 = 2;
const DECIMAL: u8 = 7;
/// More than any bound that is written; longer ones are corrupt.
const MAX_BYTES: u128 = 64;

/// Types without parameters; the tag is the place in this list plus 1. Only append.
static TYPES: [DataType; 19] = [
    DataType::Boolean,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float32,
    // Tag 7 is decimal.
    DataType::Null,
    DataType::Float64,
    DataType::Utf8,
    DataType::Binary,
    DataType::Date32,
    DataType::Time32(TimeUnit::Second),
    DataType::Time32(TimeUnit::Millisecond),
    DataType::Time64(TimeUnit::Microsecond),
    DataType::Time64(TimeUnit::Nanosecond),
    DataType::Timestamp(TimeUnit::Second, None),
    DataType::Timestamp(TimeUnit::Millisecond, None),
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Timestamp(TimeUnit::Nanosecond, None),
];
/// Added to the tag of a timestamp with time zone, which is always UTC.
const ZONED: u8 = 64;

impl ColumnStatistics {
    /// Appends the encoded statistics. Bounds of a type that has no tag are left out.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let data_type = self.min.as_ref().or(self.max.as_ref()).map(Literal::data_type);
        let tag = data_type.and_then(tag_of);
        let of_type = |bound: &&Literal| tag.is_some() && Some(bound.data_type()) == data_type;
        let (min, max) = (self.min.as_ref().filter(of_type), self.max.as_ref().filter(of_type));
        out.push((u8::from(min.is_some()) * HAS_MIN) | (u8::from(max.is_some()) * HAS_MAX));
        varint::put(out, self.null_count);
        if let (Some(tag), Some(data_type)) = (tag, data_type) {
            out.push(tag);
            if let DataType::Decimal128(precision, scale) = data_type {
                out.extend([*precision, scale.cast_unsigned()]);
            }
            min.into_iter().chain(max).for_each(|bound| put_value(out, bound.value()));
        }
    }

    /// Reads statistics from the front of `bytes` and moves it past them. Never panics; at most the bytes that are
    /// there are allocated.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, StatisticsError> {
        let [flags] = take(bytes)?;
        if flags & !(HAS_MIN | HAS_MAX) != 0 {
            return Err(StatisticsError::Corrupt("flags"));
        }
        let null_count =
            u64::try_from(take_varint(bytes)?).map_err(|_| StatisticsError::Corrupt("null count"))?;
        if flags == 0 {
            return Ok(Self { min: None, max: None, null_count });
        }
        let data_type = take_type(bytes)?;
        let mut bound = |flag| match flags & flag {
            0 => Ok(None),
            _ => take_literal(bytes, &data_type).map(Some),
        };
        Ok(Self { min: bound(HAS_MIN)?, max: bound(HAS_MAX)?, null_count })
    }
}

fn tag_of(data_type: &DataType) -> Option<u8> {
    let tag_in_list = |data_type: &DataType| {
        let index = TYPES.iter().position(|known| known == data_type)?;
        u8::try_from(index + 1).ok()
    };
    match data_type {
        DataType::Decimal128(_, _) => Some(DECIMAL),
        DataType::Null => None,
        DataType::Timestamp(unit, Some(_)) => {
            tag_in_list(&DataType::Timestamp(*unit, None)).map(|tag| tag + ZONED)
        }
        other => tag_in_list(other),
    }
}

fn take_type(bytes: &mut &[u8]) -> Result<DataType, StatisticsError> {
    const BAD: StatisticsError = StatisticsError::Corrupt("type");
    let [tag] = take(bytes)?;
    if tag == DECIMAL {
        let [precision, scale] = take(bytes)?;
        return Ok(DataType::Decimal128(precision, scale.cast_signed()));
    }
    let index = usize::from(tag & !ZONED).checked_sub(1).ok_or(BAD)?;
    match (TYPES.get(index), tag & ZONED != 0) {
        (None | Some(DataType::Null), _) => Err(BAD),
        (Some(DataType::Timestamp(unit, _)), true) => Ok(DataType::Timestamp(*unit, Some("UTC".into()))),
        (Some(_), true) => Err(BAD),
        (Some(data_type), false) => Ok(data_type.clone()),
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Boolean(value) => out.push((*value).into()),
        Value::Int(value) => varint::put(out, zigzag((*value).into())),
        Value::Decimal(value) => varint::put(out, zigzag(*value)),
        Value::Float(value) => out.extend(value.to_le_bytes()),
        Value::Utf8(value) => put_bytes(out, value.as_bytes()),
        Value::Binary(value) => put_bytes(out, value),
    }
}

fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    varint::put(out, value.len() as u128);
    out.extend(value);
}

fn take_literal(bytes: &mut &[u8], data_type: &DataType) -> Result<Literal, StatisticsError> {
    const BAD: StatisticsError = StatisticsError::Corrupt("bound");
    let value = match data_type {
        DataType::Boolean => match take(bytes)? {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return Err(BAD),
        },
        DataType::Float32 | DataType::Float64 => Value::Float(f64::from_le_bytes(take(bytes)?)),
        DataType::Decimal128(_, _) => Value::Decimal(unzigzag(take_varint(bytes)?)),
        DataType::Utf8 => Value::Utf8(String::from_utf8(take_bytes(bytes)?).map_err(|_| BAD)?),
        DataType::Binary => Value::Binary(take_bytes(bytes)?),
        _ => Value::Int(i64::try_from(unzigzag(take_varint(bytes)?)).map_err(|_| BAD)?),
    };
    Literal::new(data_type.clone(), value).ok_or(BAD)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], StatisticsError> {
    let (taken, rest) = bytes.split_first_chunk().ok_or(StatisticsError::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

fn take_bytes(bytes: &mut &[u8]) -> Result<Vec<u8>, StatisticsError> {
    let length = take_varint(bytes)?;
    if length > MAX_BYTES {
        return Err(StatisticsError::Corrupt("length"));
    }
    let (taken, rest) = bytes.split_at_checked(length as usize).ok_or(StatisticsError::Truncated)?;
    *bytes = rest;
    Ok(taken.to_vec())
}

fn take_varint(bytes: &mut &[u8]) -> Result<u128, StatisticsError> {
    match varint::take_wide(bytes) {
        Some(value) => Ok(value),
        None if bytes.is_empty() => Err(StatisticsError::Truncated),
        None => Err(StatisticsError::Corrupt("varint")),
    }
}
