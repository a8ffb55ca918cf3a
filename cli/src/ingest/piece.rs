//! A piece of a file: the rows of one request.

use arrow::array::{Array, RecordBatch};
use wadi_client::{ArrowCompression, Body, ClientError, content_type};
use wadi_model::reject::RowError;
use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;

/// Zstandard level of text bodies: the fastest that still takes most of the bytes out.
const TEXT_LEVEL: i32 = 1;

/// The rows of one request, and where in the file they are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) place: Place,
    /// Rows, as far as they can be counted without parsing them.
    pub(crate) rows: u64,
    /// Bytes before compression.
    pub(crate) raw_bytes: u64,
    /// How far it brings the progress: bytes of a text file, rows of others.
    pub(crate) units: u64,
    pub(crate) content: Content,
}

/// Where a piece begins in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Rows before it.
    pub(crate) rows: u64,
    /// Lines before it, in formats that have lines.
    pub(crate) lines: Option<u64>,
    /// Lines that the body has in front of the piece's own: the repeated header.
    pub(crate) header_lines: u64,
}

/// What a piece consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Ndjson(Vec<u8>),
    Csv(Vec<u8>),
    Batches(Vec<RecordBatch>),
}

impl Piece {
    /// Tells the piece from others; only of texts, whose files can be added to.
    pub(crate) fn hash(&self) -> Option<u64> {
        match &self.content {
            Content::Ndjson(text) | Content::Csv(text) => Some(xxh3_64(text)),
            Content::Batches(_) => None,
        }
    }
}

/// Cuts a file into pieces.
pub(crate) type Pieces = Box<dyn Iterator<Item = Result<Piece, Failure>> + Send>;

impl Content {
    /// The body of the request. The same content gives the same decompressed bytes, in every run.
    pub(crate) fn encode(self, compression: ArrowCompression) -> Result<Body, Failure> {
        match self {
            Content::Ndjson(text) => compressed(content_type::NDJSON, &text),
            Content::Csv(text) => compressed(content_type::CSV, &text),
            Content::Batches(batches) => {
                Body::arrow(&batches, compression).map_err(|e: ClientError| Failure::from(e))
            }
        }
    }
}

fn compressed(content_type: &'static str, text: &[u8]) -> Result<Body, Failure> {
    let bytes = zstd::bulk::compress(text, TEXT_LEVEL);
    let bytes = bytes.map_err(|e| Failure::new(format!("a piece cannot be compressed: {e}")))?;
    Ok(Body::encoded(content_type, "zstd", bytes))
}

impl Place {
    /// Tells a row's place in the file instead of in the piece.
    pub(crate) fn in_file(&self, error: &RowError) -> RowError {
        let line = match (error.line, self.lines) {
            (Some(line), Some(before)) => Some(line.saturating_sub(self.header_lines) + before),
            (line, _) => line,
        };
        RowError { row: error.row + self.rows, line, ..error.clone() }
    }
}

/// Bytes of a batch's own rows; what else its buffers hold does not count.
pub(crate) fn raw_bytes(batch: &RecordBatch) -> u64 {
    let bytes = |column: &dyn Array| column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
    batch.columns().iter().map(|column| bytes(column.as_ref())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_where_they_are_in_the_file() {
        let error = RowError { row: 2, line: Some(4), ..RowError::default() };
        let csv = Place { rows: 100, lines: Some(101), header_lines: 1 };
        assert_eq!((csv.in_file(&error).row, csv.in_file(&error).line), (102, Some(104)));
        let parquet = Place { rows: 100, lines: None, header_lines: 0 };
        let error = RowError { line: None, ..error };
        assert_eq!((parquet.in_file(&error).row, parquet.in_file(&error).line), (102, None));
    }
}
