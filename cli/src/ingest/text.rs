//! Cuts NDJSON and CSV between records.
//!
//! A piece is as many whole records as fit into the piece size, and at least one. Where the cuts are depends on the
//! text and the size alone, not on how the reads came, so that every run makes the same pieces. A CSV record may hold
//! line ends inside quotes; its header is repeated in front of each piece.

use std::collections::VecDeque;
use std::io::Read;

use super::piece::{Content, Piece, Place};
use crate::failure::Failure;

#[cfg(test)]
mod tests;

/// Longest record: the server takes no larger part either.
const MAX_RECORD: usize = 32 << 20;
const READ: usize = 256 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The grammar of record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    Ndjson,
    Csv,
}

/// Cuts a text into pieces. The number of the first is 1.
pub(crate) struct TextPieces<R> {
    kind: TextKind,
    input: Records<R>,
    header: Option<Vec<u8>>,
    number: u64,
    rows: u64,
    lines: u64,
    failed: bool,
}

impl<R: Read> TextPieces<R> {
    /// `size` is of a piece's own records, without the repeated header.
    pub(crate) fn new(kind: TextKind, input: R, size: usize) -> TextPieces<R> {
        let input = Records {
            kind,
            input,
            size: size.max(1),
            buffer: Vec::new(),
            left: u64::MAX,
            later: VecDeque::new(),
            ended: false,
            whole: true,
        };
        TextPieces { kind, input, header: None, number: 0, rows: 0, lines: 0, failed: false }
    }

    /// Ends a piece at each of these positions in the text, which earlier runs took for its end, and the text at the
    /// last one. Nothing given, nothing is changed.
    pub(crate) fn cut_at(mut self, ends: &[u64]) -> TextPieces<R> {
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let mut lengths: VecDeque<u64> =
            ends.iter().zip(begins).map(|(end, begin)| end - begin.min(*end)).collect();
        if let Some(first) = lengths.pop_front() {
            (self.input.left, self.input.later) = (first, lengths);
        }
        self
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, Failure> {
        let mut units = 0;
        if self.number == 0 && self.input.skip_bom()? {
            units += BOM.len() as u64;
        }
        if self.kind == TextKind::Csv && self.header.is_none() {
            let Some(mut header) = self.next_filled(1, &mut units)? else { return Ok(None) };
            self.lines += header.lines;
            if header.text.last() != Some(&b'\n') {
                header.text.push(b'\n');
            }
            self.header = Some(header.text);
        }
        let Some(cut) = self.next_filled(self.input.size, &mut units)? else { return Ok(None) };
        let header = self.header.as_deref().unwrap_or_default();
        let header_lines = header.iter().filter(|b| **b == b'\n').count() as u64;
        let place = Place { rows: self.rows, lines: Some(self.lines), header_lines };
        self.number += 1;
        self.rows += cut.rows;
        self.lines += cut.lines;
        let text = [header, &cut.text].concat();
        Ok(Some(Piece {
            number: self.number,
            place,
            rows: cut.rows,
            raw_bytes: text.len() as u64,
            units,
            content: match self.kind {
                TextKind::Ndjson => Content::Ndjson(text),
                TextKind::Csv => Content::Csv(text),
            },
        }))
    }

    /// The next records, without those that are all blank.
    fn next_filled(&mut self, size: usize, units: &mut u64) -> Result<Option<Cut>, Failure> {
        while let Some(cut) = self.input.next(size)? {
            *units += cut.text.len() as u64;
            if cut.rows > 0 {
                return Ok(Some(cut));
            }
            self.lines += cut.lines;
        }
        Ok(None)
    }
}

impl<R: Read> Iterator for TextPieces<R> {
    type Item = Result<Piece, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let piece = self.next_piece();
        self.failed = piece.is_err();
        piece.transpose()
    }
}

/// Whole records that were cut off.
struct Cut {
    text: Vec<u8>,
    /// Records that are not blank.
    rows: u64,
    /// Line ends, also inside records.
    lines: u64,
}

/// Reads a text and cuts records off its front.
struct Records<R> {
    kind: TextKind,
    input: R,
    size: usize,
    buffer: Vec<u8>,
    /// Bytes to the next end.
    left: u64,
    /// Bytes between later ends.
    later: VecDeque<u64>,
    ended: bool,
    /// Whether what was cut off last ended with its line.
    whole: bool,
}

impl<R: Read> Records<R> {
    /// Cuts off as many records as fit into `size`, at least one; nothing at the end.
    fn next(&mut self, size: usize) -> Result<Option<Cut>, Failure> {
        let mut scan = Scan::new(self.kind);
        loop {
            let found = scan.run(&self.buffer, size);
            if let Some(cut) = found {
                return Ok(Some(self.cut(&cut)));
            }
            if self.ended && !self.buffer.is_empty() {
                let last = scan.at_end(&self.buffer);
                return Ok(Some(self.cut(&last)));
            }
            if self.ended {
                let Some(length) = self.later.pop_front() else { return Ok(None) };
                self.go_on(length)?;
                scan = Scan::new(self.kind);
                continue;
            }
            if self.buffer.len() > MAX_RECORD.max(size) {
                return Err(Failure::new(format!("a record is longer than {} MiB", MAX_RECORD >> 20))
                    .hint("is a quote left open, or is this another format?"));
            }
            self.fill()?;
        }
    }

    /// Goes on behind what an earlier run took for the end.
    fn go_on(&mut self, length: u64) -> Result<(), Failure> {
        (self.left, self.ended) = (length, false);
        if self.whole {
            return Ok(());
        }
        // The last row had no line end then; what follows must begin with it, or the row was sent half.
        while self.buffer.len() < 2 && !self.ended {
            self.fill()?;
        }
        let end = match self.buffer.as_slice() {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [] => 0,
            _ => {
                return Err(Failure::new(
                    "the last row of an earlier run was sent before all of it was in the file",
                )
                .hint("--again sends all rows anew"));
            }
        };
        self.buffer.drain(..end);
        Ok(())
    }

    fn cut(&mut self, ends: &Ends) -> Cut {
        self.whole = self.buffer[..ends.at].last() == Some(&b'\n');
        let rest = self.buffer.split_off(ends.at);
        Cut { text: std::mem::replace(&mut self.buffer, rest), rows: ends.rows, lines: ends.lines }
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let before = self.buffer.len();
        let read = (&mut self.input).take(self.left.min(READ as u64)).read_to_end(&mut self.buffer);
        read.map_err(|e| Failure::new(format!("the input cannot be read: {e}")))?;
        let read = self.buffer.len() - before;
        self.left -= read as u64;
        self.ended = read == 0;
        Ok(())
    }

    /// Drops a byte order mark; it would become part of the first name.
    fn skip_bom(&mut self) -> Result<bool, Failure> {
        while self.buffer.len() < BOM.len() && !self.ended {
            self.fill()?;
        }
        let has = self.buffer.starts_with(BOM);
        if has {
            self.buffer.drain(..BOM.len());
        }
        Ok(has)
    }
}

/// Where records end.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    at: usize,
    rows: u64,
    lines: u64,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The beginning of a field: only here a quote opens.
    Start,
    Plain,
    Quoted,
    /// Behind a quote inside quotes: it closes, or is the first of two.
    Quote,
}

/// Looks for record ends; goes on where it stopped when more bytes have come.
struct Scan {
    kind: TextKind,
    state: State,
    at: usize,
    /// Whether the record that began last has anything but blanks.
    filled: bool,
    lines: u64,
    /// Up to the last record end that fits.
    fit: Ends,
}

impl Scan {
    fn new(kind: TextKind) -> Scan {
        Scan { kind, state: State::Start, at: 0, filled: false, lines: 0, fit: Ends::default() }
    }

    /// The cut, once a record end beyond the size is seen, or at it.
    fn run(&mut self, buffer: &[u8], size: usize) -> Option<Ends> {
        while self.at < buffer.len() {
            let byte = buffer[self.at];
            self.at += 1;
            self.lines += u64::from(byte == b'\n');
            if !self.ends_record(byte) {
                self.filled |= !byte.is_ascii_whitespace();
                // What does not fit any more cannot end within the size.
                if self.at > size && self.fit.at > 0 {
                    return Some(self.fit);
                }
                continue;
            }
            let rows = self.fit.rows + u64::from(self.filled);
            let end = Ends { at: self.at, rows, lines: self.lines };
            self.filled = false;
            if self.at <= size {
                self.fit = end;
            }
            if self.at >= size {
                return Some(if self.fit.at > 0 { self.fit } else { end });
            }
        }
        None
    }

    /// Whether the byte ends a record.
    fn ends_record(&mut self, byte: u8) -> bool {
        if self.kind == TextKind::Ndjson {
            return byte == b'\n';
        }
        let quoted = self.state == State::Quoted;
        self.state = match (self.state, byte) {
            (State::Start, b'"') | (State::Quote, b'"') => State::Quoted,
            (State::Quoted, b'"') => State::Quote,
            (State::Quoted, _) => State::Quoted,
            (_, b',' | b'\n' | b'\r') => State::Start,
            _ => State::Plain,
        };
        byte == b'\n' && !quoted
    }

    /// All that is left, with a last record that has no line end.
    fn at_end(&self, buffer: &[u8]) -> Ends {
        let unended = buffer.last().is_some_and(|b| *b != b'\n');
        Ends {
            at: buffer.len(),
            rows: self.fit.rows + u64::from(self.filled),
            lines: self.lines + u64::from(unended),
        }
    }
}
