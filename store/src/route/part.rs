//! A prepared part as a message: what is encoded stays encoded, so that its owner neither compresses nor encodes it again.

use std::sync::Arc;

use arrow::array::UInt16Array;
use arrow::buffer::BooleanBuffer;
use arrow_ipc::writer::StreamWriter;
use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};
use wadi_model::ipc::{self, Limits};
use wadi_model::merge::{TargetColumns, Verb};
use wadi_model::options::LogCompression;
use wadi_model::row::Rows;
use wadi_model::{Bucket, SchemaId};

use super::message::Malformed;
use crate::container::{Chunk, Frame};
use crate::context::Context;
use crate::keyed::KeyedTable;
use crate::keys::row;
use crate::shard::{AppendError, EncodedChunk, Keyed, KeyedRows, Payload, Prepared, Stamp, Targets};
use crate::trace::Stages;

/// What is said of a part beside its bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartHead {
    bucket: Bucket,
    schema: SchemaId,
    compression: LogCompression,
    rows: u32,
    raw_bytes: usize,
    stamp: Option<Stamp>,
    payload: PayloadHead,
}

impl PartHead {
    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum PayloadHead {
    /// An Arrow stream.
    Rows,
    /// The message, and what the footer will say of it.
    Chunk,
    /// Keys, their ends, rows, their ends; which rows delete, the set of each row.
    Keyed {
        columns: Option<Vec<usize>>,
        deletes: bool,
        /// For each set the verb and the named columns, or all columns.
        targets: Vec<Option<(Verb, Vec<String>)>>,
        by_row: bool,
        if_absent: bool,
    },
}

/// A part as head and sections.
pub(super) fn write(part: &Prepared) -> Result<(PartHead, Vec<Bytes>), AppendError> {
    let (payload, sections) = match &part.payload {
        Payload::Rows(rows) => {
            let stream = || {
                let mut writer = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
                writer.write(rows)?;
                writer.into_inner()
            };
            (PayloadHead::Rows, vec![stream().map_err(internal)?.into()])
        }
        Payload::Chunk(chunk) => (PayloadHead::Chunk, vec![chunk.message.clone(), said_of(chunk)]),
        Payload::Keyed(keyed) => write_keyed(&part.bucket, keyed),
        Payload::Changes(_) => return Err(internal("a part that was merged is not sent")),
    };
    let Prepared { bucket, schema, compression, rows, raw_bytes, ref stamp, .. } = *part;
    Ok((PartHead { bucket, schema, compression, rows, raw_bytes, stamp: stamp.clone(), payload }, sections))
}

fn internal(why: impl ToString) -> AppendError {
    AppendError::Internal(why.to_string())
}

fn said_of(chunk: &EncodedChunk) -> Bytes {
    let said = Chunk {
        len: chunk.message.len() as u32,
        metadata_len: chunk.metadata_len,
        crc: chunk.crc,
        raw_len: chunk.raw_len,
        columns: chunk.columns.clone(),
        frame: chunk.frame as i32,
        ..Chunk::default()
    };
    said.encode_to_vec().into()
}

fn write_keyed(bucket: &Bucket, keyed: &KeyedRows) -> (PayloadHead, Vec<Bytes>) {
    let Keyed { table, columns, deletes, targets, if_absent } = &keyed.keyed;
    // All keys begin with the bucket, which is said once.
    let head = row::key(bucket, &[]).len();
    let mut keys = Vec::with_capacity(keyed.keys.iter().map(Bytes::len).sum());
    let mut ends = Vec::with_capacity(keyed.keys.len());
    for key in &keyed.keys {
        keys.extend_from_slice(key.get(head..).unwrap_or_default());
        ends.push(keys.len() as u32);
    }
    let rows = &keyed.rows;
    let mut sections = vec![keys.into(), numbers(&ends), rows.bytes().clone(), numbers(rows.ends())];
    if let Some(deletes) = deletes {
        let packed: BooleanBuffer = deletes.iter().collect();
        sections.push(packed.into_inner().as_slice().to_vec().into());
    }
    if let Some(of_rows) = targets.of_rows() {
        sections.push(of_rows.values().iter().flat_map(|set| set.to_le_bytes()).collect::<Vec<_>>().into());
    }
    let names = table.table().schema().columns();
    let named = |set: &TargetColumns| {
        let named = names.iter().enumerate().filter(|(at, _)| set.contains(*at));
        (set.verb(), named.map(|(_, column)| column.name.clone()).collect())
    };
    let head = PayloadHead::Keyed {
        columns: columns.as_ref().map(|columns| columns.to_vec()),
        deletes: deletes.is_some(),
        targets: targets.sets().iter().map(|set| set.as_deref().map(named)).collect(),
        by_row: targets.of_rows().is_some(),
        if_absent: *if_absent,
    };
    (head, sections)
}

fn numbers(numbers: &[u32]) -> Bytes {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>().into()
}

fn read_numbers(section: &Bytes) -> Result<Vec<u32>, Malformed> {
    let (numbers, []) = section.as_chunks::<4>() else {
        return Err(Malformed("numbers are cut off".into()));
    };
    Ok(numbers.iter().map(|n| u32::from_le_bytes(*n)).collect())
}

/// Rows, or keys, that are a section of bytes and one of ends.
pub(super) fn rows_of(bytes: &Bytes, ends: &Bytes) -> Result<Rows, Malformed> {
    Rows::of_parts(bytes.clone(), read_numbers(ends)?)
        .ok_or_else(|| Malformed("rows do not end where they say".into()))
}

/// The sections of rows or keys.
pub(super) fn sections_of(rows: &Rows) -> [Bytes; 2] {
    [rows.bytes().clone(), numbers(rows.ends())]
}

/// The part that head and sections say, for a bucket of the shard that was asked.
pub(super) async fn read(
    context: &Context,
    head: PartHead,
    sections: Vec<Bytes>,
) -> Result<Prepared, AppendError> {
    let PartHead { bucket, schema, compression, rows, raw_bytes, stamp, payload } = head;
    if raw_bytes > context.settings.object_bytes {
        return Err(AppendError::TooLarge { bytes: raw_bytes, limit: context.settings.object_bytes });
    }
    let payload = match payload {
        PayloadHead::Rows => {
            let [stream] = sections.as_slice() else { return Err(malformed("its rows are missing")) };
            let limits =
                Limits { max_uncompressed_bytes: raw_bytes as u64 * 2 + (1 << 20), ..Limits::default() };
            let body = ipc::read_stream(stream.clone(), &limits).map_err(internal)?;
            let [batch] = body.batches.as_slice() else { return Err(malformed("it has no rows")) };
            if batch.num_rows() != rows as usize {
                return Err(malformed("it has other rows than it says"));
            }
            Payload::Rows(batch.clone())
        }
        PayloadHead::Chunk => Payload::Chunk(chunk_of(&sections).map_err(internal)?),
        keyed => {
            let table = context.tables.in_log(bucket.table, schema).await.map_err(internal)?;
            // Its table was dropped.
            let table = table.ok_or(AppendError::NotOwned)?;
            Payload::Keyed(keyed_of(bucket, schema, &table, keyed, &sections, rows as usize)?)
        }
    };
    let stages = Stages::none();
    Ok(Prepared { bucket, schema, compression, rows, raw_bytes, stamp, payload, stages })
}

fn malformed(what: &str) -> AppendError {
    internal(Malformed(what.to_owned()))
}

fn chunk_of(sections: &[Bytes]) -> Result<EncodedChunk, Malformed> {
    let wrong = |what: &str| Malformed(what.to_owned());
    let [message, said] = sections else { return Err(wrong("its chunk is missing")) };
    let said = Chunk::decode(said.clone()).map_err(|e| Malformed(e.to_string()))?;
    let frame = Frame::try_from(said.frame).map_err(|e| Malformed(e.to_string()))?;
    let head = if said.columns.is_empty() { message.len() } else { said.metadata_len as usize };
    let fits = |start: usize, len: usize, crc: u32| {
        let bytes = message.get(start..start.saturating_add(len));
        bytes.is_some_and(|bytes| crc32c::crc32c(bytes) == crc)
    };
    let columns = said.columns.iter();
    if !fits(0, head, said.crc) || !columns.clone().all(|c| fits(c.start as usize, c.len as usize, c.crc)) {
        return Err(wrong("a chunk's checksum does not match"));
    }
    Ok(EncodedChunk {
        message: message.clone(),
        metadata_len: said.metadata_len,
        crc: said.crc,
        raw_len: said.raw_len,
        columns: said.columns,
        frame,
    })
}

fn keyed_of(
    bucket: Bucket,
    schema: SchemaId,
    table: &Arc<KeyedTable>,
    head: PayloadHead,
    sections: &[Bytes],
    count: usize,
) -> Result<KeyedRows, AppendError> {
    let newest = table.table().schema();
    if newest.id() != schema {
        return Err(AppendError::SchemaBehind { version: newest.id() });
    }
    let PayloadHead::Keyed { columns, deletes, targets, by_row, if_absent } = head else {
        return Err(malformed("it is of another kind of table"));
    };
    let [keys, key_ends, rows, row_ends, more @ ..] = sections else {
        return Err(malformed("its rows are missing"));
    };
    let (keys, rows) =
        (rows_of(keys, key_ends).map_err(internal)?, rows_of(rows, row_ends).map_err(internal)?);
    if keys.len() != count || rows.len() != count {
        return Err(malformed("it has other rows than it says"));
    }
    let width = newest.columns().len();
    if columns.iter().flatten().any(|column| *column >= width) {
        return Err(malformed("it has columns that the table has not"));
    }
    let mut more = more.iter();
    let mut next = |given: bool| given.then(|| more.next().ok_or_else(|| malformed("a section is missing")));
    let deletes = next(deletes).transpose()?.map(|bits| {
        let enough = bits.len() >= count.div_ceil(8);
        enough.then(|| BooleanBuffer::new(bits.to_vec().into(), 0, count))
    });
    let deletes = deletes.map(|bits| bits.ok_or_else(|| malformed("deletions are cut off"))).transpose()?;
    let set = |named: Option<(Verb, Vec<String>)>| {
        let Some((verb, names)) = named else { return Ok(None) };
        let set = TargetColumns::new(table.table(), names.iter().map(String::as_str), verb);
        set.map(|set| Some(Arc::new(set))).map_err(internal)
    };
    let sets = targets.into_iter().map(set).collect::<Result<Vec<_>, _>>()?;
    let targets = match next(by_row).transpose()? {
        None => Targets::of_all(sets),
        Some(section) => {
            let (numbers, []) = section.as_chunks::<2>() else { return Err(malformed("sets are cut off")) };
            let of_rows: UInt16Array =
                numbers.iter().map(|n| u16::from_le_bytes(*n)).collect::<Vec<_>>().into();
            Targets::by_row(sets, of_rows).filter(|_| numbers.len() == count)
        }
    };
    let targets = targets.ok_or_else(|| malformed("its rows and its sets do not fit"))?;
    let columns = columns.map(Arc::from);
    let keyed = Keyed { table: table.clone(), columns, deletes, targets, if_absent };
    Ok(KeyedRows::of(&bucket, keyed, &keys, rows))
}
