//! The layout of a stored chunk: where its columns are, read from its metadata alone.

use std::ops::Range;

use arrow::datatypes::Schema;

use super::error::IpcError;
use super::frame::{self, ALIGNMENT, PREFIX, padded};
use super::header::BatchHeader;
use super::shape::{Counts, count_stored};

/// Where the parts of a chunk are. Made from the first bytes of the message, which the footer of the container
/// tells; nothing of the body is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) header: BatchHeader,
    columns: Vec<ColumnLayout>,
    metadata_len: usize,
    body_len: u64,
}

/// One top-level column of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnLayout {
    /// Which nodes of the message are its own.
    pub nodes: Range<usize>,
    /// Which buffers of the message are its own.
    pub buffers: Range<usize>,
    /// Bytes of the message with its buffers, padding included; both ends are multiples of 8.
    pub extent: Range<u64>,
}

impl Layout {
    /// Reads the metadata of a chunk and checks it against the schema it was written with.
    ///
    /// `metadata` starts where the message starts and holds at least the metadata; bytes after it are ignored.
    ///
    /// # Errors
    /// When the metadata is damaged, belongs to another schema, or places a buffer outside of the body, out of
    /// order or unaligned; when the schema has a type that chunks do not hold.
    pub fn parse(metadata: &[u8], schema: &Schema) -> Result<Self, IpcError> {
        let (flatbuffer, _) = frame::split(metadata)?;
        let metadata_len = PREFIX + flatbuffer.len();
        if !metadata_len.is_multiple_of(ALIGNMENT) {
            return Err(IpcError::message(format!(
                "its metadata of {metadata_len} bytes is not padded to 8"
            )));
        }
        let message = frame::verify(flatbuffer)?;
        let body_len = frame::body_len(&message)?;
        let batch = message.header_as_record_batch().ok_or_else(|| {
            IpcError::message(format!("it is a {:?}, not a RecordBatch", message.header_type()))
        })?;
        let header = BatchHeader::read(&batch, body_len)?;
        let columns = columns(&header, schema, metadata_len, body_len)?;
        Ok(Self { header, columns, metadata_len, body_len })
    }

    /// Rows of the chunk.
    pub fn rows(&self) -> usize {
        self.header.rows
    }

    /// Its columns, in the order of the schema.
    pub fn columns(&self) -> &[ColumnLayout] {
        &self.columns
    }

    /// Bytes before the body.
    pub fn metadata_len(&self) -> usize {
        self.metadata_len
    }

    /// Bytes of the body.
    pub fn body_len(&self) -> u64 {
        self.body_len
    }

    /// Bytes of the whole message.
    pub fn message_len(&self) -> u64 {
        // The sum of a length in memory and a length whose buffers were checked; saturation only matters for a
        // declared body near u64::MAX, which no message has.
        self.body_len.saturating_add(self.metadata_len as u64)
    }
}

/// Gives each column its nodes, buffers and bytes, and checks that none are left.
fn columns(
    header: &BatchHeader,
    schema: &Schema,
    metadata_len: usize,
    body_len: u64,
) -> Result<Vec<ColumnLayout>, IpcError> {
    let mut next = Counts::default();
    let mut end = 0;
    let mut columns = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let counts = count_stored(field.name(), field.data_type())?;
        let nodes = next.nodes..next.nodes + counts.nodes;
        let buffers = next.buffers..next.buffers + counts.buffers;
        next = Counts { nodes: nodes.end, buffers: buffers.end };
        let problem = |problem: String| IpcError::Column { column: field.name().clone(), problem };
        let (Some(own_nodes), Some(own_buffers)) =
            (header.nodes.get(nodes.clone()), header.buffers.get(buffers.clone()))
        else {
            return Err(problem(format!(
                "the message has {} nodes and {} buffers, this column needs {} and {}",
                header.nodes.len(),
                header.buffers.len(),
                next.nodes,
                next.buffers
            )));
        };
        if own_nodes[0].len != header.rows {
            return Err(problem(format!("it has {} rows, the batch {}", own_nodes[0].len, header.rows)));
        }
        let extent = extent(own_buffers, end, body_len).map_err(problem)?;
        end = extent.end;
        let in_message = |offset: usize| (metadata_len + offset) as u64;
        columns.push(ColumnLayout {
            nodes,
            buffers,
            extent: in_message(extent.start)..in_message(extent.end),
        });
    }
    let all = Counts { nodes: header.nodes.len(), buffers: header.buffers.len() };
    if next != all || !header.variadic.is_empty() {
        return Err(IpcError::message(format!(
            "it has {} nodes and {} buffers, its schema has {} and {}",
            all.nodes, all.buffers, next.nodes, next.buffers
        )));
    }
    Ok(columns)
}

/// Bytes of the body from the first to the last buffer of a column; empty at `end` when it has none.
fn extent(buffers: &[Range<usize>], end: usize, body_len: u64) -> Result<Range<usize>, String> {
    let mut filled = buffers.iter().filter(|buffer| !buffer.is_empty());
    let Some(first) = filled.next() else {
        return Ok(end..end);
    };
    let last = filled.next_back().unwrap_or(first);
    if let Some(odd) = buffers.iter().find(|b| !b.is_empty() && !b.start.is_multiple_of(ALIGNMENT)) {
        return Err(format!("a buffer starts at {}, which is no multiple of 8", odd.start));
    }
    let extent = first.start..padded(last.end);
    if extent.end as u64 > body_len {
        return Err(format!("its last buffer is not padded to 8 at the end of the body, {body_len} bytes"));
    }
    Ok(extent)
}
