//! The tokens of a filter text, read one after the other.

use super::error::{Position, PredicateError};
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// What stands for the end of the text.
static END: Token = Token::EOF;

/// Words that name no column unless quoted.
pub(super) const RESERVED: [&str; 14] = [
    "AND", "BETWEEN", "CASE", "ESCAPE", "FALSE", "ILIKE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "SELECT",
    "TRUE",
];

pub(super) struct Cursor {
    tokens: Vec<TokenWithSpan>,
    next: usize,
    end: Position,
}

impl Cursor {
    /// Splits a text into tokens, without spaces and comments. The caller has bounded its length.
    pub(super) fn new(text: &str) -> Result<Self, PredicateError> {
        let mut tokens = Vec::new();
        Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens).map_err(
            |error| PredicateError::Syntax { message: error.message, position: position(error.location) },
        )?;
        let end = tokens.last().map_or(Position { line: 1, column: 1 }, |token| position(token.span.end));
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
        Ok(Self { tokens, next: 0, end })
    }

    /// The next token; `Token::EOF` at the end.
    pub(super) fn peek(&self) -> &Token {
        self.peek_nth(0)
    }

    /// The token after `ahead` others.
    pub(super) fn peek_nth(&self, ahead: usize) -> &Token {
        self.tokens.get(self.next + ahead).map_or(&END, |token| &token.token)
    }

    /// Where the next token begins.
    pub(super) fn position(&self) -> Position {
        self.tokens.get(self.next).map_or(self.end, |token| position(token.span.start))
    }

    pub(super) fn advance(&mut self) {
        self.next += 1;
    }

    /// Whether the token after `ahead` others is this word, unquoted, in any case.
    pub(super) fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_nth(ahead), Token::Word(found)
            if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    /// Takes the next token if it is this word.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        if found {
            self.advance();
        }
        found
    }

    /// Takes the next token if it is this one.
    pub(super) fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    /// Takes the next token, which has to be this one.
    pub(super) fn expect(&mut self, token: &Token, meaning: &str) -> Result<(), PredicateError> {
        if self.take(token) { Ok(()) } else { Err(self.expected(meaning)) }
    }

    /// The error that something else was expected here.
    pub(super) fn expected(&self, meaning: &str) -> PredicateError {
        let found = match self.peek() {
            Token::EOF => "the filter ends".to_owned(),
            token => format!("found `{}`", shorten(&token.to_string())),
        };
        PredicateError::Syntax { message: format!("expected {meaning}, {found}"), position: self.position() }
    }
}

/// Errors repeat what the user wrote, but not pages of it.
pub(super) fn shorten(text: &str) -> String {
    const LIMIT: usize = 40;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn position(location: Location) -> Position {
    Position { line: location.line, column: location.column }
}
