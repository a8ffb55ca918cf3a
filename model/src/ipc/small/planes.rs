//! Buffers of fixed width, ordered so that few of them compress well.
//!
//! A hundred numbers are too few for a compressor to find out that seven of eight bytes are always zero. So numbers are
//! written by *planes*: the lowest byte of each, then the next one of each, and so on. Numbers that grow steadily, as
//! ids, times and offsets do, become their differences first, folded so that small negative ones are small too.

use arrow::datatypes::{DataType, Fields};

use super::super::error::IpcError;
use super::super::shape::Shape;

/// What was done to a buffer, so that it can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing.
    AsIs,
    /// Values of so many bytes, by planes.
    Planes(usize),
    /// Differences of values of so many bytes, by planes.
    Differences(usize),
}

impl Order {
    /// Its number in the frame.
    pub(super) fn code(self) -> u64 {
        match self {
            Order::AsIs => 0,
            Order::Planes(width) => 2 * width as u64,
            Order::Differences(width) => 2 * width as u64 + 1,
        }
    }

    /// The order of a number, for a buffer of `len` bytes.
    pub(super) fn of(code: u64, len: usize) -> Option<Order> {
        if code == 0 {
            return Some(Order::AsIs);
        }
        let width = usize::try_from(code / 2).ok()?;
        let order = if code.is_multiple_of(2) { Order::Planes(width) } else { Order::Differences(width) };
        let known = matches!(order, Order::Planes(2 | 4 | 8 | 16) | Order::Differences(2 | 4 | 8));
        (known && len.is_multiple_of(width)).then_some(order)
    }

    /// Appends a buffer in this order.
    pub(super) fn apply(self, buffer: &[u8], out: &mut Vec<u8>) {
        match self {
            Order::AsIs => out.extend_from_slice(buffer),
            Order::Planes(width) => to_planes(buffer, width, out),
            Order::Differences(width) => {
                let mut last = 0;
                let mut differences = Vec::with_capacity(buffer.len());
                for value in numbers(buffer, width) {
                    let difference = fold(value.wrapping_sub(std::mem::replace(&mut last, value)), width);
                    differences.extend_from_slice(&difference.to_le_bytes()[..width]);
                }
                to_planes(&differences, width, out);
            }
        }
    }

    /// Appends a buffer that was written in this order.
    pub(super) fn undo(self, written: &[u8], out: &mut Vec<u8>) {
        match self {
            Order::AsIs => out.extend_from_slice(written),
            Order::Planes(width) => from_planes(written, width, out),
            Order::Differences(width) => {
                let mut differences = Vec::with_capacity(written.len());
                from_planes(written, width, &mut differences);
                let mut value = 0_i64;
                for folded in numbers(&differences, width) {
                    value = value.wrapping_add(unfold(folded, width));
                    out.extend_from_slice(&value.to_le_bytes()[..width]);
                }
            }
        }
    }
}

/// What the buffers of a batch hold, in the order of its message: the best that may be done to each of them.
pub(super) fn orders(fields: &Fields) -> Result<Vec<Order>, IpcError> {
    let mut orders = Vec::new();
    for field in fields {
        add(field.data_type(), &mut orders).map_err(IpcError::message)?;
    }
    Ok(orders)
}

fn add(data_type: &DataType, orders: &mut Vec<Order>) -> Result<(), String> {
    let shape = Shape::of(data_type)?;
    if !matches!(shape, Shape::Null) {
        // Validity.
        orders.push(Order::AsIs);
    }
    match shape {
        Shape::Null => {}
        Shape::Bits => orders.push(Order::AsIs),
        Shape::Fixed { width } => orders.push(match width {
            2 | 4 | 8 if data_type.is_integer() || data_type.is_temporal() => Order::Differences(width),
            2 | 4 | 8 | 16 if !matches!(data_type, DataType::FixedSizeBinary(_)) => Order::Planes(width),
            _ => Order::AsIs,
        }),
        Shape::Bytes { offset_width } => orders.extend([Order::Differences(offset_width), Order::AsIs]),
        Shape::List { offset_width, child } => {
            orders.push(Order::Differences(offset_width));
            add(child.data_type(), orders)?;
        }
        Shape::FixedList { child, .. } => add(child.data_type(), orders)?,
        Shape::Struct(fields) => {
            for field in fields {
                add(field.data_type(), orders)?;
            }
        }
        _ => return Err(format!("chunks do not hold {data_type}")),
    }
    Ok(())
}

/// Whether differences are worth it; if not, the values themselves go by planes.
pub(super) fn choose(order: Order, buffer: &[u8]) -> Order {
    let Order::Differences(width) = order else { return order };
    let (mut last, mut values, mut differences) = (0_i64, 0, 0);
    for value in numbers(buffer, width) {
        values += significant(fold(value, width));
        differences += significant(fold(value.wrapping_sub(std::mem::replace(&mut last, value)), width));
    }
    if differences < values { order } else { Order::Planes(width) }
}

/// Bytes of a number that are not zeros at its end.
fn significant(folded: u64) -> u32 {
    (u64::BITS - folded.leading_zeros()).div_ceil(8)
}

/// The numbers of a buffer, signed, of 2, 4 or 8 bytes.
fn numbers(buffer: &[u8], width: usize) -> impl Iterator<Item = i64> + '_ {
    buffer.chunks_exact(width).map(move |bytes| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        extend(u64::from_le_bytes(word), width)
    })
}

/// The number that the lowest `width` bytes hold.
fn extend(bits: u64, width: usize) -> i64 {
    let unused = 64 - 8 * width as u32;
    (bits << unused).cast_signed() >> unused
}

/// The sign into the lowest bit, in `width` bytes.
fn fold(number: i64, width: usize) -> u64 {
    let number = extend(number.cast_unsigned(), width);
    let folded = ((number << 1) ^ (number >> 63)).cast_unsigned();
    folded & (u64::MAX >> (64 - 8 * width as u32))
}

/// The inverse of [`fold`], of what [`numbers`] read.
fn unfold(folded: i64, width: usize) -> i64 {
    let bits = folded.cast_unsigned() & (u64::MAX >> (64 - 8 * width as u32));
    (bits >> 1).cast_signed() ^ -((bits & 1).cast_signed())
}

fn to_planes(values: &[u8], width: usize, out: &mut Vec<u8>) {
    for plane in 0..width {
        out.extend(values.iter().skip(plane).step_by(width));
    }
}

fn from_planes(planes: &[u8], width: usize, out: &mut Vec<u8>) {
    let count = planes.len() / width;
    for value in 0..count {
        out.extend((0..width).map(|plane| planes[plane * count + value]));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORDERS: [Order; 8] = [
        Order::AsIs,
        Order::Planes(2),
        Order::Planes(4),
        Order::Planes(8),
        Order::Planes(16),
        Order::Differences(2),
        Order::Differences(4),
        Order::Differences(8),
    ];

    proptest! {
        #[test]
        fn every_order_is_undone(values in prop::collection::vec(any::<[u8; 16]>(), 0..40)) {
            let buffer = values.concat();
            for order in ORDERS {
                let (mut written, mut read) = (Vec::new(), Vec::new());
                order.apply(&buffer, &mut written);
                prop_assert_eq!(written.len(), buffer.len());
                order.undo(&written, &mut read);
                prop_assert_eq!(&read, &buffer, "{:?}", order);
                prop_assert_eq!(Order::of(order.code(), buffer.len()), Some(order));
            }
        }

        #[test]
        fn steady_numbers_become_differences(first in any::<i64>(), step in 0..100_i64) {
            let values: Vec<i64> = (0..50).map(|i| first.wrapping_add(i * step)).collect();
            let buffer: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            prop_assume!(first.unsigned_abs() > 1 << 20);
            prop_assert_eq!(choose(Order::Differences(8), &buffer), Order::Differences(8));
        }
    }

    #[test]
    fn orders_that_do_not_exist_are_refused() {
        assert_eq!(Order::of(2, 8), None, "planes of one byte");
        assert_eq!(Order::of(33, 16), None, "differences of 16 bytes");
        assert_eq!(Order::of(16, 12), None, "half a value");
        assert_eq!(Order::of(u64::MAX, 0), None);
    }
}
