//! How single values are spelled.

use arrow::datatypes::{Fields, TimeUnit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{Datelike, NaiveDate};
use serde::Serialize;

use super::super::text::EPOCH_DAY;
use super::cell::Cell;

const DAY_SECONDS: i64 = 86_400;

/// What stands before the value of each field of an object.
pub(super) fn names(fields: &Fields) -> Vec<Vec<u8>> {
    let name = |(i, field): (usize, &arrow::datatypes::FieldRef)| {
        let mut out = if i > 0 { b",".to_vec() } else { Vec::new() };
        string(field.name(), &mut out);
        out.push(b':');
        out
    };
    fields.iter().enumerate().map(name).collect()
}

/// Appends an object with the fields' values of one row.
pub(super) fn object(names: &[Vec<u8>], fields: &[Cell], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, field) in names.iter().zip(fields) {
        out.extend_from_slice(name);
        field.write_json(row, out);
    }
    out.push(b'}');
}

/// Appends a finite number.
pub(super) fn number<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("a number always serializes, and a Vec takes all bytes");
}

/// Appends a JSON string.
pub(super) fn string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a text always serializes, and a Vec takes all bytes");
}

/// Appends an unscaled decimal.
pub(super) fn decimal(value: i128, scale: u8, out: &mut Vec<u8>) {
    let scale = usize::from(scale);
    let mut digits = [b'0'; 80];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 {
        at -= 1;
        // Division of 64 bits is many times faster, and most values fit.
        let digit = match u64::try_from(rest) {
            Ok(small) => {
                rest = u128::from(small / 10);
                small % 10
            }
            Err(_) => {
                let digit = rest % 10;
                rest /= 10;
                digit as u64
            }
        };
        digits[at] = b'0' + digit as u8;
    }
    // At least one digit before the point; 39 digits and a scale of up to 38 fit.
    at = at.min(digits.len() - scale.min(70) - 1);
    if value < 0 {
        out.push(b'-');
    }
    let point = digits.len() - scale.min(70);
    out.extend_from_slice(&digits[at..point]);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(&digits[point..]);
    }
}

/// Appends bytes in base64.
pub(super) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]);
    written.expect("base64 takes four bytes for every three");
}

/// The day since 1970 of a count of the unit.
pub(super) fn day_of(ticks: i64, unit: TimeUnit) -> i64 {
    ticks.div_euclid(per_second(unit)).div_euclid(DAY_SECONDS)
}

/// Whether a day since 1970 is in the years 1 to 9999, which alone can be spelled.
pub(super) fn has_year(day: i64) -> bool {
    calendar(day).is_some()
}

fn calendar(day: i64) -> Option<NaiveDate> {
    let day = i32::try_from(day).ok()?.checked_add(EPOCH_DAY)?;
    NaiveDate::from_num_days_from_ce_opt(day).filter(|date| (1..=9999).contains(&date.year()))
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Appends so many digits of a number.
fn padded(mut value: i64, digits: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + digits, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// Appends a day since 1970, `YYYY-MM-DD`; nothing for one that has no spelling.
pub(super) fn date(day: i64, out: &mut Vec<u8>) {
    let Some(date) = calendar(day) else { return };
    padded(i64::from(date.year()), 4, out);
    out.push(b'-');
    padded(i64::from(date.month()), 2, out);
    out.push(b'-');
    padded(i64::from(date.day()), 2, out);
}

/// Appends a count of the unit since midnight, `HH:MM:SS` and the unit's digits. Times of other days, which Arrow
/// can hold, wrap around.
pub(super) fn time(ticks: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    let per_second = per_second(unit);
    let ticks = ticks.rem_euclid(DAY_SECONDS * per_second);
    let seconds = ticks / per_second;
    padded(seconds / 3600, 2, out);
    out.push(b':');
    padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    padded(seconds % 60, 2, out);
    if per_second > 1 {
        out.push(b'.');
        padded(ticks % per_second, per_second.ilog10() as usize, out);
    }
}

/// Appends a count of the unit since 1970, `YYYY-MM-DDTHH:MM:SS` and the unit's digits; `Z` behind it with `zoned`.
pub(super) fn timestamp(ticks: i64, unit: TimeUnit, zoned: bool, out: &mut Vec<u8>) {
    date(day_of(ticks, unit), out);
    out.push(b'T');
    time(ticks, unit, out);
    if zoned {
        out.push(b'Z');
    }
}
