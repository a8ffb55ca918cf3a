//! Cuts Arrow batches, as Parquet and Arrow files hold them, into pieces of about the piece size.
//!
//! Batches that are larger are cut into even slices, smaller ones are sent together. Where the cuts are depends on
//! the file and the size alone.

use std::io::BufReader;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::piece::{Content, Piece, Place, raw_bytes};
use crate::failure::Failure;
use crate::format::{is_arrow_file, is_pandas_index, open, unreadable};

#[cfg(test)]
mod tests;

/// Rows that Parquet is asked for at once, at most.
const MAX_BATCH_ROWS: u64 = 65_536;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Cuts batches of one schema into pieces. The number of the first is 1.
pub(crate) struct BatchPieces {
    name: String,
    batches: Batches,
    size: u64,
    /// Slices whose turn has not come, with their bytes.
    waiting: std::collections::VecDeque<(RecordBatch, u64)>,
    number: u64,
    rows: u64,
    failed: bool,
}

impl BatchPieces {
    fn new(path: &Path, batches: Batches, size: u64) -> BatchPieces {
        BatchPieces {
            name: path.display().to_string(),
            batches,
            size: size.max(1),
            waiting: std::collections::VecDeque::new(),
            number: 0,
            rows: 0,
            failed: false,
        }
    }

    /// The pieces of a Parquet file, and its rows.
    pub(crate) fn parquet(path: &Path, size: u64) -> Result<(BatchPieces, u64), Failure> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(open(path)?);
        let builder = builder.map_err(|e| unreadable(path, &e))?;
        let metadata = builder.metadata().clone();
        let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
        let bytes =
            |g: &parquet::file::metadata::RowGroupMetaData| u64::try_from(g.total_byte_size()).unwrap_or(0);
        let bytes: u64 = metadata.row_groups().iter().map(bytes).sum();
        // Wide rows are read few at a time, so that one batch is not many times the piece.
        let batch_rows = (size.saturating_mul(rows) / bytes.max(1)).clamp(64, MAX_BATCH_ROWS);
        let kept = builder.schema().fields().iter().enumerate().filter(|(_, f)| !is_pandas_index(f.name()));
        let mask = ProjectionMask::roots(builder.parquet_schema(), kept.map(|(i, _)| i).collect::<Vec<_>>());
        let reader = builder.with_projection(mask).with_batch_size(batch_rows as usize).build();
        let reader = reader.map_err(|e| unreadable(path, &e))?;
        Ok((BatchPieces::new(path, Box::new(reader), size), rows))
    }

    /// The pieces of an Arrow file or stream.
    pub(crate) fn arrow(path: &Path, size: u64) -> Result<BatchPieces, Failure> {
        let file = BufReader::new(open(path)?);
        let batches: Batches = if is_arrow_file(path)? {
            Box::new(FileReader::try_new(file, None).map_err(|e| unreadable(path, &e))?)
        } else {
            Box::new(StreamReader::try_new(file, None).map_err(|e| unreadable(path, &e))?)
        };
        Ok(BatchPieces::new(path, Box::new(batches.map(|b| b.and_then(without_index))), size))
    }

    /// The pieces of an Arrow stream on standard input.
    pub(crate) fn arrow_input(size: u64) -> Result<BatchPieces, Failure> {
        let path = Path::new("-");
        let reader = StreamReader::try_new(BufReader::new(std::io::stdin()), None);
        let batches = reader.map_err(|e| unreadable(path, &e))?.map(|b| b.and_then(without_index));
        Ok(BatchPieces::new(path, Box::new(batches), size))
    }

    /// Takes the next batch in, cut to the size.
    fn fill(&mut self) -> Option<Result<(), ArrowError>> {
        let batch = match self.batches.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(error)),
        };
        let rows = batch.num_rows();
        let parts = raw_bytes(&batch).div_ceil(self.size).clamp(1, rows.max(1) as u64) as usize;
        for part in 0..parts {
            let (from, to) = (rows * part / parts, rows * (part + 1) / parts);
            if from < to {
                let slice = batch.slice(from, to - from);
                let bytes = raw_bytes(&slice);
                self.waiting.push_back((slice, bytes));
            }
        }
        Some(Ok(()))
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, ArrowError> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        loop {
            while let Some((_, more)) = self.waiting.front() {
                if !batches.is_empty() && bytes + more > self.size {
                    return Ok(self.piece(batches, bytes));
                }
                if let Some((batch, more)) = self.waiting.pop_front() {
                    bytes += more;
                    batches.push(batch);
                }
            }
            match self.fill() {
                Some(filled) => filled?,
                None => return Ok(self.piece(batches, bytes)),
            }
        }
    }

    fn piece(&mut self, batches: Vec<RecordBatch>, raw_bytes: u64) -> Option<Piece> {
        let rows: u64 = batches.iter().map(|b| b.num_rows() as u64).sum();
        let place = Place { rows: self.rows, ..Place::default() };
        self.rows += rows;
        self.number += 1;
        let content = Content::Batches(batches);
        (rows > 0).then(|| Piece { number: self.number, place, rows, raw_bytes, units: rows, content })
    }
}

impl Iterator for BatchPieces {
    type Item = Result<Piece, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.next_piece() {
            Ok(piece) => piece.map(Ok),
            Err(error) => {
                self.failed = true;
                Some(Err(Failure::new(format!("{} cannot be read: {error}", self.name))))
            }
        }
    }
}

/// The batch without columns that pandas has added.
fn without_index(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let fields = batch.schema_ref().fields().iter().enumerate();
    let kept: Vec<usize> = fields.filter(|(_, f)| !is_pandas_index(f.name())).map(|(i, _)| i).collect();
    if kept.len() == batch.num_columns() { Ok(batch) } else { batch.project(&kept) }
}
