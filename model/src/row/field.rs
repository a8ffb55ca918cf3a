//! The bytes of one field of a stored row, without its length: what merge engines compare and combine.
//!
//! | type | bytes |
//! | --- | --- |
//! | `boolean`, `tinyint` | one |
//! | `smallint` … `bigint`, `date`, `time`, `timestamp`, `timestamp_ltz` | zigzag varint; days, or ticks of the column's own unit |
//! | `decimal` | zigzag varint of the unscaled number |
//! | `float`, `double` | 4 or 8, little endian |
//! | `char`, `string`, `binary`, `bytes` | themselves |
//! | `array`, `map`, `row` | their elements in turn, see [`crate::row`] |

use crate::varint;

/// The bytes of a whole number: integers, dates, times, timestamps and decimals.
pub fn put_int(out: &mut Vec<u8>, value: i128) {
    varint::put(out, varint::zigzag(value));
}

/// The whole number that the bytes say, if they say one and nothing else.
pub fn int(mut bytes: &[u8]) -> Option<i128> {
    let value = varint::take_wide(&mut bytes)?;
    bytes.is_empty().then(|| varint::unzigzag(value))
}

/// The value of a `tinyint`.
pub fn tiny(bytes: &[u8]) -> Option<i8> {
    <[u8; 1]>::try_from(bytes).ok().map(i8::from_le_bytes)
}

/// The value of a `boolean`.
pub fn boolean(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// The value of a `float`.
pub fn float(bytes: &[u8]) -> Option<f32> {
    <[u8; 4]>::try_from(bytes).ok().map(f32::from_le_bytes)
}

/// The value of a `double`.
pub fn double(bytes: &[u8]) -> Option<f64> {
    <[u8; 8]>::try_from(bytes).ok().map(f64::from_le_bytes)
}
