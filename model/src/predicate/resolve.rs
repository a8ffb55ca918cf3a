//! Column names of a filter, found in the schema.

use super::cursor::shorten;
use super::error::{Position, PredicateError};
use arrow::datatypes::{Field, Schema};

/// Names longer than this get no suggestion: comparing names costs the product of their lengths.
const MAX_SUGGESTED: usize = 128;

/// The column of this very name, else the only one that differs in case alone.
pub(super) fn resolve<'a>(
    name: &str,
    schema: &'a Schema,
    position: Position,
) -> Result<&'a Field, PredicateError> {
    if let Some((_, field)) = schema.column_with_name(name) {
        return Ok(field);
    }
    let folded = name.to_lowercase();
    let fields = || schema.fields().iter().map(|field| field.as_ref());
    let candidates: Vec<&Field> = fields().filter(|field| field.name().to_lowercase() == folded).collect();
    match candidates.as_slice() {
        [field] => Ok(field),
        [] => Err(PredicateError::UnknownColumn {
            column: shorten(name),
            position,
            suggestion: suggest(&folded, fields().map(Field::name)),
        }),
        several => Err(PredicateError::AmbiguousColumn {
            column: shorten(name),
            position,
            candidates: several.iter().map(|field| format!("\"{}\"", field.name())).collect(),
        }),
    }
}

/// The most similar name, if a typing error could explain the difference.
fn suggest<'a>(folded: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    if folded.len() > MAX_SUGGESTED {
        return None;
    }
    let tolerated = (folded.chars().count() / 3).max(1);
    names
        .filter(|name| name.len() <= MAX_SUGGESTED)
        .map(|name| (strsim::damerau_levenshtein(folded, &name.to_lowercase()), name))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.clone())
}
