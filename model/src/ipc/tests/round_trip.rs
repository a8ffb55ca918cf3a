//! Chunks that are read as they were written.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, Schema};
use bytes::Bytes;
use proptest::prelude::*;

use super::arrays::stored_batch;
use super::{COMPRESSIONS, LARGE, batch_of, misaligned, read_with_arrow};
use crate::ipc::{Compression, IpcError, Layout, decode, encode, project, project_message};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn arrow_reads_what_we_encode(batch in stored_batch()) {
        for compression in COMPRESSIONS {
            let encoded = encode(&batch, compression).unwrap();
            prop_assert_eq!(&read_with_arrow(batch.schema_ref(), &encoded.message), &batch);
        }
    }

    #[test]
    fn decode_undoes_encode(batch in stored_batch()) {
        for compression in COMPRESSIONS {
            let encoded = encode(&batch, compression).unwrap();
            prop_assert_eq!(&decode(&encoded.message, batch.schema_ref(), LARGE).unwrap(), &batch);
            let moved = misaligned(&encoded.message);
            prop_assert_eq!(&decode(&moved, batch.schema_ref(), LARGE).unwrap(), &batch);
        }
    }

    #[test]
    fn layout_tells_what_encode_told(batch in stored_batch()) {
        for compression in COMPRESSIONS {
            let encoded = encode(&batch, compression).unwrap();
            let metadata = &encoded.message[..encoded.metadata_len as usize];
            let layout = Layout::parse(metadata, batch.schema_ref()).unwrap();
            prop_assert_eq!(layout.rows(), batch.num_rows());
            prop_assert_eq!(layout.metadata_len(), encoded.metadata_len as usize);
            prop_assert_eq!(layout.message_len(), encoded.message.len() as u64);
            for (found, told) in layout.columns().iter().zip(&encoded.columns) {
                let found = &found.extent;
                prop_assert_eq!(found.end - found.start, told.len);
                prop_assert!(told.len == 0 || found.start == told.start);
                prop_assert_eq!((found.start % 8, found.end % 8), (0, 0));
            }
        }
    }

    #[test]
    fn a_projection_is_the_message_of_the_projected_batch(
        batch in stored_batch(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let columns: Vec<usize> = match batch.num_columns() {
            0 => Vec::new(),
            n => picks.iter().map(|pick| pick.index(n)).collect(),
        };
        let projected = batch.project(&columns).unwrap();
        for compression in COMPRESSIONS {
            let encoded = encode(&batch, compression).unwrap();
            let message = project_message(&encoded.message, batch.schema_ref(), &columns).unwrap();
            prop_assert_eq!(&decode(&message, projected.schema_ref(), LARGE).unwrap(), &projected);
            prop_assert_eq!(&read_with_arrow(projected.schema_ref(), &message), &projected);
            let direct = encode(&projected, compression).unwrap();
            prop_assert_eq!(&message[..], &direct.message[..]);
        }
    }

    #[test]
    fn equal_rows_make_equal_bytes(batch in stored_batch()) {
        let encoded = encode(&batch, Compression::None).unwrap();
        let again = decode(&encoded.message, batch.schema_ref(), LARGE).unwrap();
        prop_assert_eq!(encode(&again, Compression::None).unwrap(), encoded);
    }
}

fn numbers(len: i64) -> RecordBatch {
    batch_of(Arc::new(Int64Array::from_iter_values(0..len)))
}

#[test]
fn a_slice_writes_only_its_rows() {
    let batch = numbers(10_000);
    let sliced = encode(&batch.slice(5_000, 10), Compression::None).unwrap();
    assert_eq!(sliced.uncompressed_len, 80);
    let strings = batch_of(Arc::new(StringArray::from_iter_values((0..1_000).map(|i| format!("{i:04}")))));
    let sliced = encode(&strings.slice(500, 3), Compression::None).unwrap();
    assert_eq!(sliced.uncompressed_len, 4 * 4 + 3 * 4);
}

#[test]
fn small_buffers_stay_raw_and_large_ones_shrink() {
    let zstd = Compression::default();
    let small = encode(&numbers(31), zstd).unwrap();
    assert_eq!(small.columns[0].len, 8 + 31 * 8);
    let large = encode(&numbers(32_000), zstd).unwrap();
    assert!(large.columns[0].len < 32_000 * 8 / 2);
    assert_eq!(large.uncompressed_len, 32_000 * 8);
}

#[test]
fn validity_without_nulls_is_not_written() {
    let values = Int64Array::new(vec![1, 2, 3].into(), Some(NullBuffer::new_valid(3)));
    assert_eq!(encode(&batch_of(Arc::new(values)), Compression::None).unwrap().uncompressed_len, 24);
}

#[test]
fn raw_buffers_are_shared_with_the_message() {
    let batch = numbers(1_000);
    let message = encode(&batch, Compression::None).unwrap().message;
    let decoded = decode(&message, batch.schema_ref(), LARGE).unwrap();
    let values = decoded.column(0).as_primitive::<Int64Type>().values();
    assert!(message.as_ptr_range().contains(&values.inner().as_ptr()));
}

#[test]
fn a_projection_without_columns_keeps_the_rows() {
    let batch = numbers(7);
    let message = encode(&batch, Compression::default()).unwrap().message;
    let message = project_message(&message, batch.schema_ref(), &[]).unwrap();
    let schema = Arc::new(Schema::empty());
    assert_eq!(decode(&message, &schema, LARGE).unwrap().num_rows(), 7);
}

#[test]
fn a_batch_without_columns_keeps_its_rows() {
    let schema = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(5));
    let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    let encoded = encode(&batch, Compression::default()).unwrap();
    assert_eq!(decode(&encoded.message, &schema, LARGE).unwrap().num_rows(), 5);
}

#[test]
fn a_projection_names_the_missing_column() {
    let batch = numbers(1);
    let message = encode(&batch, Compression::default()).unwrap().message;
    let layout = Layout::parse(&message, batch.schema_ref()).unwrap();
    assert!(matches!(project(&layout, &[1]), Err(IpcError::NoColumn { index: 1, columns: 1 })));
}

#[test]
fn encoded_types_are_refused() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for data_type in [dictionary, DataType::Utf8View] {
        let batch = batch_of(cast(&words, &data_type).unwrap());
        let error = encode(&batch, Compression::None).unwrap_err();
        assert!(matches!(error, IpcError::NotStored { column, .. } if column == "c"));
    }
}

#[test]
fn decode_stops_at_the_limit() {
    let batch = numbers(1_000);
    for compression in COMPRESSIONS {
        let message: Bytes = encode(&batch, compression).unwrap().message;
        assert!(decode(&message, batch.schema_ref(), 8_000).is_ok());
        let error = decode(&message, batch.schema_ref(), 7_999).unwrap_err();
        assert!(matches!(error, IpcError::TooLarge { limit: 7_999 }), "{error}");
    }
}

#[test]
fn another_schema_is_an_error() {
    let batch = numbers(100);
    let message = encode(&batch, Compression::default()).unwrap().message;
    let strings = batch_of(Arc::new(StringArray::from(vec!["a"])));
    assert!(decode(&message, strings.schema_ref(), LARGE).is_err());
    assert!(Layout::parse(&message, strings.schema_ref()).is_err());
    let empty = Schema::empty();
    assert!(Layout::parse(&message, &empty).is_err());
}
