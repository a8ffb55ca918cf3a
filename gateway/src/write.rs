//! One write request: its rows go to their shards, and their answers become one.
//!
//! Rows are split by partition and bucket, and each part goes to the gateway that owns its shard ([`Route::append_all`]), all at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use serde::Serialize;
use wadi_model::bucketing::bucket_of_producer;
use wadi_model::ipc::Originals;
use wadi_model::partition::Grouping;
use wadi_model::split::split;
use wadi_model::{Bucket, ErrorKind, Fault, Table};
use wadi_store::objects::Illness;
use wadi_store::route::RouteError;
use wadi_store::shard::{AppendError, Appended, Keyed, Part, Stamp, raw_bytes};

use crate::app::Gateway;
use crate::places::Place;
use crate::problem::{Problem, SideEffects};
use crate::targets::Targets;

/// Where the rows of one bucket went.
#[derive(Clone, Debug, Serialize)]
pub struct WrittenRange {
    partition: String,
    bucket: u32,
    base_offset: u64,
    last_offset: u64,
}

/// What became of the rows of a request.
#[derive(Debug, Default)]
pub struct Written {
    /// By partition and bucket.
    pub offsets: Vec<WrittenRange>,
    /// Longest wait of a part for its PUT to begin.
    pub queued: Duration,
    /// Longest PUT.
    pub put: Duration,
}

/// Writes rows of a table's newest schema. The rows of a table with partitions are grouped by them. Without rows nothing
/// happens.
pub async fn write(
    gateway: &Gateway,
    table: &Table,
    rows: Rows,
    grouping: Option<Grouping>,
    stamp: Option<Stamp>,
) -> Result<Written, Problem> {
    if rows.batch.num_rows() == 0 {
        return Ok(Written::default());
    }
    let targets = Targets::of(gateway, table, grouping).await?;
    let parts = parts(gateway, table, targets, rows, stamp.as_ref()).await?;
    let (schema, compression) = (table.schema().id(), table.options.compression());
    // Judged before any part is sent, so that a request that can never be whole is refused whole.
    let limit = gateway.host().context().settings.object_bytes;
    if let Some(bytes) = parts.iter().map(|(_, part)| raw_bytes(&part.batch)).find(|bytes| *bytes > limit) {
        return Err(AppendError::TooLarge { bytes, limit }.into());
    }
    let (places, parts): (Vec<Place>, Vec<Part>) = parts
        .into_iter()
        .map(|(place, Rows { batch: rows, originals, keyed })| {
            let bucket = place.bucket;
            let part = Part { bucket, schema, compression, rows, originals, stamp: stamp.clone(), keyed };
            (place, part)
        })
        .unzip();
    let outcomes = gateway.route().append_all(parts, gateway.limits().patience).await;
    combine(places.into_iter().zip(outcomes).collect(), gateway.host().context().health.illness())
}

async fn parts(
    gateway: &Gateway,
    table: &Table,
    targets: Targets,
    rows: Rows,
    stamp: Option<&Stamp>,
) -> Result<Vec<(Place, Rows)>, Problem> {
    let all_in = (table.bucket_key.is_empty() || table.buckets == 1).then(|| match stamp {
        _ if table.buckets == 1 => 0,
        // A retry must meet its first try.
        Some(stamp) => bucket_of_producer(&stamp.producer, stamp.sequence, table.buckets),
        None => gateway.turn() % table.buckets,
    });
    if let Some(place) = all_in.and_then(|bucket| targets.one(table, bucket)) {
        return Ok(vec![(place, rows)]);
    }
    let (function, mut columns, buckets) = (table.bucket_function(), table.bucket_columns(), table.buckets);
    if let Some(given) = rows.keyed.as_ref().and_then(|keyed| keyed.columns.as_deref()) {
        // The rows have some of the table's columns; those of the key are always among them.
        columns = columns.iter().filter_map(|c| given.iter().position(|g| g == c)).collect();
    }
    let id = table.id;
    let work = move || {
        let of_rows = match all_in {
            Some(bucket) => vec![bucket; rows.batch.num_rows()],
            None => function.buckets_of(&rows.batch, &columns, buckets)?,
        };
        let (places, of_rows) = targets.split(id, buckets, &of_rows);
        let parts = rows.split(&of_rows);
        let parts = parts.map_err(|e| Problem::new(ErrorKind::Internal, "internal", e.to_string()))?;
        Ok(parts.into_iter().map(|(place, rows)| (places[place as usize].clone(), rows)).collect())
    };
    let parts = gateway.host().context().cpu.run(work).await;
    parts.unwrap_or_else(|| Err(Problem::new(ErrorKind::Internal, "internal", "splitting the rows panicked")))
}

/// Rows that are to be written.
#[derive(Debug)]
pub struct Rows {
    /// The rows, under the table's newest schema.
    pub batch: RecordBatch,
    /// Buffers of them that came compressed.
    pub originals: Originals,
    /// Of a primary-key table, which columns they have and what they are to do.
    pub keyed: Option<Keyed>,
}

impl Rows {
    /// The rows of each place.
    fn split(self, buckets: &[u32]) -> Result<Vec<(u32, Rows)>, ArrowError> {
        // Rows that are split are in new buffers.
        let Rows { batch, keyed, .. } = self;
        let originals = Originals::default;
        let Some(keyed) = keyed else {
            let parts = split(batch, buckets)?.into_iter();
            let part = |(place, batch)| (place, Rows { batch, originals: originals(), keyed: None });
            return Ok(parts.map(part).collect());
        };
        // What a row is to do goes with it, as more columns.
        let mut marks: Vec<ArrayRef> = Vec::new();
        marks.extend(
            keyed.deletes.clone().map(|deletes| Arc::new(BooleanArray::new(deletes, None)) as ArrayRef),
        );
        marks.extend(keyed.targets.of_rows().map(|sets| Arc::new(sets.clone()) as ArrayRef));
        let mut fields = batch.schema_ref().fields().to_vec();
        fields.extend(marks.iter().map(|mark| Arc::new(Field::new("mark", mark.data_type().clone(), false))));
        let columns = batch.columns().iter().cloned().chain(marks);
        let marked = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect())?;
        let unmark = |(bucket, mut batch): (u32, RecordBatch)| {
            let mut keyed = keyed.clone();
            let mut mark = || batch.remove_column(batch.num_columns() - 1);
            if keyed.targets.of_rows().is_some() {
                let taken = keyed.targets.with_rows(mark().as_primitive().clone());
                let lost = || ArrowError::ComputeError("a row has lost its target columns".to_owned());
                keyed.targets = taken.ok_or_else(lost)?;
            }
            if keyed.deletes.is_some() {
                keyed.deletes = Some(mark().as_boolean().values().clone());
            }
            Ok((bucket, Rows { batch, originals: originals(), keyed: Some(keyed) }))
        };
        split(marked, buckets)?.into_iter().map(unmark).collect()
    }
}

/// What the parts have become together. `illness` is what is wrong with the object store, as far as this gateway knows.
fn combine(
    outcomes: Vec<(Place, Result<Appended, RouteError<AppendError>>)>,
    illness: Option<Illness>,
) -> Result<Written, Problem> {
    let mut written = Written::default();
    let mut done = 0usize;
    let mut failed: BTreeMap<Bucket, RouteError<AppendError>> = BTreeMap::new();
    for (place, outcome) in outcomes {
        match outcome {
            Ok(appended) => {
                done += 1;
                let base_offset = appended.base_offset.0;
                // Rows that changed nothing have no offsets.
                if let Some(more) = appended.rows.checked_sub(1) {
                    written.offsets.push(WrittenRange {
                        partition: place.partition_name().to_owned(),
                        bucket: place.bucket.bucket,
                        base_offset,
                        last_offset: base_offset + u64::from(more),
                    });
                }
                written.queued = written.queued.max(appended.queued);
                written.put = written.put.max(appended.put);
            }
            Err(error) => {
                failed.insert(place.bucket, error);
            }
        }
    }
    written.offsets.sort_by(|a, b| (&a.partition, a.bucket).cmp(&(&b.partition, b.bucket)));
    let Some(fault) = failed.values().max_by_key(|fault| gravity(fault.kind())) else { return Ok(written) };
    if fault.kind() == ErrorKind::OutcomeUnknown {
        let why = illness.map(|illness| format!("; {illness}")).unwrap_or_default();
        let problem = Problem::new(fault.kind(), fault.code(), format!("{fault}{why}"));
        return Err(problem.with("offsets", written.offsets));
    }
    if done == 0 {
        return Err(problem_of(fault));
    }
    if !fault.kind().is_retryable() {
        // Sending it again would not complete it.
        return Err(problem_of(fault).side_effects(SideEffects::Partial).with("offsets", written.offsets));
    }
    let detail = format!(
        "the rows of {} bucket(s) are written, those of {} are not: {fault}; send the same request with the \
         same key again to complete it",
        done,
        failed.keys().map(|b| format!("bucket {}", b.bucket)).collect::<Vec<_>>().join(", ")
    );
    let problem = Problem::new(ErrorKind::Unavailable, "partially_written", detail);
    Err(problem.side_effects(SideEffects::Partial).with("offsets", written.offsets))
}

/// Which of several failures the client must hear of: what it cannot know first, what it must not repeat next.
fn gravity(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::OutcomeUnknown => 3,
        ErrorKind::Internal => 2,
        kind if kind.is_retryable() => 0,
        _ => 1,
    }
}

fn problem_of(fault: &RouteError<AppendError>) -> Problem {
    Problem::new(fault.kind(), fault.code(), fault.to_string())
}

/// The producer's name as part of a stamp.
pub fn stamp(producer: &str, sequence: u64, fingerprint: u64, once: bool) -> Stamp {
    Stamp { producer: Arc::from(producer), sequence, fingerprint, once }
}
