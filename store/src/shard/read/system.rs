//! The system columns of rows in a chunk: nothing of them is stored but the runs of flush times.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt8Array,
};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use wadi_model::changelog::ChangeType;
use wadi_model::{Offset, system};

use crate::container::Chunk;

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
    pub(super) fn append(&self, rows: RecordBatch, names: &[String]) -> Result<RecordBatch, ArrowError> {
        let count = rows.num_rows();
        let mut fields: Vec<Arc<Field>> = rows.schema_ref().fields().iter().cloned().collect();
        let mut columns = rows.columns().to_vec();
        for name in names {
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
