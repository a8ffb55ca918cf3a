//! Rows on stdout: as a table, CSV or NDJSON.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use clap::ValueEnum;
use comfy_table::Table;
use serde_json::{Map, Value};
use wadi_gateway::body::write::{JsonRows, csv_header, csv_rows};

use crate::failure::Failure;
use crate::output;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// For people. All rows are collected first, to make the columns fit.
    Table,
    /// With a header line.
    Csv,
    /// A JSON object a line.
    Ndjson,
}

/// Prints batches of one schema.
pub(crate) struct RowPrinter<W> {
    format: RowFormat,
    out: W,
    table: Option<Table>,
    /// Whether a header is out.
    begun: bool,
    rows: u64,
}

impl<W: Write> RowPrinter<W> {
    pub(crate) fn new(format: RowFormat, out: W) -> RowPrinter<W> {
        RowPrinter { format, out, table: None, begun: false, rows: 0 }
    }

    /// Rows printed so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn print(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        match self.format {
            RowFormat::Table => self.collect(batch)?,
            RowFormat::Csv => self.csv(batch)?,
            RowFormat::Ndjson => self.ndjson(batch)?,
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Prints what was collected, and flushes. Without any batch, `schema` still tells the columns.
    pub(crate) fn finish(&mut self, schema: Option<&Schema>) -> Result<(), Failure> {
        if let (Some(schema), 0) = (schema, self.rows) {
            match self.format {
                RowFormat::Table if self.table.is_none() => {
                    self.table = Some(output::table(schema.fields().iter().map(|f| f.name())));
                }
                RowFormat::Csv if !self.begun => {
                    let mut out = Vec::new();
                    csv_header(schema, &mut out);
                    self.out.write_all(&out).map_err(|e| Failure::output(&e))?;
                }
                _ => {}
            }
        }
        if let Some(table) = self.table.take() {
            writeln!(self.out, "{table}").map_err(|e| Failure::output(&e))?;
        }
        self.out.flush().map_err(|e| Failure::output(&e))
    }

    fn collect(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let names: Vec<String> = batch.schema_ref().fields().iter().map(|f| f.name().clone()).collect();
        let rows = spelled(JsonRows::new(batch))?;
        let table = self.table.get_or_insert_with(|| output::table(names.clone()));
        for row in 0..rows.len() {
            let mut json = Vec::new();
            rows.write_row(row, &mut json);
            let values: Map<String, Value> = spelled(serde_json::from_slice(&json))?;
            table.add_row(names.iter().map(|name| values.get(name).map(output::cell).unwrap_or_default()));
        }
        Ok(())
    }

    fn csv(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            csv_header(batch.schema_ref(), &mut out);
        }
        spelled(csv_rows(batch, &mut out))?;
        self.out.write_all(&out).map_err(|e| Failure::output(&e))
    }

    fn ndjson(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let mut out = Vec::new();
        spelled(JsonRows::new(batch))?.write_lines(&mut out);
        self.out.write_all(&out).map_err(|e| Failure::output(&e))
    }
}

/// What the server's own writers make of rows, so that what is printed is what a request would read back.
fn spelled<T>(written: Result<T, impl std::fmt::Display>) -> Result<T, Failure> {
    written.map_err(|e| Failure::new(format!("rows cannot be printed: {e}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray, TimestampMillisecondArray};
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn printed(format: RowFormat) -> String {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a,b"), None]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
        let mut out = Vec::new();
        let mut printer = RowPrinter::new(format, &mut out);
        printer.print(&batch).unwrap();
        printer.print(&batch.slice(1, 1)).unwrap();
        printer.finish(None).unwrap();
        assert_eq!(printer.rows(), 3);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_has_one_header() {
        assert_eq!(printed(RowFormat::Csv), "id,name\n1,\"a,b\"\n2,\n2,\n");
    }

    #[test]
    fn without_rows_the_columns_are_still_told() {
        let schema =
            Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("b", DataType::Utf8, true)]);
        let printed = |format| {
            let mut out = Vec::new();
            RowPrinter::new(format, &mut out).finish(Some(&schema)).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(RowFormat::Csv), "id,b\n");
        assert_eq!(printed(RowFormat::Ndjson), "");
        assert!(printed(RowFormat::Table).contains("id"));
    }

    #[test]
    fn ndjson_shows_nulls() {
        let want = "{\"id\":1,\"name\":\"a,b\"}\n{\"id\":2,\"name\":null}\n{\"id\":2,\"name\":null}\n";
        assert_eq!(printed(RowFormat::Ndjson), want);
    }

    #[test]
    fn a_table_has_all_rows_of_all_batches() {
        let shown = printed(RowFormat::Table);
        assert!(shown.contains("name") && shown.contains("a,b"), "{shown}");
        assert_eq!(shown.lines().filter(|l| l.contains('2')).count(), 2, "{shown}");
    }

    #[test]
    fn instants_and_bytes_are_spelled_as_requests_spell_them() {
        let at: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0]).with_timezone("UTC"));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![[0u8, 255].as_slice()]));
        let batch = RecordBatch::try_from_iter([("at", at), ("b", bytes)]).unwrap();
        for format in [RowFormat::Table, RowFormat::Csv, RowFormat::Ndjson] {
            let mut out = Vec::new();
            let mut printer = RowPrinter::new(format, &mut out);
            printer.print(&batch).unwrap();
            printer.finish(None).unwrap();
            let shown = String::from_utf8(out).unwrap();
            assert!(shown.contains("1970-01-01T00:00:00.000Z") && shown.contains("AP8="), "{shown}");
        }
    }
}
