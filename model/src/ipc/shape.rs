//! Which buffers and children the array of a type has in a message.

use arrow::datatypes::{DataType, FieldRef, Fields, UnionFields, UnionMode};

use super::error::IpcError;

/// The parts of an array, in the order of a message. All but `Null`, `RunEnds` and `Union` start with a validity
/// buffer.
pub(super) enum Shape<'a> {
    /// Nothing.
    Null,
    /// Values, one bit each.
    Bits,
    /// Values, so many bytes each.
    Fixed { width: usize },
    /// Offsets, then the bytes they point into.
    Bytes { offset_width: usize },
    /// Offsets, then the child they point into. Maps too.
    List { offset_width: usize, child: &'a FieldRef },
    /// A child with `size` elements for each of ours.
    FixedList { size: usize, child: &'a FieldRef },
    /// Children of our length.
    Struct(&'a Fields),
    /// Views of 16 bytes, then any number of buffers they point into.
    Views,
    /// Offsets and sizes, then the child they point into.
    ListViews { offset_width: usize, child: &'a FieldRef },
    /// Keys; the values come in dictionary batches.
    Dictionary { key_width: usize, value: &'a DataType },
    /// Two children: where each run ends, and its value.
    RunEnds { ends: &'a FieldRef, values: &'a FieldRef },
    /// Type ids and, if dense, offsets; then the children.
    Union { fields: &'a UnionFields, mode: UnionMode },
}

impl<'a> Shape<'a> {
    /// The shape of a type, or why there is no such type.
    pub(super) fn of(data_type: &'a DataType) -> Result<Self, String> {
        let size_of =
            |size: i32| usize::try_from(size).map_err(|_| format!("{data_type} has a negative size"));
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bits,
            DataType::FixedSizeBinary(size) => Self::Fixed { width: size_of(*size)? },
            DataType::Utf8 | DataType::Binary => Self::Bytes { offset_width: 4 },
            DataType::LargeUtf8 | DataType::LargeBinary => Self::Bytes { offset_width: 8 },
            DataType::List(child) | DataType::Map(child, _) => Self::List { offset_width: 4, child },
            DataType::LargeList(child) => Self::List { offset_width: 8, child },
            DataType::FixedSizeList(child, size) => Self::FixedList { size: size_of(*size)?, child },
            DataType::Struct(fields) => Self::Struct(fields),
            DataType::Utf8View | DataType::BinaryView => Self::Views,
            DataType::ListView(child) => Self::ListViews { offset_width: 4, child },
            DataType::LargeListView(child) => Self::ListViews { offset_width: 8, child },
            DataType::Dictionary(key, value) => {
                let key_width = key.primitive_width().filter(|_| key.is_dictionary_key_type());
                let key_width =
                    key_width.ok_or_else(|| format!("{key} cannot be the key of a dictionary"))?;
                Self::Dictionary { key_width, value }
            }
            DataType::RunEndEncoded(ends, values) => Self::RunEnds { ends, values },
            DataType::Union(fields, mode) => Self::Union { fields, mode: *mode },
            other => {
                Self::Fixed { width: other.primitive_width().ok_or_else(|| format!("{other} is not known"))? }
            }
        })
    }
}

/// Nodes and buffers of a column in a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) nodes: usize,
    pub(super) buffers: usize,
}

/// Counts the nodes and buffers of a plain type; an error for types that chunks do not hold.
pub(super) fn count_stored(column: &str, data_type: &DataType) -> Result<Counts, IpcError> {
    let mut counts = Counts::default();
    add_stored(&mut counts, column, data_type)?;
    Ok(counts)
}

fn add_stored(counts: &mut Counts, column: &str, data_type: &DataType) -> Result<(), IpcError> {
    let shape =
        Shape::of(data_type).map_err(|problem| IpcError::Column { column: column.to_owned(), problem })?;
    let (buffers, children): (usize, &[FieldRef]) = match shape {
        Shape::Null => (0, &[]),
        Shape::Bits | Shape::Fixed { .. } => (2, &[]),
        Shape::Bytes { .. } => (3, &[]),
        Shape::List { child, .. } => (2, std::slice::from_ref(child)),
        Shape::FixedList { child, .. } => (1, std::slice::from_ref(child)),
        Shape::Struct(fields) => (1, fields),
        Shape::Views
        | Shape::ListViews { .. }
        | Shape::Dictionary { .. }
        | Shape::RunEnds { .. }
        | Shape::Union { .. } => {
            return Err(IpcError::NotStored { column: column.to_owned(), data_type: data_type.clone() });
        }
    };
    counts.nodes += 1;
    counts.buffers += buffers;
    for child in children {
        add_stored(counts, &format!("{column}.{}", child.name()), child.data_type())?;
    }
    Ok(())
}
