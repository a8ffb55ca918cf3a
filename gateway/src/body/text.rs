//! Text to values: exact, strict, and without a panic on any input. JSON and CSV read values by these rules alike.
//!
//! Integers are digits only. Decimals never go through a float. Instants are ISO 8601; digits of seconds beyond the
//! column's unit are cut off, as Arrow's casts do.

use arrow::datatypes::TimeUnit;
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chrono::{Datelike, NaiveDate};
use wadi_model::DataType;

#[cfg(test)]
mod tests;

/// Base64 of the standard alphabet, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Days from 0001-01-01 (day 1 of the proleptic calendar) to 1970-01-01.
pub(super) const EPOCH_DAY: i32 = 719_163;
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;
const DAY_SECONDS: i64 = 86_400;

/// Why a text or a token is no value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Not written as such values are.
    Form,
    /// A fraction or an exponent where an integer belongs.
    Fraction,
    /// Outside the type's range.
    Range,
    /// More digits than the decimal has.
    Digits,
    /// A comma in a number.
    Comma,
    /// Outside the years 1 to 9999.
    Years,
    /// An offset where the type has no zone.
    Zone,
    /// Not as many bytes as the type has.
    Length,
    /// A number where a string belongs.
    Quote,
    /// A string where a number belongs.
    Unquote,
    /// Null, in a column that has none.
    Null,
}

impl Unfit {
    /// What to do about it.
    pub(super) fn hint(self, data_type: &DataType) -> Option<String> {
        let hint = match self {
            Unfit::Form => return form_hint(data_type).map(str::to_owned),
            Unfit::Fraction => "write it without a fraction and without an exponent".to_owned(),
            Unfit::Range => match data_type {
                DataType::TinyInt => range(i8::MIN, i8::MAX),
                DataType::SmallInt => range(i16::MIN, i16::MAX),
                DataType::Int => range(i32::MIN, i32::MAX),
                DataType::BigInt => range(i64::MIN, i64::MAX),
                DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
                    "nanoseconds reach from 1677-09-21 to 2262-04-11".to_owned()
                }
                _ => "it is too large for the type".to_owned(),
            },
            Unfit::Digits => match data_type {
                DataType::Decimal { precision, scale } => {
                    format!("at most {} digits before the point and {scale} after it", precision - scale)
                }
                _ => return None,
            },
            Unfit::Comma => "use a dot".to_owned(),
            Unfit::Years => match data_type {
                DataType::Timestamp(p) | DataType::TimestampLtz(p) => {
                    format!("years reach from 1 to 9999; numbers are {} since 1970", unit_name(*p))
                }
                _ => "years reach from 1 to 9999".to_owned(),
            },
            Unfit::Zone => {
                "the type has no zone: leave the offset out, or make the column timestamp_ltz".to_owned()
            }
            Unfit::Length => match data_type {
                DataType::Binary(n) => format!("base64 of exactly {n} bytes"),
                _ => return None,
            },
            Unfit::Quote => "write it in quotes".to_owned(),
            Unfit::Unquote => "write it without quotes".to_owned(),
            Unfit::Null => "the column is not null".to_owned(),
        };
        Some(hint)
    }
}

fn range<T: std::fmt::Display>(min: T, max: T) -> String {
    format!("from {min} to {max}")
}

fn form_hint(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Boolean => "write true or false",
        DataType::Decimal { .. } => "digits with an optional point, as in 12.50",
        DataType::Date => "as in 2013-01-31",
        DataType::Time(_) => "as in 10:00:00 or 10:00:00.125",
        DataType::Timestamp(_) => "as in 2013-01-31T10:00:00.125",
        DataType::TimestampLtz(_) => "as in 2013-01-31T10:00:00.125Z or 2013-01-31T10:00:00+01:00",
        DataType::Binary(_) | DataType::Bytes => "bytes are written in base64",
        DataType::Array(_) => "as in [1, 2]",
        DataType::Map(..) => "as in {\"key\": 1}",
        DataType::Row(_) => "an object with the row's fields",
        _ => return None,
    })
}

fn unit_name(precision: u8) -> &'static str {
    match precision {
        0 => "seconds",
        1..=3 => "milliseconds",
        4..=6 => "microseconds",
        _ => "nanoseconds",
    }
}

/// An integer: an optional minus and digits.
pub(super) fn integer<T: TryFrom<i64>>(text: &str) -> Result<T, Unfit> {
    let value = i64_of(text.as_bytes())?;
    T::try_from(value).map_err(|_| Unfit::Range)
}

fn i64_of(text: &[u8]) -> Result<i64, Unfit> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(Unfit::Form);
    }
    // Summed up below zero, where one value more has its place.
    let mut value: i64 = 0;
    for b in digits {
        if !b.is_ascii_digit() {
            return Err(not_a_digit(digits));
        }
        let digit = i64::from(b - b'0');
        value = match value.checked_mul(10).and_then(|v| v.checked_sub(digit)) {
            Some(value) => value,
            None if digits.iter().all(u8::is_ascii_digit) => return Err(Unfit::Range),
            None => return Err(not_a_digit(digits)),
        };
    }
    if negative { Ok(value) } else { value.checked_neg().ok_or(Unfit::Range) }
}

fn not_a_digit(digits: &[u8]) -> Unfit {
    let number = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-' | b','));
    match number {
        true if digits.contains(&b',') => Unfit::Comma,
        true if digits.iter().any(u8::is_ascii_digit) => Unfit::Fraction,
        _ => Unfit::Form,
    }
}

/// A float; what would become infinite is out of range.
pub(super) fn float<T: std::str::FromStr + Into<f64> + Copy>(text: &str) -> Result<T, Unfit> {
    // `parse` would take "inf" and "nan".
    if !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
        let comma = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b',' | b'.' | b'-'));
        return Err(if comma { Unfit::Comma } else { Unfit::Form });
    }
    let value: T = text.parse().map_err(|_| Unfit::Form)?;
    if value.into().is_finite() { Ok(value) } else { Err(Unfit::Range) }
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<bool, Unfit> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Unfit::Form),
    }
}

/// A decimal as its unscaled value: an optional minus, digits with an optional point, an optional exponent. Zeros
/// beyond the scale are no digits too many.
pub(super) fn decimal(text: &str, precision: u8, scale: u8) -> Result<i128, Unfit> {
    let bytes = text.as_bytes();
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let end = bytes.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(bytes.len());
    let exponent = match &bytes[end..] {
        [] => 0,
        [_, b'+', digits @ ..] if digits.first() != Some(&b'-') => exponent(digits)?,
        [_, digits @ ..] => exponent(digits)?,
    };
    let mut value: i128 = 0;
    let mut zeros: u32 = 0; // behind the last digit that is not zero
    let mut point = false;
    let mut behind: i64 = 0; // digits behind the point
    let mut digits = 0usize;
    for b in &bytes[..end] {
        match b {
            b'.' if !point => point = true,
            b'0'..=b'9' => {
                digits += 1;
                behind += i64::from(point);
                if *b == b'0' {
                    zeros = zeros.saturating_add(u32::from(value != 0));
                    continue;
                }
                value = 10i128
                    .checked_pow(zeros.saturating_add(1))
                    .and_then(|p| value.checked_mul(p))
                    .and_then(|v| v.checked_add(i128::from(b - b'0')))
                    .ok_or(Unfit::Digits)?;
                zeros = 0;
            }
            b',' => return Err(Unfit::Comma),
            _ => return Err(Unfit::Form),
        }
    }
    if digits == 0 || bytes[..end].last() == Some(&b'.') {
        return Err(Unfit::Form);
    }
    if value == 0 {
        return Ok(0);
    }
    let shift = exponent - behind + i64::from(zeros) + i64::from(scale);
    let shift = u32::try_from(shift).map_err(|_| Unfit::Digits)?;
    let value = 10i128.checked_pow(shift).and_then(|p| value.checked_mul(p)).ok_or(Unfit::Digits)?;
    let bound = 10i128.checked_pow(u32::from(precision)).ok_or(Unfit::Digits)?;
    if value >= bound {
        return Err(Unfit::Digits);
    }
    Ok(if negative { -value } else { value })
}

/// The exponent of a number; one of more than six digits is out of every range.
fn exponent(digits: &[u8]) -> Result<i64, Unfit> {
    if digits.len() > 7 { Err(Unfit::Digits) } else { i64_of(digits).map_err(|_| Unfit::Form) }
}

/// Appends the bytes that base64 text stands for. On an error part of them may have been appended.
pub(super) fn base64(text: &str, to: &mut Vec<u8>) -> Result<(), Unfit> {
    BASE64.decode_vec(text, to).map_err(|_| Unfit::Form)
}

/// Two digits at `at`.
fn two(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.get(at..at + 2)? {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(u32::from(a - b'0') * 10 + u32::from(b - b'0')),
        _ => None,
    }
}

/// The day number at the beginning of a text, `YYYY-MM-DD`.
fn day(bytes: &[u8]) -> Result<i32, Unfit> {
    let read = || {
        let year = two(bytes, 0)? * 100 + two(bytes, 2)?;
        let dashes = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
        Some((year as i32, two(bytes, 5)?, two(bytes, 8)?)).filter(|_| dashes)
    };
    let Some((year, month, day)) = read() else {
        let digits =
            bytes.iter().skip_while(|b| matches!(b, b'+' | b'-')).take_while(|b| b.is_ascii_digit()).count();
        return Err(if digits > 4 && bytes.get(digits) == Some(&b'-') { Unfit::Years } else { Unfit::Form });
    };
    if year == 0 {
        return Err(Unfit::Years);
    }
    let date = NaiveDate::from_ymd_opt(year, month, day).ok_or(Unfit::Form)?;
    Ok(date.num_days_from_ce() - EPOCH_DAY)
}

/// A date, `YYYY-MM-DD`, as days since 1970.
pub(super) fn date(text: &str) -> Result<i32, Unfit> {
    let day = day(text.as_bytes())?;
    if text.len() == 10 { Ok(day) } else { Err(Unfit::Form) }
}

/// A time of day at the beginning of a text, `HH:MM[:SS[.f…]]`: seconds, nanoseconds, and what follows.
fn clock(bytes: &[u8]) -> Result<(i64, i64, &[u8]), Unfit> {
    let colon = |at: usize| bytes.get(at) == Some(&b':');
    let (Some(hour), true, Some(minute)) = (two(bytes, 0), colon(2), two(bytes, 3)) else {
        return Err(Unfit::Form);
    };
    let (second, mut rest) = match colon(5) {
        true => (two(bytes, 6).ok_or(Unfit::Form)?, &bytes[8..]),
        false => (0, &bytes[5..]),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Unfit::Form);
    }
    let mut nanos = 0i64;
    if colon(5) && rest.first() == Some(&b'.') {
        let digits = rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return Err(Unfit::Form);
        }
        let mut weight = 100_000_000;
        for b in rest[1..].iter().take(digits.min(9)) {
            nanos += i64::from(b - b'0') * weight;
            weight /= 10;
        }
        rest = &rest[1 + digits..];
    }
    Ok((i64::from(hour * 3600 + minute * 60 + second), nanos, rest))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A time of day as a count of the unit since midnight.
pub(super) fn time(text: &str, unit: TimeUnit) -> Result<i64, Unfit> {
    let (seconds, nanos, rest) = clock(text.as_bytes())?;
    if !rest.is_empty() {
        return Err(Unfit::Form);
    }
    let per_second = per_second(unit);
    Ok(seconds * per_second + nanos / (1_000_000_000 / per_second))
}

/// A date, or a date and a time, as a count of the unit since 1970. With `zoned` an offset may follow, and without
/// one the time is UTC's; else none may.
pub(super) fn timestamp(text: &str, unit: TimeUnit, zoned: bool) -> Result<i64, Unfit> {
    let bytes = text.as_bytes();
    let day = i64::from(day(bytes)?);
    let (seconds, nanos, zone) = match bytes.get(10) {
        None => (0, 0, &bytes[10..]),
        Some(b'T' | b't' | b' ') => clock(&bytes[11..])?,
        Some(_) => return Err(Unfit::Form),
    };
    let offset = offset(zone)?;
    if !zoned && !zone.is_empty() {
        return Err(Unfit::Zone);
    }
    let per_second = per_second(unit);
    // The seconds alone of the first nanosecond there is would not fit 64 bits.
    let ticks = i128::from(day * DAY_SECONDS + seconds - offset) * i128::from(per_second)
        + i128::from(nanos / (1_000_000_000 / per_second));
    let ticks = i64::try_from(ticks).map_err(|_| Unfit::Range)?;
    epoch(ticks, unit)
}

/// Checks a count of the unit since 1970.
pub(super) fn epoch(ticks: i64, unit: TimeUnit) -> Result<i64, Unfit> {
    let days = ticks.div_euclid(per_second(unit)).div_euclid(DAY_SECONDS);
    if (FIRST_DAY..=LAST_DAY).contains(&days) { Ok(ticks) } else { Err(Unfit::Years) }
}

/// The seconds east of UTC of `Z`, `+01:00`, `+0100` or `+01`; 0 for none.
fn offset(zone: &[u8]) -> Result<i64, Unfit> {
    let (sign, digits) = match zone {
        [] | [b'Z' | b'z'] => return Ok(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return Err(Unfit::Form),
    };
    let (hours, minutes) = match (digits.len(), digits.get(2)) {
        (2, _) => (two(digits, 0), Some(0)),
        (4, _) => (two(digits, 0), two(digits, 2)),
        (5, Some(b':')) => (two(digits, 0), two(digits, 3)),
        _ => return Err(Unfit::Form),
    };
    match (hours, minutes) {
        (Some(hours @ 0..=23), Some(minutes @ 0..=59)) => Ok(sign * i64::from(hours * 3600 + minutes * 60)),
        _ => Err(Unfit::Form),
    }
}
