//! Batches against schemas: what comes in is made to fit the table, what was stored is read under a later version.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{cast, filter_record_batch, take};
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;

use crate::fault::{ErrorKind, Fault};
use crate::reject::Rejects;
use crate::schema::Schema;
use crate::suggest::did_you_mean;

pub use convert::Mismatch;

mod convert;
#[cfg(test)]
mod tests;

/// A batch whose columns cannot become the table's, whatever their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ShapeError {
    #[error("column \"{column}\" is not in the table{}", did_you_mean(.nearest.as_deref()))]
    UnknownColumn { column: String, nearest: Option<String> },
    #[error("column \"{column}\" stands twice in the data")]
    ColumnTwice { column: String },
    #[error("column \"{column}\" is missing; it is not null and has no default")]
    MissingColumn { column: String },
    #[error("{0}")]
    Mismatch(#[from] Mismatch),
}

impl Fault for ShapeError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Rejected
    }

    fn code(&self) -> &'static str {
        match self {
            ShapeError::UnknownColumn { .. } => "unknown_column",
            ShapeError::ColumnTwice { .. } => "duplicate_column",
            ShapeError::MissingColumn { .. } => "missing_column",
            ShapeError::Mismatch(_) => "type_mismatch",
        }
    }
}

/// Makes a batch fit the table: columns by name in any order, types converted where every value keeps its meaning,
/// missing columns filled with their default or null.
///
/// Rows that cannot be converted are named in the answer's [`Rejects`]; in the batch they still stand, with nulls, so
/// that positions hold until [`without`] takes them out. Once they are out the batch has exactly the table's schema.
pub fn conform(batch: &RecordBatch, schema: &Schema) -> Result<(RecordBatch, Rejects), ShapeError> {
    let positions = schema.positions();
    let mut sources: Vec<Option<usize>> = vec![None; schema.columns().len()];
    for (i, field) in batch.schema_ref().fields().iter().enumerate() {
        let Some(position) = positions.get(field.name().as_str()) else {
            let nearest = schema.nearest(field.name()).map(str::to_owned);
            return Err(ShapeError::UnknownColumn { column: field.name().clone(), nearest });
        };
        if sources[*position].replace(i).is_some() {
            return Err(ShapeError::ColumnTwice { column: field.name().clone() });
        }
    }
    let mut rejects = Rejects::default();
    let mut columns = Vec::with_capacity(sources.len());
    for (i, (column, source)) in schema.columns().iter().zip(&sources).enumerate() {
        let array = match source {
            Some(source) => convert::column(batch.column(*source), column, &mut rejects)?,
            None => absent(schema, i, batch.num_rows())
                .filter(|_| column.nullable || schema.default_of(i).is_some())
                .ok_or_else(|| ShapeError::MissingColumn { column: column.name.clone() })?,
        };
        columns.push(array);
    }
    Ok((assemble(schema, columns, batch.num_rows(), rejects.is_empty()), rejects))
}

/// The batch under the table's schema; under one without `not null` while rows to be rejected still stand in it.
fn assemble(schema: &Schema, columns: Vec<ArrayRef>, rows: usize, clean: bool) -> RecordBatch {
    let arrow = if clean { schema.arrow().clone() } else { nullable(schema.arrow()) };
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(arrow, columns, &options)
        .expect("`convert::column` and `absent` give arrays of the column's type and of the batch's length")
}

fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>()))
}

/// The batch without its rejected rows, under the table's schema.
pub fn without(batch: &RecordBatch, rejects: &Rejects, schema: &Schema) -> Result<RecordBatch, ArrowError> {
    let keep: BooleanArray = (0..batch.num_rows() as u64).map(|row| Some(!rejects.has(row))).collect();
    let kept = filter_record_batch(batch, &keep)?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
    RecordBatch::try_new_with_options(schema.arrow().clone(), kept.columns().to_vec(), &options)
}

/// `rows` values of the column at `index` for rows that do not have it: its default, or null.
fn absent(schema: &Schema, index: usize, rows: usize) -> Option<ArrayRef> {
    match schema.default_of(index) {
        Some(value) => {
            let first = arrow::array::UInt32Array::from(vec![0u32; rows]);
            take(value, &first, None).ok()
        }
        None => Some(new_null_array(schema.arrow().field(index).data_type(), rows)),
    }
}

/// How rows stored under one schema version are read under another one, asking only for some columns.
#[derive(Clone, Debug)]
pub struct ReadAs {
    to: Schema,
    target: SchemaRef,
    /// For each wanted column of `to`: the place of its source among [`ReadAs::sources`].
    plan: Vec<(usize, Option<usize>)>,
    sources: Vec<usize>,
    identity: bool,
}

/// Plans the reading of rows of version `from` as the columns at `wanted` of version `to`.
pub fn read_as(from: &Schema, to: &Schema, wanted: &[usize]) -> ReadAs {
    let mut sources = Vec::with_capacity(wanted.len());
    let plan = wanted.iter().map(|i| {
        let source = from.index_of_id(to.columns()[*i].id).map(|source| {
            sources.push(source);
            sources.len() - 1
        });
        (*i, source)
    });
    let plan: Vec<(usize, Option<usize>)> = plan.collect();
    let fields: Vec<_> = wanted.iter().map(|i| to.arrow().fields()[*i].clone()).collect();
    let same = |(i, source): &(usize, Option<usize>)| {
        source.is_some_and(|s| from.arrow().field(sources[s]).data_type() == to.arrow().field(*i).data_type())
    };
    let identity = plan.iter().all(same);
    ReadAs { to: to.clone(), target: Arc::new(ArrowSchema::new(fields)), plan, sources, identity }
}

impl ReadAs {
    /// The stored columns that are needed, as positions in the stored version, in the order that
    /// [`ReadAs::apply`] expects them.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Whether the wanted columns are the source columns as they are.
    pub fn is_identity(&self) -> bool {
        self.identity
    }

    /// The schema of what [`ReadAs::apply`] gives.
    pub fn schema(&self) -> &SchemaRef {
        &self.target
    }

    /// Turns a batch of the source columns into the wanted ones.
    pub fn apply(&self, stored: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = stored.num_rows();
        let column = |(index, source): &(usize, Option<usize>)| {
            let wanted = self.to.arrow().field(*index).data_type();
            match source {
                Some(source) if stored.column(*source).data_type() == wanted => {
                    Ok(stored.column(*source).clone())
                }
                Some(source) => cast(stored.column(*source), wanted),
                None => absent(&self.to, *index, rows)
                    .ok_or_else(|| ArrowError::ComputeError("a default could not be repeated".into())),
            }
        };
        let columns = self.plan.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.target.clone(), columns, &options)
    }
}
