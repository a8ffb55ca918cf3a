//! Rows into chunks: encoding, compression, checksums and statistics, on the CPU pool.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use bytes::Bytes;
use wadi_model::ipc::{self, Compression, Originals};
use wadi_model::options::LogCompression;
use wadi_model::predicate::ColumnStatistics;
use wadi_model::{Bucket, SchemaId};

use super::merging::{Changes, KeyedRows};
use super::part::{AppendError, Part, Stamp, raw_bytes};
use crate::container::{COLUMN_CHUNK_BYTES, ColumnSegment, Frame};
use crate::context::Context;
use crate::trace::Stages;

/// A part on its way into a log object.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub bucket: Bucket,
    pub schema: SchemaId,
    pub compression: LogCompression,
    pub rows: u32,
    pub raw_bytes: usize,
    pub stamp: Option<Stamp>,
    pub payload: Payload,
    /// Where it is in its shard, for its request's trace.
    pub stages: Stages,
}

/// The rows of a part.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Few: encoded together with other parts of the bucket when the object is made.
    Rows(RecordBatch),
    /// Many: a chunk of their own, encoded before they wait.
    Chunk(EncodedChunk),
    /// Rows of a primary-key table, before the actor has merged them.
    Keyed(KeyedRows),
    /// What became of those.
    Changes(Changes),
}

impl Prepared {
    /// The same part once more, before it was merged or given to a shard.
    pub(crate) fn again(&self) -> Option<Prepared> {
        let payload = match &self.payload {
            Payload::Rows(rows) => Payload::Rows(rows.clone()),
            Payload::Chunk(chunk) => Payload::Chunk(chunk.clone()),
            Payload::Keyed(keyed) => Payload::Keyed(keyed.again()),
            Payload::Changes(_) => return None,
        };
        let Prepared { bucket, schema, compression, rows, raw_bytes, ref stamp, .. } = *self;
        let (stamp, stages) = (stamp.clone(), Stages::none());
        Some(Prepared { bucket, schema, compression, rows, raw_bytes, stamp, payload, stages })
    }

    /// What it takes in memory until it is acked.
    pub(crate) fn held(&self) -> usize {
        held(self.raw_bytes, matches!(self.payload, Payload::Keyed(_)))
    }
}

/// What a part of so many bytes takes in memory until it is acked.
pub(crate) fn held(raw_bytes: usize, keyed: bool) -> usize {
    // Of a primary-key table the rows before and after, and their keys.
    if keyed { raw_bytes.saturating_mul(3) } else { raw_bytes }
}

/// An encoded chunk.
#[derive(Clone, Debug)]
pub(crate) struct EncodedChunk {
    /// The message, or the frame that holds it.
    pub message: Bytes,
    pub metadata_len: u32,
    /// Of the whole message, or of its head if there are columns.
    pub crc: u32,
    pub raw_len: u64,
    pub columns: Vec<ColumnSegment>,
    pub frame: Frame,
}

/// Makes a part ready to wait for its flush, by this process or another one.
pub(crate) async fn prepare(
    context: &Context,
    part: Part,
    raw_bytes: usize,
) -> Result<Prepared, AppendError> {
    let Part { bucket, schema, compression, rows, originals, stamp, keyed } = part;
    let count = u32::try_from(rows.num_rows()).map_err(|_| too_many_rows())?;
    let payload = if let Some(keyed) = keyed {
        let encoded = context.cpu.run(move || KeyedRows::encode(&bucket, keyed, &rows)).await;
        Payload::Keyed(encoded.unwrap_or_else(|| Err(AppendError::internal("encoding panicked")))?)
    } else if raw_bytes >= context.settings.own_chunk_bytes {
        let encoded = context.cpu.run(move || encode(&rows, compression, &originals)).await;
        Payload::Chunk(encoded.unwrap_or_else(|| Err(AppendError::internal("encoding panicked")))?)
    } else {
        Payload::Rows(rows)
    };
    let stages = Stages::none();
    Ok(Prepared { bucket, schema, compression, rows: count, raw_bytes, stamp, payload, stages })
}

fn too_many_rows() -> AppendError {
    AppendError::internal("a part has more than 4,294,967,295 rows")
}

/// Encodes one batch.
fn encode(
    rows: &RecordBatch,
    compression: LogCompression,
    originals: &Originals,
) -> Result<EncodedChunk, AppendError> {
    let compression = match compression {
        LogCompression::None => Compression::None,
        LogCompression::Lz4 => Compression::Lz4,
        LogCompression::Zstd { level } => Compression::Zstd { level },
    };
    if let Some(small) = encode_small(rows, compression)? {
        return Ok(small);
    }
    let encoded = ipc::encode_reusing(rows, compression, originals).map_err(AppendError::internal)?;
    let message = encoded.message;
    if message.len() < COLUMN_CHUNK_BYTES {
        let crc = crc32c::crc32c(&message);
        let (metadata_len, raw_len) = (encoded.metadata_len, encoded.uncompressed_len);
        let (columns, frame) = (Vec::new(), Frame::None);
        return Ok(EncodedChunk { message, metadata_len, crc, raw_len, columns, frame });
    }
    let segment = |(extent, array): (&ipc::ColumnExtent, &arrow::array::ArrayRef)| {
        let bytes = &message[extent.start as usize..(extent.start + extent.len) as usize];
        let mut statistics = Vec::new();
        ColumnStatistics::compute(array).encode(&mut statistics);
        let crc = crc32c::crc32c(bytes);
        // A part has less than 256 MiB (see `Settings::validate`), so positions in it fit.
        ColumnSegment {
            start: extent.start as u32,
            len: extent.len as u32,
            crc,
            statistics: statistics.into(),
        }
    };
    let columns = encoded.columns.iter().zip(rows.columns()).map(segment).collect();
    let crc = crc32c::crc32c(&message[..encoded.metadata_len as usize]);
    Ok(EncodedChunk {
        metadata_len: encoded.metadata_len,
        raw_len: encoded.uncompressed_len,
        crc,
        columns,
        frame: Frame::None,
        message,
    })
}

/// Rows that are few even without compression, as one frame.
fn encode_small(rows: &RecordBatch, compression: Compression) -> Result<Option<EncodedChunk>, AppendError> {
    if raw_bytes(rows) > COLUMN_CHUNK_BYTES {
        return Ok(None);
    }
    let small = ipc::encode_small(rows, compression, COLUMN_CHUNK_BYTES).map_err(AppendError::internal)?;
    Ok(small.map(|small| EncodedChunk {
        crc: crc32c::crc32c(&small.frame),
        message: small.frame,
        metadata_len: 0,
        raw_len: small.plain_len as u64,
        columns: Vec::new(),
        frame: small.codec.into(),
    }))
}

/// Encodes several batches of one schema as one chunk.
pub(crate) fn encode_together(
    batches: &[RecordBatch],
    compression: LogCompression,
) -> Result<EncodedChunk, AppendError> {
    let none = Originals::default();
    match batches {
        [one] => encode(one, compression, &none),
        [first, ..] => {
            let together = concat_batches(first.schema_ref(), batches).map_err(AppendError::internal)?;
            encode(&together, compression, &none)
        }
        [] => Err(AppendError::internal("a chunk needs rows")),
    }
}
