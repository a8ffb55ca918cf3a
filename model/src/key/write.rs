//! Values as key bytes.

use crate::columns::{Values, range};

/// Bytes of a group.
pub(super) const GROUP: usize = 8;

/// The mark of a group that others follow.
pub(super) const MORE: u8 = GROUP as u8 + 1;

/// Appends a value. False if `out` would be longer than `most` by text or bytes, of which nothing is appended then.
pub(super) fn put(values: &Values, row: usize, most: usize, out: &mut Vec<u8>) -> bool {
    match values {
        Values::Boolean(v) => out.push(u8::from(v.value(row))),
        Values::Int8(v) => out.extend_from_slice(&(v[row] ^ i8::MIN).to_be_bytes()),
        Values::Int16(v) => out.extend_from_slice(&(v[row] ^ i16::MIN).to_be_bytes()),
        Values::Int32(v) => out.extend_from_slice(&(v[row] ^ i32::MIN).to_be_bytes()),
        Values::Int64(v) => out.extend_from_slice(&(v[row] ^ i64::MIN).to_be_bytes()),
        Values::Decimal(v) => out.extend_from_slice(&(v[row] ^ i128::MIN).to_be_bytes()),
        Values::Float(v) => out.extend_from_slice(&sortable_float(v[row]).to_be_bytes()),
        Values::Double(v) => out.extend_from_slice(&sortable_double(v[row]).to_be_bytes()),
        Values::Bytes(offsets, bytes) => return put_groups(&bytes[range(offsets, row)], most, out),
        Values::Fixed(width, bytes) => {
            return put_groups(&bytes[row * width..(row + 1) * width], most, out);
        }
        Values::List(..) | Values::Map(..) | Values::Row(_) => unreachable!("`KeyCodec::new` refuses them"),
    }
    true
}

/// Bytes that [`put`] appends for a value.
pub(super) fn length(values: &Values, row: usize) -> usize {
    match values {
        Values::Boolean(_) | Values::Int8(_) => 1,
        Values::Int16(_) => 2,
        Values::Int32(_) | Values::Float(_) => 4,
        Values::Int64(_) | Values::Double(_) => 8,
        Values::Decimal(_) => 16,
        Values::Bytes(offsets, _) => groups(range(offsets, row).len()) * (GROUP + 1),
        Values::Fixed(width, _) => groups(*width) * (GROUP + 1),
        Values::List(..) | Values::Map(..) | Values::Row(_) => unreachable!("`KeyCodec::new` refuses them"),
    }
}

/// How many groups so many bytes take; no value at all is one group of nothing.
fn groups(bytes: usize) -> usize {
    bytes.div_ceil(GROUP).max(1)
}

fn put_groups(bytes: &[u8], most: usize, out: &mut Vec<u8>) -> bool {
    let groups = groups(bytes.len());
    if groups * (GROUP + 1) > most.saturating_sub(out.len()) {
        return false;
    }
    let last = bytes.len().min((groups - 1) * GROUP);
    for group in bytes[..last].chunks_exact(GROUP) {
        out.extend_from_slice(group);
        out.push(MORE);
    }
    let mut group = [0; GROUP + 1];
    let rest = &bytes[last..];
    group[..rest.len()].copy_from_slice(rest);
    group[GROUP] = rest.len() as u8;
    out.extend_from_slice(&group);
    true
}

/// Bits that sort as the numbers do.
pub(super) fn sortable_float(value: f32) -> u32 {
    let bits = match value {
        _ if value.is_nan() => 0x7fc0_0000,
        _ if value == 0.0 => 0,
        _ => value.to_bits(),
    };
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

/// [`sortable_float`] for doubles.
pub(super) fn sortable_double(value: f64) -> u64 {
    let bits = match value {
        _ if value.is_nan() => 0x7ff8_0000_0000_0000,
        _ if value == 0.0 => 0,
        _ => value.to_bits(),
    };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}
