//! Rows as JSON objects.

use arrow::array::RecordBatch;

use super::super::BodyError;
use super::cell::Cell;
use super::scalar;

/// The rows of a batch, to be written one by one or all together.
pub struct JsonRows {
    /// For each column what stands before its value: `"name":`, after the first with a comma.
    names: Vec<Vec<u8>>,
    columns: Vec<Cell>,
    rows: usize,
}

impl JsonRows {
    /// Prepares a batch.
    pub fn new(batch: &RecordBatch) -> Result<JsonRows, BodyError> {
        let columns = batch.columns().iter().map(Cell::new).collect::<Result<_, _>>()?;
        let names = scalar::names(batch.schema_ref().fields());
        Ok(JsonRows { names, columns, rows: batch.num_rows() })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends one row as an object.
    pub fn write_row(&self, row: usize, out: &mut Vec<u8>) {
        scalar::object(&self.names, &self.columns, row, out);
    }

    /// Appends all rows as lines.
    pub fn write_lines(&self, out: &mut Vec<u8>) {
        for row in 0..self.rows {
            self.write_row(row, out);
            out.push(b'\n');
        }
    }

    /// Appends all rows as elements of an array, whose brackets the caller writes; `first` says whether none stands
    /// there yet, and holds it for the next batch.
    pub fn write_elements(&self, first: &mut bool, out: &mut Vec<u8>) {
        for row in 0..self.rows {
            if !std::mem::take(first) {
                out.push(b',');
            }
            self.write_row(row, out);
        }
    }
}
