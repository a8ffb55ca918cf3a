//! Bytes changed at random: nothing panics, and what is read anyway is a valid batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use super::arrays::stored_batch;
use super::{COMPRESSIONS, arrow_stream};
use crate::ipc::{Layout, Limits, decode, encode, project_message, read_stream};

/// One change of a byte string.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Drop(Index, usize),
    Number(Index, i64),
    Short(Index, i32),
}

fn damage() -> impl Strategy<Value = Damage> {
    let odd = prop::sample::select(vec![0, 1, -1, -2, 7, 255, 4_096, 1 << 20, 1 << 40, i64::MAX, i64::MIN]);
    prop_oneof![
        4 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), 1..9_usize).prop_map(|(at, len)| Damage::Drop(at, len)),
        3 => (any::<Index>(), odd.clone()).prop_map(|(at, value)| Damage::Number(at, value)),
        2 => (any::<Index>(), odd).prop_map(|(at, value)| Damage::Short(at, value as i32)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &[Damage]) {
    for damage in damage {
        if bytes.len() < 16 {
            return;
        }
        match damage {
            Damage::Flip(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Drop(at, len) => {
                let at = at.index(bytes.len() - len);
                bytes.drain(at..at + len);
            }
            // Numbers of the metadata and lengths of buffers are aligned.
            Damage::Number(at, value) => {
                let at = at.index(bytes.len() - 8) / 8 * 8;
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            Damage::Short(at, value) => {
                let at = at.index(bytes.len() - 4) / 4 * 4;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Whatever was read must be valid to the last value.
fn check(batch: &RecordBatch) {
    for column in batch.columns() {
        assert_eq!(column.len(), batch.num_rows());
        column.to_data().validate_full().unwrap();
    }
}

fn limits() -> Limits {
    Limits { max_uncompressed_bytes: 1 << 22, max_rows: 1 << 16, ..Limits::default() }
}

/// Columns of the encoded types next to plain ones.
fn encoded_batch() -> impl Strategy<Value = RecordBatch> {
    prop::collection::vec(prop::option::of("[a-z]{0,20}"), 1..40).prop_map(|words| {
        let words: ArrayRef = Arc::new(StringArray::from(words));
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let runs = DataType::RunEndEncoded(ends, Arc::new(Field::new("values", DataType::Utf8, true)));
        let columns: Vec<ArrayRef> = [DataType::Utf8, dictionary, DataType::Utf8View, runs]
            .iter()
            .map(|data_type| cast(&words, data_type).unwrap())
            .collect();
        let fields: Vec<Field> = columns
            .iter()
            .enumerate()
            .map(|(i, column)| Field::new(format!("c{i}"), column.data_type().clone(), true))
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn a_damaged_chunk_never_panics(
        batch in stored_batch(),
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let encoded = encode(&batch, compression).unwrap();
        let mut bytes = encoded.message.to_vec();
        apply(&mut bytes, &damages);
        let message = Bytes::from(bytes);
        if let Ok(read) = decode(&message, batch.schema_ref(), 1 << 22) {
            check(&read);
        }
        if let Ok(layout) = Layout::parse(&message, batch.schema_ref()) {
            let end = layout.columns().last().map_or(layout.metadata_len() as u64, |column| column.extent.end);
            prop_assert!(end <= layout.message_len());
        }
        let all: Vec<usize> = (0..batch.num_columns()).rev().collect();
        if let Ok(projected) = project_message(&message, batch.schema_ref(), &all) {
            let schema = Arc::new(batch.schema_ref().project(&all).unwrap());
            if let Ok(read) = decode(&projected, &schema, 1 << 22) {
                check(&read);
            }
        }
    }

    #[test]
    fn damaged_metadata_never_panics(
        batch in stored_batch(),
        compression in prop::sample::select(COMPRESSIONS.to_vec()),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let encoded = encode(&batch, compression).unwrap();
        let (metadata, body) = encoded.message.split_at(encoded.metadata_len as usize);
        let mut bytes = metadata.to_vec();
        apply(&mut bytes, &damages);
        bytes.extend_from_slice(body);
        if let Ok(read) = decode(&Bytes::from(bytes), batch.schema_ref(), 1 << 22) {
            check(&read);
        }
    }

    #[test]
    fn a_damaged_stream_never_panics(
        batch in prop_oneof![stored_batch(), encoded_batch()],
        codec in prop::sample::select(vec![None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)]),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let mut bytes = arrow_stream(batch.schema_ref(), &[batch.clone(), batch.clone()], options);
        apply(&mut bytes, &damages);
        if let Ok(body) = read_stream(Bytes::from(bytes), &limits()) {
            body.batches.iter().for_each(check);
        }
    }

    #[test]
    fn noise_never_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), framed in any::<bool>()) {
        if framed && bytes.len() > 8 {
            let len = bytes.len() as i32 - 8;
            bytes[..4].fill(0xFF);
            bytes[4..8].copy_from_slice(&len.to_le_bytes());
        }
        prop_assert!(decode(&Bytes::from(bytes.clone()), &Arc::new(Schema::empty()), 1 << 20).is_err());
        let _ = read_stream(Bytes::from(bytes), &limits());
    }
}
