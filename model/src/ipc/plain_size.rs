//! How large an array is once it is made plain.
//!
//! Dictionaries, runs and views name a value once and use it often: a few kilobytes unfold to terabytes when such
//! a column is cast to its plain type, as the gateway does with every column that is stored. So the plain size
//! counts against the limit of a stream before anybody casts.

use arrow::array::{Array, ArrayRef, AsArray, RunArray, downcast_run_array};
use arrow::datatypes::{ArrowNativeType, DataType, RunEndIndexType};

/// Whether an array of this type may be larger when plain than it is now.
pub(super) fn may_unfold(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_) => true,
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::Map(child, _)
        | DataType::FixedSizeList(child, _) => may_unfold(child.data_type()),
        DataType::Struct(children) => children.iter().any(|child| may_unfold(child.data_type())),
        DataType::Union(children, _) => children.iter().any(|(_, child)| may_unfold(child.data_type())),
        _ => false,
    }
}

/// Bytes of the values of an array, written out plainly. Validity is not counted, offsets are.
pub(super) fn of(array: &dyn Array) -> u64 {
    each(array).sum(0, array.len())
}

/// Plain bytes of each element of an array.
enum Sizes {
    /// All alike.
    Same(u64),
    /// `ends[i + 1] - ends[i]` for element `i`: sums, because lists ask for ranges.
    Sums(Vec<u64>),
}

impl Sizes {
    fn from_each(sizes: impl Iterator<Item = u64>) -> Self {
        let mut sum = 0_u64;
        let sums = sizes.map(|size| {
            sum = sum.saturating_add(size);
            sum
        });
        Self::Sums(std::iter::once(0).chain(sums).collect())
    }

    /// Bytes of the elements from `start` up to `end`.
    fn sum(&self, start: usize, end: usize) -> u64 {
        match self {
            Self::Same(size) => size.saturating_mul(end.saturating_sub(start) as u64),
            Self::Sums(sums) => match (sums.get(start), sums.get(end)) {
                (Some(start), Some(end)) => end.saturating_sub(*start),
                _ => 0,
            },
        }
    }
}

fn each(array: &dyn Array) -> Sizes {
    match array.data_type() {
        DataType::Null | DataType::Boolean => Sizes::Same(1),
        DataType::FixedSizeBinary(size) => Sizes::Same(*size as u64),
        DataType::Utf8 => spans(array.as_string::<i32>().offsets(), &Sizes::Same(1)),
        DataType::LargeUtf8 => spans(array.as_string::<i64>().offsets(), &Sizes::Same(1)),
        DataType::Binary => spans(array.as_binary::<i32>().offsets(), &Sizes::Same(1)),
        DataType::LargeBinary => spans(array.as_binary::<i64>().offsets(), &Sizes::Same(1)),
        DataType::Utf8View => views(array.as_string_view().views()),
        DataType::BinaryView => views(array.as_binary_view().views()),
        DataType::List(_) => spans(array.as_list::<i32>().offsets(), &each(array.as_list::<i32>().values())),
        DataType::LargeList(_) => {
            spans(array.as_list::<i64>().offsets(), &each(array.as_list::<i64>().values()))
        }
        DataType::Map(..) => spans(array.as_map().offsets(), &each(array.as_map().entries())),
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            list_views(list.offsets(), list.sizes(), &each(list.values()))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            list_views(list.offsets(), list.sizes(), &each(list.values()))
        }
        DataType::FixedSizeList(_, size) => {
            let (size, values) = (*size as usize, each(array.as_fixed_size_list().values()));
            Sizes::from_each((0..array.len()).map(|i| values.sum(i * size, (i + 1) * size)))
        }
        DataType::Struct(_) => together(array.len(), array.as_struct().columns()),
        DataType::Union(fields, _) => {
            let union = array.as_union();
            largest(fields.iter().map(|(id, _)| union.child(id)))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Sizes::Same(0);
            }
            let (values, keys) = (each(dictionary.values()), dictionary.normalized_keys());
            Sizes::from_each(keys.into_iter().enumerate().map(
                |(i, key)| match dictionary.keys().is_null(i) {
                    true => 0,
                    false => values.sum(key, key + 1),
                },
            ))
        }
        DataType::RunEndEncoded(..) => downcast_run_array!(
            array => runs(array),
            _ => Sizes::Same(0)
        ),
        other => Sizes::Same(other.primitive_width().unwrap_or_default() as u64),
    }
}

/// Elements that span ranges of `values`, and their offsets.
fn spans<O: ArrowNativeType>(offsets: &[O], values: &Sizes) -> Sizes {
    let width = size_of::<O>() as u64;
    Sizes::from_each(
        offsets
            .windows(2)
            .map(|pair| values.sum(pair[0].as_usize(), pair[1].as_usize()).saturating_add(width)),
    )
}

/// The length of a view is in its low half.
fn views(views: &[u128]) -> Sizes {
    Sizes::from_each(views.iter().map(|view| u64::from(*view as u32) + 4))
}

fn list_views<O: ArrowNativeType>(offsets: &[O], sizes: &[O], values: &Sizes) -> Sizes {
    let width = size_of::<O>() as u64;
    Sizes::from_each(offsets.iter().zip(sizes).map(|(offset, size)| {
        let start = offset.as_usize();
        values.sum(start, start + size.as_usize()).saturating_add(width)
    }))
}

fn together(len: usize, children: &[ArrayRef]) -> Sizes {
    let children: Vec<Sizes> = children.iter().map(|child| each(child)).collect();
    Sizes::from_each(
        (0..len).map(|i| children.iter().fold(0_u64, |sum, child| sum.saturating_add(child.sum(i, i + 1)))),
    )
}

/// A union has no plain type to be cast to; any element of it may be the largest of its children.
fn largest<'a>(children: impl Iterator<Item = &'a ArrayRef>) -> Sizes {
    let largest = children.map(|child| {
        let sizes = each(child);
        (0..child.len()).map(|i| sizes.sum(i, i + 1)).max().unwrap_or_default()
    });
    Sizes::Same(largest.max().unwrap_or_default())
}

fn runs<R: RunEndIndexType>(array: &RunArray<R>) -> Sizes {
    let values = each(array.values());
    let mut run = 0;
    let ends = array.run_ends().values();
    Sizes::from_each((0..array.len()).map(|i| {
        while ends.get(run).is_some_and(|end| end.as_usize() <= i) {
            run += 1;
        }
        values.sum(run, run + 1)
    }))
}
