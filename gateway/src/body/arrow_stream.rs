//! Arrow streams: the columns are there, only their types may have to change.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use wadi_model::Schema;
use wadi_model::ipc::{self, IpcError, Limits, Originals, StreamBody, StreamError};

use super::conformed::Conformed;
use super::{BodyError, BodyLimits, Decoded};

/// Reads an Arrow stream body.
pub(super) fn decode(body: Bytes, schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    // The codec checks what it is told before it believes it; a panic of Arrow's casts is caught all the same.
    let read = catch_unwind(AssertUnwindSafe(|| read(body, schema, limits)));
    read.unwrap_or_else(|_| Err(BodyError::BadArrow { why: "it is damaged".to_owned() }))
}

fn read(body: Bytes, schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    let raw_bytes = body.len();
    let StreamBody { schema: given, batches, originals } = read_stream(body, limits)?;
    let mut conformed = Conformed::new(schema, limits);
    conformed.check_shape(&given)?;
    // Several batches are put together in new buffers; no original would be found again.
    let originals = if batches.len() == 1 { originals } else { Originals::default() };
    for batch in batches {
        conformed.push(&batch)?;
    }
    Ok(Decoded { originals, ..conformed.finish(raw_bytes)? })
}

/// The stream's schema and batches, verified.
fn read_stream(body: Bytes, limits: &BodyLimits) -> Result<StreamBody, BodyError> {
    let max_rows = usize::try_from(limits.max_rows).unwrap_or(usize::MAX);
    let max_uncompressed_bytes = limits.max_batch_bytes as u64;
    let within = Limits { max_rows, max_uncompressed_bytes, ..Limits::default() };
    ipc::read_stream(body, &within).map_err(|error| match error {
        StreamError::TooManyRows { .. } => BodyError::TooManyRows { limit: limits.max_rows },
        StreamError::Message { source: IpcError::TooLarge { .. }, .. } => {
            BodyError::BatchTooLarge { limit: limits.max_batch_bytes }
        }
        other => BodyError::BadArrow { why: other.to_string() },
    })
}
