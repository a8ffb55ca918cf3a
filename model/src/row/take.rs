//! Strict reading from the front of bytes: what could be written shorter, or otherwise, is damage.

use super::fault::Damage;
use crate::types::DataType;
use crate::varint;

/// How a field says where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// It has so many bytes.
    Fixed(usize),
    /// It is a varint of at most so many bytes.
    Varint(usize),
    /// Its length stands before it.
    Sized,
}

impl Frame {
    pub(super) fn of(data_type: &DataType) -> Frame {
        use DataType::*;
        match data_type {
            Boolean | TinyInt => Frame::Fixed(1),
            Float => Frame::Fixed(4),
            Double => Frame::Fixed(8),
            SmallInt => Frame::Varint(3),
            Int | Date | Time(0..=3) => Frame::Varint(5),
            BigInt | Time(_) | Timestamp(_) | TimestampLtz(_) => Frame::Varint(10),
            Decimal { .. } => Frame::Varint(19),
            Char(_) | String | Binary(_) | Bytes | Array(_) | Map(..) | Row(_) => Frame::Sized,
        }
    }

    /// Takes a field, without its length. Its value is not looked at.
    #[inline]
    pub(super) fn take<'a>(self, rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
        match self {
            Frame::Fixed(len) => take_bytes(rest, len),
            Frame::Sized => take_sized(rest),
            Frame::Varint(most) => {
                let last = rest.iter().take(most).position(|byte| byte & 0x80 == 0);
                match last {
                    Some(last) if last > 0 && rest[last] == 0 => Err(Damage::Number),
                    Some(last) => take_bytes(rest, last + 1),
                    None if rest.len() < most => Err(Damage::Cut),
                    None => Err(Damage::Number),
                }
            }
        }
    }
}

/// Takes so many bytes.
#[inline]
pub(super) fn take_bytes<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], Damage> {
    let (taken, after) = rest.split_at_checked(len).ok_or(Damage::Cut)?;
    *rest = after;
    Ok(taken)
}

/// Takes an array of bytes.
#[inline]
pub(crate) fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Damage> {
    let (taken, after) = rest.split_first_chunk().ok_or(Damage::Cut)?;
    *rest = after;
    Ok(*taken)
}

/// Takes a length and so many bytes.
#[inline]
pub(super) fn take_sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
    let len = take_count(rest)?;
    take_bytes(rest, len)
}

/// Takes a length or a number of elements.
#[inline]
pub(super) fn take_count(rest: &mut &[u8]) -> Result<usize, Damage> {
    // More than memory can hold is more than follows.
    usize::try_from(take_varint(rest)?).map_err(|_| Damage::Cut)
}

/// Takes a number of at most 64 bits.
#[inline]
pub(super) fn take_varint(rest: &mut &[u8]) -> Result<u64, Damage> {
    take_number(rest, 10, varint::take)
}

/// Takes a number of at most 128 bits.
#[inline]
pub(super) fn take_wide(rest: &mut &[u8]) -> Result<u128, Damage> {
    take_number(rest, 19, varint::take_wide)
}

#[inline]
fn take_number<T: From<u8>>(
    rest: &mut &[u8],
    most: usize,
    take: impl Fn(&mut &[u8]) -> Option<T>,
) -> Result<T, Damage> {
    let before = *rest;
    if let Some((byte @ 0..0x80, after)) = before.split_first() {
        *rest = after;
        return Ok(T::from(*byte));
    }
    let Some(value) = take(rest) else {
        let cut = before.len() < most && before.iter().all(|byte| byte & 0x80 != 0);
        return Err(if cut { Damage::Cut } else { Damage::Number });
    };
    match &before[..before.len() - rest.len()] {
        [_, .., 0] => Err(Damage::Number),
        _ => Ok(value),
    }
}

/// Null bits, of which those that stand for nothing are known to be 0.
#[derive(Clone, Copy)]
pub(super) struct NullBits<'a>(&'a [u8]);

impl<'a> NullBits<'a> {
    /// Takes the bits for so many values.
    #[inline]
    pub(super) fn take(rest: &mut &'a [u8], values: usize) -> Result<NullBits<'a>, Damage> {
        let bits = take_bytes(rest, values.div_ceil(8))?;
        match bits.last() {
            Some(last) if !values.is_multiple_of(8) && last >> (values % 8) != 0 => Err(Damage::NullBits),
            _ => Ok(NullBits(bits)),
        }
    }

    #[inline]
    pub(super) fn is_null(self, value: usize) -> bool {
        self.0[value / 8] & (1 << (value % 8)) != 0
    }
}

/// Sets a bit of null bits that are being written.
#[inline]
pub(super) fn set_null(bits: &mut [u8], value: usize) {
    bits[value / 8] |= 1 << (value % 8);
}
