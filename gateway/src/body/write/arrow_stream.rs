//! Answers as Arrow streams: written batch by batch, or as a frame around stored messages that pass through as they
//! are.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamWriter, write_message};
use bytes::Bytes;

/// Writes a stream piece by piece.
pub struct ArrowStreamWriter {
    writer: StreamWriter<Vec<u8>>,
}

impl ArrowStreamWriter {
    /// A stream of this schema; [`ArrowStreamWriter::take`] has the schema message at once.
    pub fn new(schema: &SchemaRef) -> Result<ArrowStreamWriter, ArrowError> {
        Ok(ArrowStreamWriter { writer: StreamWriter::try_new(Vec::new(), schema)? })
    }

    /// Adds a batch of the stream's schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.writer.write(batch)
    }

    /// Adds the end.
    pub fn finish(&mut self) -> Result<(), ArrowError> {
        self.writer.finish()
    }

    /// What has been written since the last call.
    pub fn take(&mut self) -> Bytes {
        std::mem::take(self.writer.get_mut()).into()
    }
}

/// The schema message that a stream of stored record batches begins with.
pub fn schema_message(schema: &ArrowSchema) -> Result<Bytes, ArrowError> {
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(true);
    let message =
        IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut tracker, &options);
    let mut out = Vec::new();
    write_message(&mut out, message, &options)?;
    Ok(out.into())
}

/// The marker that a stream ends with.
pub fn end_of_stream() -> Bytes {
    Bytes::from_static(&[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0])
}
