//! Tests of filters: `cases` by hand, `properties` against a row-by-row interpreter.

mod cases;
mod hostile;
mod interpreter;
mod properties;
mod statistics;

use super::*;
use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use std::sync::Arc;

/// A table with a column of each type.
pub(super) fn schema() -> Schema {
    let utc = || Some("UTC".into());
    Schema::new(vec![
        Field::new("b", DataType::Boolean, true),
        Field::new("i8", DataType::Int8, true),
        Field::new("i16", DataType::Int16, true),
        Field::new("i32", DataType::Int32, true),
        Field::new("i64", DataType::Int64, true),
        Field::new("f32", DataType::Float32, true),
        Field::new("f64", DataType::Float64, true),
        Field::new("dec", DataType::Decimal128(10, 2), true),
        Field::new("big_dec", DataType::Decimal128(38, 0), true),
        Field::new("s", DataType::Utf8, true),
        Field::new("bin", DataType::Binary, true),
        Field::new("fixed", DataType::FixedSizeBinary(2), true),
        Field::new("d", DataType::Date32, true),
        Field::new("t_s", DataType::Time32(TimeUnit::Second), true),
        Field::new("t_ms", DataType::Time32(TimeUnit::Millisecond), true),
        Field::new("t_us", DataType::Time64(TimeUnit::Microsecond), true),
        Field::new("t_ns", DataType::Time64(TimeUnit::Nanosecond), true),
        Field::new("ts_s", DataType::Timestamp(TimeUnit::Second, None), true),
        Field::new("ts_ms", DataType::Timestamp(TimeUnit::Millisecond, utc()), true),
        Field::new("ts_us", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("ts_ns", DataType::Timestamp(TimeUnit::Nanosecond, utc()), true),
        Field::new("list", DataType::new_list(DataType::Int32, true), true),
        Field::new("select", DataType::Int32, true),
        Field::new("odd \"name\"", DataType::Int64, true),
        Field::new("Case", DataType::Int32, true),
        Field::new("cASE2", DataType::Int32, true),
        Field::new("Case2", DataType::Int32, true),
        Field::new("date", DataType::Int32, true),
        Field::new("größe", DataType::Int32, true),
    ])
}

pub(super) fn parse(text: &str) -> Predicate {
    Predicate::parse(text, &schema()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(super) fn error(text: &str) -> String {
    match Predicate::parse(text, &schema()) {
        Ok(predicate) => panic!("{text} gave {predicate}"),
        Err(error) => error.to_string(),
    }
}

/// The outcomes of a filter on a batch of one column.
pub(super) fn outcomes(text: &str, name: &str, array: ArrayRef) -> Vec<Option<bool>> {
    let batch = RecordBatch::try_from_iter([(name, array)]).unwrap();
    parse(text).evaluate(&batch).unwrap().iter().collect()
}

pub(super) const T: Option<bool> = Some(true);
pub(super) const F: Option<bool> = Some(false);
pub(super) const N: Option<bool> = None;
