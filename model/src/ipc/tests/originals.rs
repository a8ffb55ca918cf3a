//! Buffers that came compressed: stored as they came where that is sound, compressed anew where it is not.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use proptest::prelude::*;
use zstd::zstd_safe::{CCtx, CParameter};

use super::arrays::stored_batch;
use super::{LARGE, arrow_stream, read_with_arrow};
use crate::ipc::compress::Codec;
use crate::ipc::{Compression, Limits, StreamBody, decode, encode, encode_reusing, read_stream};

const ZSTD: Compression = Compression::Zstd { level: 1 };

/// What a client's stream of one batch is read as.
fn sent(batch: &RecordBatch, codec: CompressionType) -> StreamBody {
    let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
    let stream = arrow_stream(batch.schema_ref(), std::slice::from_ref(batch), options);
    read_stream(Bytes::from(stream), &Limits::default()).unwrap()
}

fn events() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..5_000).map(|i| i * i % 911)));
    let texts = StringArray::from_iter((0..5_000).map(|i| (i % 7 > 0).then(|| format!("text {}", i % 313))));
    RecordBatch::try_from_iter_with_nullable([("n", numbers, false), ("t", Arc::new(texts) as _, true)])
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn all_rows_are_the_same(batch in stored_batch()) {
        let body = sent(&batch, CompressionType::ZSTD);
        for batch in body.batches {
            let stored = encode_reusing(&batch, ZSTD, &body.originals).unwrap();
            prop_assert_eq!(&decode(&stored.message, batch.schema_ref(), LARGE).unwrap(), &batch);
            prop_assert_eq!(&read_with_arrow(batch.schema_ref(), &stored.message), &batch);
            prop_assert_eq!(stored.uncompressed_len, encode(&batch, ZSTD).unwrap().uncompressed_len);
        }
    }
}

#[test]
fn buffers_are_stored_as_they_came() {
    let batch = events();
    let body = sent(&batch, CompressionType::ZSTD);
    // Arrow's writer compresses with level 3, which gives other bytes than ours.
    let stored = encode_reusing(&body.batches[0], ZSTD, &body.originals).unwrap();
    let as_sent = encode(&batch, Compression::Zstd { level: 3 }).unwrap();
    assert_eq!(stored, as_sent);
    assert_ne!(stored, encode(&batch, ZSTD).unwrap());
}

#[test]
fn other_rows_are_compressed_anew() {
    let body = sent(&events(), CompressionType::ZSTD);
    let batch = &body.batches[0];
    let half = batch.slice(1_000, 2_000);
    assert_eq!(encode_reusing(&half, ZSTD, &body.originals).unwrap(), encode(&half, ZSTD).unwrap());
    let beginning = batch.slice(0, 2_000);
    assert_eq!(encode_reusing(&beginning, ZSTD, &body.originals).unwrap(), encode(&beginning, ZSTD).unwrap());
}

#[test]
fn a_table_that_is_compressed_otherwise_takes_no_originals() {
    let body = sent(&events(), CompressionType::ZSTD);
    let batch = &body.batches[0];
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd { level: 6 }] {
        let stored = encode_reusing(batch, compression, &body.originals).unwrap();
        assert_eq!(stored, encode(batch, compression).unwrap());
    }
    let body = sent(&events(), CompressionType::LZ4_FRAME);
    let batch = &body.batches[0];
    assert_eq!(encode_reusing(batch, ZSTD, &body.originals).unwrap(), encode(batch, ZSTD).unwrap());
}

fn frame(plain: &[u8], set: impl Fn(&mut CCtx<'static>)) -> Vec<u8> {
    let mut context = CCtx::create();
    set(&mut context);
    let mut frame = Vec::with_capacity(plain.len() + 1_000);
    context.compress2(&mut frame, plain).unwrap();
    frame
}

#[test]
fn only_frames_that_we_could_have_written_are_stored() {
    let plain: Vec<u8> = (0..100_000_u32).flat_map(|i| (i % 1_000).to_le_bytes()).collect();
    let with = |parameter| {
        frame(&plain, move |context| {
            context.set_parameter(parameter).unwrap();
        })
    };
    let good = frame(&plain, |_| {});
    let storable = |frame: &[u8]| Codec::Zstd.storable(frame, plain.len());
    assert!(storable(&good));
    assert!(storable(&with(CParameter::CompressionLevel(9))));
    assert!(storable(&with(CParameter::ChecksumFlag(true))));
    // Another frame behind it, one that is skipped before it, something behind it.
    assert!(!storable(&[&good[..], &frame(b"", |_| {})].concat()));
    assert!(!storable(&[&0x184D_2A50_u32.to_le_bytes()[..], &[0; 4], &good].concat()));
    assert!(!storable(&[&good[..], b"x"].concat()));
    assert!(!storable(&good[..good.len() - 1]));
    assert!(!storable(&with(CParameter::ContentSizeFlag(false))));
    assert!(!Codec::Zstd.storable(&good, plain.len() + 1));
    assert!(!Codec::Lz4.storable(&good, plain.len()));
    // Larger than raw, and too small for a frame.
    assert!(!Codec::Zstd.storable(&good, good.len()));
    assert!(!Codec::Zstd.storable(&frame(&[0; 255], |_| {}), 255));
    assert!(Codec::Zstd.storable(&frame(&[0; 256], |_| {}), 256));
    for length in 0..20 {
        assert!(!storable(&good[..length]));
    }
}

#[test]
fn windows_that_readers_refuse_are_not_stored() {
    // A frame whose window is smaller than its content says how large; the exponent is in the high bits.
    let plain: Vec<u8> = (0..500_000_u32).flat_map(|i| (i % 1_000).to_le_bytes()).collect();
    let mut frame = frame(&plain, |context| {
        context.set_parameter(CParameter::WindowLog(17)).unwrap();
    });
    assert_eq!(frame[5] >> 3, 7);
    assert!(Codec::Zstd.storable(&frame, plain.len()));
    frame[5] = 12 << 3;
    assert!(Codec::Zstd.storable(&frame, plain.len()));
    frame[5] = 13 << 3;
    assert!(!Codec::Zstd.storable(&frame, plain.len()));
}
