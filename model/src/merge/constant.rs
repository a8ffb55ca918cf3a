//! The bytes of a column's default, as a field of a stored row. Defaults are of simple types (see `schema::default`).

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int64Type,
};

use crate::row::field;

/// The bytes of the only value of an array; `None` if it is NULL, or of a type that defaults cannot have.
pub(super) fn field_of(value: &ArrayRef) -> Option<Box<[u8]>> {
    if value.len() != 1 || value.is_null(0) {
        return None;
    }
    let mut out = Vec::new();
    match value.data_type() {
        ArrowType::Boolean => out.push(u8::from(value.as_boolean().value(0))),
        ArrowType::Int8 => out.extend(value.as_primitive::<Int8Type>().value(0).to_le_bytes()),
        ArrowType::Float32 => out.extend(value.as_primitive::<Float32Type>().value(0).to_le_bytes()),
        ArrowType::Float64 => out.extend(value.as_primitive::<Float64Type>().value(0).to_le_bytes()),
        ArrowType::Decimal128(..) => {
            field::put_int(&mut out, value.as_primitive::<Decimal128Type>().value(0));
        }
        ArrowType::Utf8 => out.extend_from_slice(value.as_string::<i32>().value(0).as_bytes()),
        ArrowType::Binary => out.extend_from_slice(value.as_binary::<i32>().value(0)),
        ArrowType::FixedSizeBinary(_) => out.extend_from_slice(value.as_fixed_size_binary().value(0)),
        // Whole numbers, days, and ticks of times and timestamps: the number that they are.
        _ => {
            let number = cast(value, &ArrowType::Int64).ok()?;
            let number = number.as_primitive_opt::<Int64Type>().filter(|n| n.is_valid(0))?;
            field::put_int(&mut out, i128::from(number.value(0)));
        }
    }
    Some(out.into())
}
