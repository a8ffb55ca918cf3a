//! Predicates and literals as SQL text that parses back to the same value.

use super::ast::Predicate;
use super::cursor::RESERVED;
use super::literal::{Literal, Value};
use super::time;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(parts) => write_joined(f, parts, " AND ", "TRUE"),
            Self::Or(parts) => write_joined(f, parts, " OR ", "FALSE"),
            Self::Not(inner) => {
                f.write_str("NOT ")?;
                write_part(f, inner)
            }
            Self::Is { predicate, outcome } => {
                match predicate.as_ref() {
                    bare @ (Self::Column(_) | Self::Constant(_)) => write!(f, "{bare}")?,
                    other => write!(f, "({other})")?,
                }
                write!(f, " IS {}", outcome.map_or("UNKNOWN", truth))
            }
            Self::Compare { column, op, literal } => {
                write!(f, "{} {} {literal}", Identifier(column), op.sql())
            }
            Self::CompareColumns { left, op, right } => {
                write!(f, "{} {} {}", Identifier(left), op.sql(), Identifier(right))
            }
            Self::In { column, literals, negated } => {
                write!(f, "{}{} IN (", Identifier(column), not(*negated))?;
                for (index, literal) in literals.iter().enumerate() {
                    write!(f, "{}{literal}", if index == 0 { "" } else { ", " })?;
                }
                f.write_char(')')
            }
            Self::IsNull { column, negated } => write!(f, "{} IS{} NULL", Identifier(column), not(*negated)),
            Self::Like { column, pattern, escape, negated, case_insensitive } => {
                let operator = if *case_insensitive { "ILIKE" } else { "LIKE" };
                write!(f, "{}{} {operator} {}", Identifier(column), not(*negated), Quoted(pattern))?;
                match escape {
                    Some(escape) => write!(f, " ESCAPE {}", Quoted(escape.encode_utf8(&mut [0; 4]))),
                    None => Ok(()),
                }
            }
            Self::Column(column) => write!(f, "{}", Identifier(column)),
            Self::Constant(outcome) => f.write_str(outcome.map_or("NULL", truth)),
        }
    }
}

fn write_joined(f: &mut Formatter<'_>, parts: &[Predicate], separator: &str, empty: &str) -> fmt::Result {
    if parts.is_empty() {
        return f.write_str(empty);
    }
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write_part(f, part)?;
    }
    Ok(())
}

fn write_part(f: &mut Formatter<'_>, part: &Predicate) -> fmt::Result {
    if part.prints_bare() { write!(f, "{part}") } else { write!(f, "({part})") }
}

fn not(negated: bool) -> &'static str {
    if negated { " NOT" } else { "" }
}

fn truth(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

/// A column name, in double quotes where it could be read as something else.
struct Identifier<'a>(&'a str);

impl Display for Identifier<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = self.0;
        let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !RESERVED.iter().any(|word| name.eq_ignore_ascii_case(word));
        if plain { f.write_str(name) } else { write!(f, "\"{}\"", name.replace('"', "\"\"")) }
    }
}

struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.value(), self.data_type()) {
            (Value::Boolean(value), _) => f.write_str(truth(*value)),
            (Value::Int(value), data_type) if data_type.is_integer() => write!(f, "{value}"),
            (Value::Int(value), data_type) => write!(f, "'{}'", time::format(*value, data_type)),
            (Value::Float(value), _) if value.is_nan() => {
                f.write_str(if value.is_sign_negative() { "'-NaN'" } else { "'NaN'" })
            }
            (Value::Float(value), _) if value.is_infinite() => {
                f.write_str(if *value < 0.0 { "'-Infinity'" } else { "'Infinity'" })
            }
            (Value::Float(value), DataType::Float32) => write!(f, "{:?}", *value as f32),
            (Value::Float(value), _) => write!(f, "{value:?}"),
            (Value::Decimal(value), DataType::Decimal128(precision, scale)) => {
                f.write_str(&Decimal128Type::format_decimal(*value, *precision, *scale))
            }
            (Value::Decimal(value), _) => write!(f, "{value}"),
            (Value::Utf8(value), _) => write!(f, "{}", Quoted(value)),
            (Value::Binary(value), _) => {
                f.write_str("X'")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02X}"))?;
                f.write_char('\'')
            }
        }
    }
}
