//! The filter tree and what can be asked of it without rows.

use super::Literal;
use std::collections::BTreeSet;

/// An order relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

impl CompareOp {
    /// The relation with its sides exchanged: `a < b` is `b > a`.
    pub fn flip(self) -> Self {
        match self {
            Self::Eq | Self::NotEq => self,
            Self::Lt => Self::Gt,
            Self::LtEq => Self::GtEq,
            Self::Gt => Self::Lt,
            Self::GtEq => Self::LtEq,
        }
    }

    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
        }
    }
}

/// A filter on rows with three outcomes: true, false and null.
///
/// `Display` writes it as SQL that parses back to an equal predicate, if `And` and `Or` have two parts or more
/// ([`Predicate::and`] and [`Predicate::or`] see to that).
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// All parts are true. Empty is true.
    And(Vec<Predicate>),
    /// One part is true. Empty is false.
    Or(Vec<Predicate>),
    /// True and false exchanged; null stays null.
    Not(Box<Predicate>),
    /// `predicate IS TRUE | FALSE | UNKNOWN`: whether the outcome is this one; itself never null.
    Is {
        /// What is asked.
        predicate: Box<Predicate>,
        /// The outcome; `None` is null.
        outcome: Option<bool>,
    },
    /// `column op literal`.
    Compare {
        /// Column name.
        column: String,
        /// Relation.
        op: CompareOp,
        /// Right side.
        literal: Literal,
    },
    /// `left op right` of two columns.
    CompareColumns {
        /// Column name.
        left: String,
        /// Relation.
        op: CompareOp,
        /// Column name.
        right: String,
    },
    /// `column [NOT] IN (literals)`. An empty list holds nothing, so the outcome is false (negated: true) even for null.
    In {
        /// Column name.
        column: String,
        /// The list, of one type.
        literals: Vec<Literal>,
        /// `NOT IN`.
        negated: bool,
    },
    /// `column IS [NOT] NULL`, for columns of every type.
    IsNull {
        /// Column name.
        column: String,
        /// `IS NOT NULL`.
        negated: bool,
    },
    /// `column [NOT] LIKE | ILIKE pattern [ESCAPE escape]`, for string columns.
    Like {
        /// Column name.
        column: String,
        /// `%` is any text, `_` any one character.
        pattern: String,
        /// Takes the meaning of the next character in the pattern; `None` is a backslash.
        escape: Option<char>,
        /// `NOT LIKE`.
        negated: bool,
        /// `ILIKE`.
        case_insensitive: bool,
    },
    /// The value of a boolean column.
    Column(String),
    /// The same outcome for all rows; `None` is null.
    Constant(Option<bool>),
}

impl Predicate {
    /// True if all parts are; no part gives the constant true, one part itself.
    pub fn and(mut parts: Vec<Predicate>) -> Self {
        match parts.len() {
            0 => Self::Constant(Some(true)),
            1 => parts.swap_remove(0),
            _ => Self::And(parts),
        }
    }

    /// True if one part is; no part gives the constant false, one part itself.
    pub fn or(mut parts: Vec<Predicate>) -> Self {
        match parts.len() {
            0 => Self::Constant(Some(false)),
            1 => parts.swap_remove(0),
            _ => Self::Or(parts),
        }
    }

    /// The names of the columns that decide, in order: what a reader has to decode before it filters.
    pub fn columns(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.collect_columns(&mut names);
        names
    }

    fn collect_columns<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|part| part.collect_columns(names)),
            Self::Not(predicate) | Self::Is { predicate, .. } => predicate.collect_columns(names),
            Self::Compare { column, .. }
            | Self::In { column, .. }
            | Self::IsNull { column, .. }
            | Self::Like { column, .. }
            | Self::Column(column) => {
                names.insert(column);
            }
            Self::CompareColumns { left, right, .. } => {
                names.insert(left);
                names.insert(right);
            }
            Self::Constant(_) => {}
        }
    }

    /// Null for null, else `outcome`: what a comparison becomes that no value, or every value, fulfils.
    pub(super) fn unless_null(column: &str, outcome: bool) -> Self {
        let test = Self::IsNull { column: column.to_owned(), negated: outcome };
        let parts = vec![test, Self::Constant(None)];
        if outcome { Self::Or(parts) } else { Self::And(parts) }
    }

    /// Levels of parentheses and NOT in the printed text: what the parser's depth limit counts.
    pub(super) fn printed_depth(&self) -> usize {
        match self {
            Self::And(parts) | Self::Or(parts) => parts
                .iter()
                .map(|part| part.printed_depth() + usize::from(!part.prints_bare()))
                .max()
                .unwrap_or(0),
            Self::Not(inner) => 1 + inner.printed_depth() + usize::from(!inner.prints_bare()),
            Self::Is { predicate, .. } => predicate.printed_depth() + 1,
            _ => 0,
        }
    }

    /// Whether it needs no parentheses below AND, OR and NOT.
    pub(super) fn prints_bare(&self) -> bool {
        !matches!(self, Self::And(_) | Self::Or(_))
    }
}
