//! What holds of stored rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::columns::random::random_array;
use crate::ids::FieldId;
use crate::schema::{Column, Schema};
use crate::types::DataType;
use crate::types::tests::any_type;

mod golden;
mod hostile;
mod round_trip;
mod upgrade;

fn column(id: usize, data_type: &DataType, nullable: bool) -> Column {
    Column {
        id: FieldId(id as u32),
        name: format!("c{id}"),
        data_type: data_type.clone(),
        nullable,
        comment: None,
        default: None,
    }
}

/// A schema whose version is the number of its columns.
fn schema(types: &[DataType]) -> Schema {
    let columns = types.iter().enumerate().map(|(i, t)| column(i, t, true)).collect();
    Schema::new(SchemaId(types.len() as u16), columns)
}

fn any_column_type() -> impl Strategy<Value = DataType> {
    prop_oneof![20 => any_type(), 1 => Just(DataType::Char(5))]
}

fn random_batch(schema: &Schema, rows: usize, seed: u64) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(seed);
    let arrays = schema.columns().iter().map(|c| random_array(&mut rng, &c.data_type, rows, c.nullable));
    batch(schema, arrays.collect(), rows)
}

fn batch(schema: &Schema, arrays: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.arrow().clone(), arrays, &options).unwrap()
}

/// A schema and a batch of it.
fn any_batch() -> impl Strategy<Value = (Schema, RecordBatch)> {
    (prop::collection::vec(any_column_type(), 1..12), 0..40_usize, any::<u64>()).prop_map(
        |(types, rows, seed)| {
            let schema = schema(&types);
            let batch = random_batch(&schema, rows, seed);
            (schema, batch)
        },
    )
}

/// Rows of a schema in no batch order.
fn rows_of(schema: &Schema, batch: &RecordBatch) -> (RowCodec, Rows) {
    let codec = RowCodec::new(schema);
    let rows = codec.encode(batch).unwrap();
    (codec, rows)
}

fn all(schema: &Schema) -> Vec<usize> {
    (0..schema.columns().len()).collect()
}

fn one(array: impl arrow::array::Array + 'static) -> ArrayRef {
    Arc::new(array)
}
