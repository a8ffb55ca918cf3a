//! Columns that grow value by value, as rows of text come in.
//!
//! Every column can be cut back to an earlier length, so a row whose fifth value is bad leaves nothing behind: the
//! reader notes the fault, cuts all columns back and goes on. Therefore a failed append may leave a column in any
//! state above its old length, and what [`Fields::finish`] gives has the table's schema without further checks.
//!
//! A few bytes of text can stand for many bytes of columns (`{}` in a wide table). [`Room`] counts those.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, NullBufferBuilder};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
};
use wadi_model::name::MAX_NAME;
use wadi_model::reject::{MAX_TOLD, RowError, preview};
use wadi_model::types::Nested;
use wadi_model::{DataType, Schema, suggest};

use super::text::Unfit;
use super::token::Syntax;

pub(super) use from_text::Cell;

mod finish;
mod from_json;
mod from_text;

/// Why a row could not be appended.
#[derive(Debug)]
pub(super) enum Fail {
    /// A value does not fit; the place is not yet known.
    Unfit(Unfit),
    /// A value does not fit.
    Value(Box<Misfit>),
    /// The text is no JSON.
    Syntax(Syntax),
    /// The request's room is used up.
    NoRoom,
    /// The text says that here is no row.
    NoRow,
}

impl From<Unfit> for Fail {
    fn from(unfit: Unfit) -> Fail {
        Fail::Unfit(unfit)
    }
}

impl From<Syntax> for Fail {
    fn from(syntax: Syntax) -> Fail {
        Fail::Syntax(syntax)
    }
}

impl Fail {
    /// The same fault, seen from outside of the field `name`.
    fn within(mut self, name: &str) -> Fail {
        if let Fail::Value(misfit) = &mut self {
            let dot = if misfit.path.is_empty() || misfit.path.starts_with('[') { "" } else { "." };
            misfit.path = format!("{name}{dot}{}", misfit.path);
        }
        self
    }

    /// The same fault, seen from outside of the element `index`.
    fn at(self, index: usize) -> Fail {
        match self {
            Fail::Value(_) => self.within(&format!("[{index}]")),
            other => other,
        }
    }
}

/// A value that does not fit, as a [`RowError`] without the row.
#[derive(Debug)]
pub(super) struct Misfit {
    path: String,
    expected: String,
    got: String,
    hint: Option<String>,
}

impl Misfit {
    /// A misfit at a place.
    pub(super) fn of(path: &str, expected: &str, got: String, hint: Option<String>) -> Misfit {
        Misfit { path: path.to_owned(), expected: expected.to_owned(), got, hint }
    }

    /// A row that is longer than rows may be.
    pub(super) fn too_long(limit: usize, bytes: usize) -> Misfit {
        let expected = format!("a row of at most {limit} bytes");
        Misfit { path: String::new(), expected, got: format!("{bytes} bytes"), hint: None }
    }

    /// The fault of a row.
    pub(super) fn at(self, row: u64, line: Option<u64>) -> RowError {
        let column = Some(self.path).filter(|p| !p.is_empty());
        RowError { row, line, column, expected: self.expected, got: self.got, hint: self.hint }
    }
}

/// What a request may still take beyond its own length.
pub(super) struct Room {
    /// Bytes of memory.
    left: usize,
    /// Look-ups of a name that is like an unknown one, which cost as much as hundreds of rows.
    suggestions: usize,
}

impl Room {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Room {
        Room { left: bytes, suggestions: MAX_TOLD }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Fail> {
        self.left = self.left.checked_sub(bytes).ok_or(Fail::NoRoom)?;
        Ok(())
    }
}

/// Texts or byte strings, one behind the other.
struct Slices {
    data: Vec<u8>,
    /// Where each ends; begins with 0. The data stays below 2 GiB: it is no longer than the body and the room.
    ends: Vec<i32>,
}

impl Slices {
    fn new() -> Slices {
        Slices { data: Vec::new(), ends: vec![0] }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.close();
    }

    /// Ends the value whose bytes were appended to `data`.
    fn close(&mut self) {
        self.ends.push(self.data.len() as i32);
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        self.data.truncate(self.ends[len] as usize);
    }
}

enum Values {
    Boolean(BooleanBufferBuilder),
    TinyInt(Vec<i8>),
    SmallInt(Vec<i16>),
    Int(Vec<i32>),
    BigInt(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal { values: Vec<i128>, precision: u8, scale: u8 },
    Text(Slices),
    Bytes(Slices),
    Fixed { data: Vec<u8>, width: usize },
    Date(Vec<i32>),
    Time32 { values: Vec<i32>, unit: TimeUnit },
    Time64 { values: Vec<i64>, unit: TimeUnit },
    Timestamp { values: Vec<i64>, unit: TimeUnit, zoned: bool },
    Array { ends: Vec<i32>, item: Box<Builder> },
    Map { ends: Vec<i32>, entries: Fields },
    Row(Fields),
}

/// One column.
pub(super) struct Builder {
    data_type: DataType,
    nullable: bool,
    nulls: NullBufferBuilder,
    values: Values,
    /// The bytes that a null takes.
    footprint: usize,
}

/// The columns of a table, or the fields of a row type.
pub(super) struct Fields {
    names: Vec<String>,
    positions: HashMap<String, usize>,
    columns: Vec<Builder>,
    defaults: Vec<Option<ArrayRef>>,
    /// For each field the number of the last object that had it.
    seen: Vec<u64>,
    objects: u64,
    footprint: usize,
}

impl Builder {
    fn new(nested: &Nested) -> Builder {
        use arrow::datatypes::DataType as Arrow;
        let data_type = nested.data_type.clone();
        let unit = match data_type.to_arrow() {
            Arrow::Time32(unit) | Arrow::Time64(unit) | Arrow::Timestamp(unit, _) => unit,
            _ => TimeUnit::Second,
        };
        let (values, footprint) = match &data_type {
            DataType::Boolean => (Values::Boolean(BooleanBufferBuilder::new(0)), 1),
            DataType::TinyInt => (Values::TinyInt(Vec::new()), 1),
            DataType::SmallInt => (Values::SmallInt(Vec::new()), 2),
            DataType::Int => (Values::Int(Vec::new()), 4),
            DataType::BigInt => (Values::BigInt(Vec::new()), 8),
            DataType::Float => (Values::Float(Vec::new()), 4),
            DataType::Double => (Values::Double(Vec::new()), 8),
            DataType::Decimal { precision, scale } => {
                (Values::Decimal { values: Vec::new(), precision: *precision, scale: *scale }, 16)
            }
            DataType::Char(_) | DataType::String => (Values::Text(Slices::new()), 4),
            DataType::Bytes => (Values::Bytes(Slices::new()), 4),
            DataType::Binary(n) => (Values::Fixed { data: Vec::new(), width: *n as usize }, *n as usize),
            DataType::Date => (Values::Date(Vec::new()), 4),
            DataType::Time(0..=3) => (Values::Time32 { values: Vec::new(), unit }, 4),
            DataType::Time(_) => (Values::Time64 { values: Vec::new(), unit }, 8),
            DataType::Timestamp(_) => (Values::Timestamp { values: Vec::new(), unit, zoned: false }, 8),
            DataType::TimestampLtz(_) => (Values::Timestamp { values: Vec::new(), unit, zoned: true }, 8),
            DataType::Array(item) => (Values::Array { ends: vec![0], item: Box::new(Builder::new(item)) }, 4),
            DataType::Map(key, value) => {
                let key = Nested { data_type: (**key).clone(), nullable: false };
                let entries = Fields::new([("key", &key), ("value", value)]);
                (Values::Map { ends: vec![0], entries }, 4)
            }
            DataType::Row(fields) => {
                let fields = Fields::new(fields.iter().map(|(name, nested)| (name.as_str(), nested)));
                let footprint = fields.footprint;
                (Values::Row(fields), footprint)
            }
        };
        let nulls = NullBufferBuilder::new(0);
        Builder { data_type, nullable: nested.nullable, nulls, values, footprint: footprint + 1 }
    }

    /// Appends a null, or fails where none may be.
    fn push_null(&mut self) -> Result<(), Fail> {
        if !self.nullable {
            return Err(Unfit::Null.into());
        }
        self.push_hole();
        Ok(())
    }

    /// Appends a null, also to a column that has none: below a null row it is never seen.
    fn push_hole(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Boolean(v) => v.append(false),
            Values::TinyInt(v) => v.push(0),
            Values::SmallInt(v) => v.push(0),
            Values::Int(v) | Values::Date(v) | Values::Time32 { values: v, .. } => v.push(0),
            Values::BigInt(v) | Values::Time64 { values: v, .. } | Values::Timestamp { values: v, .. } => {
                v.push(0);
            }
            Values::Float(v) => v.push(0.0),
            Values::Double(v) => v.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Text(v) | Values::Bytes(v) => v.close(),
            Values::Fixed { data, width } => data.resize(data.len() + *width, 0),
            Values::Array { ends, .. } | Values::Map { ends, .. } => ends.push(ends[ends.len() - 1]),
            Values::Row(fields) => fields.columns.iter_mut().for_each(Builder::push_hole),
        }
    }

    /// Appends the value of a column default, which is never of a nested type.
    fn push_default(&mut self, value: &ArrayRef) -> Result<(), Fail> {
        use arrow::datatypes as t;
        if value.is_null(0) {
            return self.push_null();
        }
        match &mut self.values {
            Values::Boolean(v) => v.append(value.as_boolean().value(0)),
            Values::TinyInt(v) => v.push(value.as_primitive::<Int8Type>().value(0)),
            Values::SmallInt(v) => v.push(value.as_primitive::<Int16Type>().value(0)),
            Values::Int(v) => v.push(value.as_primitive::<Int32Type>().value(0)),
            Values::BigInt(v) => v.push(value.as_primitive::<Int64Type>().value(0)),
            Values::Float(v) => v.push(value.as_primitive::<Float32Type>().value(0)),
            Values::Double(v) => v.push(value.as_primitive::<Float64Type>().value(0)),
            Values::Decimal { values, .. } => values.push(value.as_primitive::<Decimal128Type>().value(0)),
            Values::Text(v) => v.push(value.as_string::<i32>().value(0).as_bytes()),
            Values::Bytes(v) => v.push(value.as_binary::<i32>().value(0)),
            Values::Fixed { data, .. } => data.extend_from_slice(value.as_fixed_size_binary().value(0)),
            Values::Date(v) => v.push(value.as_primitive::<Date32Type>().value(0)),
            Values::Time32 { values, unit: TimeUnit::Second } => {
                values.push(value.as_primitive::<t::Time32SecondType>().value(0));
            }
            Values::Time32 { values, .. } => {
                values.push(value.as_primitive::<t::Time32MillisecondType>().value(0));
            }
            Values::Time64 { values, unit: TimeUnit::Microsecond } => {
                values.push(value.as_primitive::<t::Time64MicrosecondType>().value(0));
            }
            Values::Time64 { values, .. } => {
                values.push(value.as_primitive::<t::Time64NanosecondType>().value(0));
            }
            Values::Timestamp { values, unit, .. } => values.push(match unit {
                TimeUnit::Second => value.as_primitive::<t::TimestampSecondType>().value(0),
                TimeUnit::Millisecond => value.as_primitive::<t::TimestampMillisecondType>().value(0),
                TimeUnit::Microsecond => value.as_primitive::<t::TimestampMicrosecondType>().value(0),
                TimeUnit::Nanosecond => value.as_primitive::<t::TimestampNanosecondType>().value(0),
            }),
            Values::Array { .. } | Values::Map { .. } | Values::Row(_) => return self.push_null(),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Cuts the column back to `len` values; it has at least as many.
    fn truncate(&mut self, len: usize) {
        self.nulls.truncate(len);
        match &mut self.values {
            Values::Boolean(v) => v.truncate(len),
            Values::TinyInt(v) => v.truncate(len),
            Values::SmallInt(v) => v.truncate(len),
            Values::Int(v) | Values::Date(v) | Values::Time32 { values: v, .. } => v.truncate(len),
            Values::BigInt(v) | Values::Time64 { values: v, .. } | Values::Timestamp { values: v, .. } => {
                v.truncate(len);
            }
            Values::Float(v) => v.truncate(len),
            Values::Double(v) => v.truncate(len),
            Values::Decimal { values, .. } => values.truncate(len),
            Values::Text(v) | Values::Bytes(v) => v.truncate(len),
            Values::Fixed { data, width } => data.truncate(len * *width),
            Values::Array { ends, item } => {
                ends.truncate(len + 1);
                item.truncate(ends[len] as usize);
            }
            Values::Map { ends, entries } => {
                ends.truncate(len + 1);
                entries.truncate(ends[len] as usize);
            }
            Values::Row(fields) => fields.truncate(len),
        }
    }

    /// What to say about a value that does not fit.
    fn misfit(&self, unfit: Unfit, got: String) -> Fail {
        let not_null = if self.nullable { "" } else { " not null" };
        let expected = format!("{}{not_null}", self.data_type);
        let misfit = Misfit { path: String::new(), expected, got, hint: unfit.hint(&self.data_type) };
        Fail::Value(Box::new(misfit))
    }
}

impl Fields {
    fn new<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Nested)>) -> Fields {
        let (names, columns): (Vec<String>, Vec<Builder>) =
            fields.into_iter().map(|(name, nested)| (name.to_owned(), Builder::new(nested))).unzip();
        Fields {
            positions: names.iter().enumerate().map(|(i, name)| (name.clone(), i)).collect(),
            defaults: vec![None; columns.len()],
            seen: vec![0; columns.len()],
            objects: 0,
            footprint: columns.iter().map(|c| c.footprint).sum(),
            names,
            columns,
        }
    }

    /// The columns of a table.
    pub(super) fn of(schema: &Schema) -> Fields {
        let nested = |c: &wadi_model::Column| Nested { data_type: c.data_type.clone(), nullable: c.nullable };
        let nested: Vec<Nested> = schema.columns().iter().map(nested).collect();
        let names = schema.columns().iter().map(|c| c.name.as_str());
        let mut fields = Fields::new(names.zip(&nested));
        fields.defaults = (0..nested.len()).map(|i| schema.default_of(i).cloned()).collect();
        let sizes = fields.defaults.iter().flatten().map(|d| d.to_data().get_slice_memory_size());
        fields.footprint += sizes.map(|size| size.unwrap_or(0)).sum::<usize>();
        fields
    }

    /// Bytes that a row takes when all its columns are null or have their default.
    pub(super) fn footprint(&self) -> usize {
        self.footprint
    }

    /// Takes the room of one row.
    pub(super) fn begin(&self, room: &mut Room) -> Result<(), Fail> {
        room.take(self.footprint)
    }

    /// Cuts all columns back to `len` values.
    pub(super) fn truncate(&mut self, len: usize) {
        self.columns.iter_mut().for_each(|c| c.truncate(len));
    }

    /// Appends to the column at `index` what a row gets that does not name it.
    pub(super) fn push_absent(&mut self, index: usize) -> Result<(), Fail> {
        let column = &mut self.columns[index];
        let pushed = match &self.defaults[index] {
            Some(default) => column.push_default(default),
            None => column.push_null(),
        };
        pushed.map_err(|fail| match fail {
            Fail::Unfit(unfit) => column.misfit(unfit, "nothing".to_owned()).within(&self.names[index]),
            other => other,
        })
    }

    fn unknown(&self, name: &str, room: &mut Room) -> Fail {
        let nearest = room.suggestions.checked_sub(1).and_then(|left| {
            room.suggestions = left;
            suggest::nearest(name, self.names.iter().map(String::as_str))
        });
        Fail::Value(Box::new(Misfit {
            path: cut(name),
            expected: "a column of the table".to_owned(),
            got: preview(name),
            hint: nearest.map(|n| format!("did you mean \"{n}\"?")),
        }))
    }
}

/// A name that the client made up, cut to a length that can be shown.
fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

/// A name that stands twice in one object.
fn twice(name: &str) -> Fail {
    Fail::Value(Box::new(Misfit {
        path: cut(name),
        expected: "every name once".to_owned(),
        got: format!("{} twice", preview(name)),
        hint: None,
    }))
}
