//! An array that grows value by value.
//!
//! What it grows by may come from damaged bytes: a builder refuses to grow beyond what Arrow can hold, where Arrow's
//! own builders panic.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder, FixedSizeBinaryArray, ListArray,
    MapArray, NullBufferBuilder, PrimitiveBuilder, StringBuilder, StructArray, make_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type,
};

use crate::row::Damage;

/// Most bytes of one buffer of an array: Arrow counts them in 31 bits.
const MAX_BYTES: usize = i32::MAX as usize;

/// Rows that room is made for at once; more grow as they come.
const MAX_ROOM: usize = 1 << 16;

/// A column of one of the types of tables in the making.
pub(crate) enum Builder {
    Boolean(BooleanBuilder),
    Int8(PrimitiveBuilder<Int8Type>),
    Int16(PrimitiveBuilder<Int16Type>),
    Int32(PrimitiveBuilder<Int32Type>),
    Int64(PrimitiveBuilder<Int64Type>),
    Decimal(PrimitiveBuilder<Decimal128Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Fixed(Fixed),
    List(Items, Box<Nested>),
    Map(Items, Box<Nested>, Box<Nested>),
    Row(Row),
}

/// Bytes of one length.
pub(crate) struct Fixed {
    width: usize,
    bytes: Vec<u8>,
    nulls: NullBufferBuilder,
}

/// Where the elements of each list or map end.
pub(crate) struct Items {
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    /// Bytes of memory that a null element takes.
    weight: usize,
}

/// A builder inside another one.
pub(crate) struct Nested {
    pub(crate) builder: Builder,
    pub(crate) nullable: bool,
}

/// The fields of a row.
pub(crate) struct Row {
    pub(crate) fields: Vec<Nested>,
    nulls: NullBufferBuilder,
}

impl Builder {
    /// `None` if tables have no such type.
    pub(crate) fn new(data_type: &ArrowType, rows: usize) -> Option<Builder> {
        let room = rows.min(MAX_ROOM);
        let nested = |field: &FieldRef| {
            let builder = Builder::new(field.data_type(), room)?;
            Some(Nested { builder, nullable: field.is_nullable() })
        };
        Some(match data_type {
            ArrowType::Boolean => Builder::Boolean(BooleanBuilder::with_capacity(room)),
            ArrowType::Int8 => Builder::Int8(PrimitiveBuilder::with_capacity(room)),
            ArrowType::Int16 => Builder::Int16(PrimitiveBuilder::with_capacity(room)),
            ArrowType::Int32 | ArrowType::Date32 | ArrowType::Time32(_) => {
                Builder::Int32(PrimitiveBuilder::with_capacity(room))
            }
            ArrowType::Int64 | ArrowType::Time64(_) | ArrowType::Timestamp(..) => {
                Builder::Int64(PrimitiveBuilder::with_capacity(room))
            }
            ArrowType::Decimal128(..) => Builder::Decimal(PrimitiveBuilder::with_capacity(room)),
            ArrowType::Float32 => Builder::Float(PrimitiveBuilder::with_capacity(room)),
            ArrowType::Float64 => Builder::Double(PrimitiveBuilder::with_capacity(room)),
            ArrowType::Utf8 => Builder::Text(StringBuilder::with_capacity(room, 0)),
            ArrowType::Binary => Builder::Bytes(BinaryBuilder::with_capacity(room, 0)),
            ArrowType::FixedSizeBinary(width) => {
                let width = usize::try_from(*width).ok()?;
                Builder::Fixed(Fixed { width, bytes: Vec::new(), nulls: NullBufferBuilder::new(room) })
            }
            ArrowType::List(item) => {
                Builder::List(Items::new(room, null_bytes(item.data_type())), Box::new(nested(item)?))
            }
            ArrowType::Map(entries, _) => {
                let (key, value) = entry(entries)?;
                let weight = null_bytes(key.data_type()).saturating_add(null_bytes(value.data_type()));
                let (keys, values) = (Box::new(nested(key)?), Box::new(nested(value)?));
                Builder::Map(Items::new(room, weight), keys, values)
            }
            ArrowType::Struct(fields) => {
                let fields = fields.iter().map(nested).collect::<Option<_>>()?;
                Builder::Row(Row { fields, nulls: NullBufferBuilder::new(room) })
            }
            _ => return None,
        })
    }

    /// Appends a null.
    pub(crate) fn append_null(&mut self) -> Result<(), Damage> {
        match self {
            Builder::Boolean(b) => b.append_null(),
            Builder::Int8(b) => b.append_null(),
            Builder::Int16(b) => b.append_null(),
            Builder::Int32(b) => b.append_null(),
            Builder::Int64(b) => b.append_null(),
            Builder::Decimal(b) => b.append_null(),
            Builder::Float(b) => b.append_null(),
            Builder::Double(b) => b.append_null(),
            Builder::Text(b) => b.append_null(),
            Builder::Bytes(b) => b.append_null(),
            Builder::Fixed(b) => {
                b.bytes.resize(b.room()?, 0);
                b.nulls.append_null();
            }
            Builder::List(items, _) | Builder::Map(items, ..) => items.append_null(),
            Builder::Row(b) => {
                b.nulls.append_null();
                return b.fields.iter_mut().try_for_each(|field| field.builder.append_null());
            }
        }
        Ok(())
    }

    /// Appends text or bytes; a builder of something else takes none.
    pub(crate) fn append_bytes(&mut self, value: &[u8]) -> Result<(), Damage> {
        let fits = |held: &[u8]| match held.len().checked_add(value.len()) {
            Some(0..=MAX_BYTES) => Ok(()),
            _ => Err(Damage::Full),
        };
        match self {
            Builder::Text(b) => {
                fits(b.values_slice())?;
                b.append_value(std::str::from_utf8(value).map_err(|_| Damage::Text)?);
            }
            Builder::Bytes(b) => {
                fits(b.values_slice())?;
                b.append_value(value);
            }
            Builder::Fixed(b) => b.append(value)?,
            _ => return Err(Damage::Length),
        }
        Ok(())
    }

    /// The array, under the type that the builder was made for.
    pub(crate) fn finish(self, data_type: &ArrowType) -> ArrayRef {
        match self {
            Builder::Boolean(mut b) => Arc::new(b.finish()),
            Builder::Int8(b) => numbers(b, data_type),
            Builder::Int16(b) => numbers(b, data_type),
            Builder::Int32(b) => numbers(b, data_type),
            Builder::Int64(b) => numbers(b, data_type),
            Builder::Decimal(b) => numbers(b, data_type),
            Builder::Float(b) => numbers(b, data_type),
            Builder::Double(b) => numbers(b, data_type),
            Builder::Text(mut b) => Arc::new(b.finish()),
            Builder::Bytes(mut b) => Arc::new(b.finish()),
            Builder::Fixed(mut b) => {
                let array = FixedSizeBinaryArray::try_new(
                    b.width as i32,
                    Buffer::from_vec(b.bytes),
                    b.nulls.finish(),
                );
                Arc::new(array.expect("each value, null or not, took `width` bytes"))
            }
            Builder::List(items, item) => {
                let ArrowType::List(field) = data_type else { unreachable!("{OTHER_TYPE}") };
                let values = item.builder.finish(field.data_type());
                let (offsets, nulls) = items.finish();
                let list = ListArray::try_new(field.clone(), offsets, values, nulls);
                Arc::new(list.expect("offsets count the elements; nulls are where the field allows them"))
            }
            Builder::Map(items, keys, values) => {
                let ArrowType::Map(entries, sorted) = data_type else { unreachable!("{OTHER_TYPE}") };
                let ArrowType::Struct(fields) = entries.data_type() else { unreachable!("{OTHER_TYPE}") };
                let keys = keys.builder.finish(fields[0].data_type());
                let values = values.builder.finish(fields[1].data_type());
                let (offsets, nulls) = items.finish();
                let pairs = StructArray::try_new(fields.clone(), vec![keys, values], None);
                let pairs =
                    pairs.expect("keys and values are as many; nulls are where the fields allow them");
                let map = MapArray::try_new(entries.clone(), offsets, pairs, nulls, *sorted);
                Arc::new(map.expect("offsets count the entries"))
            }
            Builder::Row(b) => {
                let ArrowType::Struct(fields) = data_type else { unreachable!("{OTHER_TYPE}") };
                b.finish(fields)
            }
        }
    }
}

const OTHER_TYPE: &str = "`finish` gets the type that `new` got";

impl Fixed {
    fn append(&mut self, value: &[u8]) -> Result<(), Damage> {
        if value.len() != self.width {
            return Err(Damage::Length);
        }
        self.room()?;
        self.bytes.extend_from_slice(value);
        self.nulls.append_non_null();
        Ok(())
    }

    /// The length after one value more.
    fn room(&self) -> Result<usize, Damage> {
        let len = self.bytes.len() + self.width;
        if len > MAX_BYTES { Err(Damage::Full) } else { Ok(len) }
    }
}

impl Items {
    fn new(room: usize, weight: usize) -> Items {
        let mut offsets = Vec::with_capacity(room + 1);
        offsets.push(0);
        Items { offsets, nulls: NullBufferBuilder::new(room), weight: weight.max(1) }
    }

    fn end(&self) -> i32 {
        self.offsets.last().copied().unwrap_or(0)
    }

    fn append_null(&mut self) {
        self.offsets.push(self.end());
        self.nulls.append_null();
    }

    /// Appends a list of so many elements, which the caller appends to the element's builder. A null element is a
    /// bit in a stored row and may be a mebibyte in Arrow, so that their number is bounded by what they would take.
    pub(crate) fn append(&mut self, count: usize) -> Result<(), Damage> {
        let end = count.checked_add(self.end() as usize).ok_or(Damage::Full)?;
        if end.checked_mul(self.weight).is_none_or(|bytes| bytes > MAX_BYTES) {
            return Err(Damage::Full);
        }
        self.offsets.push(end as i32);
        self.nulls.append_non_null();
        Ok(())
    }

    fn finish(mut self) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        (OffsetBuffer::new(self.offsets.into()), self.nulls.finish())
    }
}

impl Row {
    /// Appends a row, whose fields the caller appends.
    pub(crate) fn append(&mut self) {
        self.nulls.append_non_null();
    }

    fn finish(mut self, fields: &Fields) -> ArrayRef {
        let len = self.nulls.len();
        let arrays = self.fields.into_iter().zip(fields);
        let arrays = arrays.map(|(nested, field)| nested.builder.finish(field.data_type())).collect();
        let row = StructArray::try_new_with_length(fields.clone(), arrays, self.nulls.finish(), len);
        Arc::new(row.expect("each row appends to each field; nulls are where the fields allow them"))
    }
}

/// The key and the value of a map's entries.
fn entry(entries: &FieldRef) -> Option<(&FieldRef, &FieldRef)> {
    match entries.data_type() {
        ArrowType::Struct(fields) => match &fields[..] {
            [key, value] => Some((key, value)),
            _ => None,
        },
        _ => None,
    }
}

fn numbers<T: ArrowPrimitiveType>(mut builder: PrimitiveBuilder<T>, data_type: &ArrowType) -> ArrayRef {
    let array = builder.finish();
    if array.data_type() == data_type {
        return Arc::new(array);
    }
    let data = array.into_data().into_builder().data_type(data_type.clone()).build();
    make_array(data.expect("`new` chose the builder by the width of the type"))
}

/// About how many bytes of memory a null of the type takes.
fn null_bytes(data_type: &ArrowType) -> usize {
    match data_type {
        ArrowType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
        ArrowType::Struct(fields) => {
            fields.iter().fold(1, |sum, field| null_bytes(field.data_type()).saturating_add(sum))
        }
        other => other.primitive_width().unwrap_or(4),
    }
}
