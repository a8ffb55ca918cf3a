//! Reading an Arrow IPC stream from a client, already in memory.
//!
//! A stream is a schema message, then dictionary and record batches, then an end marker (length 0) or just the end
//! of the body. What a client sends is not trusted: see the invariants in the module above.

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::{DictionaryBatch, Message, MessageHeader, MetadataVersion};
use bytes::Bytes;

use super::decode::{ArrayLimits, Budget, Decoder};
use super::error::{IpcError, StreamError};
use super::frame::{self, CONTINUATION, PREFIX};
use super::header::BatchHeader;
use super::originals::{Collected, Originals};
use super::plain_size;
use super::schema::{SchemaLimits, StreamSchema, read_schema};

/// The first bytes of the file format.
const FILE_MAGIC: &[u8] = b"ARROW1";

/// What a stream may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Fields of the schema, nested ones counted.
    pub max_columns: usize,
    /// Levels of nested fields; a column of a plain type is at level 1. Values above 100 have no effect.
    pub max_depth: usize,
    /// Bytes of all buffers after decompression. Columns of dictionary, run-end and view types count again with
    /// the size they have as plain columns.
    pub max_uncompressed_bytes: u64,
    /// Rows of all batches.
    pub max_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_columns: 4096, max_depth: 16, max_uncompressed_bytes: 256 << 20, max_rows: 64 << 20 }
    }
}

/// Levels at which the verifier of flatbuffers stops; each field takes one and the message a few.
const MAX_DEPTH: usize = 100;

/// The contents of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamBody {
    /// Its schema.
    pub schema: SchemaRef,
    /// Its batches in order, without those that have no rows.
    pub batches: Vec<RecordBatch>,
    /// Their buffers as they came, for [`encode_reusing`](super::encode_reusing).
    pub originals: Originals,
}

/// Reads a whole stream. Buffers that are neither compressed nor badly aligned share memory with `body`.
///
/// # Errors
/// When the body is not a well-formed stream, or holds more than `limits` allows; the error names the message and
/// the byte where it starts.
pub fn read_stream(body: Bytes, limits: &Limits) -> Result<StreamBody, StreamError> {
    if body.starts_with(FILE_MAGIC) {
        return Err(StreamError::FileFormat);
    }
    let mut frames = Frames { body: &body, byte: 0, message: 0 };
    let first = frames.next()?.ok_or(StreamError::Empty)?;
    let mut reader = Reader::new(&first, limits)?;
    while let Some(frame) = frames.next()? {
        reader.read(&frame)?;
    }
    let Reader { schema, batches, originals, .. } = reader;
    Ok(StreamBody { schema: schema.schema, batches, originals: originals.finish() })
}

/// One message of the body.
struct Frame<'a> {
    at: Place,
    message: Message<'a>,
    contents: Bytes,
}

/// Where a message is: its number from 1, its first byte.
#[derive(Debug, Clone, Copy)]
struct Place {
    message: usize,
    byte: usize,
}

impl Place {
    fn error(self, source: IpcError) -> StreamError {
        StreamError::Message { message: self.message, byte: self.byte, source }
    }

    fn unexpected(self, got: MessageHeader, wanted: &'static str) -> StreamError {
        let got = got.variant_name().map_or_else(|| format!("{got:?}"), str::to_owned);
        StreamError::UnexpectedMessage { message: self.message, byte: self.byte, got, wanted }
    }
}

/// Cuts the body into messages.
struct Frames<'a> {
    body: &'a Bytes,
    /// Where the next message starts.
    byte: usize,
    /// Messages cut.
    message: usize,
}

impl<'a> Frames<'a> {
    fn next(&mut self) -> Result<Option<Frame<'a>>, StreamError> {
        let start = self.byte;
        if start == self.body.len() {
            return Ok(None);
        }
        self.message += 1;
        let at = Place { message: self.message, byte: start };
        let marker = &self.body[start..self.body.len().min(start + CONTINUATION.len())];
        if !CONTINUATION.starts_with(marker) {
            return Err(StreamError::NoContinuation { message: at.message, byte: start });
        }
        let prefix = self.take(at, "frame", PREFIX as u64)?;
        let mut length = [0; 4];
        length.copy_from_slice(&prefix[CONTINUATION.len()..]);
        let length = i32::from_le_bytes(length);
        if length == 0 {
            let bytes = self.body.len() - self.byte;
            return if bytes == 0 { Ok(None) } else { Err(StreamError::Trailing { byte: start, bytes }) };
        }
        let length = u64::try_from(length)
            .map_err(|_| at.error(IpcError::message(format!("the length of its metadata is {length}"))))?;
        let flatbuffer = self.take(at, "metadata", length)?;
        let message = frame::verify(flatbuffer).map_err(|source| at.error(source))?;
        let body_len = frame::body_len(&message).map_err(|source| at.error(source))?;
        let contents = self.body.slice_ref(self.take(at, "body", body_len)?);
        Ok(Some(Frame { at, message, contents }))
    }

    /// Takes a part of a message.
    fn take(&mut self, at: Place, part: &'static str, needed: u64) -> Result<&'a [u8], StreamError> {
        let left = &self.body[self.byte..];
        match usize::try_from(needed).ok().and_then(|needed| left.get(..needed)) {
            Some(taken) => {
                self.byte += taken.len();
                Ok(taken)
            }
            None => Err(StreamError::Truncated {
                message: at.message,
                byte: at.byte,
                part,
                needed,
                left: left.len() as u64,
            }),
        }
    }
}

/// What was read so far.
struct Reader {
    schema: StreamSchema,
    /// Columns that may be larger once they are cast to plain types.
    unfolding: Vec<usize>,
    budget: Budget,
    rows_left: usize,
    max_rows: usize,
    batches: Vec<RecordBatch>,
    originals: Collected,
}

impl Reader {
    fn new(first: &Frame<'_>, limits: &Limits) -> Result<Self, StreamError> {
        let schema = first
            .message
            .header_as_schema()
            .ok_or_else(|| first.at.unexpected(first.message.header_type(), "Schema"))?;
        let schema_limits =
            SchemaLimits { fields: limits.max_columns, depth: limits.max_depth.min(MAX_DEPTH) };
        let schema = read_schema(&schema, schema_limits)?;
        let fields = schema.schema.fields().iter().enumerate();
        let unfolding = fields.filter(|(_, field)| plain_size::may_unfold(field.data_type()));
        let unfolding = unfolding.map(|(index, _)| index).collect();
        Ok(Self {
            schema,
            unfolding,
            budget: Budget::new(limits.max_uncompressed_bytes),
            rows_left: limits.max_rows,
            max_rows: limits.max_rows,
            batches: Vec::new(),
            originals: Collected::default(),
        })
    }

    fn read(&mut self, frame: &Frame<'_>) -> Result<(), StreamError> {
        match frame.message.header_type() {
            MessageHeader::RecordBatch => self.batch(frame),
            MessageHeader::DictionaryBatch => {
                let batch = frame.message.header_as_dictionary_batch();
                let batch =
                    batch.ok_or_else(|| frame.at.error(IpcError::message("its header is missing")))?;
                self.dictionary(frame, &batch)
            }
            other => Err(frame.at.unexpected(other, "RecordBatch or DictionaryBatch")),
        }
    }

    fn batch(&mut self, frame: &Frame<'_>) -> Result<(), StreamError> {
        let at = frame.at;
        let batch = frame.message.header_as_record_batch();
        let batch = batch.ok_or_else(|| at.error(IpcError::message("its header is missing")))?;
        let header =
            BatchHeader::read(&batch, frame.contents.len() as u64).map_err(|source| at.error(source))?;
        self.rows_left = self
            .rows_left
            .checked_sub(header.rows)
            .ok_or(StreamError::TooManyRows { limit: self.max_rows })?;
        let limits = ArrayLimits { unbacked_len: self.max_rows };
        let body = Buffer::from(frame.contents.clone());
        let decoder = Decoder::new(&header, body, &self.schema.dictionaries, limits, &mut self.budget)
            .with_union_validity(frame.message.version() == MetadataVersion::V4)
            .with_originals(&mut self.originals);
        let batch =
            decoder.batch(&self.schema.schema, &self.schema.ids).map_err(|source| at.error(source))?;
        for &column in &self.unfolding {
            self.budget.take(plain_size::of(batch.column(column))).map_err(|source| at.error(source))?;
        }
        if batch.num_rows() > 0 {
            self.batches.push(batch);
        }
        Ok(())
    }

    fn dictionary(&mut self, frame: &Frame<'_>, batch: &DictionaryBatch<'_>) -> Result<(), StreamError> {
        let (at, id) = (frame.at, batch.id());
        let dictionaries = &self.schema.dictionaries;
        let Some((field, ids)) = dictionaries.field(id) else {
            return Err(StreamError::UnknownDictionary { message: at.message, byte: at.byte, id });
        };
        if batch.isDelta() && !dictionaries.has_values(id) {
            return Err(StreamError::DeltaWithoutBase { message: at.message, byte: at.byte, id });
        }
        let data = batch.data().ok_or_else(|| at.error(IpcError::message("the dictionary has no data")))?;
        let header =
            BatchHeader::read(&data, frame.contents.len() as u64).map_err(|source| at.error(source))?;
        let limits = ArrayLimits { unbacked_len: self.max_rows };
        let body = Buffer::from(frame.contents.clone());
        let decoder = Decoder::new(&header, body, dictionaries, limits, &mut self.budget)
            .with_union_validity(frame.message.version() == MetadataVersion::V4);
        let values = decoder.values(field, ids).map_err(|source| at.error(source))?;
        if batch.isDelta() {
            let extended = self.schema.dictionaries.extend(id, values, &mut self.budget);
            extended.map_err(|source| at.error(source))?;
        } else {
            self.schema.dictionaries.set(id, values);
        }
        Ok(())
    }
}
