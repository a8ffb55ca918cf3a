//! The aggregate functions by name, and the types that they take.

use crate::suggest;
use crate::types::DataType;

/// A function of the `aggregation` merge engine, chosen for a column by `fields.<column>.agg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggFunction {
    /// The sum of the values that are not NULL.
    Sum,
    /// Their product.
    Product,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// The newest value, NULL too.
    LastValue,
    /// The newest value that is not NULL: what a column does whose function is not said.
    LastValueIgnoreNulls,
    /// The value that the row was inserted with, NULL too.
    FirstValue,
    /// The first value that is not NULL.
    FirstValueIgnoreNulls,
    /// The texts in the order of their arrival, with a delimiter between them.
    ListAgg,
    /// The same as [`AggFunction::ListAgg`].
    StringAgg,
    /// Whether all are true.
    BoolAnd,
    /// Whether any is true.
    BoolOr,
    /// The union of 32-bit Roaring bitmaps, in the portable format.
    Rbm32,
    /// The union of 64-bit Roaring bitmaps, in the portable treemap format.
    Rbm64,
    /// How many values were not NULL.
    Count,
}

impl AggFunction {
    /// All functions.
    pub const ALL: [AggFunction; 15] = [
        AggFunction::Sum,
        AggFunction::Product,
        AggFunction::Max,
        AggFunction::Min,
        AggFunction::LastValue,
        AggFunction::LastValueIgnoreNulls,
        AggFunction::FirstValue,
        AggFunction::FirstValueIgnoreNulls,
        AggFunction::ListAgg,
        AggFunction::StringAgg,
        AggFunction::BoolAnd,
        AggFunction::BoolOr,
        AggFunction::Rbm32,
        AggFunction::Rbm64,
        AggFunction::Count,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            AggFunction::Sum => "sum",
            AggFunction::Product => "product",
            AggFunction::Max => "max",
            AggFunction::Min => "min",
            AggFunction::LastValue => "last_value",
            AggFunction::LastValueIgnoreNulls => "last_value_ignore_nulls",
            AggFunction::FirstValue => "first_value",
            AggFunction::FirstValueIgnoreNulls => "first_value_ignore_nulls",
            AggFunction::ListAgg => "listagg",
            AggFunction::StringAgg => "string_agg",
            AggFunction::BoolAnd => "bool_and",
            AggFunction::BoolOr => "bool_or",
            AggFunction::Rbm32 => "rbm32",
            AggFunction::Rbm64 => "rbm64",
            AggFunction::Count => "count",
        }
    }

    /// The function of this name, whatever its case, with `-` for `_` or not; else the nearest name.
    pub fn parse(name: &str) -> Result<AggFunction, Option<&'static str>> {
        let name = name.trim().to_ascii_lowercase().replace('-', "_");
        let known = AggFunction::ALL.into_iter().find(|f| f.name() == name);
        known.ok_or_else(|| suggest::nearest(&name, AggFunction::ALL.map(AggFunction::name)))
    }

    /// Whether a column of this type can have it.
    pub fn takes(self, data_type: &DataType) -> bool {
        use DataType::*;
        let number = matches!(data_type, TinyInt | SmallInt | Int | BigInt | Float | Double | Decimal { .. });
        match self {
            AggFunction::Sum | AggFunction::Product => number,
            AggFunction::Max | AggFunction::Min => {
                number
                    || matches!(data_type, Char(_) | String | Date | Time(_) | Timestamp(_) | TimestampLtz(_))
            }
            AggFunction::LastValue
            | AggFunction::LastValueIgnoreNulls
            | AggFunction::FirstValue
            | AggFunction::FirstValueIgnoreNulls => true,
            AggFunction::ListAgg | AggFunction::StringAgg => matches!(data_type, Char(_) | String),
            AggFunction::BoolAnd | AggFunction::BoolOr => *data_type == Boolean,
            AggFunction::Rbm32 | AggFunction::Rbm64 => *data_type == Bytes,
            AggFunction::Count => *data_type == BigInt,
        }
    }

    /// The types that it takes, for people.
    pub fn types(self) -> &'static str {
        match self {
            AggFunction::Sum | AggFunction::Product => "whole numbers, floats and decimals",
            AggFunction::Max | AggFunction::Min => "numbers, texts, dates and times",
            AggFunction::LastValue
            | AggFunction::LastValueIgnoreNulls
            | AggFunction::FirstValue
            | AggFunction::FirstValueIgnoreNulls => "any type",
            AggFunction::ListAgg | AggFunction::StringAgg => "string and char",
            AggFunction::BoolAnd | AggFunction::BoolOr => "boolean",
            AggFunction::Rbm32 | AggFunction::Rbm64 => "bytes",
            AggFunction::Count => "bigint",
        }
    }
}

/// A column's function with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aggregate {
    pub(crate) function: AggFunction,
    /// Between the texts of [`AggFunction::ListAgg`].
    pub(crate) delimiter: String,
}

impl Default for Aggregate {
    fn default() -> Aggregate {
        Aggregate { function: AggFunction::LastValueIgnoreNulls, delimiter: ",".to_owned() }
    }
}
