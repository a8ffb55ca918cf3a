//! Reading a batch out of a message.
//!
//! Everything that Arrow's constructors assert or allocate on is checked here first: counts against the schema,
//! lengths of buffers against lengths of arrays, lengths of children, sizes against the limit. What is in the
//! buffers (offsets, UTF-8, keys, null counts) is checked by `ArrayDataBuilder::build`, once for each array.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayData, ArrayDataBuilder, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, SchemaRef, UnionFields, UnionMode};
use bytes::Bytes;

use super::compress::{Codec, Decompressor, LENGTH_PREFIX, Length, uncompressed_len};
use super::dictionaries::{Dictionaries, Ids};
use super::error::IpcError;
use super::frame;
use super::header::{BatchHeader, Node};
use super::originals::Collected;
use super::shape::{Shape, count_stored};

/// Decodes a chunk. Raw buffers stay where they are in `message` when their address suits their type, all others
/// are decompressed or copied; the batch keeps `message` alive as long as it shares bytes with it.
///
/// `max_uncompressed` bounds the bytes of all buffers together.
///
/// # Errors
/// When the message is damaged or was not written with this schema, and [`IpcError::TooLarge`] above the limit.
pub fn decode(message: &Bytes, schema: &SchemaRef, max_uncompressed: u64) -> Result<RecordBatch, IpcError> {
    for field in schema.fields() {
        count_stored(field.name(), field.data_type())?;
    }
    let (flatbuffer, body) = frame::split(message)?;
    let metadata = frame::verify(flatbuffer)?;
    let body_len = frame::body_len(&metadata)?;
    if body_len != body.len() as u64 {
        return Err(IpcError::message(format!(
            "its body has {} bytes, its metadata says {body_len}",
            body.len()
        )));
    }
    let batch = metadata.header_as_record_batch().ok_or_else(|| {
        IpcError::message(format!("it is a {:?}, not a RecordBatch", metadata.header_type()))
    })?;
    let header = BatchHeader::read(&batch, body_len)?;
    let mut budget = Budget::new(max_uncompressed);
    let limits = ArrayLimits { unbacked_len: usize::try_from(max_uncompressed).unwrap_or(usize::MAX) };
    let body = Buffer::from(message.slice_ref(body));
    Decoder::new(&header, body, &Dictionaries::default(), limits, &mut budget).batch(schema, &Ids::default())
}

/// Bytes that may still be taken.
#[derive(Debug)]
pub(super) struct Budget {
    left: u64,
    limit: u64,
}

impl Budget {
    pub(super) fn new(limit: u64) -> Self {
        Self { left: limit, limit }
    }

    /// Takes bytes, before they are allocated.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), IpcError> {
        self.left = self.left.checked_sub(bytes).ok_or(IpcError::TooLarge { limit: self.limit })?;
        Ok(())
    }
}

/// Bounds on single arrays.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrayLimits {
    /// Elements of an array that has no bytes for each of them (nulls, runs, sizes of zero): its length is a claim
    /// that nothing backs, and kernels allocate by it.
    pub(super) unbacked_len: usize,
}

/// Walks the fields of a schema and takes nodes and buffers in order.
pub(super) struct Decoder<'a> {
    nodes: std::slice::Iter<'a, Node>,
    buffers: std::slice::Iter<'a, Range<usize>>,
    variadic: VecDeque<usize>,
    rows: usize,
    codec: Option<Codec>,
    body: Buffer,
    dictionaries: &'a Dictionaries,
    limits: ArrayLimits,
    budget: &'a mut Budget,
    decompressor: Decompressor,
    /// Unions had a validity buffer before version 5.
    union_validity: bool,
    /// Takes the compressed buffers along with the plain ones.
    originals: Option<&'a mut Collected>,
    /// Names from the top-level column to the field at hand.
    path: Vec<String>,
}

impl<'a> Decoder<'a> {
    /// `header` was read for this body.
    pub(super) fn new(
        header: &'a BatchHeader,
        body: Buffer,
        dictionaries: &'a Dictionaries,
        limits: ArrayLimits,
        budget: &'a mut Budget,
    ) -> Self {
        Self {
            nodes: header.nodes.iter(),
            buffers: header.buffers.iter(),
            variadic: header.variadic.iter().copied().collect(),
            rows: header.rows,
            codec: header.codec,
            body,
            dictionaries,
            limits,
            budget,
            decompressor: Decompressor::default(),
            union_validity: false,
            originals: None,
            path: Vec::new(),
        }
    }

    /// Reads unions as version 4 wrote them.
    pub(super) fn with_union_validity(mut self, union_validity: bool) -> Self {
        self.union_validity = union_validity;
        self
    }

    /// Remembers in which form the buffers came.
    pub(super) fn with_originals(mut self, originals: &'a mut Collected) -> Self {
        self.originals = Some(originals);
        self
    }

    /// Decodes the columns of `schema`; `ids` has the dictionaries of its fields.
    pub(super) fn batch(mut self, schema: &SchemaRef, ids: &Ids) -> Result<RecordBatch, IpcError> {
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (index, field) in schema.fields().iter().enumerate() {
            let column = self.field(field, ids.child(index), Some(self.rows))?;
            columns.push(make_array(column));
        }
        self.finish()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|error| IpcError::message(error.to_string()))
    }

    /// Decodes the values of a dictionary, the only column of their batch.
    pub(super) fn values(mut self, field: &Field, ids: &Ids) -> Result<ArrayData, IpcError> {
        let values = self.field(field, ids, Some(self.rows))?;
        self.finish()?;
        Ok(values)
    }

    /// Checks that the message has nothing that the schema does not know.
    fn finish(&self) -> Result<(), IpcError> {
        let (nodes, buffers) = (self.nodes.len(), self.buffers.len());
        if nodes + buffers + self.variadic.len() > 0 {
            return Err(IpcError::message(format!(
                "its schema does not use {nodes} nodes and {buffers} buffers"
            )));
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, ids: &Ids, len: Option<usize>) -> Result<ArrayData, IpcError> {
        self.path.push(field.name().clone());
        let data = self.array(field.data_type(), ids, len)?;
        self.path.pop();
        Ok(data)
    }

    /// Decodes one array; `len` is the length it must have.
    fn array(&mut self, data_type: &DataType, ids: &Ids, len: Option<usize>) -> Result<ArrayData, IpcError> {
        let node = *self.nodes.next().ok_or_else(|| self.column("the message has no node for it"))?;
        if let Some(len) = len.filter(|len| *len != node.len) {
            return Err(self.column(format!("it has {} elements, {len} are needed", node.len)));
        }
        let shape = Shape::of(data_type).map_err(|problem| self.column(problem))?;
        let data = ArrayData::builder(data_type.clone()).len(node.len);
        let data = match shape {
            Shape::Null => {
                self.unbacked(node.len)?;
                data
            }
            Shape::Bits => {
                let data = self.validity(data, node)?;
                data.add_buffer(self.buffer("values", Some(node.len.div_ceil(8)))?)
            }
            Shape::Fixed { width } => {
                let data = self.validity(data, node)?;
                let bytes = self.sized(node.len, width)?;
                if matches!(data_type, DataType::FixedSizeBinary(_)) {
                    self.check_fixed_binary(node.len, bytes)?;
                }
                data.add_buffer(self.buffer("values", Some(bytes))?)
            }
            Shape::Bytes { offset_width } => {
                let data = self.validity(data, node)?.add_buffer(self.offsets(node, offset_width)?);
                data.add_buffer(self.buffer("values", None)?)
            }
            Shape::List { offset_width, child } => {
                let data = self.validity(data, node)?.add_buffer(self.offsets(node, offset_width)?);
                let entries = self.field(child, ids.child(0), None)?;
                if matches!(data_type, DataType::Map(..)) && entries.null_count() > 0 {
                    return Err(self.column("entries of a map are null"));
                }
                data.add_child_data(entries)
            }
            Shape::FixedList { size, child } => {
                if size == 0 {
                    self.unbacked(node.len)?;
                }
                let data = self.validity(data, node)?;
                // Arrow multiplies the two as well, and panics on overflow.
                let elements = self.sized(node.len, size)?;
                data.add_child_data(self.field(child, ids.child(0), Some(elements))?)
            }
            Shape::Struct(fields) => {
                if fields.is_empty() {
                    self.unbacked(node.len)?;
                }
                let mut data = self.validity(data, node)?;
                for (index, child) in fields.iter().enumerate() {
                    data = data.add_child_data(self.field(child, ids.child(index), Some(node.len))?);
                }
                data
            }
            Shape::Views => self.views(data, node)?,
            Shape::ListViews { offset_width, child } => {
                let bytes = self.sized(node.len, offset_width)?;
                let data = self.validity(data, node)?;
                let data = data.add_buffer(self.buffer("offsets", Some(bytes))?);
                let data = data.add_buffer(self.buffer("sizes", Some(bytes))?);
                data.add_child_data(self.field(child, ids.child(0), None)?)
            }
            Shape::Dictionary { key_width, value } => {
                let data = self.validity(data, node)?;
                let bytes = self.sized(node.len, key_width)?;
                let data = data.add_buffer(self.buffer("keys", Some(bytes))?);
                data.add_child_data(self.dictionaries.values(ids, value))
            }
            Shape::RunEnds { ends, values } => {
                self.unbacked(node.len)?;
                let ends = self.field(ends, ids.child(0), None)?;
                let runs = ends.len();
                let data = data.add_child_data(ends);
                data.add_child_data(self.field(values, ids.child(1), Some(runs))?)
            }
            Shape::Union { fields, mode } => self.union(data, node, fields, mode, ids)?,
        };
        // Copies buffers whose address does not suit their type.
        data.align_buffers(true).build().map_err(|error| self.column(error.to_string()))
    }

    /// Views, then the buffers they point into; how many, the metadata says in a list of its own.
    fn views(&mut self, data: ArrayDataBuilder, node: Node) -> Result<ArrayDataBuilder, IpcError> {
        let bytes = self.sized(node.len, 16)?;
        let count = self.variadic.pop_front();
        let count = count.ok_or_else(|| self.column("the message has no count of its buffers"))?;
        let mut data = self.validity(data, node)?.add_buffer(self.buffer("views", Some(bytes))?);
        for _ in 0..count {
            data = data.add_buffer(self.buffer("data", None)?);
        }
        Ok(data)
    }

    fn union(
        &mut self,
        mut data: ArrayDataBuilder,
        node: Node,
        fields: &UnionFields,
        mode: UnionMode,
        ids: &Ids,
    ) -> Result<ArrayDataBuilder, IpcError> {
        if self.union_validity {
            self.next_buffer("validity")?;
        }
        data = data.add_buffer(self.buffer("type ids", Some(node.len))?);
        if mode == UnionMode::Dense {
            let bytes = self.sized(node.len, 4)?;
            data = data.add_buffer(self.buffer("offsets", Some(bytes))?);
        }
        // Children of a sparse union are as long as the union, those of a dense one as they like.
        let len = (mode == UnionMode::Sparse).then_some(node.len);
        for (index, (_, child)) in fields.iter().enumerate() {
            data = data.add_child_data(self.field(child, ids.child(index), len)?);
        }
        Ok(data)
    }

    /// The validity buffer. Without nulls it is not looked at: writers may leave it out or fill it with ones.
    fn validity(&mut self, data: ArrayDataBuilder, node: Node) -> Result<ArrayDataBuilder, IpcError> {
        if node.null_count == 0 {
            self.next_buffer("validity")?;
            return Ok(data);
        }
        let bits = self.buffer("validity", Some(node.len.div_ceil(8)))?;
        Ok(data.null_bit_buffer(Some(bits)).null_count(node.null_count))
    }

    /// One offset more than elements; old writers leave the buffer out when there are no elements.
    fn offsets(&mut self, node: Node, width: usize) -> Result<Buffer, IpcError> {
        if node.len > 0 {
            let bytes = self.sized(node.len.saturating_add(1), width)?;
            return self.buffer("offsets", Some(bytes));
        }
        let offsets = self.buffer("offsets", None)?;
        match offsets.len() {
            0 => Ok(offsets),
            len if len < width => Err(self.bad_buffer("offsets", format!("its {len} bytes are no offset"))),
            _ => Ok(offsets.slice_with_length(0, width)),
        }
    }

    fn sized(&self, len: usize, width: usize) -> Result<usize, IpcError> {
        len.checked_mul(width).ok_or_else(|| self.column(format!("it has {len} elements")))
    }

    fn unbacked(&self, len: usize) -> Result<(), IpcError> {
        if len > self.limits.unbacked_len {
            let limit = self.limits.unbacked_len;
            return Err(self.column(format!("it has {len} elements without bytes; {limit} are allowed")));
        }
        Ok(())
    }

    /// Arrow keeps offsets into fixed binary arrays as i32, and panics above.
    fn check_fixed_binary(&self, len: usize, bytes: usize) -> Result<(), IpcError> {
        if bytes == 0 {
            self.unbacked(len)?;
        }
        if i32::try_from(bytes).is_err() {
            return Err(self.column(format!("it has {bytes} bytes; an array holds 2 GiB")));
        }
        Ok(())
    }

    fn next_buffer(&mut self, name: &'static str) -> Result<Range<usize>, IpcError> {
        match self.buffers.next() {
            Some(range) => Ok(range.clone()),
            None => Err(self.bad_buffer(name, "the message has no such buffer")),
        }
    }

    /// Takes the next buffer, decompressed. With `exact`, it must have at least so many bytes and is cut to them:
    /// writers may pad, but Arrow panics on a part of an element.
    fn buffer(&mut self, name: &'static str, exact: Option<usize>) -> Result<Buffer, IpcError> {
        let range = self.next_buffer(name)?;
        let stored = self.body.slice_with_length(range.start, range.len());
        let plain = match self.codec {
            Some(codec) if !stored.is_empty() => self.decompress(name, codec, &stored, exact.unwrap_or(0))?,
            _ => {
                self.budget.take(stored.len() as u64)?;
                stored
            }
        };
        match exact {
            None => Ok(plain),
            Some(needed) if needed <= plain.len() => Ok(plain.slice_with_length(0, needed)),
            Some(needed) => Err(self.bad_buffer(name, too_short(plain.len(), needed))),
        }
    }

    /// Checks the uncompressed length of a buffer against what its array needs, then decompresses it.
    fn decompress(
        &mut self,
        name: &'static str,
        codec: Codec,
        stored: &Buffer,
        needed: usize,
    ) -> Result<Buffer, IpcError> {
        match uncompressed_len(stored).map_err(|problem| self.bad_buffer(name, problem))? {
            Length::Raw => {
                let raw = stored.slice(LENGTH_PREFIX);
                self.budget.take(raw.len() as u64)?;
                Ok(raw)
            }
            Length::Plain(len) if len < needed => Err(self.bad_buffer(name, too_short(len, needed))),
            Length::Plain(0) => Ok(Buffer::from_vec(Vec::<u8>::new())),
            Length::Plain(len) => {
                self.budget.take(len as u64)?;
                let frame = &stored[LENGTH_PREFIX..];
                let plain = self.decompressor.decompress(codec, frame, len);
                let plain = plain.map_err(|problem| self.bad_buffer(name, problem))?;
                if let Some(originals) = &mut self.originals
                    && codec.storable(frame, len)
                {
                    originals.add(&plain, stored.clone());
                }
                Ok(plain)
            }
        }
    }

    fn column(&self, problem: impl Into<String>) -> IpcError {
        IpcError::Column { column: self.path.join("."), problem: problem.into() }
    }

    fn bad_buffer(&self, buffer: &'static str, problem: impl Into<String>) -> IpcError {
        IpcError::Buffer { column: self.path.join("."), buffer, problem: problem.into() }
    }
}

fn too_short(len: usize, needed: usize) -> String {
    format!("it has {len} bytes, {needed} are needed")
}
