//! Writing a batch as a chunk.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow_ipc::{Buffer, FieldNode};
use bytes::Bytes;

use super::Compression;
use super::compress::Compressor;
use super::error::IpcError;
use super::frame::{self, BatchMetadata, padded};
use super::originals::Originals;
use super::shape::{Counts, count_stored};

/// A batch as a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The encapsulated message; its length is a multiple of 8.
    pub message: Bytes,
    /// Bytes before the body.
    pub metadata_len: u32,
    /// Where the buffers of each top-level column are.
    pub columns: Vec<ColumnExtent>,
    /// Bytes of all buffers before compression.
    pub uncompressed_len: u64,
}

/// Bytes of a message that hold the buffers of one top-level column, padding included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnExtent {
    /// Offset in the message; a multiple of 8.
    pub start: u64,
    /// Length; a multiple of 8, zero for a column without bytes.
    pub len: u64,
}

/// Encodes a batch. Only the rows of the batch are written, also when its arrays are slices of larger ones.
///
/// # Errors
/// [`IpcError::NotStored`] when a column has a type that chunks do not hold; [`IpcError::Compress`] when the
/// compressor fails, for example on a level it does not have.
pub fn encode(batch: &RecordBatch, compression: Compression) -> Result<Encoded, IpcError> {
    encode_reusing(batch, compression, &Originals::default())
}

/// Encodes a batch as [`encode`] does, but takes buffers that came compressed as they came, if the compression asks for
/// no more than clients do.
///
/// # Errors
/// As [`encode`].
pub fn encode_reusing(
    batch: &RecordBatch,
    compression: Compression,
    originals: &Originals,
) -> Result<Encoded, IpcError> {
    let mut counts = Counts::default();
    for field in batch.schema_ref().fields() {
        let column = count_stored(field.name(), field.data_type())?;
        counts.nodes += column.nodes;
        counts.buffers += column.buffers;
    }
    let compressor = Compressor::new(compression)
        .map_err(|error| IpcError::Compress { column: String::new(), problem: error.to_string() })?;
    let metadata_len = metadata_room(counts, &compressor);
    let mut writer = Writer {
        out: Vec::with_capacity(metadata_len + capacity(batch, compression)),
        metadata_len,
        compressor,
        originals: compression.takes_originals().then_some(originals),
        nodes: Vec::with_capacity(counts.nodes),
        buffers: Vec::with_capacity(counts.buffers),
        uncompressed_len: 0,
    };
    writer.out.resize(metadata_len, 0);
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let start = writer.out.len();
        writer.array(array).map_err(|error| IpcError::Compress {
            column: field.name().clone(),
            problem: error.to_string(),
        })?;
        columns.push(ColumnExtent { start: start as u64, len: (writer.out.len() - start) as u64 });
    }
    writer.finish(batch.num_rows(), columns)
}

/// Bytes that the metadata will take: they depend on the counts alone, so the body can be written first.
fn metadata_room(counts: Counts, compressor: &Compressor) -> usize {
    let metadata = frame::write_metadata(&BatchMetadata {
        rows: 1,
        nodes: &vec![FieldNode::new(1, 1); counts.nodes],
        buffers: &vec![Buffer::new(1, 1); counts.buffers],
        codec: compressor.codec(),
        body_len: 1,
    });
    metadata.len()
}

/// A guess at the bytes of the body, so that the output grows rarely.
fn capacity(batch: &RecordBatch, compression: Compression) -> usize {
    let plain: usize =
        batch.columns().iter().filter_map(|array| array.to_data().get_slice_memory_size().ok()).sum();
    match compression {
        Compression::None => plain + 32 * batch.num_columns(),
        Compression::Lz4 | Compression::Zstd { .. } => plain / 3,
    }
}

/// The message while it is written: one output, into which the compressor writes directly.
struct Writer<'a> {
    out: Vec<u8>,
    metadata_len: usize,
    compressor: Compressor,
    originals: Option<&'a Originals>,
    nodes: Vec<FieldNode>,
    buffers: Vec<Buffer>,
    uncompressed_len: u64,
}

impl Writer<'_> {
    fn finish(mut self, rows: usize, columns: Vec<ColumnExtent>) -> Result<Encoded, IpcError> {
        let metadata = frame::write_metadata(&BatchMetadata {
            rows: rows as i64,
            nodes: &self.nodes,
            buffers: &self.buffers,
            codec: self.compressor.codec(),
            body_len: (self.out.len() - self.metadata_len) as i64,
        });
        self.out[..self.metadata_len].copy_from_slice(&metadata);
        // Compressors want room for the worst case; who keeps the message counts its bytes and not its room.
        if self.out.capacity() - self.out.len() > self.out.len() / 8 {
            self.out.shrink_to_fit();
        }
        let metadata_len = u32::try_from(self.metadata_len)
            .map_err(|_| IpcError::message("its metadata is larger than 4 GiB"))?;
        Ok(Encoded {
            message: Bytes::from(self.out),
            metadata_len,
            columns,
            uncompressed_len: self.uncompressed_len,
        })
    }

    /// Writes the node and the buffers of an array, then its children. The type was checked by `count_stored`.
    fn array(&mut self, array: &dyn Array) -> std::io::Result<()> {
        if matches!(array.data_type(), DataType::Null) {
            self.nodes.push(FieldNode::new(array.len() as i64, array.len() as i64));
            return Ok(());
        }
        self.nodes.push(FieldNode::new(array.len() as i64, array.null_count() as i64));
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.bits(nulls.inner())?,
            None => self.buffer(&[])?,
        }
        match array.data_type() {
            DataType::Boolean => self.bits(array.as_boolean().values()),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                self.bytes(array.offsets(), array.values())
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                self.bytes(array.offsets(), array.values())
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                self.bytes(array.offsets(), array.values())
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                self.bytes(array.offsets(), array.values())
            }
            DataType::List(_) => {
                let array = array.as_list::<i32>();
                self.list(array.offsets(), array.values())
            }
            DataType::LargeList(_) => {
                let array = array.as_list::<i64>();
                self.list(array.offsets(), array.values())
            }
            DataType::Map(..) => {
                let array = array.as_map();
                self.list(array.offsets(), array.entries())
            }
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                let elements = list.len() * list.value_length() as usize;
                self.array(&list.values().slice(0, elements))
            }
            DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(|child| self.array(child)),
            _ => self.fixed(array),
        }
    }

    /// Values of fixed width.
    fn fixed(&mut self, array: &dyn Array) -> std::io::Result<()> {
        let data = array.to_data();
        let width = match data.data_type() {
            DataType::FixedSizeBinary(size) => *size as usize,
            other => other.primitive_width().unwrap_or_default(),
        };
        let start = data.offset() * width;
        self.buffer(&data.buffers()[0].as_slice()[start..start + data.len() * width])
    }

    /// A bitmap, moved to start at the first bit of a byte. Bits after the last are cleared, so that equal rows
    /// make equal bytes.
    fn bits(&mut self, bits: &BooleanBuffer) -> std::io::Result<()> {
        let bytes = bits.sliced();
        let (full, rest) = (bits.len() / 8, bits.len() % 8);
        if rest == 0 || bytes[full] >> rest == 0 {
            return self.buffer(&bytes[..bits.len().div_ceil(8)]);
        }
        let mut clean = bytes[..=full].to_vec();
        clean[full] &= (1 << rest) - 1;
        self.buffer(&clean)
    }

    /// Offsets and the bytes that they span.
    fn bytes<O>(&mut self, offsets: &OffsetBuffer<O>, values: &[u8]) -> std::io::Result<()>
    where
        O: ArrowNativeType + std::ops::Sub<Output = O>,
    {
        let (start, end) = self.offsets(offsets)?;
        self.buffer(&values[start..end])
    }

    /// Offsets and the elements that they span.
    fn list<O>(&mut self, offsets: &OffsetBuffer<O>, values: &dyn Array) -> std::io::Result<()>
    where
        O: ArrowNativeType + std::ops::Sub<Output = O>,
    {
        let (start, end) = self.offsets(offsets)?;
        self.array(&values.slice(start, end - start))
    }

    /// Writes offsets so that the first is zero. Returns what they spanned before.
    fn offsets<O>(&mut self, offsets: &OffsetBuffer<O>) -> std::io::Result<(usize, usize)>
    where
        O: ArrowNativeType + std::ops::Sub<Output = O>,
    {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        if first.as_usize() == 0 {
            self.buffer(offsets.inner().inner().as_slice())?;
        } else {
            let moved: Vec<O> = offsets.iter().map(|offset| *offset - first).collect();
            self.buffer(arrow::buffer::Buffer::from_vec(moved).as_slice())?;
        }
        Ok((first.as_usize(), last.as_usize()))
    }

    /// Appends one buffer, compressed and padded.
    fn buffer(&mut self, plain: &[u8]) -> std::io::Result<()> {
        let start = self.out.len();
        match self.originals.and_then(|originals| originals.of(plain)) {
            Some(stored) => self.out.extend_from_slice(stored),
            None => self.compressor.append(plain, &mut self.out)?,
        }
        let len = self.out.len() - start;
        self.out.resize(padded(self.out.len()), 0);
        self.buffers.push(Buffer::new((start - self.metadata_len) as i64, len as i64));
        self.uncompressed_len += plain.len() as u64;
        Ok(())
    }
}
