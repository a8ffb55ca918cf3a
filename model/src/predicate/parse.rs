//! From text to a predicate that is typed by a schema.
//!
//! The text is split by sqlparser's tokenizer. The grammar above it is our own: sqlparser's expression parser
//! bounds its recursion but not the depth of the tree it returns (`a AND a AND …` leans to the left), and dropping
//! such a tree overflows a small stack. Here a chain is one list, depth and size are counted while reading, and
//! each fault has its place.

use super::ast::{CompareOp, Predicate};
use super::bind::{self, Bound, Raw};
use super::cursor::{Cursor, shorten};
use super::error::{Position, PredicateError};
use super::resolve::resolve;
use super::types::{common_type, sql_name};
use arrow::datatypes::{DataType, Field, Schema};
use sqlparser::tokenizer::Token;

mod membership;
mod operand;

use operand::{Kind, Operand};

/// Longest filter text in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Deepest nesting of parentheses and NOTs.
const MAX_DEPTH: usize = 64;
/// Most comparisons, constants and list values.
const MAX_NODES: usize = 10_000;

impl Predicate {
    /// Reads a filter on rows of `schema`.
    ///
    /// At most 64 KiB, 64 levels of parentheses and NOTs, and 10,000 comparisons and list values. A column name
    /// is looked up exactly first, then without regard to case if only one column fits. Literals become values of
    /// the column's type without loss: where none is equal, the comparison is changed to what it means
    /// (`int_column < 1.5` to `int_column <= 1`). Only float columns round.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, PredicateError> {
        if text.len() > MAX_BYTES {
            return Err(PredicateError::TooLong { bytes: text.len(), limit: MAX_BYTES });
        }
        let mut parser = Parser { cursor: Cursor::new(text)?, schema, depth: 0, nodes: 0 };
        let start = parser.cursor.position();
        let operand = parser.or()?;
        let predicate = parser.truth(operand)?;
        if parser.cursor.peek() != &Token::EOF {
            return Err(parser.unexpected());
        }
        // BETWEEN and folded comparisons print deeper than they were written.
        if predicate.printed_depth() > MAX_DEPTH {
            return Err(PredicateError::TooDeep { limit: MAX_DEPTH, position: start });
        }
        Ok(predicate)
    }
}

struct Parser<'a> {
    cursor: Cursor,
    schema: &'a Schema,
    depth: usize,
    nodes: usize,
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Result<Operand<'a>, PredicateError> {
        self.chain("OR", Self::and, Predicate::or)
    }

    fn and(&mut self) -> Result<Operand<'a>, PredicateError> {
        self.chain("AND", Self::not, Predicate::and)
    }

    /// `part (word part)*` as one list; a part alone stays what it is.
    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Operand<'a>, PredicateError>,
        join: fn(Vec<Predicate>) -> Predicate,
    ) -> Result<Operand<'a>, PredicateError> {
        let first = part(self)?;
        if !self.cursor.is_word(0, word) {
            return Ok(first);
        }
        let position = first.position;
        let mut parts = vec![self.truth(first)?];
        while self.cursor.take_word(word) {
            let next = part(self)?;
            parts.push(self.truth(next)?);
        }
        Ok(Operand { position, kind: Kind::Predicate(join(parts)) })
    }

    fn not(&mut self) -> Result<Operand<'a>, PredicateError> {
        let position = self.cursor.position();
        if !self.cursor.take_word("NOT") {
            return self.is();
        }
        self.descend()?;
        let inner = self.not()?;
        self.depth -= 1;
        let inner = self.truth(inner)?;
        Ok(Operand { position, kind: Kind::Predicate(Predicate::Not(Box::new(inner))) })
    }

    /// Counts a level of nesting; the caller leaves it again.
    fn descend(&mut self) -> Result<(), PredicateError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(PredicateError::TooDeep { limit: MAX_DEPTH, position: self.cursor.position() });
        }
        Ok(())
    }

    fn count(&mut self, position: Position) -> Result<(), PredicateError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(PredicateError::TooManyNodes { limit: MAX_NODES, position });
        }
        Ok(())
    }

    fn is(&mut self) -> Result<Operand<'a>, PredicateError> {
        let operand = self.comparison()?;
        if !self.cursor.take_word("IS") {
            return Ok(operand);
        }
        let negated = self.cursor.take_word("NOT");
        let outcome = [("NULL", None), ("UNKNOWN", None), ("TRUE", Some(true)), ("FALSE", Some(false))]
            .into_iter()
            .find(|(word, _)| self.cursor.is_word(0, word));
        let Some((word, outcome)) = outcome else {
            return Err(self.cursor.expected("NULL, TRUE, FALSE or UNKNOWN"));
        };
        self.cursor.advance();
        self.count(operand.position)?;
        let position = operand.position;
        let predicate = match operand.kind {
            Kind::Column(field) if word == "NULL" => {
                Predicate::IsNull { column: field.name().clone(), negated }
            }
            kind => {
                let predicate = Box::new(self.truth(Operand { position, kind })?);
                let is = Predicate::Is { predicate, outcome };
                if negated { Predicate::Not(Box::new(is)) } else { is }
            }
        };
        Ok(Operand { position, kind: Kind::Predicate(predicate) })
    }

    fn comparison(&mut self) -> Result<Operand<'a>, PredicateError> {
        let left = self.operand()?;
        let op = match self.cursor.peek() {
            Token::Eq => Some(CompareOp::Eq),
            Token::Neq => Some(CompareOp::NotEq),
            Token::Lt => Some(CompareOp::Lt),
            Token::LtEq => Some(CompareOp::LtEq),
            Token::Gt => Some(CompareOp::Gt),
            Token::GtEq => Some(CompareOp::GtEq),
            _ => None,
        };
        let position = left.position;
        let predicate = match op {
            Some(op) => {
                self.cursor.advance();
                let right = self.operand()?;
                self.compare(&left, op, &right)?
            }
            None => {
                let negated = self.cursor.is_word(0, "NOT");
                let operator = ["BETWEEN", "IN", "LIKE", "ILIKE"]
                    .into_iter()
                    .find(|word| self.cursor.is_word(usize::from(negated), word));
                let Some(operator) = operator else { return Ok(left) };
                (0..=usize::from(negated)).for_each(|_| self.cursor.advance());
                match operator {
                    "BETWEEN" => self.between(&left, negated)?,
                    "IN" => self.in_list(left, negated)?,
                    _ => self.like(left, negated, operator == "ILIKE")?,
                }
            }
        };
        Ok(Operand { position, kind: Kind::Predicate(predicate) })
    }

    fn between(&mut self, value: &Operand<'a>, negated: bool) -> Result<Predicate, PredicateError> {
        let low = self.operand()?;
        if !self.cursor.take_word("AND") {
            return Err(self.cursor.expected("AND and the upper end of BETWEEN"));
        }
        let high = self.operand()?;
        let parts =
            vec![self.compare(value, CompareOp::GtEq, &low)?, self.compare(value, CompareOp::LtEq, &high)?];
        let between = Predicate::And(parts);
        Ok(if negated { Predicate::Not(Box::new(between)) } else { between })
    }

    fn compare(
        &mut self,
        left: &Operand<'a>,
        op: CompareOp,
        right: &Operand<'a>,
    ) -> Result<Predicate, PredicateError> {
        self.count(left.position)?;
        match (&left.kind, &right.kind) {
            (Kind::Column(field), Kind::Literal(raw)) => self.compare_literal(field, op, raw, right.position),
            (Kind::Literal(raw), Kind::Column(field)) => {
                self.compare_literal(field, op.flip(), raw, left.position)
            }
            (Kind::Column(a), Kind::Column(b)) => match common_type(a.data_type(), b.data_type()) {
                Some(_) => {
                    Ok(Predicate::CompareColumns { left: a.name().clone(), op, right: b.name().clone() })
                }
                None => Err(mismatch(
                    a,
                    format!("column `{}` of type {}", b.name(), sql_name(b.data_type())),
                    right.position,
                    "compare columns of one type",
                )),
            },
            (Kind::Literal(_), Kind::Literal(_)) => Err(PredicateError::Unsupported {
                what: "a comparison of two literals".into(),
                position: left.position,
            }),
            _ => Err(PredicateError::Unsupported {
                what: "a comparison of a predicate (use IS TRUE or IS FALSE)".into(),
                position: left.position,
            }),
        }
    }

    fn compare_literal(
        &self,
        field: &Field,
        op: CompareOp,
        raw: &Raw,
        position: Position,
    ) -> Result<Predicate, PredicateError> {
        match self.bind(field, raw, position)? {
            Some(bound) => Ok(bind::compare(field.name(), op, bound)),
            None => Ok(Predicate::Constant(None)),
        }
    }

    /// `None` for NULL, with which no comparison has an outcome.
    fn bind(&self, field: &Field, raw: &Raw, position: Position) -> Result<Option<Bound>, PredicateError> {
        if raw == &Raw::Null {
            return Ok(None);
        }
        bind::bind(raw, field.data_type())
            .map(Some)
            .map_err(|fix| mismatch(field, raw.describe(), position, &fix))
    }

    /// The operand as a predicate: itself, a boolean column, or TRUE, FALSE, NULL.
    fn truth(&mut self, operand: Operand<'a>) -> Result<Predicate, PredicateError> {
        match operand.kind {
            Kind::Predicate(predicate) => Ok(predicate),
            Kind::Column(field) if field.data_type() == &DataType::Boolean => {
                self.count(operand.position)?;
                Ok(Predicate::Column(field.name().clone()))
            }
            Kind::Column(field) => {
                // An operator we do not know explains more than the type of what stands before it.
                if !matches!(self.cursor.peek(), Token::EOF | Token::RParen | Token::Word(_)) {
                    return Err(self.unexpected());
                }
                Err(mismatch(field, "no operator".into(), operand.position, "compare it with a literal"))
            }
            Kind::Literal(Raw::Boolean(value)) => {
                self.count(operand.position)?;
                Ok(Predicate::Constant(Some(value)))
            }
            Kind::Literal(Raw::Null) => {
                self.count(operand.position)?;
                Ok(Predicate::Constant(None))
            }
            Kind::Literal(raw) => Err(PredicateError::Syntax {
                message: format!("{} is not a condition; compare a column with it", raw.describe()),
                position: operand.position,
            }),
        }
    }

    /// The error for a token that no rule of the grammar takes.
    fn unexpected(&self) -> PredicateError {
        let what = match self.cursor.peek() {
            Token::EOF | Token::RParen | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_) => {
                return self.cursor.expected("AND, OR, an operator or the end");
            }
            Token::DoubleColon => "a cast".to_owned(),
            token => format!("`{}`", shorten(&token.to_string())),
        };
        PredicateError::Unsupported { what, position: self.cursor.position() }
    }
}

fn mismatch(field: &Field, operand: String, position: Position, fix: &str) -> PredicateError {
    PredicateError::TypeMismatch {
        column: field.name().clone(),
        column_type: sql_name(field.data_type()),
        operand,
        position,
        fix: fix.to_owned(),
    }
}
