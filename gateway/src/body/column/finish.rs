//! Turns grown columns into Arrow arrays without copying them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray, Time32MillisecondArray, Time32SecondArray,
    Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Fields as ArrowFields, TimeUnit};
use arrow::error::ArrowError;
use wadi_model::Schema;

use super::{Builder, Fields, Slices, Values};

impl Fields {
    /// The rows under the table's schema.
    pub(in super::super) fn finish(self, schema: &Schema, rows: usize) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.arrow().clone(), self.arrays()?, &options)
    }

    fn arrays(self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.columns.into_iter().map(Builder::finish).collect()
    }

    fn finish_struct(
        self,
        fields: ArrowFields,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<StructArray, ArrowError> {
        StructArray::try_new_with_length(fields, self.arrays()?, nulls, rows)
    }
}

impl Slices {
    fn finish(self) -> (OffsetBuffer<i32>, Buffer) {
        (OffsetBuffer::new(self.ends.into()), Buffer::from_vec(self.data))
    }
}

impl Builder {
    fn finish(self) -> Result<ArrayRef, ArrowError> {
        let arrow = self.data_type.to_arrow();
        let rows = self.nulls.len();
        let nulls = self.nulls.build();
        Ok(match self.values {
            Values::Boolean(v) => Arc::new(BooleanArray::new(v.build(), nulls)),
            Values::TinyInt(v) => Arc::new(Int8Array::try_new(v.into(), nulls)?),
            Values::SmallInt(v) => Arc::new(Int16Array::try_new(v.into(), nulls)?),
            Values::Int(v) => Arc::new(Int32Array::try_new(v.into(), nulls)?),
            Values::BigInt(v) => Arc::new(Int64Array::try_new(v.into(), nulls)?),
            Values::Float(v) => Arc::new(Float32Array::try_new(v.into(), nulls)?),
            Values::Double(v) => Arc::new(Float64Array::try_new(v.into(), nulls)?),
            Values::Decimal { values, precision, scale } => {
                let array = Decimal128Array::try_new(values.into(), nulls)?;
                Arc::new(array.with_precision_and_scale(precision, scale as i8)?)
            }
            Values::Text(v) => {
                let (ends, data) = v.finish();
                Arc::new(StringArray::try_new(ends, data, nulls)?)
            }
            Values::Bytes(v) => {
                let (ends, data) = v.finish();
                Arc::new(BinaryArray::try_new(ends, data, nulls)?)
            }
            Values::Fixed { data, width } => {
                Arc::new(FixedSizeBinaryArray::try_new(width as i32, Buffer::from_vec(data), nulls)?)
            }
            Values::Date(v) => Arc::new(Date32Array::try_new(v.into(), nulls)?),
            Values::Time32 { values, unit: TimeUnit::Second } => {
                Arc::new(Time32SecondArray::try_new(values.into(), nulls)?)
            }
            Values::Time32 { values, .. } => Arc::new(Time32MillisecondArray::try_new(values.into(), nulls)?),
            Values::Time64 { values, unit: TimeUnit::Microsecond } => {
                Arc::new(Time64MicrosecondArray::try_new(values.into(), nulls)?)
            }
            Values::Time64 { values, .. } => Arc::new(Time64NanosecondArray::try_new(values.into(), nulls)?),
            Values::Timestamp { values, unit, zoned } => timestamps(values, unit, zoned, nulls)?,
            Values::Array { ends, item } => {
                let ArrowType::List(field) = arrow else { return Err(unlike(&arrow)) };
                let ends = OffsetBuffer::new(ends.into());
                Arc::new(ListArray::try_new(field, ends, item.finish()?, nulls)?)
            }
            Values::Map { ends, entries } => {
                let ArrowType::Map(field, sorted) = &arrow else { return Err(unlike(&arrow)) };
                let count = ends[ends.len() - 1] as usize;
                let entries = entries.finish_struct(struct_fields(field)?, count, None)?;
                let ends = OffsetBuffer::new(ends.into());
                Arc::new(MapArray::try_new(field.clone(), ends, entries, nulls, *sorted)?)
            }
            Values::Row(fields) => {
                let ArrowType::Struct(arrow) = arrow else { return Err(unlike(&arrow)) };
                Arc::new(fields.finish_struct(arrow, rows, nulls)?)
            }
        })
    }
}

fn timestamps(
    values: Vec<i64>,
    unit: TimeUnit,
    zoned: bool,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    let zone: Option<Arc<str>> = zoned.then(|| Arc::from("UTC"));
    let values = values.into();
    Ok(match unit {
        TimeUnit::Second => Arc::new(TimestampSecondArray::try_new(values, nulls)?.with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(TimestampMillisecondArray::try_new(values, nulls)?.with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(TimestampMicrosecondArray::try_new(values, nulls)?.with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(TimestampNanosecondArray::try_new(values, nulls)?.with_timezone_opt(zone))
        }
    })
}

fn struct_fields(entries: &FieldRef) -> Result<ArrowFields, ArrowError> {
    match entries.data_type() {
        ArrowType::Struct(fields) => Ok(fields.clone()),
        other => Err(unlike(other)),
    }
}

fn unlike(arrow: &ArrowType) -> ArrowError {
    ArrowError::SchemaError(format!("a column was built that is no {arrow}"))
}
