//! Small chunks, which are one frame.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;

use super::arrays::stored_batch;
use super::{LARGE, batch_of, read_with_arrow};
use crate::ipc::compress::Compressor;
use crate::ipc::{Codec, Compression, decode, encode, encode_small, expand_small};

const LIMIT: usize = 64 << 10;
const CODECS: [(Compression, Codec); 2] =
    [(Compression::Lz4, Codec::Lz4), (Compression::Zstd { level: 1 }, Codec::Zstd)];

/// A frame of whatever bytes.
fn frame_of(plain: &[u8], compression: Compression) -> Vec<u8> {
    let mut frame = Vec::new();
    Compressor::new(compression).unwrap().append_frame(plain, &mut frame).unwrap();
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_small_chunk_expands_to_the_uncompressed_message(batch in stored_batch()) {
        let plain = encode(&batch, Compression::None).unwrap().message;
        for (compression, codec) in CODECS {
            let small = encode_small(&batch, compression, 1 << 30).unwrap().unwrap();
            prop_assert_eq!(small.codec, codec);
            let message = expand_small(&small.frame, codec, small.plain_len).unwrap();
            prop_assert_eq!(&message, &plain);
            prop_assert_eq!(&decode(&message, batch.schema_ref(), LARGE).unwrap(), &batch);
            prop_assert_eq!(&read_with_arrow(batch.schema_ref(), &message), &batch);
        }
    }

    /// What a frame holds is a claim too: nothing panics, and no more than a multiple of it is allocated.
    #[test]
    fn frames_of_anything_never_panic(
        plain in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            // Counts that are believable, lengths that are not.
            prop::collection::vec(prop_oneof![0..4_u8, Just(0x80), Just(0xff), Just(0x7f)], 0..60),
        ],
        declared in 0..300_usize,
    ) {
        for (compression, codec) in CODECS {
            let frame = frame_of(&plain, compression);
            if let Ok(message) = expand_small(&frame, codec, plain.len()) {
                prop_assert!(message.len() <= 32 * plain.len() + 1024);
            }
            if declared != plain.len() {
                prop_assert!(expand_small(&frame, codec, declared).is_err());
            }
            let _ = expand_small(&plain, codec, declared);
        }
    }

    #[test]
    fn damaged_frames_never_panic(batch in stored_batch(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        for (compression, codec) in CODECS {
            let small = encode_small(&batch, compression, 1 << 30).unwrap().unwrap();
            let mut frame = small.frame.to_vec();
            let at = at.index(frame.len());
            frame[at] ^= 1 << bit;
            if let Ok(message) = expand_small(&frame, codec, small.plain_len) {
                let _ = decode(&message, batch.schema_ref(), LARGE);
            }
            let _ = expand_small(&small.frame[..at], codec, small.plain_len);
        }
    }
}

fn hundred_rows() -> RecordBatch {
    let names = StringArray::from_iter_values((0..100).map(|i| format!("name {}", i * 31 % 1009)));
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..100)) as ArrayRef),
        ("name", Arc::new(names)),
    ])
    .unwrap()
}

#[test]
fn a_small_chunk_costs_less_than_its_message() {
    let batch = hundred_rows();
    let message = encode(&batch, Compression::default()).unwrap().message.len();
    let small = encode_small(&batch, Compression::default(), LIMIT).unwrap().unwrap().frame.len();
    assert!(small * 2 < message, "{small} against {message} bytes");
}

#[test]
fn what_is_not_compressed_or_not_small_is_left_alone() {
    let batch = hundred_rows();
    assert_eq!(encode_small(&batch, Compression::None, LIMIT).unwrap(), None);
    let numbers = batch_of(Arc::new(Int64Array::from_iter_values(0..9_000)));
    assert_eq!(encode_small(&numbers, Compression::default(), LIMIT).unwrap(), None);
    let fits = encode_small(&numbers.slice(0, 8_000), Compression::default(), LIMIT).unwrap().unwrap();
    assert!(fits.plain_len > 64_000 && fits.plain_len <= LIMIT);
}

#[test]
fn counts_and_lengths_that_lie_are_refused() {
    let lies: [&[u8]; 8] = [
        &[],
        &[1, 0],
        // A billion nodes, a billion buffers.
        &[1, 0x80, 0x94, 0xeb, 0xdc, 0x03, 0],
        &[1, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03],
        // A buffer that is longer, and one that is shorter than what is left.
        &[1, 0, 1, 9, 0, 7, 7],
        &[1, 0, 1, 1, 0, 7, 7],
        // No such order, and planes of half a value.
        &[1, 0, 1, 2, 1, 7, 7],
        &[1, 0, 1, 3, 4, 7, 7, 7],
    ];
    for lie in lies {
        let frame = frame_of(lie, Compression::default());
        assert!(expand_small(&frame, Codec::Zstd, lie.len()).is_err(), "{lie:?}");
    }
    let honest: &[u8] = &[1, 0, 1, 2, 4, 7, 7];
    let frame = frame_of(honest, Compression::default());
    assert!(expand_small(&frame, Codec::Zstd, honest.len()).is_ok());
}
