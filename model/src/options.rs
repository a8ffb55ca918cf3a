//! Table options under Fluss's names, typed and checked.
//!
//! Options that speak of servers, replicas and local disks mean nothing here; they are accepted and kept, so that
//! existing DDL carries over. Unknown `table.*` and `fields.*` names are errors, and so are names that are meant as one of
//! them; all other names are the user's own properties.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{ErrorKind, Fault};
use crate::suggest::{did_you_mean, nearest};

pub use keyed::{ChangelogImage, DeleteBehavior, MergeKind};

pub(crate) mod column;
mod keyed;
#[cfg(test)]
mod tests;

/// How long log rows are kept.
pub const LOG_TTL: &str = "table.log.ttl";
/// How many bytes of a bucket's log are kept.
pub const LOG_RETENTION_BYTES: &str = "table.log.retention-bytes";
/// `zstd`, `lz4_frame` or `none`.
pub const COMPRESSION: &str = "table.log.arrow.compression.type";
/// 1 to 22.
pub const ZSTD_LEVEL: &str = "table.log.arrow.compression.zstd.level";
/// Which lake format decides the bucket function.
pub const LAKE_FORMAT: &str = "table.datalake.format";
/// `*` or the columns that carry statistics.
pub const STATISTICS: &str = "table.statistics.columns";
/// What `-D` and deletes do.
pub const DELETE_BEHAVIOR: &str = "table.delete.behavior";
/// `first_row`, `versioned` or `aggregation`.
pub const MERGE_ENGINE: &str = "table.merge-engine";
/// The version column of the `versioned` merge engine.
pub const VERSION_COLUMN: &str = "table.merge-engine.versioned.ver-column";
/// Another spelling of [`DELETE_BEHAVIOR`], for the `versioned` merge engine.
pub const VERSIONED_DELETES: &str = "table.merge-engine.versioned.delete-behavior";
/// `full` or `wal`.
pub const CHANGELOG_IMAGE: &str = "table.changelog.image";
/// How many ids of an auto-increment column a bucket takes at once.
pub const AUTO_INCREMENT_CACHE: &str = "table.auto-increment.cache-size";
/// How long rows of a primary-key table live.
pub const ROW_TTL: &str = "table.kv.row.ttl";
/// The column whose time a row's life begins at.
pub const ROW_TTL_COLUMN: &str = "table.kv.row.ttl.time-column";
/// Whether a table is kept in the lake too.
pub const LAKE_ENABLED: &str = "table.datalake.enabled";

/// Whether partitions come and go with time.
pub const AUTO_PARTITION: &str = "table.auto-partition.enabled";
/// Which partition column tells the time.
pub const AUTO_PARTITION_KEY: &str = "table.auto-partition.key";
/// `hour`, `day`, `month`, `quarter` or `year`.
pub const AUTO_PARTITION_UNIT: &str = "table.auto-partition.time-unit";
/// How times are spelled.
pub const AUTO_PARTITION_FORMAT: &str = "table.auto-partition.time-format";
/// By which clock a period begins; UTC if not given.
pub const AUTO_PARTITION_ZONE: &str = "table.auto-partition.time-zone";
/// How many partitions are made ahead, with the present one.
pub const AUTO_PARTITION_PRECREATE: &str = "table.auto-partition.num-precreate";
/// How many past partitions are kept; 0 and less keep all.
pub const AUTO_PARTITION_RETENTION: &str = "table.auto-partition.num-retention";
/// What becomes of rows whose partition is expired: `reject` or `accept`.
pub const AUTO_PARTITION_LATE_ROWS: &str = "table.auto-partition.late-rows";
/// The options of auto-partition that cannot be changed: a table that has one is checked for all.
pub(crate) const AUTO_PARTITION_FIXED: [&str; 4] =
    [AUTO_PARTITION_KEY, AUTO_PARTITION_UNIT, AUTO_PARTITION_FORMAT, AUTO_PARTITION_ZONE];
/// Whether a write makes the partitions that its rows need. In Fluss each client says that for itself
/// (`client.writer.dynamic-create-partition.enabled`).
pub const DYNAMIC_PARTITION: &str = "table.dynamic-create-partition.enabled";

/// What an option's value must look like.
enum Form {
    Bool,
    Integer(i64, i64),
    Duration,
    Size,
    OneOf(&'static [&'static str]),
    Text,
}

struct Known {
    name: &'static str,
    form: Form,
    alterable: bool,
}

const fn known(name: &'static str, form: Form) -> Known {
    Known { name, form, alterable: false }
}

const fn alterable(name: &'static str, form: Form) -> Known {
    Known { name, form, alterable: true }
}

const KNOWN: &[Known] = &[
    known("table.replication.factor", Form::Integer(1, 1000)),
    known("table.log.format", Form::OneOf(&["arrow"])),
    known(COMPRESSION, Form::OneOf(&["zstd", "lz4_frame", "none"])),
    known(ZSTD_LEVEL, Form::Integer(1, 22)),
    known("table.kv.format", Form::OneOf(&["compacted", "indexed"])),
    known("table.kv.format-version", Form::Integer(1, 3)),
    alterable("table.kv.standby-replica.enabled", Form::Bool),
    alterable(AUTO_PARTITION, Form::Bool),
    known(AUTO_PARTITION_KEY, Form::Text),
    known(AUTO_PARTITION_UNIT, Form::OneOf(&["hour", "day", "month", "quarter", "year"])),
    known(AUTO_PARTITION_FORMAT, Form::Text),
    known(AUTO_PARTITION_ZONE, Form::Text),
    alterable(AUTO_PARTITION_PRECREATE, Form::Integer(0, 1000)),
    alterable(AUTO_PARTITION_RETENTION, Form::Integer(-1, 1_000_000)),
    alterable(AUTO_PARTITION_LATE_ROWS, Form::OneOf(&["reject", "accept"])),
    alterable(DYNAMIC_PARTITION, Form::Bool),
    alterable(LOG_TTL, Form::Duration),
    alterable(LOG_RETENTION_BYTES, Form::Size),
    alterable("table.log.tiered.local-segments", Form::Integer(1, 1_000_000)),
    alterable("table.log.local-ttl", Form::Duration),
    alterable(LAKE_ENABLED, Form::Bool),
    known(LAKE_FORMAT, Form::OneOf(&["iceberg", "paimon"])),
    alterable("table.datalake.freshness", Form::Duration),
    alterable("table.datalake.auto-compaction", Form::Bool),
    known("table.datalake.auto-expire-snapshot", Form::Bool),
    alterable("table.datalake.historical-partition.enabled", Form::Bool),
    known(MERGE_ENGINE, Form::OneOf(&["first_row", "versioned", "aggregation"])),
    known(VERSION_COLUMN, Form::Text),
    known(VERSIONED_DELETES, Form::OneOf(&["allow", "ignore", "disable"])),
    known(DELETE_BEHAVIOR, Form::OneOf(&["allow", "ignore", "disable"])),
    known(CHANGELOG_IMAGE, Form::OneOf(&["full", "wal"])),
    known(AUTO_INCREMENT_CACHE, Form::Integer(1, 100_000_000)),
    alterable(STATISTICS, Form::Text),
    known(ROW_TTL, Form::Duration),
    known(ROW_TTL_COLUMN, Form::Text),
    known("table.kv.row.ttl.changelog-mode", Form::OneOf(&["none"])),
];

/// An option that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOption {
    /// No option has this name.
    #[error("option \"{name}\" is not known{}", did_you_mean(*.nearest))]
    Unknown {
        /// The name as given.
        name: String,
        /// The option it may stand for.
        nearest: Option<&'static str>,
    },
    /// The value does not fit.
    #[error("option \"{name}\" is \"{value}\": {why}")]
    Value {
        /// The option.
        name: String,
        /// The value as given.
        value: String,
        /// What would be right.
        why: String,
    },
    /// It can only be given when the table is created.
    #[error("option \"{name}\" cannot be changed after the table was created")]
    NotAlterable {
        /// The option.
        name: String,
    },
}

impl Fault for InvalidOption {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }

    fn code(&self) -> &'static str {
        "invalid_option"
    }
}

/// How the buffers of stored rows are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogCompression {
    /// Not at all.
    None,
    /// LZ4 frames.
    Lz4,
    /// Zstandard. Level 1 has the ratio of level 3 at twice the speed on real tables, so it is the default.
    Zstd {
        /// 1 to 22.
        level: i32,
    },
}

/// The options and properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct TableOptions(BTreeMap<String, String>);

impl TableOptions {
    /// Checks names and values one by one; what fits together is checked with the table (see `table`).
    pub fn new(given: BTreeMap<String, String>) -> Result<TableOptions, InvalidOption> {
        let checked = given.into_iter().map(|(name, value)| check(&name, &value).map(|value| (name, value)));
        Ok(TableOptions(checked.collect::<Result<_, _>>()?))
    }

    /// These options with some set (`Some`) or taken away (`None`).
    pub fn altered(&self, changes: BTreeMap<String, Option<String>>) -> Result<TableOptions, InvalidOption> {
        let mut options = self.0.clone();
        for (name, value) in changes {
            if find(&name)?.is_some_and(|known| !known.alterable) {
                return Err(InvalidOption::NotAlterable { name });
            }
            match value {
                Some(value) => options.insert(name.clone(), check(&name, &value)?),
                None => options.remove(&name),
            };
        }
        Ok(TableOptions(options))
    }

    /// The value of an option or property, as it was given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All that were given.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// How long log rows are kept; `None` is for ever. Default 7 days.
    pub fn log_ttl(&self) -> Option<Duration> {
        let ttl = self.get(LOG_TTL).and_then(parse_duration).unwrap_or(Duration::from_secs(7 * 24 * 3600));
        (!ttl.is_zero()).then_some(ttl)
    }

    /// How many stored bytes of each bucket's log are kept at least, before the oldest chunks go; `None` is no limit, the default.
    pub fn log_retention_bytes(&self) -> Option<u64> {
        self.get(LOG_RETENTION_BYTES).and_then(parse_size).filter(|bytes| *bytes > 0)
    }

    /// How stored rows are compressed. Default zstd, level 1.
    pub fn compression(&self) -> LogCompression {
        match self.get(COMPRESSION) {
            Some("none") => LogCompression::None,
            Some("lz4_frame") => LogCompression::Lz4,
            _ => {
                let level = self.get(ZSTD_LEVEL).and_then(|l| l.parse().ok()).unwrap_or(1);
                LogCompression::Zstd { level }
            }
        }
    }

    /// Whether a write makes the partitions that its rows need. Default true.
    pub fn creates_partitions(&self) -> bool {
        self.get(DYNAMIC_PARTITION) != Some("false")
    }

    /// Whether the option is `true`.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}

/// The option of this name; `None` for a user's own property.
fn find(name: &str) -> Result<Option<&'static Known>, InvalidOption> {
    if !name.starts_with("table.") {
        return match meant(name) {
            None => Ok(None),
            nearest => Err(InvalidOption::Unknown { name: name.to_owned(), nearest }),
        };
    }
    match KNOWN.iter().find(|known| known.name == name) {
        Some(known) => Ok(Some(known)),
        None => {
            let nearest = nearest(name, KNOWN.iter().map(|known| known.name));
            Err(InvalidOption::Unknown { name: name.to_owned(), nearest })
        }
    }
}

/// The option that a name outside `table.` is meant as: a slip in that very word, another case, or the word left out.
fn meant(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let names = KNOWN.iter().map(|known| known.name);
    let slip = |known: &&str| {
        let (head, tail) = known.split_once('.').unwrap_or_default();
        let given = lower.split_once('.').unwrap_or_default();
        lower == tail || given.1 == tail && nearest(given.0, [head]).is_some()
    };
    names.into_iter().find(slip)
}

/// The value in its normal spelling.
fn check(name: &str, value: &str) -> Result<String, InvalidOption> {
    if let Some(option) = column::parse(name)? {
        return option.check(name, value);
    }
    let Some(known) = find(name)? else {
        return Ok(value.to_owned());
    };
    let lower = value.trim().to_ascii_lowercase();
    let why = match &known.form {
        Form::Text => return Ok(value.to_owned()),
        Form::Bool if matches!(lower.as_str(), "true" | "false") => return Ok(lower),
        Form::Bool => "write true or false".to_owned(),
        Form::Integer(min, max) => match lower.parse::<i64>() {
            Ok(n) if (*min..=*max).contains(&n) => return Ok(lower),
            _ => format!("write a whole number from {min} to {max}"),
        },
        Form::Duration if parse_duration(&lower).is_some() => return Ok(lower),
        Form::Duration => "write a duration such as 500ms, 30s, 15min, 12h or 7d".to_owned(),
        Form::Size if parse_size(&lower).is_some() => return Ok(lower),
        Form::Size => "write a number of bytes such as 1073741824, 512mb, 10gb or 1tb".to_owned(),
        Form::OneOf(values) if values.contains(&lower.as_str()) => return Ok(lower),
        Form::OneOf(values) => format!("write {}", values.join(" or ")),
    };
    Err(InvalidOption::Value { name: name.to_owned(), value: value.to_owned(), why })
}

/// Reads a duration as Fluss and Flink spell it: a number and a unit, milliseconds without one.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "m" | "min" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Reads a number of bytes as Fluss and Flink spell it: a number and a unit, of 1024 of the one before; bytes without one.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "kb" | "kib" | "kibibytes" => 1 << 10,
        "m" | "mb" | "mib" | "mebibytes" => 1 << 20,
        "g" | "gb" | "gib" | "gibibytes" => 1 << 30,
        "t" | "tb" | "tib" | "tebibytes" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}
