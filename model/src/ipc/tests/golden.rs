//! The bytes of a fixed batch, kept in `testdata/ipc`. A change of these files is a change of the format of stored
//! chunks. What zstd writes may change with its version, so its file is only read. If a new version of lz4_flex
//! compresses otherwise, check that only `lz4.bin` differs and write it anew.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Int32Builder, Int64Array, ListBuilder,
    MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use bytes::Bytes;

use super::{LARGE, read_with_arrow};
use crate::ipc::{Codec, Compression, decode, encode, encode_small, expand_small};

const ROWS: i64 = 100;

fn batch() -> RecordBatch {
    let mut tags = ListBuilder::new(Int32Builder::new());
    let mut labels = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..ROWS as i32 {
        tags.append_value((0..row % 4).map(Some));
        labels.keys().append_value(format!("k{}", row % 3));
        labels.values().append_option((row % 5 > 0).then_some("v"));
        labels.append(row % 7 > 0).unwrap();
    }
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let point = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), x)]);
    let hashes = (0..ROWS).map(|row| (row * 7919).to_be_bytes());
    RecordBatch::try_from_iter(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..ROWS)) as ArrayRef),
        (
            "name",
            Arc::new(StringArray::from_iter(
                (0..ROWS).map(|row| (row % 9 > 0).then(|| format!("name {row}"))),
            )),
        ),
        ("ok", Arc::new(BooleanArray::from_iter((0..ROWS).map(|row| Some(row % 3 == 0))))),
        (
            "price",
            Arc::new(Decimal128Array::from_iter_values((0..ROWS).map(|row| i128::from(row) * 1_000_003))),
        ),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(
                (0..ROWS).map(|row| 1_700_000_000_000_000 + row),
            )),
        ),
        ("hash", Arc::new(FixedSizeBinaryArray::try_from_iter(hashes).unwrap())),
        ("tags", Arc::new(tags.finish())),
        ("labels", Arc::new(labels.finish())),
        ("point", Arc::new(point)),
    ])
    .unwrap()
}

/// The kept bytes; written anew when `WADI_WRITE_GOLDEN` is set.
fn golden(name: &str, compression: Compression) -> Bytes {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/ipc").join(name);
    if std::env::var_os("WADI_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, encode(&batch(), compression).unwrap().message).unwrap();
    }
    Bytes::from(std::fs::read(&path).unwrap())
}

#[test]
fn the_stored_format_has_not_changed() {
    for (name, compression) in [("none.bin", Compression::None), ("lz4.bin", Compression::Lz4)] {
        assert_eq!(encode(&batch(), compression).unwrap().message, golden(name, compression), "{name}");
    }
}

#[test]
fn old_chunks_are_read() {
    let batch = batch();
    for (name, compression) in
        [("none.bin", Compression::None), ("lz4.bin", Compression::Lz4), ("zstd.bin", Compression::default())]
    {
        let message = golden(name, compression);
        assert_eq!(decode(&message, batch.schema_ref(), LARGE).unwrap(), batch, "{name}");
        assert_eq!(read_with_arrow(batch.schema_ref(), &message), batch, "{name}");
    }
}

/// A small chunk; its first four bytes are the length of what the frame holds. Only read, as zstd's output may change.
#[test]
fn old_small_chunks_are_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/ipc/small-zstd.bin");
    if std::env::var_os("WADI_WRITE_GOLDEN").is_some() {
        let small = encode_small(&batch(), Compression::default(), 64 << 10).unwrap().unwrap();
        let length = u32::try_from(small.plain_len).unwrap().to_le_bytes();
        std::fs::write(&path, [&length[..], &small.frame].concat()).unwrap();
    }
    let stored = std::fs::read(&path).unwrap();
    let (length, frame) = stored.split_first_chunk::<4>().unwrap();
    let message = expand_small(frame, Codec::Zstd, u32::from_le_bytes(*length) as usize).unwrap();
    assert_eq!(decode(&message, batch().schema_ref(), LARGE).unwrap(), batch());
}
