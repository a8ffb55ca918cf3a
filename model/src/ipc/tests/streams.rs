//! Streams by Arrow's writer, read by ours.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListViewArray, RecordBatch, RunArray,
    StringArray, UnionArray, new_null_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema, UnionFields};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use proptest::prelude::*;

use super::arrays::stored_batch;
use super::{arrow_stream, batch_of, misaligned};
use crate::ipc::{IpcError, Limits, StreamBody, StreamError, read_stream};

fn options() -> Vec<IpcWriteOptions> {
    [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)]
        .into_iter()
        .map(|codec| IpcWriteOptions::default().try_with_compression(codec).unwrap())
        .collect()
}

fn read(stream: Vec<u8>) -> Result<StreamBody, StreamError> {
    read_stream(Bytes::from(stream), &Limits::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn streams_of_arrow_are_read(batch in stored_batch()) {
        for options in options() {
            let stream = arrow_stream(batch.schema_ref(), &[batch.clone(), batch.clone()], options);
            let body = read_stream(misaligned(&stream), &Limits::default()).unwrap();
            prop_assert_eq!(&body.schema, batch.schema_ref());
            prop_assert_eq!(body.batches.len(), if batch.num_rows() > 0 { 2 } else { 0 });
            prop_assert!(body.batches.iter().all(|read| *read == batch));
        }
    }

    #[test]
    fn a_stream_cut_anywhere_is_an_error_or_ends_after_a_message(batch in stored_batch(), at in any::<prop::sample::Index>()) {
        let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0));
        let cut = at.index(stream.len());
        let whole = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap().get_ref().len();
        let ends = [whole, stream.len() - 8];
        match read(stream[..cut].to_vec()) {
            Ok(_) => prop_assert!(ends.contains(&cut)),
            Err(StreamError::Empty) => prop_assert_eq!(cut, 0),
            Err(StreamError::Truncated { .. }) => prop_assert!(!ends.contains(&cut)),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
    }
}

/// Columns of the types that chunks do not hold.
fn encoded_columns() -> Vec<ArrayRef> {
    let words: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), None, Some("a long word, no inline view"), Some("a")]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let list_view = ListViewArray::new(
        Arc::new(Field::new("item", DataType::Int32, true)),
        ScalarBuffer::from(vec![2, 0, 0, 1]),
        ScalarBuffer::from(vec![2, 4, 0, 1]),
        numbers.clone(),
        None,
    );
    let fields = UnionFields::try_new(
        [3, 5],
        [Field::new("n", DataType::Int32, true), Field::new("w", DataType::Utf8, true)],
    )
    .unwrap();
    let ids = ScalarBuffer::from(vec![3_i8, 5, 5, 3]);
    let children = vec![numbers.clone(), words.clone()];
    let sparse = UnionArray::try_new(fields.clone(), ids.clone(), None, children.clone()).unwrap();
    let offsets = ScalarBuffer::from(vec![3, 0, 0, 1]);
    let dense = UnionArray::try_new(fields, ids, Some(offsets), children).unwrap();
    let runs =
        RunArray::try_new(&Int32Array::from(vec![1, 3, 4]), &StringArray::from(vec!["x", "y", "z"])).unwrap();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
    vec![
        cast(&words, &DataType::Utf8View).unwrap(),
        cast(&words, &DataType::BinaryView).unwrap(),
        cast(&words, &dictionary).unwrap(),
        Arc::new(list_view),
        Arc::new(sparse),
        Arc::new(dense),
        Arc::new(runs),
    ]
}

#[test]
fn dictionaries_views_runs_and_unions_are_read() {
    for column in encoded_columns() {
        let batch = batch_of(column);
        for options in options() {
            let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options);
            assert_eq!(read(stream).unwrap().batches, std::slice::from_ref(&batch), "{}", batch.schema_ref());
        }
    }
}

#[test]
fn columns_of_nulls_of_any_type_are_read() {
    for column in encoded_columns() {
        if matches!(column.data_type(), DataType::Union(..)) {
            continue;
        }
        let batch = batch_of(new_null_array(column.data_type(), 3));
        let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0));
        assert_eq!(read(stream).unwrap().batches[0].num_rows(), 3);
    }
}

fn words(values: &[&str], keys: &[i8]) -> RecordBatch {
    let values = Arc::new(StringArray::from(values.to_vec()));
    batch_of(Arc::new(DictionaryArray::<Int8Type>::try_new(keys.to_vec().into(), values).unwrap()))
}

#[test]
fn dictionaries_are_replaced_and_extended() {
    let batches = [words(&["a", "b"], &[0, 1]), words(&["a", "b", "c"], &[2, 0]), words(&["z"], &[0])];
    for handling in [DictionaryHandling::Resend, DictionaryHandling::Delta] {
        let options = IpcWriteOptions::default().with_dictionary_handling(handling);
        let body = read(arrow_stream(batches[0].schema_ref(), &batches, options)).unwrap();
        assert_eq!(body.batches, batches);
    }
}

#[test]
fn dictionaries_inside_of_lists_and_dictionaries_are_read() {
    let inner = words(&["a", "b"], &[0, 1, 1]).column(0).clone();
    let offsets = arrow::buffer::OffsetBuffer::new(vec![0, 2, 3].into());
    let item = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let list: ArrayRef = Arc::new(arrow::array::ListArray::new(item, offsets, inner, None));
    let outer = DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![1, 0, 1]), list.clone()).unwrap();
    for batch in [batch_of(list), batch_of(Arc::new(outer))] {
        let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0));
        assert_eq!(read(stream).unwrap().batches, [batch]);
    }
}

/// Cuts a stream into messages: schema, the others, end marker.
fn messages(stream: &[u8]) -> Vec<&[u8]> {
    let (mut messages, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let metadata = i32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let body = match metadata {
            0 => 0,
            n => arrow_ipc::root_as_message(&rest[8..8 + n]).unwrap().bodyLength() as usize,
        };
        let (message, after) = rest.split_at(8 + metadata + body);
        messages.push(message);
        rest = after;
    }
    messages
}

#[test]
fn a_delta_needs_its_base() {
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let batches = [words(&["a", "b"], &[0, 1]), words(&["a", "b", "c"], &[2, 0])];
    let stream = arrow_stream(batches[0].schema_ref(), &batches, options);
    let parts = messages(&stream);
    // Schema, dictionary, batch, delta, batch, end.
    assert_eq!(parts.len(), 6);
    let error = read([parts[0], parts[3], parts[4]].concat()).unwrap_err();
    assert!(matches!(error, StreamError::DeltaWithoutBase { message: 2, id: 0, .. }), "{error}");
}

#[test]
fn a_dictionary_of_no_field_is_an_error() {
    let with = words(&["a"], &[0]);
    let without = batch_of(Arc::new(Int64Array::from(vec![1])));
    let first = arrow_stream(without.schema_ref(), &[], options().remove(0));
    let second = arrow_stream(with.schema_ref(), std::slice::from_ref(&with), options().remove(0));
    let error = read([messages(&first)[0], messages(&second)[1]].concat()).unwrap_err();
    assert!(matches!(error, StreamError::UnknownDictionary { message: 2, id: 0, .. }), "{error}");
}

#[test]
fn keys_without_a_dictionary_are_an_error() {
    let batch = words(&["a"], &[0]);
    let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0));
    let parts = messages(&stream);
    let error = read([parts[0], parts[2]].concat()).unwrap_err();
    assert!(
        matches!(error, StreamError::Message { message: 2, source: IpcError::Column { .. }, .. }),
        "{error}"
    );
}

#[test]
fn other_formats_are_told_apart() {
    let batch = words(&["a"], &[0]);
    let mut file = FileWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    file.write(&batch).unwrap();
    assert!(matches!(read(file.into_inner().unwrap()), Err(StreamError::FileFormat)));
    assert!(matches!(read(Vec::new()), Err(StreamError::Empty)));
    let json = read(b"{\"a\": 1}".to_vec());
    assert!(matches!(json, Err(StreamError::NoContinuation { message: 1, byte: 0 })));
    let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0));
    let headless = read(messages(&stream)[1].to_vec());
    assert!(matches!(headless, Err(StreamError::UnexpectedMessage { message: 1, .. })));
    let twice = read([messages(&stream)[0], messages(&stream)[0]].concat());
    assert!(matches!(twice, Err(StreamError::UnexpectedMessage { message: 2, .. })));
    let end = stream.len() - 8;
    let trailing = read([&stream[..], b"more"].concat());
    assert!(matches!(trailing, Err(StreamError::Trailing { byte, bytes: 4 }) if byte == end));
}

#[test]
fn limits_on_rows_and_bytes_hold() {
    let batch = batch_of(Arc::new(Int64Array::from_iter_values(0..100)));
    let stream =
        Bytes::from(arrow_stream(batch.schema_ref(), &[batch.clone(), batch.clone()], options().remove(0)));
    let limits = Limits { max_rows: 200, max_uncompressed_bytes: 1_600, ..Limits::default() };
    assert!(read_stream(stream.clone(), &limits).is_ok());
    let error = read_stream(stream.clone(), &Limits { max_rows: 199, ..limits }).unwrap_err();
    assert!(matches!(error, StreamError::TooManyRows { limit: 199 }));
    let error = read_stream(stream, &Limits { max_uncompressed_bytes: 1_599, ..limits }).unwrap_err();
    assert!(matches!(
        error,
        StreamError::Message { message: 3, source: IpcError::TooLarge { limit: 1_599 }, .. }
    ));
}

#[test]
fn columns_that_unfold_count_with_their_plain_size() {
    let long = "x".repeat(10_000);
    let dictionary = words(&[&long], &[0; 1_000]);
    let view = StringArray::from(vec![long.as_str()]);
    let view = cast(&view, &DataType::Utf8View).unwrap();
    let view = arrow::compute::take(&view, &Int32Array::from(vec![0; 1_000]), None).unwrap();
    let runs =
        RunArray::try_new(&Int32Array::from(vec![1_000]), &StringArray::from(vec![long.as_str()])).unwrap();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![0; 2_500]));
    let list_view = ListViewArray::new(
        Arc::new(Field::new("item", DataType::Int32, true)),
        ScalarBuffer::from(vec![0; 1_000]),
        ScalarBuffer::from(vec![2_500; 1_000]),
        values,
        None,
    );
    for batch in [dictionary, batch_of(view), batch_of(Arc::new(runs)), batch_of(Arc::new(list_view))] {
        let stream =
            Bytes::from(arrow_stream(batch.schema_ref(), std::slice::from_ref(&batch), options().remove(0)));
        let limits = |max_uncompressed_bytes| Limits { max_uncompressed_bytes, ..Limits::default() };
        assert!(read_stream(stream.clone(), &limits(10_100_000)).is_ok(), "{}", batch.schema_ref());
        let error = read_stream(stream, &limits(9_999_999)).unwrap_err();
        assert!(matches!(error, StreamError::Message { source: IpcError::TooLarge { .. }, .. }), "{error}");
    }
}

#[test]
fn schema_metadata_survives() {
    let field =
        Field::new("c", DataType::Int64, false).with_metadata([("k".to_owned(), "v".to_owned())].into());
    let schema = Schema::new(vec![field]).with_metadata([("a".to_owned(), "b".to_owned())].into());
    let body = read(arrow_stream(&schema, &[], options().remove(0))).unwrap();
    assert_eq!(*body.schema, schema);
}
