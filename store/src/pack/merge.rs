//! The chunks of one bucket become fewer and larger ones. CPU work.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use wadi_model::Table;
use wadi_model::ipc;

use crate::container::{Chunk, ChunkKind, Run};
use crate::shard::chunks::{self, EncodedChunk};

/// Chunks are merged until they have so many raw bytes.
const CHUNK_BYTES: u64 = 4 << 20;

/// Chunks of so many raw bytes are large enough: they move as they are.
const LARGE: u64 = 1 << 20;

/// A chunk as it was stored.
#[derive(Debug)]
pub(super) struct Source {
    pub chunk: Chunk,
    pub bytes: Bytes,
}

impl Source {
    /// Compares its bytes with their checksums.
    pub(super) fn verify(&self) -> Result<(), String> {
        let Source { chunk, bytes } = self;
        let head = if chunk.columns.is_empty() { bytes.len() } else { chunk.metadata_len as usize };
        let part = |start: usize, len: usize| bytes.get(start..start.saturating_add(len));
        let fits = |start: usize, len: usize, crc: u32| {
            part(start, len).is_some_and(|bytes| crc32c::crc32c(bytes) == crc)
        };
        let columns = chunk.columns.iter();
        let whole = fits(0, head, chunk.crc)
            && columns.clone().all(|column| fits(column.start as usize, column.len as usize, column.crc));
        if whole { Ok(()) } else { Err("a chunk's checksum does not match".into()) }
    }
}

/// Merges chunks of a bucket that stand in the order of their offsets. Rows of different schema versions, or with a gap between them,
/// stay apart.
pub(super) fn merge(table: &Table, sources: Vec<Source>) -> Result<Vec<(Chunk, Bytes)>, String> {
    let mut merged = Vec::new();
    let mut open: Vec<Source> = Vec::new();
    let mut raw = 0;
    for source in sources {
        let chunk = &source.chunk;
        let goes_on = open.last().is_none_or(|last| {
            let last = &last.chunk;
            last.end() == chunk.first() && (last.kind, last.schema_id) == (chunk.kind, chunk.schema_id)
        });
        let large = chunk.raw_len >= LARGE;
        if !goes_on || large || raw + chunk.raw_len > CHUNK_BYTES {
            merged.extend(close(table, std::mem::take(&mut open))?);
            raw = 0;
        }
        raw += chunk.raw_len;
        open.push(source);
        if large {
            merged.extend(close(table, std::mem::take(&mut open))?);
            raw = 0;
        }
    }
    merged.extend(close(table, open)?);
    Ok(merged)
}

/// Makes one chunk of several.
fn close(table: &Table, sources: Vec<Source>) -> Result<Option<(Chunk, Bytes)>, String> {
    let Some(first) = sources.first().map(|source| source.chunk.clone()) else { return Ok(None) };
    // Retries are found in the state of the shard; packs need no producers.
    let mut chunk = Chunk { producers: Vec::new(), start: 0, ..first };
    if let [one] = sources.as_slice() {
        return Ok(Some((chunk, one.bytes.clone())));
    }
    let stored = table
        .schema_of(chunk.schema())
        .ok_or_else(|| format!("it has no schema version {}", chunk.schema_id))?;
    let columns = match chunk.kind() {
        ChunkKind::Changelog => Arc::new(chunks::stored_schema(stored.arrow())),
        _ => stored.arrow().clone(),
    };
    let mut batches: Vec<RecordBatch> = Vec::with_capacity(sources.len());
    for source in &sources {
        let message = chunks::plain(&source.chunk, &source.bytes).map_err(|e| e.to_string())?;
        batches.push(ipc::decode(&message, &columns, chunks::MAX_RAW).map_err(|e| e.to_string())?);
    }
    let together =
        chunks::encode_together(&batches, table.options.compression()).map_err(|e| e.to_string())?;
    let EncodedChunk { message, metadata_len, crc, raw_len, columns, frame } = together;
    let rows = sources.iter().map(|source| source.chunk.rows).sum();
    let runs = runs(sources.iter().flat_map(|source| &source.chunk.runs));
    chunk = Chunk { metadata_len, crc, raw_len, columns, frame: frame as i32, rows, runs, ..chunk };
    Ok(Some((chunk, message)))
}

/// Runs in a row, those of one time as one.
fn runs<'a>(all: impl Iterator<Item = &'a Run>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for run in all {
        match runs.last_mut() {
            Some(last) if last.time == run.time => last.rows += run.rows,
            _ => runs.push(*run),
        }
    }
    runs
}
