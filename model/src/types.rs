//! Column types: Fluss's, with their SQL spelling and their place in Arrow.
//!
//! | spelling | Arrow |
//! | --- | --- |
//! | `boolean`, `tinyint` … `bigint`, `float`, `double` | Boolean, Int8 … Int64, Float32, Float64 |
//! | `decimal(p,s)` | Decimal128(p, s) |
//! | `char(n)`, `string` | Utf8 |
//! | `binary(n)`, `bytes` | FixedSizeBinary(n), Binary |
//! | `date` | Date32 |
//! | `time(p)` | Time32 seconds or milliseconds, Time64 micro- or nanoseconds, by precision |
//! | `timestamp(p)`, `timestamp_ltz(p)` | Timestamp of the same units; `_ltz` in UTC |
//! | `array<t>`, `map<k,v>`, `row<a t, …>` | List, Map, Struct |

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, Fields, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, Fault};

pub use parse::{parse_columns, parse_table};

mod parse;
#[cfg(test)]
pub(crate) mod tests;

/// How deep types may nest.
pub const MAX_DEPTH: usize = 16;

/// A column's type, without its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DataType {
    /// True or false.
    Boolean,
    /// 8-bit integer.
    TinyInt,
    /// 16-bit integer.
    SmallInt,
    /// 32-bit integer.
    Int,
    /// 64-bit integer.
    BigInt,
    /// 32-bit float.
    Float,
    /// 64-bit float.
    Double,
    /// A number of at most `precision` digits, `scale` of them behind the point.
    Decimal {
        /// 1 to 38.
        precision: u8,
        /// 0 to `precision`.
        scale: u8,
    },
    /// Text of a declared length. As in Fluss, the length is not enforced.
    Char(u32),
    /// Text.
    String,
    /// Exactly so many bytes.
    Binary(u32),
    /// Bytes.
    Bytes,
    /// A day.
    Date,
    /// A time of day, with 0 to 9 digits of seconds.
    Time(u8),
    /// A date and time without zone, with 0 to 9 digits of seconds.
    Timestamp(u8),
    /// An instant, with 0 to 9 digits of seconds.
    TimestampLtz(u8),
    /// A list.
    Array(Box<Nested>),
    /// Keys and values; keys are never null.
    Map(Box<DataType>, Box<Nested>),
    /// Named fields.
    Row(Vec<(String, Nested)>),
}

/// A type inside another one, with its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nested {
    /// The type.
    pub data_type: DataType,
    /// Whether it may be null.
    pub nullable: bool,
}

/// A type's spelling that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("type \"{text}\" cannot be read at character {at}: {why}")]
pub struct InvalidType {
    /// The spelling as given, cut to a printable length.
    pub text: String,
    /// Where, from 1.
    pub at: usize,
    /// What is wrong there, and what would be right.
    pub why: String,
}

impl Fault for InvalidType {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_type"
    }
}

impl DataType {
    /// The Arrow type that holds it.
    pub fn to_arrow(&self) -> ArrowType {
        match self {
            DataType::Boolean => ArrowType::Boolean,
            DataType::TinyInt => ArrowType::Int8,
            DataType::SmallInt => ArrowType::Int16,
            DataType::Int => ArrowType::Int32,
            DataType::BigInt => ArrowType::Int64,
            DataType::Float => ArrowType::Float32,
            DataType::Double => ArrowType::Float64,
            DataType::Decimal { precision, scale } => ArrowType::Decimal128(*precision, *scale as i8),
            DataType::Char(_) | DataType::String => ArrowType::Utf8,
            DataType::Binary(n) => ArrowType::FixedSizeBinary(*n as i32),
            DataType::Bytes => ArrowType::Binary,
            DataType::Date => ArrowType::Date32,
            DataType::Time(p) => match unit(*p) {
                unit @ (TimeUnit::Second | TimeUnit::Millisecond) => ArrowType::Time32(unit),
                unit => ArrowType::Time64(unit),
            },
            DataType::Timestamp(p) => ArrowType::Timestamp(unit(*p), None),
            DataType::TimestampLtz(p) => ArrowType::Timestamp(unit(*p), Some(Arc::from("UTC"))),
            DataType::Array(item) => ArrowType::List(Arc::new(item.to_field("item"))),
            DataType::Map(key, value) => {
                let fields = vec![Field::new("key", key.to_arrow(), false), value.to_field("value")];
                let entries = Field::new("entries", ArrowType::Struct(fields.into()), false);
                ArrowType::Map(Arc::new(entries), false)
            }
            DataType::Row(fields) => {
                ArrowType::Struct(fields.iter().map(|(name, t)| t.to_field(name)).collect::<Fields>())
            }
        }
    }

    /// The type that would hold values of an Arrow type, or `None` if no type does.
    pub fn from_arrow(arrow: &ArrowType) -> Option<DataType> {
        Some(match arrow {
            ArrowType::Boolean => DataType::Boolean,
            ArrowType::Int8 => DataType::TinyInt,
            ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
            ArrowType::Int32 | ArrowType::UInt16 => DataType::Int,
            ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt,
            ArrowType::UInt64 => DataType::Decimal { precision: 20, scale: 0 },
            ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
            ArrowType::Float64 => DataType::Double,
            ArrowType::Decimal32(p, s) | ArrowType::Decimal64(p, s) | ArrowType::Decimal128(p, s)
                if *s >= 0 && *s as u8 <= *p =>
            {
                DataType::Decimal { precision: *p, scale: *s as u8 }
            }
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::String,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => DataType::Bytes,
            ArrowType::FixedSizeBinary(n) if *n > 0 => DataType::Binary(*n as u32),
            ArrowType::Date32 => DataType::Date,
            ArrowType::Date64 => DataType::Timestamp(3),
            ArrowType::Time32(unit) | ArrowType::Time64(unit) => DataType::Time(digits(*unit)),
            ArrowType::Timestamp(unit, None) => DataType::Timestamp(digits(*unit)),
            ArrowType::Timestamp(unit, Some(_)) => DataType::TimestampLtz(digits(*unit)),
            ArrowType::List(f)
            | ArrowType::LargeList(f)
            | ArrowType::ListView(f)
            | ArrowType::LargeListView(f)
            | ArrowType::FixedSizeList(f, _) => DataType::Array(Box::new(Nested::from_field(f)?)),
            ArrowType::Map(entries, _) => {
                let ArrowType::Struct(fields) = entries.data_type() else {
                    return None;
                };
                let [key, value] = &fields[..] else { return None };
                let key = DataType::from_arrow(key.data_type())?;
                DataType::Map(Box::new(key), Box::new(Nested::from_field(value)?))
            }
            ArrowType::Struct(fields) => {
                let field = |f: &Arc<Field>| Some((f.name().clone(), Nested::from_field(f)?));
                DataType::Row(fields.iter().map(field).collect::<Option<_>>()?)
            }
            ArrowType::Dictionary(_, value) => DataType::from_arrow(value)?,
            ArrowType::RunEndEncoded(_, value) => DataType::from_arrow(value.data_type())?,
            _ => return None,
        })
    }

    /// Whether values of it can be part of a primary, bucket or partition key.
    pub fn can_be_key(&self) -> bool {
        !matches!(self, DataType::Array(_) | DataType::Map(..) | DataType::Row(_))
    }

    /// Whether every value of it is also a value of `wider`, so that a column may be widened to it.
    pub fn widens_to(&self, wider: &DataType) -> bool {
        use DataType::*;
        match (self, wider) {
            (TinyInt, SmallInt | Int | BigInt) | (SmallInt, Int | BigInt) | (Int, BigInt) => true,
            (Float, Double) => true,
            (Char(_), String) | (Binary(_), Bytes) => true,
            (Char(a), Char(b)) => a <= b,
            (Decimal { precision: p, scale: s }, Decimal { precision: q, scale: t }) => s == t && p <= q,
            (Time(p), Time(q)) | (Timestamp(p), Timestamp(q)) | (TimestampLtz(p), TimestampLtz(q)) => p <= q,
            (a, b) => a == b,
        }
    }
}

impl Nested {
    fn to_field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.to_arrow(), self.nullable)
    }

    fn from_field(field: &Field) -> Option<Nested> {
        Some(Nested { data_type: DataType::from_arrow(field.data_type())?, nullable: field.is_nullable() })
    }
}

fn unit(precision: u8) -> TimeUnit {
    match precision {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
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

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("boolean"),
            DataType::TinyInt => f.write_str("tinyint"),
            DataType::SmallInt => f.write_str("smallint"),
            DataType::Int => f.write_str("int"),
            DataType::BigInt => f.write_str("bigint"),
            DataType::Float => f.write_str("float"),
            DataType::Double => f.write_str("double"),
            DataType::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            DataType::Char(n) => write!(f, "char({n})"),
            DataType::String => f.write_str("string"),
            DataType::Binary(n) => write!(f, "binary({n})"),
            DataType::Bytes => f.write_str("bytes"),
            DataType::Date => f.write_str("date"),
            DataType::Time(p) => write!(f, "time({p})"),
            DataType::Timestamp(p) => write!(f, "timestamp({p})"),
            DataType::TimestampLtz(p) => write!(f, "timestamp_ltz({p})"),
            DataType::Array(item) => write!(f, "array<{item}>"),
            DataType::Map(key, value) => write!(f, "map<{key},{value}>"),
            DataType::Row(fields) => {
                f.write_str("row<")?;
                for (i, (name, t)) in fields.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{} {t}", parse::quoted(name))?;
                }
                f.write_str(">")
            }
        }
    }
}

impl fmt::Display for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_null = if self.nullable { "" } else { " not null" };
        write!(f, "{}{not_null}", self.data_type)
    }
}

impl TryFrom<String> for DataType {
    type Error = InvalidType;

    fn try_from(text: String) -> Result<DataType, InvalidType> {
        text.parse()
    }
}

impl From<DataType> for String {
    fn from(data_type: DataType) -> String {
        data_type.to_string()
    }
}
