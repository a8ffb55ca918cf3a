//! The metadata of a record batch, checked as far as it can be without a schema.

use std::ops::Range;

use arrow_ipc::{BodyCompressionMethod, CompressionType, RecordBatch};

use super::compress::Codec;
use super::error::IpcError;

/// Length and nulls of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) len: usize,
    pub(super) null_count: usize,
}

/// What the metadata says about a batch. Counts are not negative; no node has more nulls than elements; all
/// buffers lie in the body, and those that are not empty follow each other without overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchHeader {
    pub(super) rows: usize,
    pub(super) codec: Option<Codec>,
    pub(super) nodes: Vec<Node>,
    /// Ranges in the body.
    pub(super) buffers: Vec<Range<usize>>,
    /// Data buffers of each view column, in order.
    pub(super) variadic: Vec<usize>,
}

impl BatchHeader {
    /// Reads the metadata of a batch whose body has `body_len` bytes.
    pub(super) fn read(batch: &RecordBatch<'_>, body_len: u64) -> Result<Self, IpcError> {
        let nodes = batch.nodes().ok_or_else(|| IpcError::message("it has no nodes"))?;
        let buffers = batch.buffers().ok_or_else(|| IpcError::message("it has no buffers"))?;
        let nodes = nodes.iter().enumerate().map(|(index, node)| {
            let checked = Node {
                len: count("the length of a node", node.length())?,
                null_count: count("the null count of a node", node.null_count())?,
            };
            if checked.null_count > checked.len {
                return Err(IpcError::message(format!(
                    "node {index} has {} nulls in {} elements",
                    checked.null_count, checked.len
                )));
            }
            Ok(checked)
        });
        let variadic = batch.variadicBufferCounts().into_iter().flatten();
        Ok(Self {
            rows: count("the number of rows", batch.length())?,
            codec: codec(batch)?,
            nodes: nodes.collect::<Result<_, _>>()?,
            buffers: ranges(buffers.iter().map(|buffer| (buffer.offset(), buffer.length())), body_len)?,
            variadic: variadic.map(|n| count("a count of view buffers", n)).collect::<Result<_, _>>()?,
        })
    }
}

fn count(what: &str, value: i64) -> Result<usize, IpcError> {
    usize::try_from(value).map_err(|_| IpcError::message(format!("{what} is {value}")))
}

fn codec(batch: &RecordBatch<'_>) -> Result<Option<Codec>, IpcError> {
    let Some(compression) = batch.compression() else {
        return Ok(None);
    };
    match (compression.method(), compression.codec()) {
        (BodyCompressionMethod::BUFFER, CompressionType::LZ4_FRAME) => Ok(Some(Codec::Lz4)),
        (BodyCompressionMethod::BUFFER, CompressionType::ZSTD) => Ok(Some(Codec::Zstd)),
        (method, codec) => Err(IpcError::message(format!(
            "its compression is {codec:?} by {method:?}; LZ4_FRAME and ZSTD are known"
        ))),
    }
}

/// Checks that buffers lie in the body and in order. Empty ones may point anywhere in it.
fn ranges(buffers: impl Iterator<Item = (i64, i64)>, body_len: u64) -> Result<Vec<Range<usize>>, IpcError> {
    let body_len = usize::try_from(body_len).unwrap_or(usize::MAX);
    let mut free_from = 0;
    buffers
        .enumerate()
        .map(|(index, (offset, length))| {
            let start = count("the offset of a buffer", offset)?;
            let length = count("the length of a buffer", length)?;
            let end = start.checked_add(length).filter(|end| *end <= body_len).ok_or_else(|| {
                IpcError::message(format!(
                    "buffer {index} has {length} bytes at {start}, outside of the body of {body_len} bytes"
                ))
            })?;
            if length > 0 {
                if start < free_from {
                    return Err(IpcError::message(format!(
                        "buffer {index} starts at {start}, inside the one before, which ends at {free_from}"
                    )));
                }
                free_from = end;
            }
            Ok(start..end)
        })
        .collect()
}
