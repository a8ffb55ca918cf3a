//! Bodies of writes.

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::arrow_stream::{ArrowCompression, encode_stream};
use crate::error::ClientError;

/// Content types of bodies and answers.
pub mod content_type {
    /// Arrow IPC stream.
    pub const ARROW: &str = "application/vnd.apache.arrow.stream";
    /// A JSON object a line.
    pub const NDJSON: &str = "application/x-ndjson";
    /// An array of objects, or one.
    pub const JSON: &str = "application/json";
    /// With a header.
    pub const CSV: &str = "text/csv";
    /// Server-sent events.
    pub const EVENTS: &str = "text/event-stream";
    /// A Parquet file.
    pub const PARQUET: &str = "application/vnd.apache.parquet";
}

/// A body as it goes over the wire. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Body {
    pub(crate) content_type: &'static str,
    pub(crate) encoding: Option<&'static str>,
    pub(crate) bytes: Bytes,
}

impl Body {
    /// Bytes of the given [`content_type`].
    pub fn new(content_type: &'static str, bytes: impl Into<Bytes>) -> Body {
        Body { content_type, encoding: None, bytes: bytes.into() }
    }

    /// Bytes that the caller has compressed with `encoding` (`zstd` or `gzip`).
    pub fn encoded(content_type: &'static str, encoding: &'static str, bytes: impl Into<Bytes>) -> Body {
        Body { content_type, encoding: Some(encoding), bytes: bytes.into() }
    }

    /// Batches of one schema as an Arrow stream; at least one. The same batches give the same bytes.
    pub fn arrow(batches: &[RecordBatch], compression: ArrowCompression) -> Result<Body, ClientError> {
        Ok(Body::new(content_type::ARROW, encode_stream(batches, compression)?))
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is not one byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
