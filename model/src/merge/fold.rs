//! One column under aggregation: the stored value and a new one become the value to store.
//!
//! NULL rules: `last_value` and `first_value` take NULL like any value; every other function leaves the stored value
//! where the new one is NULL, and takes the new one where none is stored.

use std::cmp::Ordering;

use super::bitmap::{self, Width};
use super::function::{AggFunction, Aggregate};
use super::number::Number;
use super::scratch::Pick;
use crate::row::field;
use crate::types::DataType;

/// A function, bound to the type of its column.
#[derive(Clone, Debug)]
pub(super) enum Fold {
    Last,
    LastNotNull,
    First,
    FirstNotNull,
    Sum(Number),
    Product(Number),
    /// Keeps the stored value unless the new one compares so with it.
    Extreme(Order, Ordering),
    Concat(Box<[u8]>),
    /// Keeps the stored value unless the new one is this one.
    Bool(bool),
    Bitmap(Width),
    Count,
}

/// How values of a type compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Number(Number),
    Ticks,
    Bytes,
}

/// What can be wrong with values; the engine adds the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldFault {
    Overflow,
    TooLarge,
    /// The new value is no bitmap.
    Bitmap(&'static str),
    /// A stored value is not what the column's codec writes.
    Damaged,
}

impl Fold {
    /// The function for a column. DDL has checked that it takes the type; where it does not, the column just keeps its
    /// newest value.
    pub(super) fn new(aggregate: &Aggregate, data_type: &DataType) -> Fold {
        let order = || match data_type {
            DataType::Char(_) | DataType::String => Order::Bytes,
            _ => Number::of(data_type).map_or(Order::Ticks, Order::Number),
        };
        let number = Number::of(data_type);
        match (aggregate.function, number) {
            (AggFunction::Sum, Some(number)) => Fold::Sum(number),
            (AggFunction::Product, Some(number)) => Fold::Product(number),
            (AggFunction::Sum | AggFunction::Product | AggFunction::LastValueIgnoreNulls, _) => {
                Fold::LastNotNull
            }
            (AggFunction::Max, _) => Fold::Extreme(order(), Ordering::Greater),
            (AggFunction::Min, _) => Fold::Extreme(order(), Ordering::Less),
            (AggFunction::LastValue, _) => Fold::Last,
            (AggFunction::FirstValue, _) => Fold::First,
            (AggFunction::FirstValueIgnoreNulls, _) => Fold::FirstNotNull,
            (AggFunction::ListAgg | AggFunction::StringAgg, _) => {
                Fold::Concat(aggregate.delimiter.as_bytes().into())
            }
            (AggFunction::BoolAnd, _) => Fold::Bool(false),
            (AggFunction::BoolOr, _) => Fold::Bool(true),
            (AggFunction::Rbm32, _) => Fold::Bitmap(Width::Bits32),
            (AggFunction::Rbm64, _) => Fold::Bitmap(Width::Bits64),
            (AggFunction::Count, _) => Fold::Count,
        }
    }

    /// Whether the first value of a row is not simply the input.
    pub(super) fn makes_first(&self) -> bool {
        matches!(self, Fold::Bitmap(_) | Fold::Count)
    }

    /// The bitmaps that the column holds.
    pub(super) fn bitmap(&self) -> Option<Width> {
        match self {
            Fold::Bitmap(width) => Some(*width),
            _ => None,
        }
    }

    /// The value of a new row.
    pub(super) fn first(&self, new: Option<&[u8]>, made: &mut Vec<u8>) -> Result<Pick, FoldFault> {
        match (self, new) {
            (Fold::Bitmap(width), Some(new)) => {
                let start = made.len();
                bitmap::put_normal(*width, new, made).map_err(FoldFault::Bitmap)?;
                Ok(Pick::Made(start..made.len()))
            }
            (Fold::Count, new) => Ok(put_int(i128::from(new.is_some()), made)),
            _ => Ok(Pick::Change),
        }
    }

    /// The value that takes the place of a stored one.
    pub(super) fn merge(
        &self,
        stored: Option<&[u8]>,
        new: Option<&[u8]>,
        made: &mut Vec<u8>,
    ) -> Result<Pick, FoldFault> {
        let (old, new) = match (self, stored, new) {
            (Fold::Last, _, _) => return Ok(Pick::Change),
            (Fold::First, _, _) => return Ok(Pick::Stored),
            (Fold::Count, old, new) => return count(old, new, made),
            (_, _, None) => return Ok(Pick::Stored),
            (_, None, Some(_)) => return self.first(new, made),
            (_, Some(old), Some(new)) => (old, new),
        };
        let start = made.len();
        match self {
            Fold::Last | Fold::LastNotNull => return Ok(Pick::Change),
            Fold::First | Fold::FirstNotNull => return Ok(Pick::Stored),
            Fold::Sum(number) => number.put_sum(old, new, made)?,
            Fold::Product(number) => number.put_product(old, new, made)?,
            Fold::Extreme(order, wanted) => {
                let wins = order.compare(new, old)? == *wanted;
                return Ok(if wins { Pick::Change } else { Pick::Stored });
            }
            Fold::Concat(delimiter) => {
                // Checked before it is made, so that no row takes more memory than it may.
                if old.len() + delimiter.len() + new.len() > super::MAX_AGGREGATED {
                    return Err(FoldFault::TooLarge);
                }
                made.extend_from_slice(old);
                made.extend_from_slice(delimiter);
                made.extend_from_slice(new);
            }
            Fold::Bool(decides) => {
                let new = field::boolean(new).ok_or(FoldFault::Damaged)?;
                return Ok(if new == *decides { Pick::Change } else { Pick::Stored });
            }
            Fold::Bitmap(width) => bitmap::put_union(*width, old, new, made)?,
            Fold::Count => return count(Some(old), Some(new), made),
        }
        Ok(Pick::Made(start..made.len()))
    }
}

/// One more, if the new value is not NULL. A NULL that is stored counts as 0: no function has written the column yet.
fn count(stored: Option<&[u8]>, new: Option<&[u8]>, made: &mut Vec<u8>) -> Result<Pick, FoldFault> {
    let old = match stored {
        Some(bytes) => field::int(bytes).ok_or(FoldFault::Damaged)?,
        None => 0,
    };
    match (stored, new) {
        (Some(_), None) => Ok(Pick::Stored),
        _ if old >= i128::from(i64::MAX) => Err(FoldFault::Overflow),
        _ => Ok(put_int(old + i128::from(new.is_some()), made)),
    }
}

fn put_int(value: i128, made: &mut Vec<u8>) -> Pick {
    let start = made.len();
    field::put_int(made, value);
    Pick::Made(start..made.len())
}

impl Order {
    fn compare(self, a: &[u8], b: &[u8]) -> Result<Ordering, FoldFault> {
        match self {
            Order::Number(number) => number.compare(a, b),
            Order::Ticks => {
                let tick = |bytes| field::int(bytes).ok_or(FoldFault::Damaged);
                Ok(tick(a)?.cmp(&tick(b)?))
            }
            Order::Bytes => Ok(a.cmp(b)),
        }
    }
}
