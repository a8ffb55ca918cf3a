//! Converts one column to its table type and says which rows could not be converted.
//!
//! Integers, floats and decimals convert to each other only where the value stays the same; text converts to dates,
//! times and decimals; anything converts from Arrow's large, view, dictionary and run-end forms. Conversion is a
//! kernel over the whole column; only the rows that failed are looked at one by one.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray, UInt32Array, make_array,
    new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{CastOptions, cast, cast_with_options, is_null, kernels::cmp, take};
use arrow::datatypes::{DataType as ArrowType, Date32Type, Field, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::reject::{Rejects, RowError, preview};
use crate::schema::Column;
use crate::types::{DataType, Nested};

/// A column whose type cannot become the table's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column \"{column}\" is {expected} in the table and {got} in the data, which cannot be converted")]
pub struct Mismatch {
    /// The column, with the path inside it.
    pub column: String,
    /// The table's type.
    pub expected: String,
    /// The data's type.
    pub got: String,
}

/// Values in their new type, and the rows (set bits) that have none there.
struct Converted {
    array: ArrayRef,
    bad: Option<BooleanBuffer>,
}

/// Converts a column of a batch; rows that fail are added to `rejects`.
pub(super) fn column(array: &ArrayRef, column: &Column, rejects: &mut Rejects) -> Result<ArrayRef, Mismatch> {
    let converted = convert(array, &column.data_type, column.nullable, &column.name)?;
    if let Some(bad) = &converted.bad {
        let format = FormatOptions::new().with_null("null");
        let shown = ArrayFormatter::try_new(array, &format).ok();
        for row in bad.set_indices() {
            rejects.add(row as u64, || {
                let got = if array.is_null(row) {
                    "null".to_owned()
                } else {
                    shown.as_ref().map_or_else(|| "?".to_owned(), |s| preview(&s.value(row).to_string()))
                };
                let not_null = if column.nullable { "" } else { " not null" };
                RowError {
                    row: row as u64,
                    line: None,
                    column: Some(column.name.clone()),
                    expected: format!("{}{not_null}", column.data_type),
                    got,
                    hint: hint(&column.data_type).map(str::to_owned),
                }
            });
        }
    }
    Ok(converted.array)
}

/// What usually helps when a value is no such type.
fn hint(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::Date => {
            Some("years from 1 to 9999, as in 2013-01-31 or 2013-01-31T10:00:00Z; check the unit of numbers")
        }
        DataType::Decimal { .. } => Some("use a dot, and no more digits than the type has"),
        _ => None,
    }
}

fn convert(array: &ArrayRef, to: &DataType, nullable: bool, path: &str) -> Result<Converted, Mismatch> {
    let mut converted = match to {
        DataType::Array(item) => list(array, item, path)?,
        DataType::Map(key, value) => map(array, key, value, path)?,
        DataType::Row(fields) => row(array, fields, path)?,
        _ => leaf(array, to, path)?,
    };
    if !nullable && converted.array.logical_null_count() > 0 {
        let nulls = is_null(&converted.array).map(|n| n.values().clone());
        converted.bad = or(converted.bad, nulls.ok());
    }
    Ok(converted)
}

fn mismatch(array: &ArrayRef, to: &DataType, path: &str) -> Mismatch {
    Mismatch { column: path.to_owned(), expected: to.to_string(), got: array.data_type().to_string() }
}

fn or(a: Option<BooleanBuffer>, b: Option<BooleanBuffer>) -> Option<BooleanBuffer> {
    let both = match (a, b) {
        (Some(a), Some(b)) => Some(&a | &b),
        (a, b) => a.or(b),
    };
    both.filter(|bad| bad.count_set_bits() > 0)
}

/// Set where `before` has a value and `after` has none.
fn lost(before: &dyn Array, after: &dyn Array) -> Option<BooleanBuffer> {
    if before.logical_null_count() == after.logical_null_count() {
        return None;
    }
    let (before, after) = (is_null(before).ok()?, is_null(after).ok()?);
    or(Some(&!before.values() & after.values()), None)
}

/// Where two arrays of one type have different values; nulls differ from nothing.
fn differing(a: &ArrayRef, b: &ArrayRef) -> Option<BooleanBuffer> {
    let differs: BooleanArray = cmp::neq(a, b).ok()?;
    let valid = differs.nulls().map_or_else(|| BooleanBuffer::new_set(differs.len()), |n| n.inner().clone());
    or(Some(differs.values() & &valid), None)
}

fn leaf(array: &ArrayRef, to: &DataType, path: &str) -> Result<Converted, Mismatch> {
    let target = to.to_arrow();
    if array.data_type() == &target {
        let bad = out_of_years(array);
        return Ok(Converted { array: array.clone(), bad });
    }
    // Other encodings of the same values first, so that below only plain types are met.
    let array = &plain(array).map_err(|_| mismatch(array, to, path))?;
    if !converts(array.data_type(), to) {
        return Err(mismatch(array, to, path));
    }
    let lenient = CastOptions { safe: true, ..CastOptions::default() };
    // Instants are converted without their zone, which is only a note for readers; Arrow would look it up.
    let array = &without_zone(array).ok_or_else(|| mismatch(array, to, path))?;
    let zoneless = zoneless(&target);
    let converted = cast_with_options(array, &zoneless, &lenient).map_err(|_| mismatch(array, to, path))?;
    let mut bad = lost(array, &converted);
    if must_stay_equal(array.data_type(), &target) {
        let back = cast_with_options(&converted, array.data_type(), &lenient)
            .map_err(|_| mismatch(array, to, path))?;
        bad = or(bad, differing(array, &back));
        bad = or(bad, lost(&converted, &back));
    }
    bad = or(bad, out_of_years(&converted));
    let converted = retyped(&converted, &target).ok_or_else(|| mismatch(array, to, path))?;
    Ok(Converted { array: converted, bad })
}

/// A timestamp type without its zone; other types as they are.
fn zoneless(data_type: &ArrowType) -> ArrowType {
    match data_type {
        ArrowType::Timestamp(unit, _) => ArrowType::Timestamp(*unit, None),
        other => other.clone(),
    }
}

fn without_zone(array: &ArrayRef) -> Option<ArrayRef> {
    retyped(array, &zoneless(array.data_type()))
}

/// The same buffers under another type of the same layout.
fn retyped(array: &ArrayRef, to: &ArrowType) -> Option<ArrayRef> {
    if array.data_type() == to {
        return Some(array.clone());
    }
    array.to_data().into_builder().data_type(to.clone()).build().ok().map(make_array)
}

/// The same values without dictionary, run-end, large or view encoding.
fn plain(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        ArrowType::Dictionary(_, value) => plain(&cast(array, value)?),
        ArrowType::RunEndEncoded(_, value) => plain(&cast(array, value.data_type())?),
        ArrowType::LargeUtf8 | ArrowType::Utf8View => cast(array, &ArrowType::Utf8),
        ArrowType::LargeBinary | ArrowType::BinaryView => cast(array, &ArrowType::Binary),
        _ => Ok(array.clone()),
    }
}

/// Whether a plain Arrow type may become a table type at all.
fn converts(from: &ArrowType, to: &DataType) -> bool {
    use DataType as D;
    if matches!(from, ArrowType::Null) {
        return true;
    }
    let number = from.is_numeric();
    match to {
        D::Boolean => matches!(from, ArrowType::Boolean),
        D::TinyInt | D::SmallInt | D::Int | D::BigInt | D::Float | D::Double => number,
        D::Decimal { .. } => number || matches!(from, ArrowType::Utf8),
        D::Char(_) | D::String => matches!(from, ArrowType::Utf8),
        D::Binary(_) | D::Bytes => {
            matches!(from, ArrowType::Binary | ArrowType::FixedSizeBinary(_) | ArrowType::Utf8)
        }
        D::Date => matches!(from, ArrowType::Date32 | ArrowType::Date64 | ArrowType::Utf8),
        D::Time(_) => matches!(from, ArrowType::Time32(_) | ArrowType::Time64(_) | ArrowType::Utf8),
        D::Timestamp(_) | D::TimestampLtz(_) => {
            matches!(from, ArrowType::Timestamp(..) | ArrowType::Date32 | ArrowType::Date64 | ArrowType::Utf8)
        }
        D::Array(_) | D::Map(..) | D::Row(_) => false,
    }
}

/// Whether a conversion could change a number without saying so: to whole numbers, and to fewer decimal digits.
/// Between floats it only rounds, which is what a `float` column asks for.
fn must_stay_equal(from: &ArrowType, to: &ArrowType) -> bool {
    let decimal = |t: &ArrowType| {
        matches!(
            t,
            ArrowType::Decimal32(..)
                | ArrowType::Decimal64(..)
                | ArrowType::Decimal128(..)
                | ArrowType::Decimal256(..)
        )
    };
    if to.is_integer() { from.is_floating() || decimal(from) } else { decimal(to) && decimal(from) }
}

/// Where a date or timestamp is outside the years 1 to 9999, which no reader could show; usually a wrong unit.
fn out_of_years(array: &ArrayRef) -> Option<BooleanBuffer> {
    const FIRST_DAY: i64 = -719_162;
    const LAST_DAY: i64 = 2_932_896;
    match array.data_type() {
        ArrowType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            outside(days.values().iter().map(|d| i64::from(*d)), FIRST_DAY, LAST_DAY, days.nulls())
        }
        ArrowType::Timestamp(unit, _) => {
            let per_day: i64 = match unit {
                TimeUnit::Second => 86_400,
                TimeUnit::Millisecond => 86_400_000,
                TimeUnit::Microsecond => 86_400_000_000,
                TimeUnit::Nanosecond => return None, // 64 bits of nanoseconds end in 2262
            };
            let ticks = cast(array, &ArrowType::Int64).ok()?;
            let ticks = ticks.as_primitive::<Int64Type>();
            outside(
                ticks.values().iter().copied(),
                FIRST_DAY * per_day,
                (LAST_DAY + 1) * per_day - 1,
                ticks.nulls(),
            )
        }
        _ => None,
    }
}

fn outside(
    values: impl Iterator<Item = i64> + Clone,
    min: i64,
    max: i64,
    nulls: Option<&NullBuffer>,
) -> Option<BooleanBuffer> {
    if values.clone().all(|v| (min..=max).contains(&v)) {
        return None;
    }
    let bad: BooleanBuffer = values.map(|v| !(min..=max).contains(&v)).collect();
    or(Some(nulls.map_or(bad.clone(), |n| &bad & n.inner())), None)
}

fn list(array: &ArrayRef, item: &Nested, path: &str) -> Result<Converted, Mismatch> {
    let to = || DataType::Array(Box::new(item.clone()));
    let as_list = |array: &ArrayRef| {
        let field = match array.data_type() {
            ArrowType::List(_) => return Ok(array.clone()),
            ArrowType::LargeList(f) | ArrowType::ListView(f) | ArrowType::LargeListView(f) => f,
            ArrowType::FixedSizeList(f, _) => f,
            ArrowType::Null => return Ok(new_null_array(&to().to_arrow(), array.len())),
            _ => return Err(mismatch(array, &to(), path)),
        };
        cast(array, &ArrowType::List(field.clone())).map_err(|_| mismatch(array, &to(), path))
    };
    let plain = as_list(array)?;
    let list = plain.as_list::<i32>();
    let values = convert(list.values(), &item.data_type, item.nullable, &format!("{path}[]"))?;
    let bad = values.bad.and_then(|bad| parents(&bad, list.offsets(), list.nulls()));
    let nullable_item =
        Nested { data_type: item.data_type.clone(), nullable: item.nullable || bad.is_some() };
    let ArrowType::List(field) = DataType::Array(Box::new(nullable_item)).to_arrow() else {
        return Err(mismatch(array, &to(), path));
    };
    let list = ListArray::try_new(field, list.offsets().clone(), values.array, list.nulls().cloned());
    finish(list.map(|l| Arc::new(l) as ArrayRef), bad, &to()).ok_or_else(|| mismatch(array, &to(), path))
}

fn map(array: &ArrayRef, key: &DataType, value: &Nested, path: &str) -> Result<Converted, Mismatch> {
    let to = DataType::Map(Box::new(key.clone()), Box::new(value.clone()));
    let plain = match array.data_type() {
        ArrowType::Map(..) => array.clone(),
        ArrowType::Null => new_null_array(&to.to_arrow(), array.len()),
        _ => return Err(mismatch(array, &to, path)),
    };
    let map = plain.as_map();
    let keys = convert(map.keys(), key, false, &format!("{path}.key"))?;
    let values = convert(map.values(), &value.data_type, value.nullable, &format!("{path}.value"))?;
    let bad = or(keys.bad, values.bad).and_then(|bad| parents(&bad, map.offsets(), map.nulls()));
    let built = || -> Result<ArrayRef, ArrowError> {
        let fields = vec![
            Field::new("key", key.to_arrow(), bad.is_some()),
            Field::new("value", value.data_type.to_arrow(), value.nullable || bad.is_some()),
        ];
        let entries = StructArray::try_new(fields.into(), vec![keys.array, values.array], None)?;
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        Ok(Arc::new(MapArray::try_new(field, map.offsets().clone(), entries, map.nulls().cloned(), false)?))
    };
    finish(built(), bad.clone(), &to).ok_or_else(|| mismatch(array, &to, path))
}

fn row(array: &ArrayRef, fields: &[(String, Nested)], path: &str) -> Result<Converted, Mismatch> {
    let to = DataType::Row(fields.to_vec());
    let plain = match array.data_type() {
        ArrowType::Struct(_) => array.clone(),
        ArrowType::Null => new_null_array(&to.to_arrow(), array.len()),
        _ => return Err(mismatch(array, &to, path)),
    };
    let given = plain.as_struct();
    let unknown =
        given.column_names().into_iter().find(|name| !fields.iter().any(|(field, _)| field == name));
    if let Some(name) = unknown {
        return Err(mismatch(array, &to, &format!("{path}.{name}")));
    }
    let mut bad = None;
    let mut columns = Vec::with_capacity(fields.len());
    for (name, nested) in fields {
        let path = format!("{path}.{name}");
        let source = given.column_by_name(name).cloned();
        let source = source.unwrap_or_else(|| new_null_array(&ArrowType::Null, given.len()));
        // A field below a null row has no value to be judged.
        let converted = convert(&source, &nested.data_type, nested.nullable, &path)?;
        let below = match (converted.bad, given.nulls()) {
            (Some(bad), Some(nulls)) => or(Some(&bad & nulls.inner()), None),
            (bad, _) => bad,
        };
        bad = or(bad, below);
        columns.push(converted.array);
    }
    let built = columns.iter().zip(fields).map(|(column, (name, nested))| {
        Field::new(name, column.data_type().clone(), nested.nullable || column.logical_null_count() > 0)
    });
    let built = StructArray::try_new_with_length(
        built.collect::<Vec<_>>().into(),
        columns,
        given.nulls().cloned(),
        given.len(),
    );
    finish(built.map(|s| Arc::new(s) as ArrayRef), bad, &to).ok_or_else(|| mismatch(array, &to, path))
}

/// Gives a nested array exactly the table's type. While it has bad rows it may hold nulls where the type has none,
/// so it is made of nulls there: the row goes away, its neighbours stay.
fn finish(
    built: Result<ArrayRef, ArrowError>,
    bad: Option<BooleanBuffer>,
    to: &DataType,
) -> Option<Converted> {
    let built = built.ok()?;
    let array = match &bad {
        Some(bad) => {
            // `take` leaves the items of a row that it makes null behind; `nullif` would only cover them.
            let rows: UInt32Array = bad.iter().zip(0..).map(|(bad, row)| (!bad).then_some(row)).collect();
            take(&built, &rows, None).ok()?
        }
        None => built,
    };
    let target = to.to_arrow();
    if array.data_type() == &target {
        return Some(Converted { array, bad });
    }
    // Only names and nullability of inner fields differ now.
    let array = retyped(&array, &target).or_else(|| cast(&array, &target).ok())?;
    Some(Converted { array, bad })
}

/// The rows that hold a bad item.
fn parents(
    bad: &BooleanBuffer,
    offsets: &arrow::buffer::OffsetBuffer<i32>,
    nulls: Option<&NullBuffer>,
) -> Option<BooleanBuffer> {
    let rows: BooleanBuffer = offsets
        .windows(2)
        .enumerate()
        .map(|(row, w)| {
            let valid = nulls.is_none_or(|n| n.is_valid(row));
            valid && (w[0]..w[1]).any(|i| bad.value(i as usize))
        })
        .collect();
    or(Some(rows), None)
}
