//! CSV (RFC 4180): a header that names the columns in any order, or all columns in the table's order.
//!
//! An empty field is null, and two quotes are the empty text; parsers that hide the quotes cannot tell them apart,
//! so the records are split here. Nested values are JSON in a quoted field.

use wadi_model::Schema;
use wadi_model::batch::ShapeError;

use super::column::Cell;
use super::rows::Rows;
use super::{BodyError, BodyLimits, Decoded, without_bom};
use records::{Flaw, Record, Records};

mod records;
#[cfg(test)]
mod tests;

/// Reads a CSV body.
pub(super) fn decode(
    body: &[u8],
    header: bool,
    schema: &Schema,
    limits: &BodyLimits,
) -> Result<Decoded, BodyError> {
    let mut records = Records::new(without_bom(body));
    let mut record = Record::default();
    let columns = if header {
        if !records.next(&mut record)? {
            return Err(BodyError::Empty { instead: "a header line" });
        }
        columns_of(&record, schema)?
    } else {
        (0..schema.columns().len()).collect()
    };
    let absent: Vec<usize> = (0..schema.columns().len()).filter(|i| !columns.contains(i)).collect();
    let missing = absent.iter().find(|i| !schema.columns()[**i].nullable && schema.default_of(**i).is_none());
    if let Some(missing) = missing {
        return Err(ShapeError::MissingColumn { column: schema.columns()[*missing].name.clone() }.into());
    }
    // In a file of one column an empty line is a null; in any other it is nothing.
    records.keep_blank = columns.len() == 1;
    let mut rows = Rows::new(schema, limits);
    while records.next(&mut record)? {
        read_record(&mut rows, &record, &columns, &absent)?;
    }
    rows.finish(body.len())
}

/// The positions of the columns that a header names.
fn columns_of(header: &Record<'_>, schema: &Schema) -> Result<Vec<usize>, BodyError> {
    let bad = |why: &str| BodyError::BadCsv { line: header.line, why: why.to_owned() };
    let text = std::str::from_utf8(header.raw).map_err(|_| bad("the header is no UTF-8"))?;
    if header.flaw.is_some() {
        return Err(bad("text stands behind a closing quote in the header"));
    }
    let positions = schema.positions();
    let mut columns = Vec::with_capacity(header.fields.len());
    for field in &header.fields {
        let name = field.text(text);
        let name = name.trim();
        let Some(position) = positions.get(name) else {
            let nearest = schema.nearest(name).map(str::to_owned);
            return Err(ShapeError::UnknownColumn { column: name.to_owned(), nearest }.into());
        };
        if columns.contains(position) {
            return Err(ShapeError::ColumnTwice { column: name.to_owned() }.into());
        }
        columns.push(*position);
    }
    Ok(columns)
}

fn read_record(
    rows: &mut Rows<'_>,
    record: &Record<'_>,
    columns: &[usize],
    absent: &[usize],
) -> Result<(), BodyError> {
    let line = record.line;
    if rows.reject_long(line, record.raw.len())? {
        return Ok(());
    }
    let Some(text) = rows.utf8(line, record.raw)? else {
        return Ok(());
    };
    if record.flaw == Some(Flaw::BehindQuote) {
        let hint = Some("a quote inside a quoted field is written twice".to_owned());
        return rows.reject(line, "a comma behind the closing quote", "text".to_owned(), hint);
    }
    if record.fields.len() != columns.len() {
        let got = format!("{} fields", record.fields.len());
        let hint = Some("fields with commas or line breaks stand in double quotes".to_owned());
        return rows.reject(line, &format!("{} fields", columns.len()), got, hint);
    }
    let read = rows.read(Some(line), |fields, room| {
        fields.begin(room)?;
        for (field, column) in record.fields.iter().zip(columns) {
            if field.is_absent() {
                fields.push_cell(*column, Cell::Absent, room)?;
            } else {
                fields.push_cell(*column, Cell::Text(&field.text(text)), room)?;
            }
        }
        absent.iter().try_for_each(|column| fields.push_absent(*column))
    })?;
    // Fields that hold JSON tell their faults as misfits, so that a bad row is always noted by now.
    debug_assert!(!matches!(read, Err(super::rows::Rejected::Syntax(_))));
    Ok(())
}
