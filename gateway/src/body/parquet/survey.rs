//! Looks through a Parquet file before the reader sees it.

use parquet::basic::Type as Physical;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::super::{BodyError, BodyLimits};
use super::thrift::{I32, STRUCT, Thrift};

/// Length and magic behind the footer.
const TAIL: usize = 8;

/// Longest footer.
const MAX_FOOTER: usize = 16 << 20;

/// The field of the footer that says how the file is encrypted.
const ENCRYPTION: i64 = 8;

fn bad(why: &str) -> BodyError {
    BodyError::BadParquet { why: why.to_owned() }
}

fn encrypted() -> BodyError {
    BodyError::UnsupportedParquet { why: "it is encrypted; send it decrypted".to_owned() }
}

/// Checks that the body has a footer, of which no list is longer than can be.
pub(super) fn footer(body: &[u8]) -> Result<(), BodyError> {
    if body.ends_with(b"PARE") {
        return Err(encrypted());
    }
    if body.len() < 4 + TAIL || !body.starts_with(b"PAR1") || !body.ends_with(b"PAR1") {
        return Err(bad("a Parquet file begins and ends with \"PAR1\""));
    }
    let end = body.len() - TAIL;
    let length = body[end..end + 4].iter().rev().fold(0usize, |n, b| n << 8 | usize::from(*b));
    if length > MAX_FOOTER {
        return Err(bad("its footer is longer than 16 MiB"));
    }
    let start = end.checked_sub(length).filter(|start| *start >= 4);
    let footer = &body[start.ok_or_else(|| bad("its footer would be longer than the file"))?..end];
    let mut thrift = Thrift::new(footer);
    let mut number = 0;
    loop {
        let damaged = || bad("its footer is damaged");
        let (kind, next) = thrift.field(number).ok_or_else(damaged)?;
        if kind == 0 {
            return Ok(());
        }
        if next == ENCRYPTION {
            return Err(encrypted());
        }
        number = next;
        thrift.skip(kind, 0).ok_or_else(damaged)?;
    }
}

/// Adds up what the pages say about themselves, against the limits.
pub(super) fn pages(body: &[u8], metadata: &ParquetMetaData, limits: &BodyLimits) -> Result<(), BodyError> {
    let limit = limits.max_batch_bytes as u64;
    let mut bytes = 0u64;
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        bytes = bytes.saturating_add(chunk_bytes(body, chunk)?);
        if bytes > limit {
            return Err(BodyError::BatchTooLarge { limit: limits.max_batch_bytes });
        }
    }
    Ok(())
}

/// What the pages of a chunk take: at least their decompressed size, and every value its width.
fn chunk_bytes(body: &[u8], chunk: &ColumnChunkMetaData) -> Result<u64, BodyError> {
    // `byte_range` asserts what it says.
    let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
    let range = || {
        let start = usize::try_from(start).ok()?;
        let length = usize::try_from(chunk.compressed_size()).ok()?;
        body.get(start..start.checked_add(length)?)
    };
    let mut rest = range().ok_or_else(|| bad("a column lies outside of the file"))?;
    let width = match chunk.column_type() {
        Physical::BOOLEAN => 1,
        Physical::INT32 | Physical::FLOAT => 4,
        Physical::INT64 | Physical::DOUBLE => 8,
        Physical::INT96 => 12,
        Physical::BYTE_ARRAY => 16, // as a view
        Physical::FIXED_LEN_BYTE_ARRAY => {
            u64::try_from(chunk.column_descr().type_length()).unwrap_or(0).max(16)
        }
    };
    let mut bytes = 0u64;
    while !rest.is_empty() {
        let page = page(rest).ok_or_else(|| bad("the header of a page is damaged"))?;
        let values = page.values.saturating_mul(width);
        bytes = bytes.saturating_add(page.decompressed.max(values));
        rest = rest.get(page.length..).ok_or_else(|| bad("a page reaches over the end of its column"))?;
    }
    Ok(bytes)
}

struct Page {
    /// Header and data.
    length: usize,
    decompressed: u64,
    values: u64,
}

/// Reads the header of a page.
fn page(bytes: &[u8]) -> Option<Page> {
    const DECOMPRESSED: i64 = 2;
    const COMPRESSED: i64 = 3;
    const HEADERS: [i64; 3] = [5, 7, 8]; // data page, dictionary page, data page v2
    let mut thrift = Thrift::new(bytes);
    let (mut decompressed, mut compressed, mut values) = (None, None, 0);
    let mut number = 0;
    loop {
        let (kind, next) = thrift.field(number)?;
        number = next;
        match (kind, number) {
            (0, _) => break,
            (I32, DECOMPRESSED) => decompressed = Some(u64::try_from(thrift.number()?).ok()?),
            (I32, COMPRESSED) => compressed = Some(usize::try_from(thrift.number()?).ok()?),
            (STRUCT, header) if HEADERS.contains(&header) => values = first_number(&mut thrift)?.max(values),
            (kind, _) => thrift.skip(kind, 0)?,
        }
    }
    Some(Page { length: thrift.at().checked_add(compressed?)?, decompressed: decompressed?, values })
}

/// Field 1 of a struct: in all page headers the number of values.
fn first_number(thrift: &mut Thrift<'_>) -> Option<u64> {
    let (mut values, mut number) = (None, 0);
    loop {
        let (kind, next) = thrift.field(number)?;
        number = next;
        match (kind, number) {
            (0, _) => return values,
            (I32, 1) => values = Some(u64::try_from(thrift.number()?).ok()?),
            (kind, _) => thrift.skip(kind, 1)?,
        }
    }
}
