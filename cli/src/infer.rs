//! The columns that a file's rows would need: `wadi table create --like FILE`.
//!
//! Parquet and Arrow files declare their columns; CSV and NDJSON are sampled, so every column of theirs may be null,
//! and whole numbers become `bigint`, others `double`. Times in NDJSON stay `string`: JSON does not tell them from
//! text. Times in CSV with a zone become `timestamp_ltz`.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow::csv;
use arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit};
use arrow::json::reader::infer_json_schema;
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use wadi_model::DataType;
use wadi_model::table::ColumnSpec;

use crate::failure::Failure;
use crate::format::{FileFormat, is_arrow_file, is_pandas_index, open, unreadable};

mod order;
#[cfg(test)]
mod tests;
mod zones;

/// How much of a text file is looked at.
const SAMPLE_BYTES: u64 = 8 << 20;
/// How many of its rows.
const SAMPLE_ROWS: usize = 10_000;

/// The columns of a file's rows.
#[derive(Debug)]
pub(crate) struct Inferred {
    pub(crate) columns: Vec<ColumnSpec>,
    /// What may surprise.
    pub(crate) remarks: Vec<String>,
}

/// Infers the columns of a file's rows.
pub(crate) fn columns(path: &Path, format: FileFormat) -> Result<Inferred, Failure> {
    let mut remarks = Vec::new();
    let schema = schema(path, format, &mut remarks)?;
    let column = |field: &Arc<Field>| {
        let settled = settle(field.data_type());
        let Some(data_type) = DataType::from_arrow(&settled) else {
            let message = format!("column \"{}\" is {}, and no type here holds that", field.name(), settled);
            return Err(Failure::new(message).hint("leave it out, or convert it, when the file is written"));
        };
        Ok(ColumnSpec::of(field.name(), &data_type, field.is_nullable()))
    };
    let columns = schema.fields().iter().filter(|f| !is_pandas_index(f.name())).map(column);
    Ok(Inferred { columns: columns.collect::<Result<_, _>>()?, remarks })
}

fn schema(path: &Path, format: FileFormat, remarks: &mut Vec<String>) -> Result<SchemaRef, Failure> {
    let file = open(path)?;
    let schema = match format {
        FileFormat::Parquet => {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file);
            return Ok(builder.map_err(|e| unreadable(path, &e))?.schema().clone());
        }
        FileFormat::Arrow if is_arrow_file(path)? => FileReader::try_new(file, None).map(|r| r.schema()),
        FileFormat::Arrow => StreamReader::try_new(BufReader::new(file), None).map(|r| r.schema()),
        FileFormat::Csv => {
            let sample = sample(path, file)?;
            let format = csv::reader::Format::default().with_header(true);
            let inferred = format.infer_schema(&sample[..], Some(SAMPLE_ROWS));
            let settled = inferred.and_then(|(schema, _)| zones::settle(&sample, &schema, SAMPLE_ROWS));
            settled.map(|(schema, told)| {
                remarks.extend(told);
                Arc::new(schema)
            })
        }
        FileFormat::Ndjson => {
            let sample = sample(path, file)?;
            let order = order::of_keys(&sample, SAMPLE_ROWS);
            let schema = infer_json_schema(&sample[..], Some(SAMPLE_ROWS)).map(|(schema, _)| schema);
            schema.map(|schema| Arc::new(ordered(&schema, &order)))
        }
    };
    let schema = schema.map_err(|e| unreadable(path, &e))?;
    match (format, schema.fields().is_empty()) {
        (FileFormat::Csv | FileFormat::Ndjson, true) => {
            Err(Failure::new(format!("{} holds no rows to infer columns from", path.display())))
        }
        (FileFormat::Csv | FileFormat::Ndjson, false) => Ok(Arc::new(nullable(&schema))),
        _ => Ok(schema),
    }
}

/// The beginning of a text file, up to its last whole line.
fn sample(path: &Path, file: impl Read) -> Result<Vec<u8>, Failure> {
    let mut sample = Vec::new();
    file.take(SAMPLE_BYTES).read_to_end(&mut sample).map_err(|e| unreadable(path, &e))?;
    if sample.len() as u64 == SAMPLE_BYTES
        && let Some(end) = sample.iter().rposition(|b| *b == b'\n')
    {
        sample.truncate(end + 1);
    }
    if sample.starts_with(b"\xef\xbb\xbf") {
        sample.drain(..3);
    }
    Ok(sample)
}

/// The columns in the order in which the file names them, fields inside them by name: the inference gives them in no
/// order at all.
fn ordered(schema: &ArrowSchema, order: &[String]) -> ArrowSchema {
    let mut fields: Vec<_> = schema.fields().iter().map(by_name).collect();
    fields.sort_by_key(|f| order.iter().position(|name| name == f.name()));
    ArrowSchema::new(fields)
}

fn by_name(field: &Arc<Field>) -> Arc<Field> {
    let data_type = match field.data_type() {
        ArrowType::List(item) => ArrowType::List(by_name(item)),
        ArrowType::Struct(fields) => {
            let mut fields: Vec<_> = fields.iter().map(by_name).collect();
            fields.sort_by(|a, b| a.name().cmp(b.name()));
            ArrowType::Struct(fields.into())
        }
        other => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn nullable(schema: &ArrowSchema) -> ArrowSchema {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    ArrowSchema::new(fields.collect::<Vec<_>>())
}

/// What the samples leave open becomes text; whole seconds become milliseconds, because later rows may have them.
fn settle(data_type: &ArrowType) -> ArrowType {
    let field = |f: &Arc<Field>| Arc::new(f.as_ref().clone().with_data_type(settle(f.data_type())));
    match data_type {
        ArrowType::Null => ArrowType::Utf8,
        ArrowType::Timestamp(TimeUnit::Second, zone) => {
            ArrowType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        ArrowType::List(item) => ArrowType::List(field(item)),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}
