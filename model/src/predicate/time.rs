//! Dates, times and timestamps as text.

use super::number::Grid;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// What is wrong with a text for a date, time or timestamp column: what to write instead.
pub(super) type Fix = &'static str;

/// Where the moment that `text` names lies on the grid of the column's unit.
///
/// `@n` is the value `n` of the column itself, in its unit: values that no calendar has print so. A timestamp
/// without a zone is UTC.
pub(super) fn parse(text: &str, data_type: &DataType) -> Result<Grid, Fix> {
    if let Some(value) = text.strip_prefix('@') {
        return value.parse().map(Grid::At).map_err(|_| "write `@` and a whole number");
    }
    let (nanos, step) = match data_type {
        DataType::Date32 => (parse_moment(text, true)?, i128::from(SECONDS_PER_DAY) * NANOS_PER_SECOND),
        DataType::Timestamp(unit, zone) => (parse_moment(text, zone.is_some())?, nanos_per(*unit)),
        DataType::Time32(unit) | DataType::Time64(unit) => (parse_time(text)?, nanos_per(*unit)),
        _ => return Err("use a date, time or timestamp column"),
    };
    let floor = nanos.div_euclid(step);
    Ok(if nanos.rem_euclid(step) == 0 { Grid::At(floor) } else { Grid::After(floor) })
}

fn nanos_per(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => NANOS_PER_SECOND,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn parse_moment(text: &str, zoned: bool) -> Result<i128, Fix> {
    if let Ok(date) = parse_date(text) {
        return Ok(nanos_since_epoch(date.and_time(NaiveTime::MIN)));
    }
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        // A zone other than UTC on wall-clock time would have to be either ignored or applied; both surprise.
        if !zoned && moment.offset().local_minus_utc() != 0 {
            return Err("the column has no time zone; write the time without an offset");
        }
        return Ok(nanos_since_epoch(moment.naive_utc()));
    }
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .map(nanos_since_epoch)
        .ok_or("write '2013-01-01' or '2013-01-01T10:00:00Z'")
}

fn nanos_since_epoch(moment: NaiveDateTime) -> i128 {
    let moment = moment.and_utc();
    i128::from(moment.timestamp()) * NANOS_PER_SECOND + i128::from(moment.timestamp_subsec_nanos())
}

/// Whether the text is a calendar date alone.
pub(super) fn parse_date(text: &str) -> Result<NaiveDate, Fix> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| "write '2013-01-01'")
}

fn parse_time(text: &str) -> Result<i128, Fix> {
    let time = NaiveTime::parse_from_str(text, "%H:%M:%S%.f")
        .or_else(|_| NaiveTime::parse_from_str(text, "%H:%M"))
        .map_err(|_| "write '10:00:00'")?;
    Ok(i128::from(time.num_seconds_from_midnight()) * NANOS_PER_SECOND + i128::from(time.nanosecond()))
}

/// The value of a date, time or timestamp type in the form that [`parse`] reads back exactly.
pub(super) fn format(value: i64, data_type: &DataType) -> String {
    let formatted = match data_type {
        DataType::Date32 => {
            moment(value.saturating_mul(SECONDS_PER_DAY), 0).map(|day| day.format("%Y-%m-%d").to_string())
        }
        DataType::Timestamp(unit, zone) => {
            let (seconds, nanos) = split(value, *unit);
            let format = if zone.is_some() { "%Y-%m-%dT%H:%M:%S%.fZ" } else { "%Y-%m-%dT%H:%M:%S%.f" };
            moment(seconds, nanos).map(|moment| moment.format(format).to_string())
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let (seconds, nanos) = split(value, *unit);
            u32::try_from(seconds)
                .ok()
                .and_then(|seconds| NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos))
                .map(|time| time.format("%H:%M:%S%.f").to_string())
        }
        _ => None,
    };
    formatted.unwrap_or_else(|| format!("@{value}"))
}

/// Whole seconds, rounded down, and the nanoseconds above them.
fn split(value: i64, unit: TimeUnit) -> (i64, u32) {
    let (per_second, nanos) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    // The remainder is below `per_second`, so the product is below 10^9.
    (value.div_euclid(per_second), (value.rem_euclid(per_second) * nanos) as u32)
}

/// A moment with a year of four digits: others do not print in a form that every reader takes.
fn moment(seconds: i64, nanos: u32) -> Option<NaiveDateTime> {
    let moment = DateTime::from_timestamp(seconds, nanos)?.naive_utc();
    (0..=9999).contains(&moment.year()).then_some(moment)
}
