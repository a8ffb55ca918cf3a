//! The system columns of rows in a chunk: nothing of them is stored but the runs of flush times. What they can be in a
//! chunk is known before it is read, so a filter on them skips chunks.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt8Array,
};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use wadi_model::changelog::ChangeType;
use wadi_model::predicate::{ColumnStatistics, Literal, Predicate, Value};
use wadi_model::{Bucket, Offset, system};

use crate::container::{Chunk, ChunkKind};
use crate::keys::index::IndexedChunk;

/// Whether a chunk may have rows that match, by what the index knows of it: its offsets and its bucket.
pub(super) fn may_match(filter: &Predicate, bucket: &Bucket, chunk: &IndexedChunk) -> bool {
    let offsets = of_offsets(chunk.base_offset, chunk.rows);
    let bucket = of_bucket(bucket.bucket);
    filter.may_match(u64::from(chunk.rows), |name| match name {
        system::OFFSET => offsets.as_ref(),
        system::BUCKET => bucket.as_ref(),
        _ => None,
    })
}

/// The least and the greatest value of a system column in a chunk; `None` if it is none, or nothing is known of it.
pub(super) fn of_chunk(name: &str, chunk: &Chunk) -> Option<ColumnStatistics> {
    match name {
        system::OFFSET => of_offsets(chunk.base_offset, chunk.rows),
        system::TIMESTAMP => {
            let times = || chunk.runs.iter().map(|run| run.time);
            between(name, Value::Int(times().min()?), Value::Int(times().max()?))
        }
        system::BUCKET => of_bucket(chunk.bucket),
        system::CHANGE_TYPE if chunk.kind() == ChunkKind::Log => of_appended(),
        _ => None,
    }
}

fn of_offsets(base: u64, rows: u32) -> Option<ColumnStatistics> {
    let last = base + u64::from(rows).saturating_sub(1);
    between(system::OFFSET, Value::Int(i64::try_from(base).ok()?), Value::Int(i64::try_from(last).ok()?))
}

fn of_bucket(bucket: u32) -> Option<ColumnStatistics> {
    let bucket = i64::from(i32::try_from(bucket).ok()?);
    between(system::BUCKET, Value::Int(bucket), Value::Int(bucket))
}

/// The change type of all rows of log tables.
fn of_appended() -> Option<ColumnStatistics> {
    let insert = || Value::Utf8(ChangeType::Insert.as_str().to_owned());
    between(system::CHANGE_TYPE, insert(), insert())
}

fn between(name: &str, min: Value, max: Value) -> Option<ColumnStatistics> {
    let field = system::field(name)?;
    let literal = |value| Literal::new(field.data_type().clone(), value);
    Some(ColumnStatistics { min: Some(literal(min)?), max: Some(literal(max)?), null_count: 0 })
}

/// The system columns of a chunk's rows from `first` on.
pub(super) struct SystemColumns<'a> {
    pub chunk: &'a Chunk,
    pub first: Offset,
    pub partition: &'a str,
    /// In a changelog, the stored change types of the same rows.
    pub changes: Option<ArrayRef>,
}

impl SystemColumns<'_> {
    /// Adds the named system columns behind the others.
    pub(super) fn append(
        &self,
        rows: RecordBatch,
        names: &[impl AsRef<str>],
    ) -> Result<RecordBatch, ArrowError> {
        if names.is_empty() {
            return Ok(rows);
        }
        let count = rows.num_rows();
        let mut fields: Vec<Arc<Field>> = rows.schema_ref().fields().iter().cloned().collect();
        let mut columns = rows.columns().to_vec();
        for name in names.iter().map(AsRef::as_ref) {
            let unknown = || ArrowError::InvalidArgumentError(format!("{name} is no system column"));
            fields.push(Arc::new(system::field(name).ok_or_else(unknown)?));
            columns.push(self.column(name, count)?);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }

    fn column(&self, name: &str, rows: usize) -> Result<ArrayRef, ArrowError> {
        Ok(match name {
            system::OFFSET => {
                let first = self.first.0 as i64;
                Arc::new(Int64Array::from_iter_values(first..first + rows as i64))
            }
            system::TIMESTAMP => {
                let skip = (self.first.0 - self.chunk.base_offset) as usize;
                let runs = self.chunk.runs.iter().flat_map(|r| std::iter::repeat_n(r.time, r.rows as usize));
                let times = runs.chain(std::iter::repeat(self.chunk.runs.last().map_or(0, |r| r.time)));
                let times = TimestampMillisecondArray::from_iter_values(times.skip(skip).take(rows));
                Arc::new(times.with_timezone("UTC"))
            }
            system::BUCKET => Arc::new(Int32Array::from(vec![self.chunk.bucket as i32; rows])),
            system::CHANGE_TYPE => match &self.changes {
                None => Arc::new(StringArray::from(vec![ChangeType::Insert.as_str(); rows])),
                Some(changes) => Arc::new(spelled(changes.as_primitive())?),
            },
            _ => Arc::new(StringArray::from(vec![self.partition; rows])),
        })
    }
}

fn spelled(changes: &UInt8Array) -> Result<StringArray, ArrowError> {
    let spell = |number: &u8| {
        let unknown = || ArrowError::InvalidArgumentError(format!("{number} is no change type"));
        ChangeType::of(*number).map(ChangeType::as_str).ok_or_else(unknown)
    };
    let spelled: Vec<&str> = changes.values().iter().map(spell).collect::<Result<_, _>>()?;
    Ok(StringArray::from(spelled))
}
