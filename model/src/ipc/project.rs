//! Projection: the message of some columns of a chunk, made by moving bytes.

use std::ops::Range;

use arrow::datatypes::Schema;
use arrow_ipc::{Buffer, FieldNode};
use bytes::{Bytes, BytesMut};

use super::compress::Codec;
use super::error::IpcError;
use super::frame::{self, BatchMetadata};
use super::layout::{ColumnLayout, Layout};

/// The message of some columns: `metadata`, then the ranges of the original message one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Everything before the body.
    pub metadata: Bytes,
    /// Ranges of the original message, one for each column asked for, in that order; lengths are multiples of 8.
    pub body: Vec<Range<u64>>,
    /// Bytes of the body: the sum of the ranges.
    pub body_len: u64,
}

/// Chooses columns of a chunk, in the order given. A column may be named twice; with none, the rows are kept.
///
/// # Errors
/// [`IpcError::NoColumn`] when an index is out of bounds; [`IpcError::TooLarge`] when columns named again and
/// again add up to more than a message can say.
pub fn project(layout: &Layout, columns: &[usize]) -> Result<Projection, IpcError> {
    let mut nodes = Vec::new();
    let mut buffers = Vec::new();
    let mut body = Vec::with_capacity(columns.len());
    let mut body_len = 0_i64;
    for &index in columns {
        let column = layout
            .columns()
            .get(index)
            .ok_or(IpcError::NoColumn { index, columns: layout.columns().len() })?;
        nodes.extend(layout.header.nodes[column.nodes.clone()].iter().map(|node| {
            // Both were read from an i64.
            FieldNode::new(node.len as i64, node.null_count as i64)
        }));
        move_buffers(layout, column, body_len, &mut buffers);
        body_len = i64::try_from(column.extent.end - column.extent.start)
            .ok()
            .and_then(|len| body_len.checked_add(len))
            .ok_or(IpcError::TooLarge { limit: i64::MAX as u64 })?;
        body.push(column.extent.clone());
    }
    let metadata = frame::write_metadata(&BatchMetadata {
        rows: layout.rows() as i64,
        nodes: &nodes,
        buffers: &buffers,
        codec: layout.header.codec.map(Codec::compression_type),
        body_len,
    });
    Ok(Projection { metadata: Bytes::from(metadata), body, body_len: body_len as u64 })
}

/// Adds the buffers of a column, moved so that the column starts at `target` of the new body.
fn move_buffers(layout: &Layout, column: &ColumnLayout, target: i64, buffers: &mut Vec<Buffer>) {
    let start = column.extent.start as usize - layout.metadata_len();
    let len = (column.extent.end - column.extent.start) as usize;
    for buffer in &layout.header.buffers[column.buffers.clone()] {
        // Only an empty buffer may point outside of its column.
        let offset = buffer.start.checked_sub(start).filter(|offset| *offset <= len).unwrap_or_default();
        buffers.push(Buffer::new(target + offset as i64, buffer.len() as i64));
    }
}

/// Projects a message in memory: the message of the columns, and a copy of their bytes only.
///
/// # Errors
/// Those of [`Layout::parse`] and [`project`], and when the message is shorter than its metadata says.
pub fn project_message(message: &Bytes, schema: &Schema, columns: &[usize]) -> Result<Bytes, IpcError> {
    let layout = Layout::parse(message, schema)?;
    if (message.len() as u64) < layout.message_len() {
        return Err(IpcError::message(format!(
            "it has {} bytes, its metadata says {}",
            message.len(),
            layout.message_len()
        )));
    }
    let projection = project(&layout, columns)?;
    let mut projected = BytesMut::with_capacity(projection.metadata.len() + projection.body_len as usize);
    projected.extend_from_slice(&projection.metadata);
    for range in &projection.body {
        projected.extend_from_slice(&message[range.start as usize..range.end as usize]);
    }
    Ok(projected.freeze())
}
