//! Metadata that says what is not so, one lie at a time.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow_ipc::{Buffer, CompressionType, FieldNode};
use bytes::Bytes;

use super::{LARGE, arrow_stream, batch_of};
use crate::ipc::compress::Codec;
use crate::ipc::frame::{BatchMetadata, write_metadata};
use crate::ipc::{Compression, IpcError, Layout, Limits, StreamError, decode, encode, read_stream};

/// A message whose metadata can be changed at will.
struct Message {
    schema: SchemaRef,
    rows: i64,
    nodes: Vec<(i64, i64)>,
    buffers: Vec<(i64, i64)>,
    codec: Option<CompressionType>,
    body: Vec<u8>,
}

impl Message {
    fn of(array: ArrayRef, compression: Compression) -> Self {
        let batch: RecordBatch = batch_of(array);
        let encoded = encode(&batch, compression).unwrap();
        let layout = Layout::parse(&encoded.message, batch.schema_ref()).unwrap();
        let header = layout.header;
        Self {
            schema: batch.schema(),
            rows: header.rows as i64,
            nodes: header.nodes.iter().map(|n| (n.len as i64, n.null_count as i64)).collect(),
            buffers: header.buffers.iter().map(|b| (b.start as i64, b.len() as i64)).collect(),
            codec: header.codec.map(Codec::compression_type),
            body: encoded.message[encoded.metadata_len as usize..].to_vec(),
        }
    }

    fn bytes(&self) -> Bytes {
        let nodes: Vec<_> = self.nodes.iter().map(|(len, nulls)| FieldNode::new(*len, *nulls)).collect();
        let buffers: Vec<_> = self.buffers.iter().map(|(start, len)| Buffer::new(*start, *len)).collect();
        let mut bytes = write_metadata(&BatchMetadata {
            rows: self.rows,
            nodes: &nodes,
            buffers: &buffers,
            codec: self.codec,
            body_len: self.body.len() as i64,
        });
        bytes.extend_from_slice(&self.body);
        Bytes::from(bytes)
    }

    fn decode(&self) -> Result<RecordBatch, IpcError> {
        decode(&self.bytes(), &self.schema, LARGE)
    }

    /// The error of the decoder, after checking that the stream reader has one too.
    fn error(&self) -> IpcError {
        let mut stream = arrow_stream(&self.schema, &[], Default::default());
        stream.truncate(stream.len() - 8);
        stream.extend_from_slice(&self.bytes());
        let limits = Limits { max_uncompressed_bytes: LARGE, ..Limits::default() };
        read_stream(stream.into(), &limits).unwrap_err();
        self.decode().unwrap_err()
    }
}

fn numbers() -> Message {
    let values = (0..1_000).map(|i| (i % 10 > 0).then_some(i));
    Message::of(Arc::new(Int64Array::from_iter(values)), Compression::None)
}

fn words(compression: Compression) -> Message {
    Message::of(Arc::new(StringArray::from_iter_values((0..1_000).map(|i| format!("word {i}")))), compression)
}

fn lie(mut message: Message, change: impl FnOnce(&mut Message)) -> IpcError {
    assert!(message.decode().is_ok());
    change(&mut message);
    message.error()
}

#[test]
fn counts_that_are_negative_or_too_large_are_refused() {
    for value in [-1, i64::MIN, i64::MAX, 999, 1_001] {
        lie(numbers(), |m| m.rows = value);
        lie(numbers(), |m| m.nodes[0].0 = value);
        lie(numbers(), |m| m.nodes[0].1 = value);
    }
    // Fewer rows than the buffers hold would be padding.
    for value in [-1, i64::MIN, i64::MAX, 1_001] {
        for message in [numbers(), words(Compression::None), words(Compression::default())] {
            let error = lie(message, |m| {
                m.rows = value;
                m.nodes[0].0 = value;
            });
            assert!(!matches!(error, IpcError::TooLarge { .. }), "{error}");
        }
    }
}

#[test]
fn null_counts_must_be_right() {
    let error = lie(numbers(), |m| m.nodes[0].1 = 99);
    assert!(matches!(error, IpcError::Column { ref column, .. } if column == "c"), "{error}");
}

#[test]
fn buffers_must_lie_in_the_body_and_in_order() {
    for (start, len) in [(-8, 8), (0, -1), (i64::MAX, i64::MAX), (0, i64::MAX), (1 << 40, 8), (0, 0)] {
        lie(numbers(), |m| m.buffers[1] = (start, len));
    }
    // The values inside of the validity.
    lie(numbers(), |m| m.buffers[1].0 = 0);
    lie(numbers(), |m| m.buffers.swap(0, 1));
}

#[test]
fn buffers_and_nodes_must_match_the_schema() {
    lie(numbers(), |m| m.buffers.truncate(1));
    lie(numbers(), |m| m.nodes.clear());
    lie(numbers(), |m| m.buffers.push((0, 0)));
    lie(numbers(), |m| m.nodes.push((1_000, 0)));
}

#[test]
fn buffers_must_hold_their_array() {
    let error = lie(numbers(), |m| m.buffers[1].1 -= 1);
    assert!(matches!(error, IpcError::Buffer { buffer: "values", .. }), "{error}");
    let error = lie(numbers(), |m| m.buffers[0].1 = 124);
    assert!(matches!(error, IpcError::Buffer { buffer: "validity", .. }), "{error}");
    let error = lie(words(Compression::None), |m| m.buffers[1].1 = 4_003);
    assert!(matches!(error, IpcError::Buffer { buffer: "offsets", .. }), "{error}");
}

#[test]
fn padded_buffers_are_read() {
    let mut message = Message::of(Arc::new(Int32Array::from(vec![1, 2, 3])), Compression::None);
    message.buffers[1].1 = 15;
    assert_eq!(message.decode().unwrap().num_rows(), 3);
}

#[test]
fn offsets_must_rise_and_stay_in_the_values() {
    for (position, value) in
        [(0, -1), (500, -1), (500, 0), (500, i32::MAX), (1_000, i32::MAX), (1_000, 1 << 20)]
    {
        let error = lie(words(Compression::None), |m| {
            let at = m.buffers[1].0 as usize + 4 * position;
            m.body[at..at + 4].copy_from_slice(&i32::to_le_bytes(value));
        });
        assert!(matches!(error, IpcError::Column { .. }), "{error}");
    }
}

#[test]
fn strings_must_be_utf8() {
    lie(words(Compression::None), |m| {
        let at = m.buffers[2].0 as usize;
        m.body[at + 10] = 0xFF;
    });
    let binary = BinaryArray::from_iter_values((0..100).map(|_| [0xFF_u8]));
    assert!(Message::of(Arc::new(binary), Compression::None).decode().is_ok());
}

#[test]
fn uncompressed_lengths_must_be_right() {
    for compression in [Compression::Lz4, Compression::Zstd { level: 1 }] {
        for buffer in [1, 2] {
            for length in [i64::MAX, i64::MIN, -2, 0, 1, 1 << 29, 4_005, 20_000] {
                lie(words(compression), |m| {
                    let at = m.buffers[buffer].0 as usize;
                    m.body[at..at + 8].copy_from_slice(&length.to_le_bytes());
                });
            }
            lie(words(compression), |m| m.buffers[buffer].1 = 7);
            lie(words(compression), |m| m.buffers[buffer].1 -= 8);
        }
        lie(words(compression), |m| m.codec = None);
        lie(words(compression), |m| {
            m.codec = Some(match compression {
                Compression::Lz4 => CompressionType::ZSTD,
                _ => CompressionType::LZ4_FRAME,
            });
        });
        lie(words(compression), |m| m.codec = Some(CompressionType(9)));
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_decompressed() {
    let zeros = Message::of(Arc::new(Int64Array::from(vec![0; 1 << 20])), Compression::default());
    let error = decode(&zeros.bytes(), &zeros.schema, 1 << 20).unwrap_err();
    assert!(matches!(error, IpcError::TooLarge { limit: 1_048_576 }), "{error}");
}

#[test]
fn children_must_have_the_length_of_their_parent() {
    let child: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let row = StructArray::from(vec![(field.clone(), child.clone())]);
    for len in [2, 4, 0] {
        let row = Message::of(Arc::new(row.clone()), Compression::None);
        let error = lie(row, |m| m.nodes[1].0 = len);
        assert!(matches!(error, IpcError::Column { ref column, .. } if column == "c.item"), "{error}");
    }
    let list = ListArray::new(field, OffsetBuffer::new(vec![0, 2, 3].into()), child, None);
    lie(Message::of(Arc::new(list), Compression::None), |m| m.nodes[1].0 = 2);
}

#[test]
fn nulls_in_a_column_without_nulls_are_refused() {
    let values = Int32Array::new(vec![1, 2].into(), Some(NullBuffer::from(vec![true, false])));
    let mut message = Message::of(Arc::new(values), Compression::None);
    let field = message.schema.field(0).clone().with_nullable(false);
    message.schema = Arc::new(arrow::datatypes::Schema::new(vec![field]));
    message.error();
}

#[test]
fn elements_without_bytes_are_limited() {
    let child: ArrayRef = Arc::new(NullArray::new(3));
    let field = Arc::new(Field::new("item", DataType::Null, true));
    let list = ListArray::new(field, OffsetBuffer::new(vec![0, 3].into()), child, None);
    let error = lie(Message::of(Arc::new(list), Compression::None), |m| m.nodes[1] = (i64::MAX, 0));
    assert!(matches!(error, IpcError::Column { ref column, .. } if column == "c.item"), "{error}");
}

#[test]
fn errors_name_message_and_byte() {
    let mut message = numbers();
    message.nodes[0].1 = 99;
    let mut stream = arrow_stream(&message.schema, &[], Default::default());
    stream.truncate(stream.len() - 8);
    let start = stream.len();
    stream.extend_from_slice(&message.bytes());
    match read_stream(stream.into(), &Limits::default()) {
        Err(StreamError::Message { message: 2, byte, .. }) => assert_eq!(byte, start),
        other => panic!("{other:?}"),
    }
}
