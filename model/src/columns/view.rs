//! An array whose type is known for each value without a downcast.

use std::ops::Range;

use arrow::array::{Array, AsArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType as ArrowType, Decimal128Type, Float32Type, Float64Type};

/// An array of one of the types of tables. Shares the array's buffers.
pub(crate) struct View {
    nulls: Option<NullBuffer>,
    values: Values,
}

/// The values of a [`View`], by the form in which they lie in memory.
pub(crate) enum Values {
    Boolean(BooleanBuffer),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Decimal(ScalarBuffer<i128>),
    Float(ScalarBuffer<f32>),
    Double(ScalarBuffer<f64>),
    /// Text and bytes.
    Bytes(OffsetBuffer<i32>, Buffer),
    /// Bytes of one length.
    Fixed(usize, Buffer),
    List(OffsetBuffer<i32>, Box<View>),
    Map(OffsetBuffer<i32>, Box<View>, Box<View>),
    Row(Vec<View>),
}

impl View {
    /// `None` if tables have no such type.
    pub(crate) fn new(array: &dyn Array) -> Option<View> {
        let values = match array.data_type() {
            ArrowType::Boolean => Values::Boolean(array.as_boolean().values().clone()),
            ArrowType::Int8 => Values::Int8(scalars(array)),
            ArrowType::Int16 => Values::Int16(scalars(array)),
            ArrowType::Int32 | ArrowType::Date32 | ArrowType::Time32(_) => Values::Int32(scalars(array)),
            ArrowType::Int64 | ArrowType::Time64(_) | ArrowType::Timestamp(..) => {
                Values::Int64(scalars(array))
            }
            ArrowType::Decimal128(..) => {
                Values::Decimal(array.as_primitive::<Decimal128Type>().values().clone())
            }
            ArrowType::Float32 => Values::Float(array.as_primitive::<Float32Type>().values().clone()),
            ArrowType::Float64 => Values::Double(array.as_primitive::<Float64Type>().values().clone()),
            ArrowType::Utf8 => {
                let text = array.as_string::<i32>();
                Values::Bytes(text.offsets().clone(), text.values().clone())
            }
            ArrowType::Binary => {
                let bytes = array.as_binary::<i32>();
                Values::Bytes(bytes.offsets().clone(), bytes.values().clone())
            }
            ArrowType::FixedSizeBinary(width) => {
                let bytes = array.as_fixed_size_binary();
                Values::Fixed(usize::try_from(*width).ok()?, bytes.values().clone())
            }
            ArrowType::List(_) => {
                let list = array.as_list::<i32>();
                Values::List(list.offsets().clone(), Box::new(View::new(list.values())?))
            }
            ArrowType::Map(..) => {
                let map = array.as_map();
                let (keys, values) = (View::new(map.keys())?, View::new(map.values())?);
                Values::Map(map.offsets().clone(), Box::new(keys), Box::new(values))
            }
            ArrowType::Struct(_) => {
                let columns = array.as_struct().columns().iter();
                Values::Row(columns.map(|column| View::new(column)).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some(View { nulls: array.nulls().cloned(), values })
    }

    /// Whether there is no value at `row`.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The first row without a value.
    pub(crate) fn first_null(&self) -> Option<usize> {
        let nulls = self.nulls.as_ref().filter(|nulls| nulls.null_count() > 0)?;
        nulls.iter().position(|valid| !valid)
    }

    /// The values, those of null rows included, which mean nothing.
    #[inline]
    pub(crate) fn values(&self) -> &Values {
        &self.values
    }
}

/// Where the value at `row` lies among what the offsets divide.
#[inline]
pub(crate) fn range(offsets: &OffsetBuffer<i32>, row: usize) -> Range<usize> {
    // Arrow's offsets are never negative.
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The numbers of an array that holds them in one buffer.
fn scalars<T: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}
