//! What a body is written in: `Content-Type` of requests, `Accept` of answers.

use super::BodyError;

#[cfg(test)]
mod tests;

/// How a request body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// An Arrow IPC stream.
    ArrowStream,
    /// A JSON object a line.
    Ndjson,
    /// A JSON array of rows, or one row.
    Json,
    /// Comma-separated values.
    Csv {
        /// Whether the first record names the columns.
        header: bool,
    },
    /// A Parquet file.
    Parquet,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// A JSON document.
    Json,
    /// A JSON object a line.
    Ndjson,
    /// An Arrow IPC stream.
    ArrowStream,
    /// Comma-separated values with a header.
    Csv,
    /// A Parquet file.
    Parquet,
    /// Server-sent events, for tails.
    EventStream,
}

const ARROW: &str = "application/vnd.apache.arrow.stream";
const NDJSON: &str = "application/x-ndjson";
const JSON: &str = "application/json";
const CSV: &str = "text/csv";
const PARQUET: &str = "application/vnd.apache.parquet";
const EVENTS: &str = "text/event-stream";

impl BodyFormat {
    /// What requests may be sent as, for error messages.
    pub const ACCEPTED: [&str; 5] = [ARROW, NDJSON, JSON, CSV, PARQUET];

    /// Reads a `Content-Type`.
    pub fn of(content_type: Option<&str>) -> Result<BodyFormat, BodyError> {
        let unsupported = |given: String| BodyError::UnsupportedMediaType {
            given,
            accepted: BodyFormat::ACCEPTED.join(", "),
        };
        let Some(given) = content_type.map(str::trim).filter(|t| !t.is_empty()) else {
            return Err(unsupported("none".to_owned()));
        };
        let (essence, parameters) = split(given);
        let format = match essence.as_str() {
            ARROW => BodyFormat::ArrowStream,
            NDJSON
            | "application/ndjson"
            | "application/jsonl"
            | "application/jsonlines"
            | "application/x-jsonlines" => BodyFormat::Ndjson,
            JSON => BodyFormat::Json,
            CSV => {
                let absent = |(name, value): &(String, String)| {
                    name == "header" && value.eq_ignore_ascii_case("absent")
                };
                BodyFormat::Csv { header: !parameters.iter().any(absent) }
            }
            PARQUET | "application/x-parquet" => BodyFormat::Parquet,
            _ => return Err(unsupported(format!("\"{}\"", shown(given)))),
        };
        let charset = parameters.iter().find(|(name, _)| name == "charset").map(|(_, value)| value);
        match charset {
            Some(c) if !["utf-8", "utf8", "us-ascii"].iter().any(|k| c.eq_ignore_ascii_case(k)) => {
                Err(BodyError::UnsupportedCharset { given: shown(c) })
            }
            _ => Ok(format),
        }
    }

    /// Whether a row has a line of its own.
    pub fn has_lines(self) -> bool {
        matches!(self, BodyFormat::Ndjson | BodyFormat::Csv { .. })
    }

    /// How a request without rows is written.
    pub(super) fn without_rows(self) -> &'static str {
        match self {
            BodyFormat::ArrowStream => "a stream of a schema without batches",
            BodyFormat::Ndjson => "one line break",
            BodyFormat::Json => "[]",
            BodyFormat::Csv { header: true } => "a header line",
            BodyFormat::Csv { header: false } => "one line break",
            BodyFormat::Parquet => "a file without row groups",
        }
    }
}

impl AnswerFormat {
    /// The `Content-Type` of such an answer.
    pub fn content_type(self) -> &'static str {
        match self {
            AnswerFormat::Json => JSON,
            AnswerFormat::Ndjson => NDJSON,
            AnswerFormat::ArrowStream => ARROW,
            AnswerFormat::Csv => "text/csv; charset=utf-8; header=present",
            AnswerFormat::Parquet => PARQUET,
            AnswerFormat::EventStream => EVENTS,
        }
    }

    /// Whether a media type names it.
    fn is_named(self, essence: &str) -> bool {
        match self {
            AnswerFormat::Ndjson => {
                [NDJSON, "application/ndjson", "application/jsonl", "application/jsonlines"]
                    .contains(&essence)
            }
            AnswerFormat::Parquet => [PARQUET, "application/x-parquet"].contains(&essence),
            AnswerFormat::Csv => essence == CSV,
            other => essence == other.content_type(),
        }
    }

    /// How closely a range of `Accept` names it: exactly, by its first half, or as anything.
    fn closeness(self, range: &str) -> Option<u8> {
        let half = range.strip_suffix("/*");
        match half {
            Some("*") => Some(1),
            Some(half) => self.content_type().split('/').next().filter(|own| *own == half).map(|_| 2),
            None => self.is_named(range).then_some(3),
        }
    }

    /// Chooses how to answer: the offered format that `accept` weighs most; among equals the one named more closely,
    /// then the one named earlier, then the one offered earlier. Without `Accept` it is the first one offered.
    pub fn choose(accept: Option<&str>, offered: &[AnswerFormat]) -> Result<AnswerFormat, BodyError> {
        let given = accept.map(str::trim).filter(|a| !a.is_empty()).unwrap_or("*/*");
        let ranges: Vec<(String, u32)> = given.split(',').map(range).collect();
        let weighed = offered.iter().enumerate().filter_map(|(place, format)| {
            // The closest range decides about a format, so that `text/csv;q=0, */*` excludes CSV.
            let ranges = ranges.iter().enumerate();
            let named = ranges.filter_map(|(at, (range, weight))| {
                format.closeness(range).map(|close| (close, std::cmp::Reverse(at), *weight))
            });
            let (close, at, weight) = named.max()?;
            (weight > 0).then_some(((weight, close, at, std::cmp::Reverse(place)), *format))
        });
        let best = weighed.max_by_key(|(rank, _)| *rank).map(|(_, format)| format);
        best.ok_or_else(|| BodyError::NotAcceptable {
            given: shown(given),
            offered: offered.iter().map(|f| f.content_type()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// A media type and its parameters, names in lower case.
fn split(given: &str) -> (String, Vec<(String, String)>) {
    let mut parts = given.split(';');
    let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let parameter = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned()))
    };
    (essence, parts.filter_map(parameter).collect())
}

/// A range of `Accept` and its weight in thousandths.
fn range(given: &str) -> (String, u32) {
    let (essence, parameters) = split(given);
    let weight = parameters.iter().find(|(name, _)| name == "q").and_then(|(_, q)| q.parse::<f32>().ok());
    let weight = weight.filter(|q| q.is_finite()).unwrap_or(1.0).clamp(0.0, 1.0);
    (essence, (weight * 1000.0) as u32)
}

/// A header's value, cut to a printable length.
fn shown(value: &str) -> String {
    value.chars().take(100).flat_map(char::escape_debug).collect()
}
