//! Arrow IPC streams: written whole, read as they arrive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt};

use crate::error::ClientError;

#[cfg(test)]
mod tests;

/// How the buffers of Arrow bodies are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArrowCompression {
    /// Not at all: for a server on the same machine.
    None,
    /// LZ4 frames: least CPU.
    Lz4,
    /// Zstandard: fewest bytes.
    #[default]
    Zstd,
}

/// Batches of one schema as an Arrow IPC stream; at least one batch.
pub fn encode_stream(batches: &[RecordBatch], compression: ArrowCompression) -> Result<Bytes, ClientError> {
    let Some(first) = batches.first() else {
        return Err(ClientError::Encode(ArrowError::InvalidArgumentError("there is no batch".to_owned())));
    };
    let compression = match compression {
        ArrowCompression::None => None,
        ArrowCompression::Lz4 => Some(CompressionType::LZ4_FRAME),
        ArrowCompression::Zstd => Some(CompressionType::ZSTD),
    };
    let write = || {
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), first.schema_ref(), options)?;
        for batch in batches {
            writer.write(batch)?;
        }
        writer.into_inner()
    };
    write().map(Bytes::from).map_err(ClientError::Encode)
}

/// Batches of a whole stream, and their schema.
pub(crate) fn decode_all(body: Bytes) -> Result<(Option<SchemaRef>, Vec<RecordBatch>), ClientError> {
    let mut decoder = StreamDecoder::new();
    let mut buffer = Buffer::from(body);
    let mut batches = Vec::new();
    while let Some(batch) = decoder.decode(&mut buffer).map_err(ClientError::bad_answer)? {
        batches.push(batch);
    }
    decoder.finish().map_err(ClientError::bad_answer)?;
    Ok((decoder.schema(), batches))
}

/// Batches as they arrive. Ends with the server's stream, or after the first error.
pub struct BatchStream {
    chunks: BoxStream<'static, Result<Bytes, ClientError>>,
    decoder: StreamDecoder,
    /// Batches that came whole; they are given before the error or the end that followed them.
    ready: VecDeque<RecordBatch>,
    failed: Option<ClientError>,
    done: bool,
}

impl BatchStream {
    pub(crate) fn new(
        chunks: impl Stream<Item = Result<Bytes, ClientError>> + Send + 'static,
    ) -> BatchStream {
        BatchStream {
            chunks: chunks.boxed(),
            decoder: StreamDecoder::new(),
            ready: VecDeque::new(),
            failed: None,
            done: false,
        }
    }

    /// The schema, once it has arrived: at the latest with the first batch, or with the end.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    fn accept(&mut self, chunk: Bytes) -> Result<(), ArrowError> {
        let mut buffer = Buffer::from(chunk);
        while let Some(batch) = self.decoder.decode(&mut buffer)? {
            self.ready.push_back(batch);
        }
        Ok(())
    }
}

impl Stream for BatchStream {
    type Item = Result<RecordBatch, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(batch)));
            }
            if let Some(error) = self.failed.take() {
                return Poll::Ready(Some(Err(error)));
            }
            if self.done {
                return Poll::Ready(None);
            }
            let outcome = match self.chunks.poll_next_unpin(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(chunk))) => self.accept(chunk).map_err(ClientError::bad_answer),
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => {
                    self.done = true;
                    self.decoder.finish().map_err(ClientError::bad_answer)
                }
            };
            if let Err(error) = outcome {
                self.done = true;
                self.failed = Some(error);
            }
        }
    }
}
