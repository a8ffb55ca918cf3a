//! Rows as CSV.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema as ArrowSchema;

use super::super::BodyError;
use super::cell::Cell;

/// Appends the header line.
pub fn csv_header(schema: &ArrowSchema, out: &mut Vec<u8>) {
    for (i, field) in schema.fields().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        quote_if_needed(field.name().as_bytes(), out);
    }
    out.push(b'\n');
}

/// Appends the rows of a batch.
pub fn csv_rows(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), BodyError> {
    let columns: Vec<Cell> = batch.columns().iter().map(Cell::new).collect::<Result<_, _>>()?;
    let mut nested = Vec::new();
    for row in 0..batch.num_rows() {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            if !column.has_value(row) {
                continue;
            }
            if column.is_nested() {
                nested.clear();
                column.write_json(row, &mut nested);
                quote(&nested, out);
            } else if let Some(text) = column.text(row) {
                quote_if_needed(text.as_bytes(), out);
            } else {
                column.write_plain(row, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn quote_if_needed(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() || text.iter().any(|b| matches!(b, b'"' | b',' | b'\n' | b'\r')) {
        quote(text, out);
    } else {
        out.extend_from_slice(text);
    }
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for (i, part) in text.split(|b| *b == b'"').enumerate() {
        if i > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part);
    }
    out.push(b'"');
}
