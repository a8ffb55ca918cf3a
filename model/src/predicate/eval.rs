//! Evaluation on record batches, by Arrow kernels.

use super::ast::{CompareOp, Predicate};
use super::error::EvaluateError;
use super::like::to_arrow_pattern;
use super::literal::{Literal, Value};
use super::types::{common_type, sql_name};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Datum, PrimitiveArray, RecordBatch, Scalar, StringArray,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{
    and_kleene, cast, filter_record_batch, ilike, is_not_null, is_null, like, nilike, nlike, not, or_kleene,
    prep_null_mask_filter,
};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use std::sync::Arc;

mod in_list;

impl Predicate {
    /// The outcome for each row of the batch; null where SQL says unknown.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray, EvaluateError> {
        match self {
            Self::And(parts) => evaluate_parts(parts, batch, true),
            Self::Or(parts) => evaluate_parts(parts, batch, false),
            Self::Not(inner) => Ok(not(&inner.evaluate(batch)?)?),
            Self::Is { predicate, outcome } => {
                let outcomes = predicate.evaluate(batch)?;
                Ok(match outcome {
                    Some(true) => known_true(outcomes),
                    Some(false) => known_true(not(&outcomes)?),
                    None => is_null(&outcomes)?,
                })
            }
            Self::Compare { column, op, literal } => match batch.column_by_name(column) {
                Some(array) => {
                    let array = align(column, array, literal)?;
                    compare_literal(column, &array, *op, literal)
                }
                None => Ok(constant(None, batch)),
            },
            Self::CompareColumns { left, op, right } => {
                match (batch.column_by_name(left), batch.column_by_name(right)) {
                    (Some(l), Some(r)) => compare_columns(left, l, *op, r),
                    _ => Ok(constant(None, batch)),
                }
            }
            Self::In { column, literals, negated } => {
                let found = match batch.column_by_name(column) {
                    _ if literals.is_empty() => constant(Some(false), batch),
                    Some(array) => in_list::evaluate(column, array, literals)?,
                    None => constant(None, batch),
                };
                if *negated { Ok(not(&found)?) } else { Ok(found) }
            }
            Self::IsNull { column, negated } => Ok(match (batch.column_by_name(column), negated) {
                (Some(array), false) => is_null(array)?,
                (Some(array), true) => is_not_null(array)?,
                (None, _) => constant(Some(!negated), batch),
            }),
            Self::Like { column, pattern, escape, negated, case_insensitive } => match batch
                .column_by_name(column)
            {
                Some(array) => match_pattern(column, array, pattern, *escape, *negated, *case_insensitive),
                None => Ok(constant(None, batch)),
            },
            Self::Column(column) => match batch.column_by_name(column) {
                Some(array) => match array.as_boolean_opt() {
                    Some(array) => Ok(array.clone()),
                    None => Err(type_error(column, "boolean", array)),
                },
                None => Ok(constant(None, batch)),
            },
            Self::Constant(outcome) => Ok(constant(*outcome, batch)),
        }
    }

    /// The rows for which the predicate is true.
    pub fn filter(&self, batch: &RecordBatch) -> Result<RecordBatch, EvaluateError> {
        let outcomes = self.evaluate(batch)?;
        match outcomes.true_count() {
            0 => Ok(batch.slice(0, 0)),
            all if all == batch.num_rows() => Ok(batch.clone()),
            _ => Ok(filter_record_batch(batch, &outcomes)?),
        }
    }
}

fn constant(outcome: Option<bool>, batch: &RecordBatch) -> BooleanArray {
    let rows = batch.num_rows();
    match outcome {
        Some(true) => BooleanArray::new(BooleanBuffer::new_set(rows), None),
        Some(false) => BooleanArray::new(BooleanBuffer::new_unset(rows), None),
        None => BooleanArray::new_null(rows),
    }
}

/// AND (`all`) or OR of the parts; stops as soon as the outcome of every row is decided.
fn evaluate_parts(
    parts: &[Predicate],
    batch: &RecordBatch,
    all: bool,
) -> Result<BooleanArray, EvaluateError> {
    let Some((first, rest)) = parts.split_first() else {
        return Ok(constant(Some(all), batch));
    };
    let mut outcomes = first.evaluate(batch)?;
    for part in rest {
        let decided = if all { outcomes.false_count() } else { outcomes.true_count() };
        if decided == batch.num_rows() {
            break;
        }
        let next = part.evaluate(batch)?;
        outcomes = if all { and_kleene(&outcomes, &next)? } else { or_kleene(&outcomes, &next)? };
    }
    Ok(outcomes)
}

/// Null becomes false.
fn known_true(outcomes: BooleanArray) -> BooleanArray {
    if outcomes.null_count() == 0 { outcomes } else { prep_null_mask_filter(&outcomes) }
}

fn type_error(column: &str, expected: &str, found: &ArrayRef) -> EvaluateError {
    EvaluateError::ColumnType {
        column: column.to_owned(),
        expected: expected.to_owned(),
        found: found.data_type().clone(),
    }
}

/// The column in the type in which it is compared with the literal.
fn align(column: &str, array: &ArrayRef, literal: &Literal) -> Result<ArrayRef, EvaluateError> {
    // A literal of the right length is compared without a copy of the column.
    if let (DataType::FixedSizeBinary(size), Value::Binary(bytes)) = (array.data_type(), literal.value())
        && usize::try_from(*size) == Ok(bytes.len())
    {
        return Ok(array.clone());
    }
    let target = common_type(array.data_type(), literal.data_type())
        .ok_or_else(|| type_error(column, &sql_name(literal.data_type()), array))?;
    widen(array, &target)
}

fn widen(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, EvaluateError> {
    if array.data_type() == target { Ok(array.clone()) } else { Ok(cast(array, target)?) }
}

/// The literal as a scalar of the type of `array`, which [`align`] has given.
fn scalar(column: &str, array: &ArrayRef, literal: &Literal) -> Result<Scalar<ArrayRef>, EvaluateError> {
    literal
        .to_array(array.data_type())
        .map(Scalar::new)
        .ok_or_else(|| type_error(column, &sql_name(literal.data_type()), array))
}

fn compare_literal(
    column: &str,
    array: &ArrayRef,
    op: CompareOp,
    literal: &Literal,
) -> Result<BooleanArray, EvaluateError> {
    match literal.value() {
        Value::Float(value) if *value == 0.0 => compare_zero(column, array, op, literal.data_type()),
        _ => Ok(compare(array, op, &scalar(column, array, literal)?)?),
    }
}

/// Arrow orders -0.0 before 0.0; the zero that is on the right side of the relation makes them equal.
fn compare_zero(
    column: &str,
    array: &ArrayRef,
    op: CompareOp,
    data_type: &DataType,
) -> Result<BooleanArray, EvaluateError> {
    let zero = |value: f64| match Literal::new(data_type.clone(), Value::Float(value)) {
        Some(literal) => scalar(column, array, &literal),
        None => Err(type_error(column, &sql_name(data_type), array)),
    };
    Ok(match op {
        CompareOp::Lt | CompareOp::GtEq => compare(array, op, &zero(-0.0)?)?,
        CompareOp::LtEq | CompareOp::Gt => compare(array, op, &zero(0.0)?)?,
        CompareOp::Eq => and_kleene(&cmp::gt_eq(array, &zero(-0.0)?)?, &cmp::lt_eq(array, &zero(0.0)?)?)?,
        CompareOp::NotEq => or_kleene(&cmp::lt(array, &zero(-0.0)?)?, &cmp::gt(array, &zero(0.0)?)?)?,
    })
}

fn compare(left: &dyn Datum, op: CompareOp, right: &dyn Datum) -> Result<BooleanArray, ArrowError> {
    match op {
        CompareOp::Eq => cmp::eq(left, right),
        CompareOp::NotEq => cmp::neq(left, right),
        CompareOp::Lt => cmp::lt(left, right),
        CompareOp::LtEq => cmp::lt_eq(left, right),
        CompareOp::Gt => cmp::gt(left, right),
        CompareOp::GtEq => cmp::gt_eq(left, right),
    }
}

fn compare_columns(
    column: &str,
    left: &ArrayRef,
    op: CompareOp,
    right: &ArrayRef,
) -> Result<BooleanArray, EvaluateError> {
    let target = common_type(left.data_type(), right.data_type())
        .ok_or_else(|| type_error(column, &sql_name(right.data_type()), left))?;
    let left = unify_zeros(widen(left, &target)?);
    let right = unify_zeros(widen(right, &target)?);
    Ok(compare(&left, op, &right)?)
}

/// Makes -0.0 to 0.0 in float columns.
fn unify_zeros(array: ArrayRef) -> ArrayRef {
    fn unify<T: ArrowPrimitiveType>(array: &ArrayRef) -> ArrayRef
    where
        T::Native: PartialEq + Default,
    {
        let zero = T::Native::default();
        let unified: PrimitiveArray<T> =
            array.as_primitive::<T>().unary(|value| if value == zero { zero } else { value });
        Arc::new(unified)
    }
    match array.data_type() {
        DataType::Float32 => unify::<Float32Type>(&array),
        DataType::Float64 => unify::<Float64Type>(&array),
        _ => array,
    }
}

fn match_pattern(
    column: &str,
    array: &ArrayRef,
    pattern: &str,
    escape: Option<char>,
    negated: bool,
    case_insensitive: bool,
) -> Result<BooleanArray, EvaluateError> {
    if array.data_type() != &DataType::Utf8 {
        return Err(type_error(column, "string", array));
    }
    let pattern = to_arrow_pattern(pattern, escape)
        .map_err(|message| ArrowError::InvalidArgumentError(message.to_owned()))?;
    let pattern = Scalar::new(StringArray::from_iter_values([pattern]));
    Ok(match (case_insensitive, negated) {
        (false, false) => like(array, &pattern)?,
        (false, true) => nlike(array, &pattern)?,
        (true, false) => ilike(array, &pattern)?,
        (true, true) => nilike(array, &pattern)?,
    })
}
