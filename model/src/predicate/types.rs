//! Which types can be compared, and their names in Wadi's words.

use arrow::datatypes::{DataType, TimeUnit};

/// The type in which two columns, or a column and a literal, are compared: the same type, or the wider of two
/// integers, floats or decimals of one scale. `None` if they cannot be.
pub(super) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    match (a, b) {
        (Decimal128(p, s), Decimal128(q, t)) if s == t => Some(Decimal128(*p.max(q), *s)),
        // Zones are only labels here: the values are UTC in all of them.
        (Timestamp(unit, zone), Timestamp(other_unit, other_zone))
            if unit == other_unit && zone.is_some() == other_zone.is_some() =>
        {
            Some(a.clone())
        }
        (Float32 | Float64, Float32 | Float64) => Some(if a == b { a.clone() } else { Float64 }),
        (FixedSizeBinary(n), FixedSizeBinary(m)) if n == m => Some(a.clone()),
        (Binary | FixedSizeBinary(_), Binary | FixedSizeBinary(_)) => Some(Binary),
        _ if a == b && comparable(a) => Some(a.clone()),
        _ => Some(if int_width(a)? >= int_width(b)? { a.clone() } else { b.clone() }),
    }
}

fn int_width(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Int8 => Some(1),
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(4),
        DataType::Int64 => Some(8),
        _ => None,
    }
}

/// The least and the greatest integer of an integer type.
pub(super) fn int_range(data_type: &DataType) -> Option<(i128, i128)> {
    let bits = u32::from(int_width(data_type)?) * 8 - 1;
    Some((-(1_i128 << bits), (1_i128 << bits) - 1))
}

/// Whether values of the type have an order here; the others can only be asked for null.
pub(super) fn comparable(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(_, _)
            | Utf8
            | Binary
            | FixedSizeBinary(_)
            | Date32
            | Time32(TimeUnit::Second | TimeUnit::Millisecond)
            | Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
            | Timestamp(_, _)
    )
}

/// The type as users write it in DDL.
pub(super) fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Utf8 => "string".into(),
        DataType::Binary => "bytes".into(),
        DataType::FixedSizeBinary(size) => format!("binary({size})"),
        DataType::Date32 => "date".into(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time({})", digits(*unit)),
        DataType::Timestamp(unit, None) => format!("timestamp({})", digits(*unit)),
        DataType::Timestamp(unit, Some(_)) => format!("timestamp_ltz({})", digits(*unit)),
        DataType::List(_) => "array".into(),
        DataType::Map(_, _) => "map".into(),
        DataType::Struct(_) => "row".into(),
        other => other.to_string(),
    }
}

fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}
