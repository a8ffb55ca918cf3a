//! Arrow streams: the columns are there, only their types may have to change.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use wadi_model::Schema;
use wadi_model::ipc::{self, IpcError, StreamError};

use super::conformed::Conformed;
use super::{BodyError, BodyLimits, Decoded};

/// Reads an Arrow stream body.
pub(super) fn decode(body: Bytes, schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    let raw_bytes = body.len();
    let (given, batches) = read_stream(body, limits)?;
    let mut conformed = Conformed::new(schema, limits);
    conformed.check_shape(&given)?;
    for batch in batches {
        conformed.push(&batch)?;
    }
    conformed.finish(raw_bytes)
}

/// The stream's schema and batches, verified before anything is allocated for them.
fn read_stream(body: Bytes, limits: &BodyLimits) -> Result<(SchemaRef, Vec<RecordBatch>), BodyError> {
    let limits = ipc::Limits {
        max_uncompressed_bytes: limits.max_batch_bytes as u64,
        max_rows: usize::try_from(limits.max_rows).unwrap_or(usize::MAX),
        ..ipc::Limits::default()
    };
    match ipc::read_stream(body, &limits) {
        Ok(stream) => Ok((stream.schema, stream.batches)),
        Err(StreamError::TooManyRows { .. }) => Err(BodyError::TooManyRows { limit: limits.max_rows as u64 }),
        Err(StreamError::Message { source: IpcError::TooLarge { .. }, .. }) => {
            Err(BodyError::BatchTooLarge { limit: limits.max_uncompressed_bytes as usize })
        }
        Err(error) => Err(BodyError::BadArrow { why: error.to_string() }),
    }
}
