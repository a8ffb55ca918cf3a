//! How the values of partition columns are spelled in names: as Fluss does, with letters, digits, `_` and `-` only.
//!
//! | type | spelling |
//! | --- | --- |
//! | text | itself, if it is made of allowed characters |
//! | boolean, whole numbers | `true`, `-7` |
//! | `float`, `double` | as Java writes them, `_` for the point: `1_5`, `1_0E10`, `NaN`, `Inf`, `-Inf` |
//! | `binary`, `bytes` | hexadecimal |
//! | `date` | `2026-01-31` |
//! | `time` | `23-59-59_250`, with at least three digits of seconds |
//! | `timestamp` | `2026-01-31-23-59-59_25`, with as many digits as are needed; `_ltz` in UTC |

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit,
};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

use crate::name::check_name;
use crate::types::DataType;

/// What would be right, for an error message.
pub(super) type Expected = String;

/// The spelling of the value at `row`, which is not null, of a column of this type.
pub(super) fn spell(data_type: &DataType, array: &ArrayRef, row: usize) -> Result<String, Expected> {
    let unsupported = || Err(format!("a value of a type that partitions can have, not {data_type}"));
    Ok(match (data_type, array.data_type()) {
        (DataType::Boolean, ArrowType::Boolean) => array.as_boolean().value(row).to_string(),
        (DataType::TinyInt, ArrowType::Int8) => array.as_primitive::<Int8Type>().value(row).to_string(),
        (DataType::SmallInt, ArrowType::Int16) => array.as_primitive::<Int16Type>().value(row).to_string(),
        (DataType::Int, ArrowType::Int32) => array.as_primitive::<Int32Type>().value(row).to_string(),
        (DataType::BigInt, ArrowType::Int64) => array.as_primitive::<Int64Type>().value(row).to_string(),
        (DataType::Float, ArrowType::Float32) => {
            let value = array.as_primitive::<Float32Type>().value(row);
            float(f64::from(value), format!("{value:?}"), format!("{value:e}"))
        }
        (DataType::Double, ArrowType::Float64) => {
            let value = array.as_primitive::<Float64Type>().value(row);
            float(value, format!("{value:?}"), format!("{value:e}"))
        }
        (DataType::Char(_) | DataType::String, ArrowType::Utf8) => {
            let value = array.as_string::<i32>().value(row);
            check(data_type, value)?;
            value.to_owned()
        }
        (DataType::Bytes, ArrowType::Binary) => hex(array.as_binary::<i32>().value(row))?,
        (DataType::Binary(_), ArrowType::FixedSizeBinary(_)) => hex(array.as_fixed_size_binary().value(row))?,
        (DataType::Date, ArrowType::Date32) => {
            let days = i64::from(array.as_primitive::<Date32Type>().value(row));
            date(at(days, 0, 86_400).ok_or_else(|| YEARS.to_owned())?.date())
        }
        (DataType::Time(_), ArrowType::Time32(unit) | ArrowType::Time64(unit)) => {
            let ticks = ticks(array, row)?;
            let nanos = u64::try_from(ticks).ok().and_then(|t| t.checked_mul(nanos_of(*unit)));
            let time = nanos.and_then(|nanos| {
                let seconds = u32::try_from(nanos / NANOS).ok()?;
                NaiveTime::from_num_seconds_from_midnight_opt(seconds, (nanos % NANOS) as u32)
            });
            time_of_day(time.ok_or_else(|| "a time of day".to_owned())?)
        }
        (DataType::Timestamp(_) | DataType::TimestampLtz(_), ArrowType::Timestamp(unit, _)) => {
            let (ticks, per_second) = (ticks(array, row)?, (NANOS / nanos_of(*unit)) as i64);
            let nanos = ticks.rem_euclid(per_second) as u64 * nanos_of(*unit);
            let time = at(ticks.div_euclid(per_second), nanos as u32, 1);
            timestamp(time.ok_or_else(|| YEARS.to_owned())?)
        }
        _ => return unsupported(),
    })
}

const NANOS: u64 = 1_000_000_000;
const YEARS: &str = "a year from 1 to 9999";

fn nanos_of(unit: TimeUnit) -> u64 {
    match unit {
        TimeUnit::Second => NANOS,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The whole number that a time is stored as.
fn ticks(array: &ArrayRef, row: usize) -> Result<i64, Expected> {
    let one = array.slice(row, 1);
    let as_number = match one.data_type() {
        ArrowType::Time32(_) => cast(&one, &ArrowType::Int32).and_then(|n| cast(&n, &ArrowType::Int64)),
        _ => cast(&one, &ArrowType::Int64),
    };
    Ok(as_number.map_err(|e| e.to_string())?.as_primitive::<Int64Type>().value(0))
}

/// A moment in UTC, if its year has at most four digits.
fn at(units: i64, nanos: u32, seconds_per_unit: i64) -> Option<NaiveDateTime> {
    let time = DateTime::from_timestamp(units.checked_mul(seconds_per_unit)?, nanos)?.naive_utc();
    (1..=9999).contains(&time.year()).then_some(time)
}

fn date(date: NaiveDate) -> String {
    format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
}

fn time_of_day(time: NaiveTime) -> String {
    let fraction = fraction(time.nanosecond(), 3);
    format!("{:02}-{:02}-{:02}_{fraction}", time.hour(), time.minute(), time.second())
}

fn timestamp(at: NaiveDateTime) -> String {
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{}-{hour:02}-{minute:02}-{second:02}_{}", date(at.date()), fraction(at.nanosecond(), 0))
}

/// The digits behind the seconds, without zeros at the end but at least so many.
fn fraction(nanos: u32, least: usize) -> String {
    let digits = format!("{nanos:09}");
    let needed = digits.trim_end_matches('0').len().max(least);
    digits[..needed].to_owned()
}

fn hex(bytes: &[u8]) -> Result<String, Expected> {
    if bytes.is_empty() || bytes.len() > crate::name::MAX_NAME / 2 {
        return Err(format!("1 to {} bytes", crate::name::MAX_NAME / 2));
    }
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// As Java writes it: plain from 0.001 to 10^7, else with an exponent; always with a digit behind the point.
fn float(value: f64, plain: String, scientific: String) -> String {
    let magnitude = value.abs();
    let text = if value.is_nan() {
        return "NaN".to_owned();
    } else if value.is_infinite() {
        return if value > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    } else if value == 0.0 || (1e-3..1e7).contains(&magnitude) {
        plain
    } else {
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let point = if mantissa.contains('.') { "" } else { ".0" };
        format!("{mantissa}{point}E{exponent}")
    };
    text.replace('.', "_")
}

/// Checks that some value of this type is spelled so; says what would be right.
pub(super) fn check(data_type: &DataType, text: &str) -> Result<(), Expected> {
    let right = match data_type {
        DataType::Char(_) | DataType::String => {
            return check_name("partition", text).map_err(|e| format!("a name ({})", e.why));
        }
        DataType::Boolean => matches!(text, "true" | "false"),
        DataType::TinyInt => is_spelled::<i8>(text),
        DataType::SmallInt => is_spelled::<i16>(text),
        DataType::Int => is_spelled::<i32>(text),
        DataType::BigInt => is_spelled::<i64>(text),
        DataType::Float => {
            let value = text.replace('_', ".").parse::<f32>();
            value.is_ok_and(|v| float(f64::from(v), format!("{v:?}"), format!("{v:e}")) == text)
        }
        DataType::Double => {
            let value = text.replace('_', ".").parse::<f64>();
            value.is_ok_and(|v| float(v, format!("{v:?}"), format!("{v:e}")) == text)
        }
        DataType::Binary(n) => is_hex(text) && text.len() == 2 * *n as usize,
        DataType::Bytes => is_hex(text),
        DataType::Date => {
            let value = NaiveDate::parse_from_str(text, "%Y-%m-%d");
            value.is_ok_and(|d| (1..=9999).contains(&d.year()) && date(d) == text)
        }
        DataType::Time(_) => moment("2000-01-01-", text).is_some_and(|t| time_of_day(t.time()) == text),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            moment("", text).is_some_and(|t| (1..=9999).contains(&t.year()) && timestamp(t) == text)
        }
        DataType::Decimal { .. } | DataType::Array(_) | DataType::Map(..) | DataType::Row(_) => false,
    };
    right.then_some(()).ok_or_else(|| example(data_type))
}

fn is_spelled<T: std::str::FromStr + ToString>(text: &str) -> bool {
    text.parse::<T>().is_ok_and(|n| n.to_string() == text)
}

fn is_hex(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    !text.is_empty() && text.len().is_multiple_of(2) && text.bytes().all(digit)
}

fn moment(before: &str, text: &str) -> Option<NaiveDateTime> {
    let (whole, fraction) = text.rsplit_once('_')?;
    let nanos: u32 = match fraction {
        "" => 0,
        f if f.len() <= 9 && f.bytes().all(|b| b.is_ascii_digit()) => format!("{f:0<9}").parse().ok()?,
        _ => return None,
    };
    NaiveDateTime::parse_from_str(&format!("{before}{whole}"), "%Y-%m-%d-%H-%M-%S")
        .ok()?
        .with_nanosecond(nanos)
}

fn example(data_type: &DataType) -> Expected {
    match data_type {
        DataType::Boolean => "true or false".to_owned(),
        DataType::Float | DataType::Double => "a number with _ for the point, such as 1_5".to_owned(),
        DataType::Binary(_) | DataType::Bytes => "hexadecimal digits such as 0aff".to_owned(),
        DataType::Date => "a date such as 2026-01-31".to_owned(),
        DataType::Time(_) => "a time such as 23-59-59_000".to_owned(),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            "a time such as 2026-01-31-23-59-59_ (digits of a second behind the _)".to_owned()
        }
        other => format!("a whole number of type {other}, without + and leading zeros"),
    }
}
