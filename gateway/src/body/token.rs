//! A pull parser for JSON text: the caller asks for what it expects next, so that no tree is built.
//!
//! Strings are borrowed from the text unless they have escapes. What is nested is skipped without recursion deeper
//! than [`MAX_NESTING`].

use std::borrow::Cow;

use wadi_model::types::MAX_DEPTH;

#[cfg(test)]
mod tests;

/// How deep values may nest: deep enough for every type, also where maps are written as arrays of entries.
const MAX_NESTING: usize = 2 * MAX_DEPTH + 4;

/// Text that is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Syntax {
    /// The byte of the text at which it is noticed.
    pub at: usize,
    /// What is wrong there.
    pub why: &'static str,
}

/// A place in a JSON text.
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    /// Reads `text` from its start.
    pub(super) fn new(text: &'a str) -> Json<'a> {
        Json { text, at: 0 }
    }

    /// The byte that is read next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Goes back to a place that [`Json::at`] told.
    pub(super) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    /// A syntax error here.
    pub(super) fn error(&self, why: &'static str) -> Syntax {
        let why = if self.at >= self.text.len() { "the text ends here, before the value does" } else { why };
        Syntax { at: self.at, why }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of what comes next, behind white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    /// Takes `symbol` if it comes next.
    pub(super) fn take(&mut self, symbol: u8) -> bool {
        let found = self.peek() == Some(symbol);
        self.at += usize::from(found);
        found
    }

    /// Takes `symbol`, which must come next.
    pub(super) fn need(&mut self, symbol: u8, why: &'static str) -> Result<(), Syntax> {
        if self.take(symbol) { Ok(()) } else { Err(self.error(why)) }
    }

    /// Behind an element: whether another one follows; else `end` has been taken.
    pub(super) fn more(&mut self, end: u8) -> Result<bool, Syntax> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                if self.peek() == Some(end) {
                    return Err(self.error("a comma must not stand before the closing bracket"));
                }
                Ok(true)
            }
            Some(b) if b == end => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.error("a comma or the closing bracket is expected here")),
        }
    }

    /// Nothing but white space follows.
    pub(super) fn end(&mut self, why: &'static str) -> Result<(), Syntax> {
        if self.peek().is_none() { Ok(()) } else { Err(Syntax { at: self.at, why }) }
    }

    /// Takes `true`, `false` or `null`.
    pub(super) fn word(&mut self, word: &str) -> Result<(), Syntax> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(
                self.error("no JSON value begins like this; NaN and Infinity are none either: send null")
            );
        }
        self.at += word.len();
        Ok(())
    }

    /// A number as it is written.
    pub(super) fn number(&mut self) -> Result<&'a str, Syntax> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        match self.byte() {
            Some(b'0') => {
                self.at += 1;
                if self.byte().is_some_and(|b| b.is_ascii_digit()) {
                    return Err(self.error("a number must not begin with a zero"));
                }
            }
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), Syntax> {
        let start = self.at;
        while self.byte().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.error("a digit is expected here")) }
    }

    /// A string, borrowed if it has no escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Syntax> {
        self.need(b'"', "a string in double quotes is expected here")?;
        let start = self.at;
        match self.run()? {
            b'"' => Ok(Cow::Borrowed(&self.text[start..self.at - 1])),
            _ => self.unescape(start).map(Cow::Owned),
        }
    }

    /// Goes behind the next quote or backslash and says which.
    fn run(&mut self) -> Result<u8, Syntax> {
        let rest = &self.text.as_bytes()[self.at..];
        let Some(length) = rest.iter().position(|b| *b < b' ' || *b == b'"' || *b == b'\\') else {
            self.at = self.text.len();
            return Err(self.error(""));
        };
        self.at += length;
        match rest[length] {
            b if b < b' ' => Err(self.error("control characters in strings are written with a backslash")),
            b => {
                self.at += 1;
                Ok(b)
            }
        }
    }

    /// Reads on behind the first backslash of a string that began at `start`.
    fn unescape(&mut self, start: usize) -> Result<String, Syntax> {
        let mut text = String::with_capacity(self.at - start + 16);
        text.push_str(&self.text[start..self.at - 1]);
        loop {
            text.push(self.escape()?);
            let start = self.at;
            let end = self.run()?;
            text.push_str(&self.text[start..self.at - 1]);
            if end == b'"' {
                return Ok(text);
            }
        }
    }

    fn escape(&mut self) -> Result<char, Syntax> {
        let escaped = match self.byte() {
            Some(b @ (b'"' | b'\\' | b'/')) => char::from(b),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.error("no escape is written like this")),
        };
        self.at += 1;
        Ok(escaped)
    }

    fn unicode(&mut self) -> Result<char, Syntax> {
        const LONE: &str = "half of a surrogate pair is no character";
        let start = self.at;
        let lone = Syntax { at: start, why: LONE };
        let first = self.hex()?;
        if !(0xD800..0xDC00).contains(&first) {
            return char::from_u32(first).ok_or(lone);
        }
        if self.byte() != Some(b'\\') {
            return Err(lone);
        }
        self.at += 1;
        if self.byte() != Some(b'u') {
            return Err(lone);
        }
        let second = self.hex()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(lone);
        }
        char::from_u32(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)).ok_or(lone)
    }

    /// The number behind a `u`: four hexadecimal digits.
    fn hex(&mut self) -> Result<u32, Syntax> {
        self.at += 1;
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.byte().and_then(|b| char::from(b).to_digit(16));
            value =
                value * 16 + digit.ok_or_else(|| self.error("four hexadecimal digits are expected here"))?;
            self.at += 1;
        }
        Ok(value)
    }

    /// Goes over one value and gives it as it is written.
    pub(super) fn skip(&mut self) -> Result<&'a str, Syntax> {
        self.peek();
        let start = self.at;
        self.skip_nested(0)?;
        Ok(&self.text[start..self.at])
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), Syntax> {
        if depth > MAX_NESTING {
            return Err(self.error("values nest too deep here"));
        }
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                if self.take(b'}') {
                    return Ok(());
                }
                loop {
                    self.string()?;
                    self.need(b':', "a colon is expected here")?;
                    self.skip_nested(depth + 1)?;
                    if !self.more(b'}')? {
                        return Ok(());
                    }
                }
            }
            Some(b'[') => {
                self.at += 1;
                if self.take(b']') {
                    return Ok(());
                }
                loop {
                    self.skip_nested(depth + 1)?;
                    if !self.more(b']')? {
                        return Ok(());
                    }
                }
            }
            Some(b'"') => self.string().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            _ => self.word("null"),
        }
    }
}
