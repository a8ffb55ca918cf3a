//! JSON: an array of rows, or one row. A value that does not fit is one bad row; text that is no JSON is a bad body,
//! since nobody knows where the next row begins.

use wadi_model::Schema;

use super::column::{Fail, Fields, Misfit, Room};
use super::rows::{Rejected, Rows};
use super::token::{Json, Syntax};
use super::{BodyError, BodyLimits, Decoded, without_bom};

/// How one row of JSON becomes values of columns.
pub(super) trait JsonRow {
    /// Whether `null` in the place of a row is no row.
    const NULL_IS_NO_ROW: bool;

    /// Reads the row that comes next.
    fn read(&mut self, json: &mut Json<'_>, fields: &mut Fields, room: &mut Room) -> Result<(), Fail>;

    /// The row that was read last, which began at this line, is taken.
    fn taken(&mut self, line: u64);
}

/// An object with the row's columns.
pub(super) struct Plain;

impl JsonRow for Plain {
    const NULL_IS_NO_ROW: bool = false;

    fn read(&mut self, json: &mut Json<'_>, fields: &mut Fields, room: &mut Room) -> Result<(), Fail> {
        fields.push_object(json, room)
    }

    fn taken(&mut self, _line: u64) {}
}

/// Reads a JSON body.
pub(super) fn decode(body: &[u8], schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    decode_rows(body, schema, limits, &mut Plain)
}

/// Reads a JSON body whose rows are read by `row`.
pub(super) fn decode_rows<R: JsonRow>(
    body: &[u8],
    schema: &Schema,
    limits: &BodyLimits,
    row: &mut R,
) -> Result<Decoded, BodyError> {
    let bare = without_bom(body);
    let text = std::str::from_utf8(bare).map_err(|error| {
        let at = error.valid_up_to();
        let (line, column) = place(bare, at);
        let byte = bare.get(at).copied().unwrap_or_default();
        BodyError::BadJson { line, column, why: format!("byte 0x{byte:02X} is no UTF-8") }
    })?;
    let bad = |syntax: Syntax| {
        let (line, column) = place(bare, syntax.at);
        BodyError::BadJson { line, column, why: syntax.why.to_owned() }
    };
    let mut rows = Rows::new(schema, limits);
    let mut json = Json::new(text);
    let mut lines = Lines { bytes: bare, at: 0, line: 1 };
    match json.peek() {
        None => return Err(BodyError::Empty { instead: "[]" }),
        Some(b'{') => {
            read_row(&mut rows, row, &mut json, &mut lines, limits, bad)?;
            json.end("several rows are sent as an array, or as application/x-ndjson").map_err(bad)?;
        }
        Some(b'[') => {
            json.need(b'[', "").map_err(bad)?;
            let mut more = !json.take(b']');
            while more {
                read_row(&mut rows, row, &mut json, &mut lines, limits, bad)?;
                more = json.more(b']').map_err(bad)?;
            }
            json.end("nothing more is expected behind the array").map_err(bad)?;
        }
        Some(_) => return Err(bad(json.error("an array of rows or one row is expected"))),
    }
    rows.finish(body.len())
}

fn read_row<R: JsonRow>(
    rows: &mut Rows<'_>,
    row: &mut R,
    json: &mut Json<'_>,
    lines: &mut Lines<'_>,
    limits: &BodyLimits,
    bad: impl Fn(Syntax) -> BodyError,
) -> Result<(), BodyError> {
    let first = json.peek();
    let start = json.at();
    let line = lines.of(start);
    if first != Some(b'{') && !(R::NULL_IS_NO_ROW && first == Some(b'n')) {
        let raw = json.skip().map_err(bad)?;
        let got: String = raw.chars().take(40).collect();
        return rows.reject(line, "an object with the row's columns", got, None);
    }
    let good = rows.good();
    match rows.read(Some(line), |fields, room| {
        row.read(json, fields, room)?;
        let bytes = json.at() - start;
        let long = bytes > limits.max_row_bytes;
        if long { Err(Fail::Value(Box::new(Misfit::too_long(limits.max_row_bytes, bytes)))) } else { Ok(()) }
    })? {
        Ok(()) => {
            if rows.good() > good {
                row.taken(line);
            }
            Ok(())
        }
        Err(Rejected::Value) => {
            json.rewind(start);
            json.skip().map(|_| ()).map_err(bad)
        }
        Err(Rejected::Syntax(syntax)) => Err(bad(syntax)),
    }
}

/// Counts lines on the way through a body.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of a place, which is not before the one asked for last.
    fn of(&mut self, at: usize) -> u64 {
        self.line += memchr::memchr_iter(b'\n', &self.bytes[self.at..at]).count() as u64;
        self.at = at;
        self.line
    }
}

/// Line and character of a byte, both from 1.
fn place(bytes: &[u8], at: usize) -> (u64, u64) {
    let before = &bytes[..at.min(bytes.len())];
    let line = memchr::memchr_iter(b'\n', before).count() + 1;
    let start = memchr::memrchr(b'\n', before).map_or(0, |i| i + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    (line as u64, column as u64)
}
