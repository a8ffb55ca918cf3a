//! Splits CSV into records and fields.

use std::borrow::Cow;
use std::ops::Range;

use super::super::BodyError;

/// One record.
#[derive(Debug, Default)]
pub(super) struct Record<'a> {
    /// The line on which it begins, from 1.
    pub line: u64,
    /// Its bytes, without the line break.
    pub raw: &'a [u8],
    /// Its fields.
    pub fields: Vec<Field>,
    /// What is wrong with it.
    pub flaw: Option<Flaw>,
}

/// A record that is not well formed but ends somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Text between a closing quote and the next comma.
    BehindQuote,
}

/// A field of a record, as places in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    range: Range<usize>,
    quoted: bool,
    escaped: bool,
}

impl Field {
    /// Whether nothing stands there, not even quotes.
    pub(super) fn is_absent(&self) -> bool {
        self.range.is_empty() && !self.quoted
    }

    /// The field's text in the text of its record.
    pub(super) fn text<'t>(&self, record: &'t str) -> Cow<'t, str> {
        // Fields begin and end beside ASCII bytes, so that the range is one of characters.
        let text = record.get(self.range.clone()).unwrap_or_default();
        if self.escaped { text.replace("\"\"", "\"").into() } else { text.into() }
    }
}

/// A reader of records.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
    /// Whether empty lines are records of one empty field.
    pub keep_blank: bool,
}

impl<'a> Records<'a> {
    /// Reads `bytes` from their start.
    pub(super) fn new(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, at: 0, line: 1, keep_blank: false }
    }

    /// Reads the next record into `record`; false at the end.
    pub(super) fn next(&mut self, record: &mut Record<'a>) -> Result<bool, BodyError> {
        while self.at < self.bytes.len() {
            self.read(record)?;
            if self.keep_blank || !record.raw.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn read(&mut self, record: &mut Record<'a>) -> Result<(), BodyError> {
        let start = self.at;
        record.fields.clear();
        record.flaw = None;
        record.line = self.line;
        loop {
            let field = match self.bytes.get(self.at) {
                Some(b'"') => self.quoted(start, record)?,
                _ => self.plain(start),
            };
            record.fields.push(field);
            match self.bytes.get(self.at) {
                Some(b',') => self.at += 1,
                _ => break,
            }
        }
        // Here stands a line break or the end.
        let mut end = self.at;
        if self.bytes[start..end].last() == Some(&b'\r') {
            end -= 1;
            if let Some(last) = record.fields.last_mut().filter(|f| !f.quoted) {
                last.range.end = last.range.end.min(end - start);
                last.range.start = last.range.start.min(last.range.end);
            }
        }
        record.raw = &self.bytes[start..end];
        self.line += u64::from(self.at < self.bytes.len());
        self.at += 1;
        Ok(())
    }

    /// The bytes up to the next comma or line break.
    fn plain(&mut self, start: usize) -> Field {
        let rest = &self.bytes[self.at..];
        let length = memchr::memchr2(b',', b'\n', rest).unwrap_or(rest.len());
        let range = self.at - start..self.at + length - start;
        self.at += length;
        Field { range, quoted: false, escaped: false }
    }

    /// The bytes between two quotes, which may hold commas and line breaks.
    fn quoted(&mut self, start: usize, record: &mut Record<'a>) -> Result<Field, BodyError> {
        let opened = self.line;
        let open = self.at + 1;
        let mut escaped = false;
        let mut from = open;
        let close = loop {
            let Some(length) = memchr::memchr(b'"', self.bytes.get(from..).unwrap_or_default()) else {
                let why = "a quote is opened here and never closed".to_owned();
                return Err(BodyError::BadCsv { line: opened, why });
            };
            if self.bytes.get(from + length + 1) != Some(&b'"') {
                break from + length;
            }
            escaped = true;
            from += length + 2;
        };
        self.line += memchr::memchr_iter(b'\n', &self.bytes[open..close]).count() as u64;
        self.at = close + 1;
        let behind = self.plain(start).range;
        let behind = &self.bytes[start + behind.start..start + behind.end];
        let at_line_end = self.bytes.get(self.at) != Some(&b',');
        if !(behind.is_empty() || behind == b"\r" && at_line_end) {
            record.flaw = Some(Flaw::BehindQuote);
        }
        Ok(Field { range: open - start..close - start, quoted: true, escaped })
    }
}
