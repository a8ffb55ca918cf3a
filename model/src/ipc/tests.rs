//! Tests of the codec against Arrow's own reader and writer, golden files, and hostile input.

mod arrays;
mod golden;
mod hostile;
mod lies;
mod originals;
mod round_trip;
mod schemas;
mod small;
mod streams;

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use bytes::Bytes;

use super::Compression;

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd { level: 1 }];
/// A limit that no honest test reaches.
const LARGE: u64 = 1 << 30;

/// A batch with one nullable column `c`.
fn batch_of(array: ArrayRef) -> RecordBatch {
    let field = Field::new("c", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

/// A stream by Arrow's writer.
fn arrow_stream(schema: &Schema, batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

/// Decodes a chunk with Arrow's reader, which wants the schema before it.
fn read_with_arrow(schema: &SchemaRef, message: &[u8]) -> RecordBatch {
    let writer = StreamWriter::try_new(Vec::new(), schema).unwrap();
    let mut stream = writer.get_ref().clone();
    stream.extend_from_slice(message);
    let mut reader = StreamReader::try_new(Cursor::new(stream), None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert!(reader.next().is_none());
    batch
}

/// The same bytes at an address that suits no type of more than a byte.
fn misaligned(bytes: &[u8]) -> Bytes {
    let mut moved = vec![0];
    moved.extend_from_slice(bytes);
    Bytes::from(moved).slice(1..)
}
