//! Whether the times of a CSV column have zones. The inference takes `12:00:00` and `12:00:00Z` for the same type, but no
//! type holds both: the one is what a clock on a wall shows, the other a moment.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

/// The schema with instants where all times have zones, and text where only some have; and what to say about it.
pub(super) fn settle(
    sample: &[u8],
    schema: &Schema,
    rows: usize,
) -> Result<(Schema, Vec<String>), ArrowError> {
    let times: Vec<usize> = schema
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, f)| matches!(f.data_type(), DataType::Timestamp(_, None)))
        .map(|(i, _)| i)
        .collect();
    if times.is_empty() {
        return Ok((schema.clone(), Vec::new()));
    }
    let text = schema.fields().iter().map(|f| Field::new(f.name(), DataType::Utf8, true));
    let text = Arc::new(Schema::new(text.collect::<Vec<_>>()));
    let reader =
        ReaderBuilder::new(text).with_header(true).with_bounds(0, rows).with_projection(times.clone());
    let mut seen = vec![Seen::default(); times.len()];
    for batch in reader.build(sample)? {
        for (column, seen) in batch?.columns().iter().zip(&mut seen) {
            column.as_string::<i32>().iter().flatten().for_each(|value| seen.take(value));
        }
    }
    let mut fields: Vec<Field> = schema.fields().iter().map(|f| f.as_ref().clone()).collect();
    let mut remarks = Vec::new();
    for (at, seen) in times.into_iter().zip(seen) {
        let field = &fields[at];
        let data_type = match (field.data_type(), seen) {
            (_, Seen { strange: true, .. }) => DataType::Utf8,
            (_, Seen { zoned: true, bare: true, .. }) => {
                remarks.push(format!(
                    "column \"{}\" is string: some of its times have a zone and others have none",
                    field.name()
                ));
                DataType::Utf8
            }
            (DataType::Timestamp(unit, _), Seen { zoned: true, .. }) => {
                DataType::Timestamp(*unit, Some("UTC".into()))
            }
            (other, _) => other.clone(),
        };
        fields[at] = field.clone().with_data_type(data_type);
    }
    Ok((Schema::new(fields), remarks))
}

/// What the values of a column end with.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    zoned: bool,
    bare: bool,
    /// Something behind the time that is no zone.
    strange: bool,
}

impl Seen {
    /// Takes a date, or a date and a time, as the inference knows them.
    fn take(&mut self, value: &str) {
        let rest = value.get(19..).unwrap_or_default();
        let rest = rest
            .strip_prefix('.')
            .map_or(rest, |fraction| fraction.trim_start_matches(|c: char| c.is_ascii_digit()));
        match rest.as_bytes() {
            [] => self.bare = true,
            [b'Z' | b'z'] => self.zoned = true,
            [b'+' | b'-', offset @ ..] if offset.iter().all(|b| b.is_ascii_digit() || *b == b':') => {
                self.zoned = true;
            }
            _ => self.strange = true,
        }
    }
}
