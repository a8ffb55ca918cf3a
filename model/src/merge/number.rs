//! Arithmetic on the bytes of numbers, in the range of their column's type.

use std::cmp::Ordering;

use arrow::datatypes::i256;

use super::fold::FoldFault;
use crate::row::field;
use crate::types::DataType;

/// A numeric type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// The only one whose bytes are not a varint.
    TinyInt,
    /// Whole numbers up to this one, and down to the one below its negative.
    Whole(i64),
    Decimal {
        /// The first power of ten that does not fit.
        limit: i128,
        /// Ten to the power of the scale.
        unit: i128,
    },
    Float,
    Double,
}

impl Number {
    pub(super) fn of(data_type: &DataType) -> Option<Number> {
        Some(match data_type {
            DataType::TinyInt => Number::TinyInt,
            DataType::SmallInt => Number::Whole(i64::from(i16::MAX)),
            DataType::Int => Number::Whole(i64::from(i32::MAX)),
            DataType::BigInt => Number::Whole(i64::MAX),
            // A type has at most 38 digits, and 10^38 is below 2^127; `pow` saturating keeps this total anyway.
            DataType::Decimal { precision, scale } => Number::Decimal {
                limit: 10i128.saturating_pow(u32::from(*precision)),
                unit: 10i128.saturating_pow(u32::from(*scale)),
            },
            DataType::Float => Number::Float,
            DataType::Double => Number::Double,
            _ => return None,
        })
    }

    /// Appends `a + b`.
    pub(super) fn put_sum(self, a: &[u8], b: &[u8], out: &mut Vec<u8>) -> Result<(), FoldFault> {
        match self {
            Number::Float => out.extend_from_slice(&(float(a)? + float(b)?).to_le_bytes()),
            Number::Double => out.extend_from_slice(&(double(a)? + double(b)?).to_le_bytes()),
            whole => {
                let sum = whole.int(a)?.checked_add(whole.int(b)?);
                whole.put(sum.ok_or(FoldFault::Overflow)?, out)?;
            }
        }
        Ok(())
    }

    /// Appends `a * b`; of decimals rounded to their scale, halves away from zero.
    pub(super) fn put_product(self, a: &[u8], b: &[u8], out: &mut Vec<u8>) -> Result<(), FoldFault> {
        match self {
            Number::Float => out.extend_from_slice(&(float(a)? * float(b)?).to_le_bytes()),
            Number::Double => out.extend_from_slice(&(double(a)? * double(b)?).to_le_bytes()),
            Number::Decimal { unit, .. } => {
                let product = rescaled_product(self.int(a)?, self.int(b)?, unit);
                self.put(product.ok_or(FoldFault::Overflow)?, out)?;
            }
            whole => {
                let product = whole.int(a)?.checked_mul(whole.int(b)?);
                whole.put(product.ok_or(FoldFault::Overflow)?, out)?;
            }
        }
        Ok(())
    }

    /// The order of numbers. NaN is above all others and equal to itself, as in the order of keys.
    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Result<Ordering, FoldFault> {
        let floats = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        Ok(match self {
            Number::Float => floats(f64::from(float(a)?), f64::from(float(b)?)),
            Number::Double => floats(double(a)?, double(b)?),
            whole => whole.int(a)?.cmp(&whole.int(b)?),
        })
    }

    /// The (unscaled) whole number that the bytes say.
    fn int(self, bytes: &[u8]) -> Result<i128, FoldFault> {
        let value = match self {
            Number::TinyInt => field::tiny(bytes).map(i128::from),
            _ => field::int(bytes),
        };
        value.ok_or(FoldFault::Damaged)
    }

    /// Appends a whole number that fits the type.
    fn put(self, value: i128, out: &mut Vec<u8>) -> Result<(), FoldFault> {
        match self {
            Number::TinyInt => {
                let value = i8::try_from(value).map_err(|_| FoldFault::Overflow)?;
                out.extend_from_slice(&value.to_le_bytes());
            }
            Number::Whole(max) if value > i128::from(max) || value < -i128::from(max) - 1 => {
                return Err(FoldFault::Overflow);
            }
            Number::Decimal { limit, .. } if value >= limit || value <= -limit => {
                return Err(FoldFault::Overflow);
            }
            _ => field::put_int(out, value),
        }
        Ok(())
    }
}

fn float(bytes: &[u8]) -> Result<f32, FoldFault> {
    field::float(bytes).ok_or(FoldFault::Damaged)
}

fn double(bytes: &[u8]) -> Result<f64, FoldFault> {
    field::double(bytes).ok_or(FoldFault::Damaged)
}

/// `a * b / unit`, halves away from zero.
fn rescaled_product(a: i128, b: i128, unit: i128) -> Option<i128> {
    // Two 128-bit numbers have a product of 256 bits. The half is added by magnitude, as division goes towards zero.
    let product = i256::from_i128(a).checked_mul(i256::from_i128(b))?;
    let half = i256::from_i128(unit / 2);
    let rounded =
        if product < i256::ZERO { product.checked_sub(half)? } else { product.checked_add(half)? };
    rounded.checked_div(i256::from_i128(unit))?.to_i128()
}
