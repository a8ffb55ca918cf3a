//! Answers: batches as JSON, NDJSON, CSV or an Arrow stream.
//!
//! Values are spelled so that [`super::decode`] reads the same ones back:
//!
//! | type | spelling |
//! | --- | --- |
//! | integers, also `bigint` | number |
//! | `float`, `double` | number, the shortest that reads back; NaN and infinities are `null`, as JSON has none |
//! | `decimal(p,s)` | number up to 15 digits, which every JSON reader keeps exactly; string above, as many readers go through a double |
//! | `binary(n)`, `bytes` | base64 |
//! | `date`, `time`, `timestamp` | ISO 8601 with all digits of the unit; `timestamp_ltz` in UTC with `Z` |
//! | `map` | object with the keys as names; with keys of nested types an array of `{"key": …, "value": …}` |
//!
//! In CSV null is an empty field, the empty text is `""`, and nested values are JSON.

pub use arrow_stream::{ArrowStreamWriter, end_of_stream, schema_message};
pub use csv::{csv_header, csv_rows};
pub use json::JsonRows;

mod arrow_stream;
mod cell;
mod csv;
mod json;
mod scalar;
#[cfg(test)]
mod tests;
