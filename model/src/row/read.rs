//! Bytes of fields as values of Arrow columns.

use super::fault::Damage;
use super::take::{NullBits, take_array, take_count, take_sized, take_varint, take_wide};
use crate::columns::{Builder, Nested};
use crate::varint;

/// Takes a value from the front of `rest` and appends it.
pub(super) fn read_value(builder: &mut Builder, rest: &mut &[u8]) -> Result<(), Damage> {
    match builder {
        Builder::Boolean(b) => match take_array(rest)? {
            [byte @ 0..=1] => b.append_value(byte == 1),
            _ => return Err(Damage::Boolean),
        },
        Builder::Int8(b) => b.append_value(i8::from_le_bytes(take_array(rest)?)),
        Builder::Int16(b) => b.append_value(number(rest)?),
        Builder::Int32(b) => b.append_value(number(rest)?),
        Builder::Int64(b) => b.append_value(unzigzag(take_varint(rest)?)),
        Builder::Decimal(b) => b.append_value(varint::unzigzag(take_wide(rest)?)),
        Builder::Float(b) => b.append_value(f32::from_le_bytes(take_array(rest)?)),
        Builder::Double(b) => b.append_value(f64::from_le_bytes(take_array(rest)?)),
        Builder::Text(_) | Builder::Bytes(_) | Builder::Fixed(_) => {
            return builder.append_bytes(take_sized(rest)?);
        }
        Builder::List(items, item) => {
            let mut inner = take_sized(rest)?;
            let count = take_count(&mut inner)?;
            let nulls = NullBits::take(&mut inner, count)?;
            items.append(count)?;
            for i in 0..count {
                read_nested(item, nulls.is_null(i), &mut inner)?;
            }
            end(inner)?;
        }
        Builder::Map(items, keys, values) => {
            let mut inner = take_sized(rest)?;
            let count = take_count(&mut inner)?;
            // A key takes a byte at least.
            if count > inner.len() {
                return Err(Damage::Cut);
            }
            items.append(count)?;
            for _ in 0..count {
                read_value(&mut keys.builder, &mut inner)?;
            }
            let nulls = NullBits::take(&mut inner, count)?;
            for i in 0..count {
                read_nested(values, nulls.is_null(i), &mut inner)?;
            }
            end(inner)?;
        }
        Builder::Row(row) => {
            let mut inner = take_sized(rest)?;
            let nulls = NullBits::take(&mut inner, row.fields.len())?;
            row.append();
            for (i, field) in row.fields.iter_mut().enumerate() {
                read_nested(field, nulls.is_null(i), &mut inner)?;
            }
            end(inner)?;
        }
    }
    Ok(())
}

fn read_nested(nested: &mut Nested, null: bool, rest: &mut &[u8]) -> Result<(), Damage> {
    match null {
        false => read_value(&mut nested.builder, rest),
        true if nested.nullable => nested.builder.append_null(),
        true => Err(Damage::Null),
    }
}

/// Nothing may follow.
pub(super) fn end(rest: &[u8]) -> Result<(), Damage> {
    if rest.is_empty() { Ok(()) } else { Err(Damage::Trailing { bytes: rest.len() }) }
}

fn number<T: TryFrom<i64>>(rest: &mut &[u8]) -> Result<T, Damage> {
    T::try_from(unzigzag(take_varint(rest)?)).map_err(|_| Damage::Number)
}

/// [`varint::unzigzag`] of what has 64 bits.
fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}
