//! Parquet files, read from memory.
//!
//! A file says much about itself that need not be true, and the reader allocates what it is told. So the file is
//! walked first without allocating ([`survey`]): the footer's lists, then the header of every page, whose sizes and
//! counts are added up against the limits. Text is read as views, so that a value that stands in many rows is there
//! once until its size has been counted. What still goes wrong inside of the reader is caught.
//!
//! The Arrow schema that writers hide in the footer is not used: Parquet's own types say what a column is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields, Schema as ArrowSchema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use wadi_model::Schema;
use wadi_model::schema::MAX_COLUMNS;

use super::conformed::Conformed;
use super::{BodyError, BodyLimits, Decoded};

mod survey;
#[cfg(test)]
mod tests;
mod thrift;

const ROWS_AT_ONCE: usize = 8192;

/// Reads a Parquet body.
pub(super) fn decode(body: Bytes, schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    survey::footer(&body)?;
    // The reader's state is dropped with a panic; nothing that outlives it can be seen half changed.
    let read = catch_unwind(AssertUnwindSafe(|| read(body, schema, limits)));
    read.unwrap_or_else(|_| Err(BodyError::BadParquet { why: "it is damaged".to_owned() }))
}

fn read(body: Bytes, schema: &Schema, limits: &BodyLimits) -> Result<Decoded, BodyError> {
    let raw_bytes = body.len();
    let options = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let own = ArrowReaderMetadata::load(&body, options()).map_err(bad)?;
    check(own.metadata(), limits)?;
    survey::pages(&body, own.metadata(), limits)?;
    let views = Arc::new(ArrowSchema::new(own.schema().fields().iter().map(as_view).collect::<Fields>()));
    let metadata = ArrowReaderMetadata::try_new(own.metadata().clone(), options().with_schema(views));
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(body, metadata.map_err(bad)?);
    let given = builder.schema().clone();
    let reader = builder.with_batch_size(ROWS_AT_ONCE).build().map_err(bad)?;
    let mut conformed = Conformed::new(schema, limits);
    conformed.check_shape(&given)?;
    for batch in reader {
        let batch = batch.map_err(|e| BodyError::BadParquet { why: e.to_string() })?;
        conformed.push(&batch)?;
    }
    conformed.finish(raw_bytes)
}

fn check(metadata: &ParquetMetaData, limits: &BodyLimits) -> Result<(), BodyError> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if columns > MAX_COLUMNS {
        let why = format!("it has {columns} columns, and a table at most {MAX_COLUMNS}");
        return Err(BodyError::UnsupportedParquet { why });
    }
    let mut rows = 0u64;
    for group in metadata.row_groups() {
        let declared = u64::try_from(group.num_rows());
        let why = "a row group declares a negative number of rows".to_owned();
        rows = rows.saturating_add(declared.map_err(|_| BodyError::BadParquet { why })?);
    }
    if rows > limits.max_rows {
        return Err(BodyError::TooManyRows { limit: limits.max_rows });
    }
    Ok(())
}

fn bad(error: ParquetError) -> BodyError {
    match error {
        ParquetError::NYI(why) => BodyError::UnsupportedParquet { why },
        other => BodyError::BadParquet { why: other.to_string() },
    }
}

/// The field with views in place of texts and byte strings.
fn as_view(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        ArrowType::Utf8 | ArrowType::LargeUtf8 => ArrowType::Utf8View,
        ArrowType::Binary | ArrowType::LargeBinary => ArrowType::BinaryView,
        ArrowType::List(item) => ArrowType::List(as_view(item)),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(as_view).collect()),
        ArrowType::Map(entries, sorted) => ArrowType::Map(as_view(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
