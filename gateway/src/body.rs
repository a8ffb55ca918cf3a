//! Request bodies to columns, and columns to answer bodies.
//!
//! The gateway's handlers call this. [`encoding::receive`] takes a body from the network, decompressed and within
//! limits; [`decode`] turns it into one batch of the table's schema, on a CPU pool, since it waits for nothing;
//! [`write`] spells batches as answers. Invariants:
//!
//! * Rows that do not fit are rejected one by one, with the place and the fix; all others are in the batch, in order.
//! * Memory is bounded by [`BodyLimits`], whatever the body declares about itself, and no input panics.
//! * What [`write`] spells, [`decode`] reads back as the same values (NaN and infinities excepted, which JSON has not).

use std::collections::BTreeMap;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use bytes::Bytes;
use wadi_model::Schema;
use wadi_model::ipc::Originals;
use wadi_model::reject::{Rejects, RowError};

pub use error::BodyError;
pub use format::{AnswerFormat, BodyFormat};

pub mod encoding;
pub mod format;
pub mod write;

mod arrow_stream;
mod column;
mod conformed;
mod csv;
pub mod debezium;
mod error;
mod json;
mod ndjson;
mod parquet;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod token;
mod weigh;

/// Most bytes of a body, and of the batch that it becomes, whatever [`BodyLimits`] say: Arrow's text columns count
/// in 31 bits, and a batch may have as much again from defaults.
const MAX_BYTES: usize = 1 << 30;

/// What one request may bring.
#[derive(Clone, Debug)]
pub struct BodyLimits {
    /// Most rows, good and bad.
    pub max_rows: u64,
    /// Most bytes of one row of text.
    pub max_row_bytes: usize,
    /// Most bytes that the rows may take as columns; at most 1 GiB counts.
    pub max_batch_bytes: usize,
}

impl Default for BodyLimits {
    fn default() -> BodyLimits {
        BodyLimits { max_rows: 10_000_000, max_row_bytes: 16 << 20, max_batch_bytes: 512 << 20 }
    }
}

impl BodyLimits {
    /// The limits, within what columns can hold.
    fn capped(&self) -> BodyLimits {
        BodyLimits { max_batch_bytes: self.max_batch_bytes.min(MAX_BYTES), ..self.clone() }
    }
}

/// The rows of a body.
#[derive(Debug)]
pub struct Decoded {
    /// The good rows, under the table's schema.
    pub batch: RecordBatch,
    /// The buffers of an Arrow body as they came.
    pub originals: Originals,
    /// The bad ones, by their position in the body.
    pub rejects: Rejects,
    /// Good and bad ones together.
    pub rows: u64,
    /// Bytes of the decompressed body.
    pub raw_bytes: u64,
}

impl Decoded {
    /// Rejects some of the good rows too, which `more` names by their positions among those.
    pub fn also_reject(&mut self, more: Rejects) -> Result<(), ArrowError> {
        if more.is_empty() {
            return Ok(());
        }
        let keep: BooleanArray = (0..self.batch.num_rows() as u64).map(|row| Some(!more.has(row))).collect();
        self.batch = filter_record_batch(&self.batch, &keep)?;
        let told: BTreeMap<u64, RowError> = more.told().map(|error| (error.row, error.clone())).collect();
        let rejected: Vec<u64> = self.rejects.rows().collect();
        let mut good = (0..self.rows).filter(|row| rejected.binary_search(row).is_err());
        let mut at = 0;
        for position in more.rows() {
            let Some(row) = good.nth((position - at) as usize) else { break };
            at = position + 1;
            let error = told.get(&position).cloned().unwrap_or_default();
            self.rejects.add(row, || RowError { row, ..error });
        }
        Ok(())
    }

    /// Tells the lines of faults that were found in the columns, where rows are lines.
    pub fn tell_lines(&mut self, format: BodyFormat, body: &[u8]) {
        if format == BodyFormat::Ndjson {
            self.rejects.tell_lines(ndjson::lines(body));
        }
    }
}

/// Reads a body, which has been received and decompressed, as rows of a table.
pub fn decode(
    format: BodyFormat,
    body: Bytes,
    schema: &Schema,
    limits: &BodyLimits,
) -> Result<Decoded, BodyError> {
    if body.is_empty() {
        return Err(BodyError::Empty { instead: format.without_rows() });
    }
    if body.len() > MAX_BYTES {
        return Err(BodyError::DecodedTooLarge { limit: MAX_BYTES });
    }
    let limits = &limits.capped();
    match format {
        BodyFormat::ArrowStream => arrow_stream::decode(body, schema, limits),
        BodyFormat::Ndjson => ndjson::decode(&body, schema, limits),
        BodyFormat::Json => json::decode(&body, schema, limits),
        BodyFormat::Csv { header } => csv::decode(&body, header, schema, limits),
        BodyFormat::Parquet => parquet::decode(body, schema, limits),
    }
}

/// The body without a byte order mark.
fn without_bom(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)
}
