//! Columns, literals and parentheses: the leaves of the grammar.

use super::{Parser, Position, Predicate, PredicateError, Raw, resolve, shorten};
use crate::predicate::cursor::RESERVED;
use arrow::datatypes::Field;
use sqlparser::tokenizer::{Token, Word};

/// What stands on one side of an operator.
pub(super) struct Operand<'a> {
    pub(super) position: Position,
    pub(super) kind: Kind<'a>,
}

pub(super) enum Kind<'a> {
    Column(&'a Field),
    Literal(Raw),
    Predicate(Predicate),
}

impl<'a> Parser<'a> {
    pub(super) fn operand(&mut self) -> Result<Operand<'a>, PredicateError> {
        let position = self.cursor.position();
        let kind = match self.cursor.peek().clone() {
            Token::LParen => return self.parenthesis(),
            Token::Minus | Token::Plus => self.signed()?,
            Token::Number(text, _) => self.literal(Raw::Number { text, negative: false }),
            Token::SingleQuotedString(text) => self.literal(Raw::Text(text)),
            Token::HexStringLiteral(digits) => {
                let bytes = decode_hex(&digits).ok_or_else(|| {
                    let message = "a binary literal needs an even number of hexadecimal digits".into();
                    PredicateError::Syntax { message, position }
                })?;
                self.literal(Raw::Hex(bytes))
            }
            Token::Word(word) => self.word(&word)?,
            _ => return Err(self.no_operand()),
        };
        self.refuse_continuation()?;
        Ok(Operand { position, kind })
    }

    fn literal(&mut self, raw: Raw) -> Kind<'a> {
        self.cursor.advance();
        Kind::Literal(raw)
    }

    fn parenthesis(&mut self) -> Result<Operand<'a>, PredicateError> {
        self.descend()?;
        self.cursor.advance();
        if self.cursor.is_word(0, "SELECT") {
            return Err(self.unsupported("a subquery"));
        }
        let inner = self.or()?;
        if self.cursor.peek() == &Token::Comma {
            return Err(self.unsupported("a list outside of IN"));
        }
        self.cursor.expect(&Token::RParen, "`)`")?;
        self.depth -= 1;
        Ok(inner)
    }

    fn signed(&mut self) -> Result<Kind<'a>, PredicateError> {
        let negative = self.cursor.take(&Token::Minus);
        if !negative {
            self.cursor.advance();
        }
        match self.cursor.peek().clone() {
            Token::Number(text, _) => Ok(self.literal(Raw::Number { text, negative })),
            _ => Err(self.cursor.expected("a number after the sign")),
        }
    }

    fn word(&mut self, word: &Word) -> Result<Kind<'a>, PredicateError> {
        if word.quote_style.is_none()
            && let Some(kind) = self.keyword(word)?
        {
            return Ok(kind);
        }
        let position = self.cursor.position();
        self.cursor.advance();
        match self.cursor.peek() {
            Token::LParen => {
                let what = format!("the function `{}`", shorten(&word.value));
                return Err(PredicateError::Unsupported { what, position });
            }
            Token::Period => {
                let what = "a qualified name or nested field (quote a name that has a dot)".into();
                return Err(PredicateError::Unsupported { what, position });
            }
            _ => {}
        }
        resolve(&word.value, self.schema, position).map(Kind::Column)
    }

    /// Literals that begin with a word, and words that no column may be.
    fn keyword(&mut self, word: &Word) -> Result<Option<Kind<'a>>, PredicateError> {
        let upper = word.value.to_ascii_uppercase();
        let raw = match upper.as_str() {
            "TRUE" => Some(Raw::Boolean(true)),
            "FALSE" => Some(Raw::Boolean(false)),
            "NULL" => Some(Raw::Null),
            "EXISTS" if self.cursor.peek_nth(1) == &Token::LParen => {
                return Err(self.unsupported("a subquery"));
            }
            "CAST" | "TRY_CAST" if self.cursor.peek_nth(1) == &Token::LParen => {
                return Err(self.unsupported("a cast"));
            }
            reserved if RESERVED.contains(&reserved) => return Err(self.no_operand()),
            _ => None,
        };
        if let Some(raw) = raw {
            return Ok(Some(self.literal(raw)));
        }
        let Token::SingleQuotedString(text) = self.cursor.peek_nth(1) else {
            return Ok(None);
        };
        let raw = match upper.as_str() {
            "DATE" => Raw::Date(text.clone()),
            "TIMESTAMP" => Raw::Timestamp(text.clone()),
            _ => return Ok(None),
        };
        self.cursor.advance();
        Ok(Some(self.literal(raw)))
    }

    /// Arithmetic and casts go on after an operand; better to name them than to miss an AND.
    fn refuse_continuation(&self) -> Result<(), PredicateError> {
        match self.cursor.peek() {
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => {
                Err(self.unsupported("arithmetic"))
            }
            Token::DoubleColon => Err(self.unsupported("a cast")),
            _ => Ok(()),
        }
    }

    fn no_operand(&self) -> PredicateError {
        match self.cursor.peek() {
            Token::Placeholder(_) => self.unsupported("a parameter"),
            Token::Word(word) if word.value.eq_ignore_ascii_case("CASE") => self.unsupported("CASE"),
            Token::Word(word) if word.value.eq_ignore_ascii_case("SELECT") => self.unsupported("a subquery"),
            _ => self.cursor.expected("a column, a literal or `(`"),
        }
    }

    fn unsupported(&self, what: &str) -> PredicateError {
        PredicateError::Unsupported { what: what.to_owned(), position: self.cursor.position() }
    }
}

fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect()
}
