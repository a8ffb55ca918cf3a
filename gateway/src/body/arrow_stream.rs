//! Arrow streams: the columns are there, only their types may have to change.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use wadi_model::Schema;

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

/// The stream's schema and batches, verified.
// TODO(lead): replace the body by `wadi_model::ipc::stream::read_stream(body, &Limits { max_rows, … })`, which
// verifies before it allocates; arrow-ipc's reader does not.
fn read_stream(body: Bytes, limits: &BodyLimits) -> Result<(SchemaRef, Vec<RecordBatch>), BodyError> {
    let bad = |why: String| BodyError::BadArrow { why };
    let read = std::panic::catch_unwind(|| {
        let reader = arrow_ipc::reader::StreamReader::try_new(std::io::Cursor::new(body), None)?;
        let schema = reader.schema();
        Ok((schema, reader.collect::<Result<Vec<_>, _>>()?))
    });
    let read: Result<_, arrow::error::ArrowError> = read.map_err(|_| bad("it is damaged".to_owned()))?;
    let (schema, batches) = read.map_err(|e| bad(e.to_string()))?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    match rows as u64 > limits.max_rows {
        true => Err(BodyError::TooManyRows { limit: limits.max_rows }),
        false => Ok((schema, batches)),
    }
}
