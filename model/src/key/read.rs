//! Key bytes as values.

use super::write::{GROUP, MORE, sortable_double, sortable_float};
use crate::columns::Builder;
use crate::row::{Damage, take_array};

/// Takes a value from the front of `rest` and appends it. `text` is room for bytes, whatever was in it before.
pub(super) fn append(builder: &mut Builder, rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Damage> {
    match builder {
        Builder::Boolean(b) => match take_array(rest)? {
            [byte @ 0..=1] => b.append_value(byte == 1),
            _ => return Err(Damage::Boolean),
        },
        Builder::Int8(b) => b.append_value(i8::from_be_bytes(take_array(rest)?) ^ i8::MIN),
        Builder::Int16(b) => b.append_value(i16::from_be_bytes(take_array(rest)?) ^ i16::MIN),
        Builder::Int32(b) => b.append_value(i32::from_be_bytes(take_array(rest)?) ^ i32::MIN),
        Builder::Int64(b) => b.append_value(i64::from_be_bytes(take_array(rest)?) ^ i64::MIN),
        Builder::Decimal(b) => b.append_value(i128::from_be_bytes(take_array(rest)?) ^ i128::MIN),
        Builder::Float(b) => {
            let sortable = u32::from_be_bytes(take_array(rest)?);
            let bits = if sortable >> 31 == 1 { sortable & !(1 << 31) } else { !sortable };
            let value = f32::from_bits(bits);
            if sortable_float(value) != sortable {
                return Err(Damage::Number);
            }
            b.append_value(value);
        }
        Builder::Double(b) => {
            let sortable = u64::from_be_bytes(take_array(rest)?);
            let bits = if sortable >> 63 == 1 { sortable & !(1 << 63) } else { !sortable };
            let value = f64::from_bits(bits);
            if sortable_double(value) != sortable {
                return Err(Damage::Number);
            }
            b.append_value(value);
        }
        Builder::Text(_) | Builder::Bytes(_) | Builder::Fixed(_) => {
            take_groups(rest, text)?;
            return builder.append_bytes(text);
        }
        Builder::List(..) | Builder::Map(..) | Builder::Row(_) => {
            unreachable!("`KeyCodec::new` refuses them")
        }
    }
    Ok(())
}

fn take_groups(rest: &mut &[u8], text: &mut Vec<u8>) -> Result<(), Damage> {
    text.clear();
    loop {
        let group: [u8; GROUP + 1] = take_array(rest)?;
        let (bytes, mark) = (&group[..GROUP], group[GROUP]);
        match usize::from(mark) {
            _ if mark == MORE => text.extend_from_slice(bytes),
            // Only no value at all is a group of nothing.
            0 if !text.is_empty() => return Err(Damage::Group),
            count @ 0..=GROUP if bytes[count..].iter().all(|byte| *byte == 0) => {
                text.extend_from_slice(&bytes[..count]);
                return Ok(());
            }
            _ => return Err(Damage::Group),
        }
    }
}
