//! The frame around a message: continuation marker, length, flatbuffer, body.

use arrow_ipc::{
    BodyCompressionArgs, BodyCompressionMethod, Buffer, CompressionType, FieldNode, Message, MessageArgs,
    MessageHeader, MetadataVersion, RecordBatchArgs,
};
use flatbuffers::{FlatBufferBuilder, VerifierOptions};

use super::error::IpcError;

/// The first bytes of every message.
pub(super) const CONTINUATION: [u8; 4] = [0xFF; 4];
/// Bytes before the flatbuffer: the marker and the length.
pub(super) const PREFIX: usize = 8;
/// Everything in a message starts at a multiple of this.
pub(super) const ALIGNMENT: usize = 8;

/// `len` rounded up to the alignment.
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT)
}

/// Splits an encapsulated message into its flatbuffer and the bytes after it.
pub(super) fn split(message: &[u8]) -> Result<(&[u8], &[u8]), IpcError> {
    let (prefix, rest) = message
        .split_at_checked(PREFIX)
        .ok_or_else(|| IpcError::message(format!("{} bytes are too few for a message", message.len())))?;
    let (marker, length) = prefix.split_at(4);
    if marker != CONTINUATION {
        return Err(IpcError::message("it does not start with FF FF FF FF"));
    }
    let length = i32::from_le_bytes(length.try_into().expect("the prefix has 8 bytes, 4 of them before"));
    let length = usize::try_from(length)
        .map_err(|_| IpcError::message(format!("the length of its metadata is {length}")))?;
    rest.split_at_checked(length).ok_or_else(|| {
        IpcError::message(format!("its metadata needs {length} bytes, {} are there", rest.len()))
    })
}

/// Verifies the flatbuffer of a message and gives access to it.
///
/// The nesting that the verifier allows is above what any caller allows for fields, so that a deep schema gets
/// an error about fields; it keeps the verifier itself, which is recursive, within its stack.
pub(super) fn verify(metadata: &[u8]) -> Result<Message<'_>, IpcError> {
    let options = VerifierOptions {
        max_depth: 160,
        // A flatbuffer may share parts, and a small one unfold to gigabytes of work. Writers share vtables only.
        max_apparent_size: metadata.len().saturating_mul(16).saturating_add(1 << 16),
        ..VerifierOptions::default()
    };
    let message = arrow_ipc::root_as_message_with_opts(&options, metadata)
        .map_err(|error| IpcError::message(format!("its metadata is no flatbuffer: {error}")))?;
    if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
        return Err(IpcError::message(format!(
            "its metadata has version {:?}; V4 and V5 are known",
            message.version()
        )));
    }
    Ok(message)
}

/// Length of the body that a verified message declares.
pub(super) fn body_len(message: &Message<'_>) -> Result<u64, IpcError> {
    u64::try_from(message.bodyLength())
        .map_err(|_| IpcError::message(format!("the length of its body is {}", message.bodyLength())))
}

/// What the metadata of a record batch message says.
pub(super) struct BatchMetadata<'a> {
    pub(super) rows: i64,
    pub(super) nodes: &'a [FieldNode],
    pub(super) buffers: &'a [Buffer],
    pub(super) codec: Option<CompressionType>,
    pub(super) body_len: i64,
}

/// Writes the prefix and the flatbuffer of a record batch message, padded so that the body can follow. Its length
/// depends on the number of nodes and buffers and on whether there is a codec, on nothing else.
pub(super) fn write_metadata(batch: &BatchMetadata<'_>) -> Vec<u8> {
    let mut fbb = FlatBufferBuilder::with_capacity(256 + 16 * (batch.nodes.len() + batch.buffers.len()));
    // Otherwise a zero takes no bytes.
    fbb.force_defaults(true);
    let compression = batch.codec.map(|codec| {
        let args = BodyCompressionArgs { codec, method: BodyCompressionMethod::BUFFER };
        arrow_ipc::BodyCompression::create(&mut fbb, &args)
    });
    let nodes = fbb.create_vector(batch.nodes);
    let buffers = fbb.create_vector(batch.buffers);
    let record_batch = arrow_ipc::RecordBatch::create(
        &mut fbb,
        &RecordBatchArgs {
            length: batch.rows,
            nodes: Some(nodes),
            buffers: Some(buffers),
            compression,
            variadicBufferCounts: None,
        },
    );
    let message = Message::create(
        &mut fbb,
        &MessageArgs {
            version: MetadataVersion::V5,
            header_type: MessageHeader::RecordBatch,
            header: Some(record_batch.as_union_value()),
            bodyLength: batch.body_len,
            custom_metadata: None,
        },
    );
    fbb.finish(message, None);
    frame(fbb.finished_data())
}

/// Puts the prefix before a flatbuffer and pads it.
fn frame(flatbuffer: &[u8]) -> Vec<u8> {
    let total = padded(PREFIX + flatbuffer.len());
    let mut framed = Vec::with_capacity(total);
    framed.extend_from_slice(&CONTINUATION);
    framed.extend_from_slice(&metadata_length(total).to_le_bytes());
    framed.extend_from_slice(flatbuffer);
    framed.resize(total, 0);
    framed
}

fn metadata_length(total: usize) -> i32 {
    // A flatbuffer builder holds at most 2 GiB and panics above; a schema with that many columns (16 bytes each)
    // does not exist in memory.
    i32::try_from(total - PREFIX).expect("a flatbuffer is smaller than 2 GiB")
}
