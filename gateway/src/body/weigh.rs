//! How large columns are once they are plain: without dictionaries, runs and views.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType as ArrowType;

/// Bytes of the values of a column as a plain one; an upper bound where values share memory.
pub(super) fn plain_bytes(array: &ArrayRef) -> usize {
    let rows = array.len();
    match array.data_type() {
        ArrowType::Utf8View => array
            .as_string_view()
            .views()
            .iter()
            .map(|v| *v as u32 as usize + 4)
            .fold(0, usize::saturating_add),
        ArrowType::BinaryView => array
            .as_binary_view()
            .views()
            .iter()
            .map(|v| *v as u32 as usize + 4)
            .fold(0, usize::saturating_add),
        ArrowType::Dictionary(..) => rows.saturating_mul(largest(array.as_any_dictionary().values())),
        ArrowType::RunEndEncoded(..) => {
            let values = array.to_data().child_data().get(1).cloned();
            rows.saturating_mul(values.map_or(0, |v| largest(&arrow::array::make_array(v))))
        }
        ArrowType::Struct(_) => {
            array.as_struct().columns().iter().map(plain_bytes).fold(0, usize::saturating_add)
        }
        ArrowType::List(_) => rows * 4 + plain_bytes(array.as_list::<i32>().values()),
        ArrowType::LargeList(_) => rows * 8 + plain_bytes(array.as_list::<i64>().values()),
        ArrowType::Map(..) => {
            let map = array.as_map();
            rows * 4 + plain_bytes(map.keys()).saturating_add(plain_bytes(map.values()))
        }
        // Views into a list may overlap, each as large as the whole.
        ArrowType::ListView(_) => rows.saturating_mul(plain_bytes(array.as_list_view::<i32>().values())),
        ArrowType::LargeListView(_) => rows.saturating_mul(plain_bytes(array.as_list_view::<i64>().values())),
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}

/// Bytes of the largest value.
fn largest(values: &ArrayRef) -> usize {
    let longest = |ends: &mut dyn Iterator<Item = usize>| ends.max().unwrap_or(0) + 4;
    match values.data_type() {
        ArrowType::Utf8 => longest(&mut values.as_string::<i32>().iter().flatten().map(str::len)),
        ArrowType::LargeUtf8 => longest(&mut values.as_string::<i64>().iter().flatten().map(str::len)),
        ArrowType::Binary => longest(&mut values.as_binary::<i32>().iter().flatten().map(<[u8]>::len)),
        ArrowType::LargeBinary => longest(&mut values.as_binary::<i64>().iter().flatten().map(<[u8]>::len)),
        other => other.primitive_width().unwrap_or_else(|| plain_bytes(values)),
    }
}
