//! Literals as written, bound to the type of a column without loss.
//!
//! A literal need not be a value of the column's type: an `int` can be compared with 1.5, a `date` with a moment
//! inside a day. [`Bound`] says where it lies between the column's values, and [`compare`] turns the comparison
//! into one that is exact in the column's type.

use super::ast::{CompareOp, Predicate};
use super::cursor::shorten;
use super::literal::{Literal, Value};
use super::number::{Grid, Number};
use super::time::{self, Fix};
use super::types::int_range;
use arrow::datatypes::{DataType, TimeUnit};
use std::borrow::Cow;

/// A literal as it stands in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Null,
    Boolean(bool),
    Number { text: String, negative: bool },
    Text(String),
    Date(String),
    Timestamp(String),
    Hex(Vec<u8>),
}

impl Raw {
    /// For messages: the literal, shortened.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Null => "NULL".into(),
            Self::Boolean(value) => if *value { "TRUE" } else { "FALSE" }.into(),
            Self::Number { text, negative } => {
                format!("{}{}", if *negative { "-" } else { "" }, shorten(text))
            }
            Self::Text(text) => format!("'{}'", shorten(text)),
            Self::Date(text) => format!("DATE '{}'", shorten(text)),
            Self::Timestamp(text) => format!("TIMESTAMP '{}'", shorten(text)),
            Self::Hex(bytes) => format!("the binary literal of {} bytes", bytes.len()),
        }
    }
}

/// Where a literal lies among the values of a column's type.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound {
    /// It is this value.
    At(Literal),
    /// It is above this value and below the next.
    After(Literal),
    /// It is above all values.
    Above,
    /// It is below all values.
    Below,
}

/// `column op literal`, exact in the column's type.
pub(super) fn compare(column: &str, op: CompareOp, bound: Bound) -> Predicate {
    let compare = |op, literal| Predicate::Compare { column: column.to_owned(), op, literal };
    let outcome = match (bound, op) {
        (Bound::At(literal), op) => return compare(op, literal),
        (Bound::After(floor), CompareOp::Lt | CompareOp::LtEq) => return compare(CompareOp::LtEq, floor),
        (Bound::After(floor), CompareOp::Gt | CompareOp::GtEq) => return compare(CompareOp::Gt, floor),
        (_, CompareOp::Eq) => false,
        (_, CompareOp::NotEq) => true,
        (Bound::Above, op) => matches!(op, CompareOp::Lt | CompareOp::LtEq),
        (Bound::Below, op) => matches!(op, CompareOp::Gt | CompareOp::GtEq),
    };
    Predicate::unless_null(column, outcome)
}

/// Binds a literal other than NULL to a type; the error says what to write instead.
pub(super) fn bind(raw: &Raw, data_type: &DataType) -> Result<Bound, Cow<'static, str>> {
    match data_type {
        DataType::Boolean => match raw {
            Raw::Boolean(value) => exact(data_type, Value::Boolean(*value)),
            _ => Err("compare it with TRUE or FALSE".into()),
        },
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            let range = int_range(data_type).unwrap_or_default();
            Ok(on_range(number(raw)?.on_grid(0), range, |value| int(data_type, value)))
        }
        DataType::Decimal128(precision, scale) => {
            let limit = 10_i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX) - 1;
            Ok(on_range(number(raw)?.on_grid(*scale), (-limit, limit), |value| {
                Literal::new(data_type.clone(), Value::Decimal(value))
            }))
        }
        DataType::Float32 | DataType::Float64 => bind_float(raw, data_type),
        DataType::Utf8 => match raw {
            Raw::Text(text) => exact(data_type, Value::Utf8(text.clone())),
            Raw::Number { .. } => Err(format!("write '{}' in single quotes", raw.describe()).into()),
            _ => Err("compare it with a string in single quotes".into()),
        },
        DataType::Binary | DataType::FixedSizeBinary(_) => match raw {
            Raw::Hex(bytes) => exact(&DataType::Binary, Value::Binary(bytes.clone())),
            _ => Err("write the bytes in hexadecimal, X'00FF'".into()),
        },
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Time32(_) | DataType::Time64(_) => {
            let range = match data_type {
                DataType::Date32 | DataType::Time32(_) => int_range(&DataType::Int32),
                _ => int_range(&DataType::Int64),
            };
            Ok(on_range(moment(raw, data_type)?, range.unwrap_or_default(), |value| int(data_type, value)))
        }
        _ => Err("columns of this type can only be asked IS [NOT] NULL".into()),
    }
}

fn exact(data_type: &DataType, value: Value) -> Result<Bound, Cow<'static, str>> {
    Literal::new(data_type.clone(), value)
        .map(Bound::At)
        .ok_or("the value does not fit the column's type".into())
}

fn int(data_type: &DataType, value: i128) -> Option<Literal> {
    Literal::new(data_type.clone(), Value::Int(i64::try_from(value).ok()?))
}

/// Puts a point of the grid into the range of a type. `make` succeeds for all values of the range.
fn on_range(grid: Grid, (least, greatest): (i128, i128), make: impl Fn(i128) -> Option<Literal>) -> Bound {
    match grid {
        Grid::At(value) if value < least => Bound::Below,
        Grid::At(value) => make(value).map_or(Bound::Above, Bound::At),
        Grid::After(floor) if floor < least => Bound::Below,
        Grid::After(floor) if floor >= greatest => Bound::Above,
        Grid::After(floor) => make(floor).map_or(Bound::Above, Bound::After),
        Grid::Above => Bound::Above,
        Grid::Below => Bound::Below,
    }
}

fn number(raw: &Raw) -> Result<Number, Cow<'static, str>> {
    match raw {
        Raw::Number { text, negative } => {
            Number::parse(text, *negative).ok_or(Cow::Borrowed("write a number such as 42, 1.5 or 1e6"))
        }
        Raw::Text(text) if Number::parse(text.strip_prefix('-').unwrap_or(text), false).is_some() => {
            Err("write the number without quotes".into())
        }
        _ => Err("compare it with a number".into()),
    }
}

fn bind_float(raw: &Raw, data_type: &DataType) -> Result<Bound, Cow<'static, str>> {
    let special = match raw {
        Raw::Text(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "-NaN" => Some(-f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    };
    if let Some(value) = special {
        return exact(data_type, Value::Float(value));
    }
    number(raw)?;
    let Raw::Number { text, negative } = raw else {
        return Err("compare it with a number".into());
    };
    let (value, greatest) = match data_type {
        // Parsed as f32 at once: rounding twice can end at another value.
        DataType::Float32 => (text.parse().map(|value: f32| f64::from(value)), f64::from(f32::MAX)),
        _ => (text.parse(), f64::MAX),
    };
    let value = value.map_err(|_| Cow::Borrowed("write a number such as 42, 1.5 or 1e6"))?;
    // A number beyond the type is finite all the same, so infinity is not equal to it.
    let (value, make): (f64, fn(Literal) -> Bound) = match (value.is_infinite(), *negative) {
        (true, false) => (greatest, Bound::After),
        (true, true) => (f64::NEG_INFINITY, Bound::After),
        (false, true) => (-value, Bound::At),
        (false, false) => (value, Bound::At),
    };
    Literal::new(data_type.clone(), Value::Float(value)).map(make).ok_or("the value does not fit".into())
}

fn moment(raw: &Raw, data_type: &DataType) -> Result<Grid, Fix> {
    let is_time = matches!(data_type, DataType::Time32(_) | DataType::Time64(_));
    match raw {
        Raw::Text(text) => time::parse(text, data_type),
        Raw::Date(text) if !is_time => {
            time::parse_date(text)?;
            time::parse(text, data_type)
        }
        Raw::Timestamp(text) if !is_time => time::parse(text, data_type),
        _ => Err(match data_type {
            DataType::Date32 => "write '2013-01-01'",
            DataType::Timestamp(TimeUnit::Second, _) => "write '2013-01-01T10:00:00Z'",
            DataType::Timestamp(_, _) => "write '2013-01-01T10:00:00.000Z'",
            _ => "write '10:00:00'",
        }),
    }
}
