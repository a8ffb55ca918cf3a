//! Auto-partition: partitions of one unit of time each, made ahead and dropped when they are old.
//!
//! The rules are Fluss's (`table.auto-partition.*`); what differs is that the default zone is UTC, that keys may be
//! whole numbers and dates, and that a table says what becomes of late rows. Periods are counted by what clocks show in
//! the table's zone: when they are set back, both hours of the same name are one partition.

use chrono::{Datelike, NaiveDateTime, Timelike};
use xxhash_rust::xxh3::xxh3_64;

use super::MAX_PARTITIONS;
use super::format::{TimeFormat, default_pattern};
use super::zone::Zone;
use crate::ids::TableId;
use crate::options::{self, TableOptions};
use crate::reject::preview;
use crate::table::{InvalidTable, Table};
use crate::types::DataType;

const HOUR_MILLIS: i64 = 3_600_000;

/// The span of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Hour,
    Day,
    Month,
    Quarter,
    Year,
}

impl TimeUnit {
    /// The spelling of the option.
    pub const fn as_str(self) -> &'static str {
        match self {
            TimeUnit::Hour => "hour",
            TimeUnit::Day => "day",
            TimeUnit::Month => "month",
            TimeUnit::Quarter => "quarter",
            TimeUnit::Year => "year",
        }
    }

    fn of(options: &TableOptions) -> TimeUnit {
        match options.get(options::AUTO_PARTITION_UNIT) {
            Some("hour") => TimeUnit::Hour,
            Some("month") => TimeUnit::Month,
            Some("quarter") => TimeUnit::Quarter,
            Some("year") => TimeUnit::Year,
            _ => TimeUnit::Day,
        }
    }
}

/// A period of one unit, counted so that the next one is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub i64);

impl Period {
    /// The period in which clocks show `at`.
    pub(super) fn of(at: NaiveDateTime, unit: TimeUnit) -> Period {
        let (year, days) = (i64::from(at.year()), i64::from(at.num_days_from_ce()));
        Period(match unit {
            TimeUnit::Year => year,
            TimeUnit::Quarter => year * 4 + i64::from(at.month0() / 3),
            TimeUnit::Month => year * 12 + i64::from(at.month0()),
            TimeUnit::Day => days,
            TimeUnit::Hour => days * 24 + i64::from(at.hour()),
        })
    }

    /// What clocks show when it begins.
    fn begin(self, unit: TimeUnit) -> Option<NaiveDateTime> {
        let month = |year: i64, month0: i64| {
            chrono::NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month0 as u32 + 1, 1)
        };
        let n = self.0;
        let (date, hour) = match unit {
            TimeUnit::Year => (month(n, 0), 0),
            TimeUnit::Quarter => (month(n.div_euclid(4), n.rem_euclid(4) * 3), 0),
            TimeUnit::Month => (month(n.div_euclid(12), n.rem_euclid(12)), 0),
            TimeUnit::Day => (day(n), 0),
            TimeUnit::Hour => (day(n.div_euclid(24)), n.rem_euclid(24) as u32),
        };
        date?.and_hms_opt(hour, 0, 0)
    }
}

fn day(days_from_ce: i64) -> Option<chrono::NaiveDate> {
    chrono::NaiveDate::from_num_days_from_ce_opt(i32::try_from(days_from_ce).ok()?)
}

/// Why a value of the time column makes no partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Untimely {
    /// It does not say a time in the table's format.
    Malformed {
        /// What would be right.
        expected: String,
    },
    /// Its partition is dropped already, or would be at once.
    Expired {
        /// What would be right.
        expected: String,
    },
}

/// The rules of a table whose partitions come and go with time.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoPartition {
    /// The time column's place in the partition key.
    position: usize,
    unit: TimeUnit,
    format: TimeFormat,
    zone: Zone,
    precreate: u32,
    retention: Option<u32>,
    accepts_late: bool,
}

impl AutoPartition {
    /// The rules of a table; `None` if it has none. Checks all its options together.
    pub fn of(table: &Table) -> Result<Option<AutoPartition>, InvalidTable> {
        let given = &table.options;
        let enabled = given.is_set(options::AUTO_PARTITION);
        let is_given = |name: &&&str| given.get(name).is_some();
        if !enabled && options::AUTO_PARTITION_FIXED.iter().find(is_given).is_none() {
            return Ok(None);
        }
        let names = table.names_of(&table.partition_by);
        if names.is_empty() {
            let option = options::AUTO_PARTITION_FIXED.iter().find(is_given);
            return conflict(
                option.copied().unwrap_or(options::AUTO_PARTITION),
                "the table is not partitioned",
            );
        }
        let position = match given.get(options::AUTO_PARTITION_KEY) {
            Some(key) => names.iter().position(|name| *name == key),
            None => (names.len() == 1).then_some(0),
        };
        let Some(position) = position else {
            return conflict(options::AUTO_PARTITION_KEY, "it must name one of the partition columns");
        };
        let unit = TimeUnit::of(given);
        let format = format_of(table, position, unit)?;
        let zone = match given.get(options::AUTO_PARTITION_ZONE) {
            None => Zone::UTC,
            Some(name) => Zone::read(name.trim()).ok_or(InvalidTable::Conflict {
                option: options::AUTO_PARTITION_ZONE,
                why: "write the name of a time zone such as Europe/Berlin, or an offset such as +08:00",
            })?,
        };
        let number = |option| given.get(option).and_then(|n| n.parse::<i64>().ok());
        let precreate = number(options::AUTO_PARTITION_PRECREATE);
        if names.len() > 1 && precreate.is_some_and(|n| n > 0) {
            let why =
                "with several partition columns it must be 0: the values of the others are not known ahead";
            return conflict(options::AUTO_PARTITION_PRECREATE, why);
        }
        let precreate = precreate.unwrap_or(if names.len() > 1 { 0 } else { 2 });
        let retention = number(options::AUTO_PARTITION_RETENTION).unwrap_or(7);
        Ok(enabled.then(|| AutoPartition {
            position,
            unit,
            format,
            zone,
            precreate: u32::try_from(precreate).unwrap_or(0).min(MAX_PARTITIONS as u32),
            retention: u32::try_from(retention).ok().filter(|n| *n > 0),
            accepts_late: given.get(options::AUTO_PARTITION_LATE_ROWS) == Some("accept"),
        }))
    }

    /// The time column's place in the partition key.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The period of a value of the time column, which must not be over for too long at `now`, if that is given.
    pub fn judge(&self, value: &str, now: Option<i64>) -> Result<Period, Untimely> {
        let Some(period) = self.format.period(value) else {
            let example = Period::of(chrono::DateTime::UNIX_EPOCH.naive_utc(), self.unit).begin(self.unit);
            let example = example.map(|at| self.format.write(at)).unwrap_or_default();
            let expected = format!(
                "a {} in the format {}, such as {example}",
                self.unit.as_str(),
                self.format.pattern()
            );
            return Err(Untimely::Malformed { expected });
        };
        match now.and_then(|now| self.oldest(now)) {
            Some(oldest) if period < oldest && !self.accepts_late => {
                let from = oldest.begin(self.unit).map(|at| self.format.write(at)).unwrap_or_default();
                let expected =
                    format!("{from} or later ({} = {})", options::AUTO_PARTITION_RETENTION, self.kept());
                Err(Untimely::Expired { expected })
            }
            _ => Ok(period),
        }
    }

    /// Whether the partition of this name is to be dropped at `now`. Where late rows are accepted, one that was made
    /// when its time was over already lives as long as one that was made at that moment.
    pub fn is_expired(&self, name: &str, created_at: i64, now: i64) -> bool {
        let value = name.split(super::SEPARATOR).nth(self.position);
        let Some(period) = value.and_then(|value| self.format.period(value)) else { return false };
        let made = self.zone.local(created_at).map(|at| Period::of(at, self.unit));
        let lives_from =
            if self.accepts_late { made.map_or(period, |made| made.max(period)) } else { period };
        self.oldest(now).is_some_and(|oldest| lives_from < oldest)
    }

    /// The names of the partitions that should exist at `now`, this period's first.
    ///
    /// Partitions of days to come are made `jitter` milliseconds late, so that not all tables do it at midnight.
    pub fn to_precreate(&self, now: i64, jitter: i64) -> Vec<String> {
        let (Some(here), Some(late)) = (self.zone.local(now), self.zone.local(now - jitter)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = Vec::new();
        let mut add = |at: Option<NaiveDateTime>| {
            let name = at.map(|at| self.format.write(at));
            names.extend(name.filter(|name| !names.contains(name)));
            names.len() as u32
        };
        if self.unit == TimeUnit::Hour {
            // Some hours have no name of their own and some names no hour, where clocks are set.
            (0..=i64::from(self.precreate) + 2)
                .take_while(|_| self.precreate > 0)
                .map(|i| add(self.zone.local(now + i * HOUR_MILLIS)))
                .find(|made| *made >= self.precreate);
            return names;
        }
        let from = if self.unit == TimeUnit::Day { late } else { here };
        let from = Period::of(from, self.unit).0;
        for i in 0..i64::from(self.precreate) {
            let period = if i == 0 { Period::of(here, self.unit) } else { Period(from + i) };
            add(period.begin(self.unit));
        }
        names
    }

    /// How long a table waits after midnight, in milliseconds: up to a day, always the same for one table.
    pub fn jitter(table: TableId) -> i64 {
        (xxh3_64(&table.0.to_be_bytes()) % (24 * HOUR_MILLIS) as u64) as i64
    }

    /// The oldest period that is kept at `now`; `None` if all are.
    fn oldest(&self, now: i64) -> Option<Period> {
        let kept = i64::from(self.retention?);
        match self.unit {
            TimeUnit::Hour => Some(Period::of(self.zone.local(now - kept * HOUR_MILLIS)?, self.unit)),
            unit => Some(Period(Period::of(self.zone.local(now)?, unit).0 - kept)),
        }
    }

    fn kept(&self) -> u32 {
        self.retention.unwrap_or_default()
    }
}

/// The format of names, which must be such that values of the column can say it.
fn format_of(table: &Table, position: usize, unit: TimeUnit) -> Result<TimeFormat, InvalidTable> {
    const OPTION: &str = options::AUTO_PARTITION_FORMAT;
    let columns = table.partition_columns();
    let column = columns.get(position).map(|i| &table.schema().columns()[*i]);
    let pattern = table.options.get(OPTION);
    let data_type = column.map(|c| &c.data_type);
    if data_type == Some(&DataType::Date) && unit != TimeUnit::Day {
        return conflict(options::AUTO_PARTITION_UNIT, "partitions of a date column are days");
    }
    let pattern = match (data_type, pattern) {
        (Some(DataType::Date), None) => "yyyy-MM-dd",
        (_, None) => default_pattern(unit),
        (_, Some(pattern)) => pattern,
    };
    let format = TimeFormat::read(pattern, unit).map_err(|why| {
        let (name, value) = (OPTION.to_owned(), pattern.to_owned());
        options::InvalidOption::Value { name, value, why }
    })?;
    let most = match data_type {
        Some(DataType::Char(_) | DataType::String) => return Ok(format),
        Some(DataType::Date) if pattern != "yyyy-MM-dd" => {
            return conflict(OPTION, "the names of a date column's partitions are always yyyy-MM-dd");
        }
        Some(DataType::Date) => return Ok(format),
        Some(DataType::SmallInt) => 4,
        Some(DataType::Int) => 10,
        Some(DataType::BigInt) => 18,
        _ => {
            return conflict(
                options::AUTO_PARTITION_KEY,
                "the time column must be string, char, date, smallint, int or bigint",
            );
        }
    };
    match format.digits() {
        Some(digits) if digits <= most && !pattern.starts_with(['0', '-']) => Ok(format),
        _ => conflict(OPTION, "values of the time column, which is a whole number, cannot be of this format"),
    }
}

fn conflict<T>(option: &'static str, why: &'static str) -> Result<T, InvalidTable> {
    Err(InvalidTable::Conflict { option, why })
}

impl Untimely {
    /// The row error of a value that does not fit.
    pub(super) fn row_error(self, row: u64, column: &str, value: &str) -> crate::reject::RowError {
        let (expected, hint) = match self {
            Untimely::Malformed { expected } => (expected, None),
            Untimely::Expired { expected } => {
                let option = options::AUTO_PARTITION_LATE_ROWS;
                (expected, Some(format!("the table takes late rows if its option {option} is \"accept\"")))
            }
        };
        crate::reject::RowError {
            row,
            line: None,
            column: Some(column.to_owned()),
            expected,
            got: preview(value),
            hint,
        }
    }
}
