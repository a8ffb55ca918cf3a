//! The rows of a text body as they are read: the good ones grow the columns, the bad ones are noted.

use wadi_model::Schema;
use wadi_model::ipc::Originals;
use wadi_model::reject::{Rejects, RowError, preview};

use super::column::{Fail, Fields, Misfit, Room};
use super::token::Syntax;
use super::{BodyError, BodyLimits, Decoded};

/// A reader of rows.
pub(super) struct Rows<'a> {
    schema: &'a Schema,
    limits: &'a BodyLimits,
    fields: Fields,
    room: Room,
    good: usize,
    rows: u64,
    rejects: Rejects,
}

impl<'a> Rows<'a> {
    /// No row yet.
    pub(super) fn new(schema: &'a Schema, limits: &'a BodyLimits) -> Rows<'a> {
        Rows {
            schema,
            limits,
            fields: Fields::of(schema),
            room: Room::new(limits.max_batch_bytes),
            good: 0,
            rows: 0,
            rejects: Rejects::default(),
        }
    }

    /// Reads one row with `read`; if it does not fit, nothing of it stays and `at` tells its line.
    /// Gives back a syntax error for the caller to judge.
    pub(super) fn read(
        &mut self,
        line: Option<u64>,
        read: impl FnOnce(&mut Fields, &mut Room) -> Result<(), Fail>,
    ) -> Result<Result<(), Rejected>, BodyError> {
        if self.rows >= self.limits.max_rows {
            return Err(BodyError::TooManyRows { limit: self.limits.max_rows });
        }
        let row = self.rows;
        self.rows += 1;
        let fail = match read(&mut self.fields, &mut self.room) {
            Ok(()) => {
                self.good += 1;
                return Ok(Ok(()));
            }
            Err(fail) => fail,
        };
        self.fields.truncate(self.good);
        match fail {
            Fail::Value(misfit) => {
                self.rejects.add(row, || misfit.at(row, line));
                Ok(Err(Rejected::Value))
            }
            Fail::Syntax(syntax) => Ok(Err(Rejected::Syntax(syntax))),
            Fail::NoRow => {
                self.rows -= 1;
                Ok(Ok(()))
            }
            // Columns name the place of every misfit; one without a place would be a bug, and is told as one.
            Fail::Unfit(unfit) => Err(BodyError::Internal { why: format!("row {row}: {unfit:?}") }),
            Fail::NoRoom => Err(BodyError::BatchTooLarge { limit: self.limits.max_batch_bytes }),
        }
    }

    /// How many rows were taken so far.
    pub(super) fn good(&self) -> usize {
        self.good
    }

    /// Rejects the row that was read last.
    pub(super) fn reject_last(&mut self, error: impl FnOnce(u64) -> RowError) {
        let row = self.rows - 1;
        self.rejects.add(row, || error(row));
    }

    /// Rejects a row that cannot even be looked at.
    pub(super) fn reject(
        &mut self,
        line: u64,
        expected: &str,
        got: String,
        hint: Option<String>,
    ) -> Result<(), BodyError> {
        if self.rows >= self.limits.max_rows {
            return Err(BodyError::TooManyRows { limit: self.limits.max_rows });
        }
        let row = self.rows;
        self.rows += 1;
        let expected = expected.to_owned();
        self.rejects.add(row, || RowError { row, line: Some(line), column: None, expected, got, hint });
        Ok(())
    }

    /// Rejects a row that is too long; whether it was.
    pub(super) fn reject_long(&mut self, line: u64, bytes: usize) -> Result<bool, BodyError> {
        let limit = self.limits.max_row_bytes;
        if bytes <= limit {
            return Ok(false);
        }
        let misfit = Box::new(Misfit::too_long(limit, bytes));
        self.read(Some(line), |_, _| Err(Fail::Value(misfit))).map(|_| true)
    }

    /// The row as text, or its rejection.
    pub(super) fn utf8<'t>(&mut self, line: u64, bytes: &'t [u8]) -> Result<Option<&'t str>, BodyError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(error) => {
                let at = error.valid_up_to();
                let byte = bytes.get(at).copied().unwrap_or_default();
                let got = format!("byte 0x{byte:02X} at byte {} of the row", at + 1);
                self.reject(line, "text in UTF-8", got, Some("send the text as UTF-8".to_owned()))?;
                Ok(None)
            }
        }
    }

    /// All rows.
    pub(super) fn finish(self, raw_bytes: usize) -> Result<Decoded, BodyError> {
        let batch = self.fields.finish(self.schema, self.good)?;
        let (raw_bytes, originals) = (raw_bytes as u64, Originals::default());
        Ok(Decoded { batch, originals, rejects: self.rejects, rows: self.rows, raw_bytes })
    }
}

/// Why a row was not taken.
pub(super) enum Rejected {
    /// A value does not fit; it is noted.
    Value,
    /// The text is no JSON; nothing is noted yet.
    Syntax(Syntax),
}

/// The fault of a row whose text is no JSON.
pub(super) fn syntax_error(row: u64, line: u64, text: &str, syntax: Syntax) -> RowError {
    let seen = text.get(..syntax.at).map_or(syntax.at, |before| before.chars().count());
    let rest: String = text.get(syntax.at..).unwrap_or_default().chars().take(20).collect();
    let rest = if rest.is_empty() { "the end of the row".to_owned() } else { preview(&rest) };
    RowError {
        row,
        line: Some(line),
        column: None,
        expected: "a JSON object".to_owned(),
        got: format!("{rest} at character {}", seen + 1),
        hint: Some(syntax.why.to_owned()),
    }
}
