//! Values of Arrow columns as the bytes of fields.

use super::field;
use super::take::set_null;
use crate::columns::{Values, View, range};
use crate::varint;

/// Appends a value that is not null, with its length if its type needs one.
pub(super) fn put_value(values: &Values, row: usize, out: &mut Vec<u8>) {
    match values {
        Values::Boolean(v) => out.push(u8::from(v.value(row))),
        Values::Int8(v) => out.extend_from_slice(&v[row].to_le_bytes()),
        Values::Int16(v) => field::put_int(out, v[row].into()),
        Values::Int32(v) => field::put_int(out, v[row].into()),
        Values::Int64(v) => field::put_int(out, v[row].into()),
        Values::Decimal(v) => field::put_int(out, v[row]),
        Values::Float(v) => out.extend_from_slice(&v[row].to_le_bytes()),
        Values::Double(v) => out.extend_from_slice(&v[row].to_le_bytes()),
        Values::Bytes(offsets, bytes) => put_sized(&bytes[range(offsets, row)], out),
        Values::Fixed(width, bytes) => put_sized(&bytes[row * width..(row + 1) * width], out),
        Values::List(offsets, items) => {
            let range = range(offsets, row);
            with_length(out, |out| {
                varint::put(out, range.len() as u64);
                put_all(range.map(|at| (&**items, at)), out);
            });
        }
        Values::Map(offsets, keys, values) => {
            let range = range(offsets, row);
            with_length(out, |out| {
                varint::put(out, range.len() as u64);
                // Keys are never null.
                range.clone().for_each(|at| put_value(keys.values(), at, out));
                put_all(range.map(|at| (&**values, at)), out);
            });
        }
        Values::Row(fields) => with_length(out, |out| put_all(fields.iter().map(|field| (field, row)), out)),
    }
}

/// Appends the null bits of values, then those that are not null.
pub(super) fn put_all<'a>(values: impl ExactSizeIterator<Item = (&'a View, usize)>, out: &mut Vec<u8>) {
    let bits = out.len();
    out.resize(bits + values.len().div_ceil(8), 0);
    for (i, (view, row)) in values.enumerate() {
        if view.is_null(row) {
            set_null(&mut out[bits..], i);
        } else {
            put_value(view.values(), row, out);
        }
    }
}

/// Appends bytes after their length.
#[inline]
pub(super) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends what `put` appends after its length, which is known only then.
fn with_length(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put(out);
    let end = out.len();
    varint::put(out, (end - start) as u64);
    let length = out.len() - end;
    out[start..].rotate_right(length);
}
