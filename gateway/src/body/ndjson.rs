//! NDJSON: one object a line. A line that cannot be read is one bad row; the lines behind it are read.

use wadi_model::Schema;

use super::json::{JsonRow, Plain};
use super::rows::{Rejected, Rows, syntax_error};
use super::token::Json;
use super::{BodyError, BodyLimits, Decoded, without_bom};

/// Reads an NDJSON body. Blank lines are no rows.
pub(super) fn decode(body: &[u8], schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    decode_rows(body, schema, limits, &mut Plain)
}

/// Reads an NDJSON body whose rows are read by `row`.
pub(super) fn decode_rows(
    body: &[u8],
    schema: &Schema,
    limits: &BodyLimits,
    row: &mut impl JsonRow,
) -> Result<Decoded, BodyError> {
    let mut rows = Rows::new(schema, limits);
    let mut rest = without_bom(body);
    let mut number = 0;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        number += 1;
        if !line.trim_ascii().is_empty() {
            read_line(&mut rows, row, number, line)?;
        }
    }
    rows.finish(body.len())
}

/// Says the lines of rows, which are asked for in ascending order.
pub(super) fn lines(body: &[u8]) -> impl FnMut(u64) -> Option<u64> {
    let lines = without_bom(body).split(|b| *b == b'\n').zip(1..);
    let mut rows = lines.filter(|(line, _)| !line.trim_ascii().is_empty()).map(|(_, number)| number).zip(0..);
    move |row| rows.find(|(_, at)| *at == row).map(|(number, _)| number)
}

fn read_line(rows: &mut Rows<'_>, row: &mut impl JsonRow, number: u64, line: &[u8]) -> Result<(), BodyError> {
    if rows.reject_long(number, line.len())? {
        return Ok(());
    }
    let Some(text) = rows.utf8(number, line)? else {
        return Ok(());
    };
    let mut json = Json::new(text);
    let good = rows.good();
    let read = rows.read(Some(number), |fields, room| {
        row.read(&mut json, fields, room)?;
        Ok(json.end("a line holds one object; the next one begins on a new line")?)
    })?;
    if rows.good() > good {
        row.taken(number);
    }
    if let Err(Rejected::Syntax(syntax)) = read {
        rows.reject_last(|row| {
            let mut error = syntax_error(row, number, text, syntax);
            if row == 0 && matches!(text.trim(), "{" | "[") || text.trim_start().starts_with('[') {
                error.hint =
                    Some("rows over several lines or in an array are sent as application/json".into());
            }
            error
        });
    }
    Ok(())
}
