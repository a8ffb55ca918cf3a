//! `column [NOT] IN (…)` and `column [NOT] LIKE pattern`.

use super::operand::{Kind, Operand};
use super::{Bound, Field, Parser, Predicate, PredicateError, Raw, Token, mismatch};
use crate::predicate::like::to_arrow_pattern;
use arrow::array::{Scalar, StringArray};
use arrow::compute::ilike;
use arrow::datatypes::DataType;

impl<'a> Parser<'a> {
    pub(super) fn in_list(&mut self, left: Operand<'a>, negated: bool) -> Result<Predicate, PredicateError> {
        let field = self.column(left, "IN")?;
        self.cursor.expect(&Token::LParen, "`(` and a list of literals")?;
        self.count(self.cursor.position())?;
        let (mut literals, mut nulls, mut folded) = (Vec::new(), false, false);
        while self.cursor.peek() != &Token::RParen {
            let operand = self.operand()?;
            self.count(operand.position)?;
            let Kind::Literal(raw) = &operand.kind else {
                let what = "anything but a literal in an IN list".into();
                return Err(PredicateError::Unsupported { what, position: operand.position });
            };
            match self.bind(field, raw, operand.position)? {
                Some(Bound::At(literal)) => literals.push(literal),
                // It lies between or beyond the values of the column, so it is equal to none.
                Some(_) => folded = true,
                None => nulls = true,
            }
            if !self.cursor.take(&Token::Comma) {
                break;
            }
        }
        self.cursor.expect(&Token::RParen, "`,` or `)`")?;
        let column = field.name().clone();
        Ok(match (literals.is_empty(), nulls, folded) {
            (true, true, _) => Predicate::Constant(None),
            (true, false, true) => Predicate::unless_null(&column, negated),
            (_, false, _) => Predicate::In { column, literals, negated },
            // The value may be equal to the null in the list: no miss is certain.
            (false, true, _) => {
                let parts = vec![Predicate::In { column, literals, negated }, Predicate::Constant(None)];
                if negated { Predicate::And(parts) } else { Predicate::Or(parts) }
            }
        })
    }

    pub(super) fn like(
        &mut self,
        left: Operand<'a>,
        negated: bool,
        case_insensitive: bool,
    ) -> Result<Predicate, PredicateError> {
        let position = left.position;
        let field = self.column(left, "LIKE")?;
        if field.data_type() != &DataType::Utf8 {
            return Err(mismatch(field, "LIKE".into(), position, "use LIKE with string columns"));
        }
        self.count(position)?;
        let pattern_position = self.cursor.position();
        let pattern = match self.operand()?.kind {
            Kind::Literal(Raw::Text(pattern)) => Some(pattern),
            Kind::Literal(Raw::Null) => None,
            _ => {
                return Err(mismatch(
                    field,
                    "LIKE".into(),
                    pattern_position,
                    "write the pattern in single quotes",
                ));
            }
        };
        let escape = if self.cursor.take_word("ESCAPE") { Some(self.escape()?) } else { None };
        let Some(pattern) = pattern else {
            return Ok(Predicate::Constant(None));
        };
        check_pattern(&pattern, escape)
            .map_err(|message| PredicateError::Syntax { message, position: pattern_position })?;
        Ok(Predicate::Like { column: field.name().clone(), pattern, escape, negated, case_insensitive })
    }

    fn escape(&mut self) -> Result<char, PredicateError> {
        if let Token::SingleQuotedString(text) = self.cursor.peek() {
            let mut chars = text.chars();
            if let (Some(escape), None) = (chars.next(), chars.next()) {
                self.cursor.advance();
                return Ok(escape);
            }
        }
        Err(self.cursor.expected("one character in single quotes after ESCAPE"))
    }

    fn column(&self, operand: Operand<'a>, operator: &str) -> Result<&'a Field, PredicateError> {
        match operand.kind {
            Kind::Column(field) => Ok(field),
            _ => Err(PredicateError::Unsupported {
                what: format!("{operator} on anything but a column"),
                position: operand.position,
            }),
        }
    }
}

/// Tries the pattern, so that one that the kernels cannot compile is refused here and not while reading.
fn check_pattern(pattern: &str, escape: Option<char>) -> Result<(), String> {
    let pattern = to_arrow_pattern(pattern, escape)?;
    let value = StringArray::from_iter_values(["é"]);
    ilike(&value, &Scalar::new(StringArray::from_iter_values([pattern])))
        .map(|_| ())
        .map_err(|_| "the LIKE pattern is too complex".to_owned())
}
