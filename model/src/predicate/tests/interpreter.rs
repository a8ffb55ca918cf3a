//! What a filter means, row by row and without kernels: the oracle of the property tests.

use super::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A row: the values of its columns; null is `None`, a column that is not there too.
pub(super) type Row = BTreeMap<String, Option<Value>>;

pub(super) fn interpret(predicate: &Predicate, row: &Row) -> Option<bool> {
    let cell = |column: &String| row.get(column).cloned().flatten();
    match predicate {
        Predicate::And(parts) => {
            let outcomes: Vec<_> = parts.iter().map(|part| interpret(part, row)).collect();
            if outcomes.contains(&F) {
                F
            } else if outcomes.contains(&N) {
                N
            } else {
                T
            }
        }
        Predicate::Or(parts) => {
            let outcomes: Vec<_> = parts.iter().map(|part| interpret(part, row)).collect();
            if outcomes.contains(&T) {
                T
            } else if outcomes.contains(&N) {
                N
            } else {
                F
            }
        }
        Predicate::Not(inner) => interpret(inner, row).map(|outcome| !outcome),
        Predicate::Is { predicate, outcome } => Some(interpret(predicate, row) == *outcome),
        Predicate::Compare { column, op, literal } => {
            Some(holds(*op, order(&cell(column)?, literal.value())))
        }
        Predicate::CompareColumns { left, op, right } => Some(holds(*op, order(&cell(left)?, &cell(right)?))),
        Predicate::In { literals, negated, .. } if literals.is_empty() => Some(*negated),
        Predicate::In { column, literals, negated } => {
            let value = cell(column)?;
            Some(literals.iter().any(|literal| order(&value, literal.value()).is_eq()) != *negated)
        }
        Predicate::IsNull { column, negated } => Some(cell(column).is_none() != *negated),
        Predicate::Like { column, pattern, escape, negated, case_insensitive } => {
            let Value::Utf8(text) = cell(column)? else { panic!("{column} is no string") };
            let fold = |text: &str| {
                if *case_insensitive { text.to_lowercase() } else { text.to_owned() }
            };
            let (text, pattern): (Vec<char>, Vec<char>) =
                (fold(&text).chars().collect(), fold(pattern).chars().collect());
            Some(like(&text, &pattern, escape.unwrap_or('\\')) != *negated)
        }
        Predicate::Column(column) => match cell(column)? {
            Value::Boolean(value) => Some(value),
            other => panic!("{other:?} is no boolean"),
        },
        Predicate::Constant(outcome) => *outcome,
    }
}

fn holds(op: CompareOp, order: Ordering) -> bool {
    match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::NotEq => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::LtEq => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::GtEq => order.is_ge(),
    }
}

fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) if *a == 0.0 && *b == 0.0 => Ordering::Equal,
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => a.cmp(b),
        (Value::Utf8(a), Value::Utf8(b)) => a.cmp(b),
        (Value::Binary(a), Value::Binary(b)) => a.cmp(b),
        _ => panic!("{a:?} against {b:?}"),
    }
}

fn like(text: &[char], pattern: &[char], escape: char) -> bool {
    match pattern {
        [] => text.is_empty(),
        [first, literal, rest @ ..] if *first == escape => {
            text.first() == Some(literal) && like(&text[1..], rest, escape)
        }
        ['%', rest @ ..] => (0..=text.len()).any(|skipped| like(&text[skipped..], rest, escape)),
        ['_', rest @ ..] => !text.is_empty() && like(&text[1..], rest, escape),
        [literal, rest @ ..] => text.first() == Some(literal) && like(&text[1..], rest, escape),
    }
}
