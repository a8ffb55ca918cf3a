//! Batches of a columnar body, made to fit the table one after the other and put together as one.

use arrow::array::{RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use wadi_model::Schema;
use wadi_model::batch::{conform, without};
use wadi_model::ipc::Originals;
use wadi_model::reject::Rejects;

use super::column::Fields;
use super::weigh::plain_bytes;
use super::{BodyError, BodyLimits, Decoded};

/// The rows that have come so far.
pub(super) struct Conformed<'a> {
    schema: &'a Schema,
    limits: &'a BodyLimits,
    /// Bytes that a row takes when all its columns are null or have their default.
    footprint: usize,
    bytes: usize,
    rows: u64,
    good: Vec<RecordBatch>,
    rejects: Rejects,
}

impl<'a> Conformed<'a> {
    /// No row yet.
    pub(super) fn new(schema: &'a Schema, limits: &'a BodyLimits) -> Conformed<'a> {
        Conformed {
            schema,
            limits,
            footprint: Fields::of(schema).footprint(),
            bytes: 0,
            rows: 0,
            good: Vec::new(),
            rejects: Rejects::default(),
        }
    }

    /// Fails if data of these columns can never fit, also where no row comes.
    pub(super) fn check_shape(&self, given: &SchemaRef) -> Result<(), BodyError> {
        let columns = given.fields().iter().map(|f| new_empty_array(f.data_type())).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(0));
        let empty = RecordBatch::try_new_with_options(given.clone(), columns, &options)?;
        conform(&empty, self.schema)?;
        Ok(())
    }

    /// Adds rows.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<(), BodyError> {
        let base = self.rows;
        self.rows += batch.num_rows() as u64;
        if self.rows > self.limits.max_rows {
            return Err(BodyError::TooManyRows { limit: self.limits.max_rows });
        }
        // A shared value may stand in many rows, and an absent column in all: count before they are unfolded.
        let given = batch.columns().iter().map(plain_bytes).fold(0, usize::saturating_add);
        let unfolded = given.saturating_add(self.footprint.saturating_mul(batch.num_rows()));
        self.bytes = self.bytes.saturating_add(unfolded);
        if self.bytes > self.limits.max_batch_bytes {
            return Err(BodyError::BatchTooLarge { limit: self.limits.max_batch_bytes });
        }
        let (conformed, rejects) = conform(batch, self.schema)?;
        let good = if rejects.is_empty() { conformed } else { without(&conformed, &rejects, self.schema)? };
        self.rejects.extend(base, rejects);
        self.good.push(good);
        Ok(())
    }

    /// All rows.
    pub(super) fn finish(self, raw_bytes: usize) -> Result<Decoded, BodyError> {
        let batch = match &self.good[..] {
            [one] => one.clone(),
            several => concat_batches(self.schema.arrow(), several)?,
        };
        let (raw_bytes, originals) = (raw_bytes as u64, Originals::default());
        Ok(Decoded { batch, originals, rejects: self.rejects, rows: self.rows, raw_bytes })
    }
}
