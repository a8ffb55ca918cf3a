//! `column IN (literals)`: some comparisons for short lists, one hash lookup per row for long ones.

use super::{align, compare_literal, type_error};
use crate::predicate::ast::CompareOp;
use crate::predicate::error::EvaluateError;
use crate::predicate::literal::{Literal, Value};
use crate::predicate::types::{common_type, sql_name};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::or_kleene;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use std::collections::HashSet;
use std::hash::Hash;

/// Up to here a pass of a comparison kernel per literal is cheaper than hashing every row.
const MAX_COMPARED: usize = 8;

/// `literals` is not empty.
pub(super) fn evaluate(
    column: &str,
    array: &ArrayRef,
    literals: &[Literal],
) -> Result<BooleanArray, EvaluateError> {
    if literals.len() <= MAX_COMPARED || array.data_type() == &DataType::Boolean {
        return compare_each(column, array, literals);
    }
    for literal in literals {
        if common_type(array.data_type(), literal.data_type()).is_none() {
            return Err(type_error(column, &sql_name(literal.data_type()), array));
        }
    }
    lookup(array, literals).ok_or_else(|| type_error(column, "a comparable type", array))
}

fn compare_each(column: &str, array: &ArrayRef, literals: &[Literal]) -> Result<BooleanArray, EvaluateError> {
    let mut found: Option<BooleanArray> = None;
    for literal in literals {
        let array = align(column, array, literal)?;
        let equal = compare_literal(column, &array, CompareOp::Eq, literal)?;
        found = Some(match found {
            Some(found) => or_kleene(&found, &equal)?,
            None => equal,
        });
    }
    Ok(found.unwrap_or_else(|| BooleanArray::new(BooleanBuffer::new_unset(array.len()), None)))
}

/// The types fit each other; values are widened to one representation, so widths need not be equal.
fn lookup(array: &ArrayRef, literals: &[Literal]) -> Option<BooleanArray> {
    let ints = || {
        literals.iter().filter_map(|literal| match literal.value() {
            Value::Int(value) => Some(*value),
            _ => None,
        })
    };
    Some(match array.data_type() {
        DataType::Int8 => probe::<Int8Type, _>(array, ints(), i64::from),
        DataType::Int16 => probe::<Int16Type, _>(array, ints(), i64::from),
        DataType::Int32 => probe::<Int32Type, _>(array, ints(), i64::from),
        DataType::Int64 => probe::<Int64Type, _>(array, ints(), |value| value),
        DataType::Date32 => probe::<Date32Type, _>(array, ints(), i64::from),
        DataType::Time32(TimeUnit::Second) => probe::<Time32SecondType, _>(array, ints(), i64::from),
        DataType::Time32(TimeUnit::Millisecond) => {
            probe::<Time32MillisecondType, _>(array, ints(), i64::from)
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            probe::<Time64MicrosecondType, _>(array, ints(), |value| value)
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            probe::<Time64NanosecondType, _>(array, ints(), |value| value)
        }
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => probe::<TimestampSecondType, _>(array, ints(), |value| value),
            TimeUnit::Millisecond => probe::<TimestampMillisecondType, _>(array, ints(), |value| value),
            TimeUnit::Microsecond => probe::<TimestampMicrosecondType, _>(array, ints(), |value| value),
            TimeUnit::Nanosecond => probe::<TimestampNanosecondType, _>(array, ints(), |value| value),
        },
        DataType::Float32 => {
            probe::<Float32Type, _>(array, float_keys(literals), |value| float_key(value.into()))
        }
        DataType::Float64 => probe::<Float64Type, _>(array, float_keys(literals), float_key),
        DataType::Decimal128(_, _) => {
            let values = literals.iter().filter_map(|literal| match literal.value() {
                Value::Decimal(value) => Some(*value),
                _ => None,
            });
            probe::<Decimal128Type, _>(array, values, |value| value)
        }
        DataType::Utf8 => {
            let (array, set) = (array.as_string::<i32>(), byte_set(literals));
            probe_bytes(array, |row| set.contains(array.value(row).as_bytes()))
        }
        DataType::Binary => {
            let (array, set) = (array.as_binary::<i32>(), byte_set(literals));
            probe_bytes(array, |row| set.contains(array.value(row)))
        }
        DataType::FixedSizeBinary(_) => {
            let (array, set) = (array.as_fixed_size_binary(), byte_set(literals));
            probe_bytes(array, |row| set.contains(array.value(row)))
        }
        _ => return None,
    })
}

fn probe<T: ArrowPrimitiveType, K: Hash + Eq>(
    array: &ArrayRef,
    literals: impl Iterator<Item = K>,
    key: impl Fn(T::Native) -> K,
) -> BooleanArray {
    let set: HashSet<K> = literals.collect();
    let array: &PrimitiveArray<T> = array.as_primitive();
    let values = array.values();
    let found = BooleanBuffer::collect_bool(values.len(), |row| set.contains(&key(values[row])));
    BooleanArray::new(found, array.nulls().cloned())
}

fn probe_bytes(array: &dyn Array, contains: impl Fn(usize) -> bool) -> BooleanArray {
    BooleanArray::new(BooleanBuffer::collect_bool(array.len(), contains), array.nulls().cloned())
}

fn byte_set(literals: &[Literal]) -> HashSet<&[u8]> {
    literals
        .iter()
        .filter_map(|literal| match literal.value() {
            Value::Utf8(value) => Some(value.as_bytes()),
            Value::Binary(value) => Some(value.as_slice()),
            _ => None,
        })
        .collect()
}

fn float_keys(literals: &[Literal]) -> impl Iterator<Item = u64> {
    literals.iter().filter_map(|literal| match literal.value() {
        Value::Float(value) => Some(float_key(*value)),
        _ => None,
    })
}

/// Equal for equal numbers, which the zeros are.
fn float_key(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}
