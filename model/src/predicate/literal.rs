//! Typed constants: the right side of comparisons and the bounds in column statistics.

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray, StringArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// The value of a literal, by the representation that its type has in Arrow.
#[derive(Debug, Clone)]
pub enum Value {
    /// boolean
    Boolean(bool),
    /// Integers; dates in days; times and timestamps in their unit.
    Int(i64),
    /// `float` (exactly representable in f32) and `double`.
    Float(f64),
    /// Unscaled value.
    Decimal(i128),
    /// `char` and `string`
    Utf8(String),
    /// `binary` and `bytes`
    Binary(Vec<u8>),
}

/// Equality of representation: NaN equals itself and the zeros differ, so that printing and encoding are exact.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Decimal(a), Self::Decimal(b)) => a == b,
            (Self::Utf8(a), Self::Utf8(b)) => a == b,
            (Self::Binary(a), Self::Binary(b)) => a == b,
            _ => false,
        }
    }
}

/// A constant that is not null, of one of the types that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    data_type: DataType,
    value: Value,
}

impl Literal {
    /// `None` if the type does not hold the value, or cannot be compared.
    ///
    /// Literals of fixed-size binary columns have the type `Binary`, so that they may have any length.
    /// NaNs become the canonical NaN of their sign.
    pub fn new(data_type: DataType, value: Value) -> Option<Self> {
        let value = match value {
            Value::Float(value) if value.is_nan() => Value::Float(f64::NAN.copysign(value)),
            value => value,
        };
        let fits = match (&data_type, &value) {
            (DataType::Boolean, Value::Boolean(_)) => true,
            (DataType::Int8, Value::Int(value)) => i8::try_from(*value).is_ok(),
            (DataType::Int16, Value::Int(value)) => i16::try_from(*value).is_ok(),
            (
                DataType::Int32
                | DataType::Date32
                | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond),
                Value::Int(value),
            ) => i32::try_from(*value).is_ok(),
            (
                DataType::Int64
                | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
                | DataType::Timestamp(_, _),
                Value::Int(_),
            ) => true,
            (DataType::Float32, Value::Float(value)) => value.is_nan() || f64::from(*value as f32) == *value,
            (DataType::Float64, Value::Float(_)) => true,
            (DataType::Decimal128(precision, _), Value::Decimal(value)) => {
                (1..=38).contains(precision) && value.unsigned_abs() < 10_u128.pow(u32::from(*precision))
            }
            (DataType::Utf8, Value::Utf8(_)) | (DataType::Binary, Value::Binary(_)) => true,
            _ => false,
        };
        fits.then_some(Self { data_type, value })
    }

    /// The Arrow type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The order that `evaluate` uses, also across integer widths, float widths and decimal precisions.
    /// `None` if the types cannot be compared.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        super::types::common_type(&self.data_type, &other.data_type)?;
        match (&self.value, &other.value) {
            (Value::Boolean(a), Value::Boolean(b)) => Some(a.cmp(b)),
            (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
            // Numbers first, as the total order separates the zeros.
            (Value::Float(a), Value::Float(b)) => Some(a.partial_cmp(b).unwrap_or_else(|| a.total_cmp(b))),
            (Value::Decimal(a), Value::Decimal(b)) => Some(a.cmp(b)),
            (Value::Utf8(a), Value::Utf8(b)) => Some(a.cmp(b)),
            (Value::Binary(a), Value::Binary(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// An array of this one value in `data_type`, which is the literal's own type or wider.
    /// `None` if the value does not fit.
    pub(super) fn to_array(&self, data_type: &DataType) -> Option<ArrayRef> {
        match &self.value {
            Value::Boolean(value) => Some(Arc::new(BooleanArray::from(vec![*value]))),
            Value::Utf8(value) => Some(Arc::new(StringArray::from_iter_values([value]))),
            Value::Binary(value) => match data_type {
                DataType::FixedSizeBinary(_) => FixedSizeBinaryArray::try_from_iter([value].into_iter())
                    .ok()
                    .map(|array| Arc::new(array) as _),
                _ => Some(Arc::new(BinaryArray::from_iter_values([value]))),
            },
            Value::Float(value) => match data_type {
                DataType::Float32 => Some(one::<Float32Type>(*value as f32, data_type)),
                DataType::Float64 => Some(one::<Float64Type>(*value, data_type)),
                _ => None,
            },
            Value::Decimal(value) => match data_type {
                DataType::Decimal128(_, _) => Some(one::<Decimal128Type>(*value, data_type)),
                _ => None,
            },
            Value::Int(value) => int_array(*value, data_type),
        }
    }
}

fn one<T: ArrowPrimitiveType>(value: T::Native, data_type: &DataType) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_data_type(data_type.clone()))
}

fn int_array(value: i64, data_type: &DataType) -> Option<ArrayRef> {
    let narrow = i32::try_from(value);
    Some(match data_type {
        DataType::Int8 => one::<Int8Type>(i8::try_from(value).ok()?, data_type),
        DataType::Int16 => one::<Int16Type>(i16::try_from(value).ok()?, data_type),
        DataType::Int32 => one::<Int32Type>(narrow.ok()?, data_type),
        DataType::Int64 => one::<Int64Type>(value, data_type),
        DataType::Date32 => one::<Date32Type>(narrow.ok()?, data_type),
        DataType::Time32(TimeUnit::Second) => one::<Time32SecondType>(narrow.ok()?, data_type),
        DataType::Time32(TimeUnit::Millisecond) => one::<Time32MillisecondType>(narrow.ok()?, data_type),
        DataType::Time64(TimeUnit::Microsecond) => one::<Time64MicrosecondType>(value, data_type),
        DataType::Time64(TimeUnit::Nanosecond) => one::<Time64NanosecondType>(value, data_type),
        DataType::Timestamp(TimeUnit::Second, _) => one::<TimestampSecondType>(value, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => one::<TimestampMillisecondType>(value, data_type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => one::<TimestampMicrosecondType>(value, data_type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => one::<TimestampNanosecondType>(value, data_type),
        _ => return None,
    })
}
