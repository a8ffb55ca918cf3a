//! Rows on stdout: as a table, CSV or NDJSON.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::json;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use clap::ValueEnum;
use comfy_table::Table;

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
    rows: u64,
}

impl<W: Write> RowPrinter<W> {
    pub(crate) fn new(format: RowFormat, out: W) -> RowPrinter<W> {
        RowPrinter { format, out, table: None, rows: 0 }
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

    /// Prints what was collected, and flushes.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        if let Some(table) = self.table.take() {
            writeln!(self.out, "{table}").map_err(|e| Failure::output(&e))?;
        }
        self.out.flush().map_err(|e| Failure::output(&e))
    }

    fn collect(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let options = FormatOptions::default();
        let formatters = batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
        let header = || output::table(batch.schema_ref().fields().iter().map(|f| f.name().clone()));
        let table = self.table.get_or_insert_with(header);
        for row in 0..batch.num_rows() {
            let cells = formatters.iter().map(|f| f.value(row).try_to_string());
            table.add_row(cells.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(())
    }

    fn csv(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        if let Some(field) = batch.schema_ref().fields().iter().find(|f| f.data_type().is_nested()) {
            let message = format!("column \"{}\" is nested and does not fit into CSV", field.name());
            return Err(Failure::usage(message).hint("use --format ndjson, or leave it out with --columns"));
        }
        let mut writer = csv::WriterBuilder::new().with_header(self.rows == 0).build(&mut self.out);
        Ok(writer.write(batch)?)
    }

    fn ndjson(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let builder = json::WriterBuilder::new().with_explicit_nulls(true);
        let mut writer = builder.build::<_, json::writer::LineDelimited>(&mut self.out);
        writer.write(batch)?;
        Ok(writer.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    fn printed(format: RowFormat) -> String {
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a,b"), None]));
        let batch = RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap();
        let mut out = Vec::new();
        let mut printer = RowPrinter::new(format, &mut out);
        printer.print(&batch).unwrap();
        printer.print(&batch.slice(1, 1)).unwrap();
        printer.finish().unwrap();
        assert_eq!(printer.rows(), 3);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_has_one_header() {
        assert_eq!(printed(RowFormat::Csv), "id,name\n1,\"a,b\"\n2,\n2,\n");
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
}
