//! Small chunks: all buffers of a batch in one compressed frame.
//!
//! A message of a hundred rows spends more on itself than on them: a flatbuffer with an offset and a length for each
//! buffer, eight bytes before each compressed one, padding behind each, and buffers too short to compress alone. Who
//! always reads a chunk whole does not need any of that. The frame holds
//!
//! ```text
//! rows, number of nodes, number of buffers          varints
//! length and null count of each node                varints
//! length of each buffer, and if it has one its order   varints
//! the buffers, one behind the other
//! ```
//!
//! with numbers in an [order](planes) that compresses better than theirs, and [`expand_small`] makes of it the very message that [`encode`](super::encode()) writes without compression.

use arrow::array::RecordBatch;
use arrow_ipc::{Buffer, FieldNode};
use bytes::Bytes;

use super::Compression;
use super::compress::{Codec, Compressor, Decompressor};
use super::error::IpcError;
use super::frame::{self, BatchMetadata, padded};
use super::header::BatchHeader;
use crate::varint;
use planes::{Order, choose, orders};

mod planes;

/// A batch as one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallChunk {
    /// The frame.
    pub frame: Bytes,
    /// How it is compressed.
    pub codec: Codec,
    /// Bytes of what it holds.
    pub plain_len: usize,
}

/// Encodes a batch as one frame; `None` if it is not to be compressed, or the frame would hold more than `limit` bytes.
///
/// # Errors
/// Those of [`encode`](super::encode()).
pub fn encode_small(
    batch: &RecordBatch,
    compression: Compression,
    limit: usize,
) -> Result<Option<SmallChunk>, IpcError> {
    let codec = match compression {
        Compression::None => return Ok(None),
        Compression::Lz4 => Codec::Lz4,
        Compression::Zstd { .. } => Codec::Zstd,
    };
    // Read back from the message, so that there is one place that knows how arrays become buffers.
    let message = super::encode(batch, Compression::None)?.message;
    if message.len() > limit.saturating_mul(2) {
        return Ok(None);
    }
    let plain = plain(&message, orders(batch.schema_ref().fields())?)?;
    if plain.len() > limit {
        return Ok(None);
    }
    let failed = |error: std::io::Error| IpcError::Compress {
        column: batch.schema_ref().fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", "),
        problem: error.to_string(),
    };
    let mut frame = Vec::with_capacity(plain.len() / 2);
    let mut compressor = Compressor::new(compression).map_err(failed)?;
    compressor.append_frame(&plain, &mut frame).map_err(failed)?;
    frame.shrink_to_fit();
    Ok(Some(SmallChunk { frame: frame.into(), codec, plain_len: plain.len() }))
}

/// What the frame of an uncompressed message holds.
fn plain(message: &[u8], orders: Vec<Order>) -> Result<Vec<u8>, IpcError> {
    let (flatbuffer, body) = frame::split(message)?;
    let metadata = frame::verify(flatbuffer)?;
    let batch =
        metadata.header_as_record_batch().ok_or_else(|| IpcError::message("it is not a RecordBatch"))?;
    let header = BatchHeader::read(&batch, body.len() as u64)?;
    let mut out = Vec::with_capacity(body.len() + 4 * (header.nodes.len() + header.buffers.len()));
    for count in [header.rows, header.nodes.len(), header.buffers.len()] {
        varint::put(&mut out, count as u64);
    }
    for node in &header.nodes {
        varint::put(&mut out, node.len as u64);
        varint::put(&mut out, node.null_count as u64);
    }
    if orders.len() != header.buffers.len() {
        return Err(IpcError::message("it has other buffers than its schema"));
    }
    let buffers = header.buffers.into_iter().map(|range| &body[range]).zip(orders);
    let buffers: Vec<(&[u8], Order)> =
        buffers.map(|(buffer, order)| (buffer, choose(order, buffer))).collect();
    for (buffer, order) in &buffers {
        varint::put(&mut out, buffer.len() as u64);
        if !buffer.is_empty() {
            varint::put(&mut out, order.code());
        }
    }
    for (buffer, order) in buffers {
        order.apply(buffer, &mut out);
    }
    Ok(out)
}

/// The uncompressed message of a small chunk. `plain_len` is what was noted when it was written; the caller has
/// checked it against its limit, and no more is allocated than a small multiple of it.
///
/// # Errors
/// When the frame is damaged or holds something else.
pub fn expand_small(frame: &[u8], codec: Codec, plain_len: usize) -> Result<Bytes, IpcError> {
    let plain = Decompressor::default()
        .decompress(codec, frame, plain_len)
        .map_err(|problem| IpcError::message(format!("a small chunk: {problem}")))?;
    message(plain.as_slice())
        .ok_or_else(|| IpcError::message("a small chunk's counts and lengths do not fit it"))
}

/// The message of what a frame holds; `None` if that contradicts itself.
fn message(plain: &[u8]) -> Option<Bytes> {
    let mut rest = plain;
    let rows = number(&mut rest)?;
    let (nodes, buffers) = (number(&mut rest)?, number(&mut rest)?);
    // Each node takes two bytes at least, each buffer one: a count that lies allocates nothing.
    let least = nodes.checked_mul(2)?.checked_add(buffers)?;
    if least > i64::try_from(rest.len()).ok()? {
        return None;
    }
    let nodes = (0..nodes)
        .map(|_| Some(FieldNode::new(number(&mut rest)?, number(&mut rest)?)))
        .collect::<Option<Vec<_>>>()?;
    let (mut body_len, mut filled) = (0_usize, 0_usize);
    let mut places = Vec::with_capacity(usize::try_from(buffers).ok()?);
    let mut orders = Vec::with_capacity(places.capacity());
    for _ in 0..buffers {
        let length = usize::try_from(number(&mut rest)?).ok()?;
        orders.push(if length > 0 { Order::of(varint::take(&mut rest)?, length)? } else { Order::AsIs });
        places.push(Buffer::new(body_len as i64, length as i64));
        filled = filled.checked_add(length).filter(|filled| *filled <= plain.len())?;
        body_len = padded(body_len + length);
    }
    if filled != rest.len() {
        return None;
    }
    let metadata = frame::write_metadata(&BatchMetadata {
        rows,
        nodes: &nodes,
        buffers: &places,
        codec: None,
        body_len: body_len as i64,
    });
    let mut out = metadata;
    out.reserve_exact(body_len);
    for (place, order) in places.iter().zip(orders) {
        let (written, behind) = rest.split_at_checked(place.length() as usize)?;
        rest = behind;
        order.undo(written, &mut out);
        out.resize(padded(out.len()), 0);
    }
    Some(out.into())
}

fn number(rest: &mut &[u8]) -> Option<i64> {
    i64::try_from(varint::take(rest)?).ok()
}
