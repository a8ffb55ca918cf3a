//! One chunk of a log read: what of it must be fetched, and how its bytes become rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use wadi_model::batch::{ReadAs, read_as};
use wadi_model::ipc::{self, Layout};
use wadi_model::predicate::{ColumnStatistics, Predicate};
use wadi_model::{LogSeq, Offset, Schema, ShardId, system as names};

use super::super::merging::stored_schema;
use super::system::{self, SystemColumns};
use super::{Found, LogRead, LogReadError, Piece, internal};
use crate::container::{Chunk, ChunkKind, Command};
use crate::context::Context;
use crate::log::ReadError;
use crate::segments::{MERGE_LIMIT, Segment};
use crate::stored::StoredObject;

/// A chunk's message may grow to this when it is decompressed; nothing that was written is larger.
pub(crate) const MAX_RAW: u64 = 512 << 20;

/// What is asked of every chunk, on its own so that it can go to the CPU pool.
pub(super) struct Wanted {
    partition: String,
    filter: Option<Arc<Predicate>>,
    system: Vec<String>,
    offset: Offset,
    until: Option<Offset>,
    max_rows: usize,
}

impl Wanted {
    pub(super) fn new(request: &LogRead<'_>) -> Wanted {
        Wanted {
            partition: request.partition.to_owned(),
            filter: request.filter.cloned(),
            system: request.system.clone(),
            offset: request.offset,
            until: request.until,
            max_rows: request.max_rows,
        }
    }
}

/// Rows of one chunk, and with a filter which of the chunk's rows they are.
pub(super) struct Got {
    pub piece: Piece,
    pub matching: Option<BooleanArray>,
}

/// A chunk that is to be read.
pub(super) struct ChunkPlan {
    wanted: Arc<Wanted>,
    found: Found,
    read_as: ReadAs,
    filter_as: Option<ReadAs>,
    /// Positions in the chunk of the columns to read: of `read_as`, of the filter, and the change type if it is wanted.
    sources: Vec<usize>,
    stored: Schema,
    /// The chunk's columns: those of the schema, in a changelog behind the change type.
    columns: SchemaRef,
    /// Columns of the chunk before those of the schema.
    leading: usize,
}
impl ChunkPlan {
    pub(super) fn new(
        request: &LogRead<'_>,
        wanted: &Arc<Wanted>,
        found: Found,
        stored: &Schema,
    ) -> ChunkPlan {
        let newest = request.table.schema();
        let read_as_wanted = read_as(stored, newest, &request.columns);
        let filter_as = request.filter.map(|filter| {
            let needed: Vec<usize> =
                filter.columns().iter().filter_map(|name| newest.index_of(name)).collect();
            read_as(stored, newest, &needed)
        });
        let changelog = found.chunk().kind() == ChunkKind::Changelog;
        let leading = usize::from(changelog);
        let columns = match changelog {
            true => Arc::new(stored_schema(stored.arrow())),
            false => stored.arrow().clone(),
        };
        let of_rows = read_as_wanted.sources().iter().chain(filter_as.iter().flat_map(|f| f.sources()));
        let mut sources: BTreeSet<usize> = of_rows.map(|source| source + leading).collect();
        let filtered = || request.filter.is_some_and(|filter| filter.columns().contains(&names::CHANGE_TYPE));
        if changelog && (filtered() || request.system.iter().any(|name| name == names::CHANGE_TYPE)) {
            sources.insert(0);
        }
        ChunkPlan {
            wanted: wanted.clone(),
            found,
            read_as: read_as_wanted,
            filter_as,
            sources: sources.into_iter().collect(),
            stored: stored.clone(),
            columns,
            leading,
        }
    }

    fn chunk(&self) -> &Chunk {
        self.found.chunk()
    }

    /// The first offset that is asked for.
    pub(super) fn first(&self, from: Offset) -> Offset {
        self.chunk().first().max(from)
    }

    /// Bytes that the read takes in memory: as stored, or decompressed if that is more. Rows that compress a
    /// thousandfold must not be read a thousand times as many.
    pub(super) fn bytes(&self) -> usize {
        let stored: u64 = self.segments().iter().map(|s| s.range.end - s.range.start).sum();
        let raw = self.chunk().raw_len.saturating_mul(stored) / u64::from(self.chunk().len.max(1));
        usize::try_from(stored.max(raw)).unwrap_or(usize::MAX)
    }

    /// Whether the chunk's statistics leave any row that may match.
    pub(super) fn may_match(&self, request: &LogRead<'_>) -> bool {
        let (Some(filter), chunk) = (request.filter, self.chunk()) else { return true };
        let newest = request.table.schema();
        let mut known = BTreeMap::new();
        for name in filter.columns() {
            if let Some(statistics) = system::of_chunk(name, chunk) {
                known.insert(name.to_string(), statistics);
                continue;
            }
            let Some(index) = newest.index_of(name) else { continue };
            let column = &newest.columns()[index];
            // A widened column's statistics have the old type; they are left alone.
            let Some(stored) = self.stored.index_of_id(column.id) else { continue };
            if self.stored.columns()[stored].data_type != column.data_type {
                continue;
            }
            let statistics = chunk
                .columns
                .get(stored + self.leading)
                .map(|c| ColumnStatistics::decode(&mut c.statistics.as_ref()));
            if let Some(Ok(statistics)) = statistics {
                known.insert(name.to_string(), statistics);
            }
        }
        filter.may_match(u64::from(chunk.rows), |name| known.get(name))
    }

    /// What must be read of the object.
    fn segments(&self) -> Vec<Segment> {
        segments_of(self.chunk(), &self.sources)
    }

    /// Makes rows of the chunk's bytes.
    fn rows(&self, bytes: Vec<Bytes>) -> Result<Option<Got>, LogReadError> {
        let wanted = self.wanted.as_ref();
        let whole = self.first(wanted.offset) == self.chunk().first()
            && wanted.until.is_none_or(|until| self.chunk().end() <= until);
        let of_rows = self.read_as.sources().iter().map(|source| source + self.leading);
        let as_stored = self.read_as.is_identity() && of_rows.eq(self.sources.iter().copied());
        if whole && as_stored && wanted.filter.is_none() && wanted.system.is_empty() {
            let rows = self.chunk().rows;
            if rows as usize <= wanted.max_rows {
                let piece = Piece::Message { message: self.message(bytes)?, rows };
                return Ok(Some(Got { piece, matching: None }));
            }
        }
        let chunk = self.decode(bytes)?;
        self.select(chunk)
    }

    /// Segments of the chunk's bytes.
    fn cut(&self, chunk: &Bytes, segments: &[Segment]) -> Result<Vec<Bytes>, LogReadError> {
        let at = u64::from(self.chunk().start);
        let cut = |segment: &Segment| {
            let (start, end) = (segment.range.start.checked_sub(at)?, segment.range.end.checked_sub(at)?);
            (start <= end && end <= chunk.len() as u64).then(|| chunk.slice(start as usize..end as usize))
        };
        let all: Option<Vec<Bytes>> = segments.iter().map(cut).collect();
        all.ok_or_else(|| internal("a chunk is shorter than it says"))
    }

    /// One message with the source columns.
    fn message(&self, bytes: Vec<Bytes>) -> Result<Bytes, LogReadError> {
        let [head, columns @ ..] = bytes.as_slice() else { return Err(internal("a chunk has no bytes")) };
        if self.chunk().columns.is_empty() {
            let plain = plain(self.chunk(), head).map_err(internal)?;
            return match self.sources.len() == self.columns.fields().len() {
                true => Ok(plain),
                false => ipc::project_message(&plain, &self.columns, &self.sources).map_err(internal),
            };
        }
        let layout = Layout::parse(head, &self.columns).map_err(internal)?;
        let projection = ipc::project(&layout, &self.sources).map_err(internal)?;
        let body: usize = columns.iter().map(Bytes::len).sum();
        let mut message = Vec::with_capacity(projection.metadata.len() + body);
        message.extend_from_slice(&projection.metadata);
        for column in columns {
            message.extend_from_slice(column);
        }
        Ok(message.into())
    }

    fn decode(&self, bytes: Vec<Bytes>) -> Result<RecordBatch, LogReadError> {
        let message = self.message(bytes)?;
        let schema = Arc::new(self.columns.project(&self.sources).map_err(internal)?);
        ipc::decode(&message, &schema, MAX_RAW).map_err(internal)
    }

    /// Filters, orders and converts what was decoded, and adds the system columns.
    fn select(&self, chunk: RecordBatch) -> Result<Option<Got>, LogReadError> {
        let wanted = self.wanted.as_ref();
        let first = self.first(wanted.offset);
        let skip = (first.0 - self.chunk().base_offset) as usize;
        let end = wanted.until.map_or(self.chunk().end(), |until| self.chunk().end().min(until));
        let chunk = chunk.slice(skip, (end.0 - first.0) as usize);
        let sources = |read: &ReadAs| -> Result<RecordBatch, LogReadError> {
            let place = |s: &usize| {
                self.sources.binary_search(&(s + self.leading)).map_err(|_| internal("a column was not read"))
            };
            let places = read.sources().iter().map(place).collect::<Result<Vec<_>, _>>()?;
            read.apply(&chunk.project(&places).map_err(internal)?).map_err(internal)
        };
        let mut rows = sources(&self.read_as)?;
        let changes =
            (self.leading == 1 && self.sources.first() == Some(&0)).then(|| chunk.column(0).clone());
        let system = SystemColumns { chunk: self.chunk(), first, partition: &wanted.partition, changes };
        if !wanted.system.is_empty() {
            rows = system.append(rows, &wanted.system).map_err(internal)?;
        }
        let mut matching = None;
        if let (Some(filter), Some(filter_as)) = (&wanted.filter, &self.filter_as) {
            let asked: Vec<&str> =
                filter.columns().into_iter().filter(|name| names::ALL.contains(name)).collect();
            let judged = system.append(sources(filter_as)?, &asked).map_err(internal)?;
            let mask = filter.evaluate(&judged).map_err(internal)?;
            // A row whose condition is null does not match.
            let mask = if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask };
            rows = filter_record_batch(&rows, &mask).map_err(internal)?;
            matching = Some(mask);
        }
        Ok((rows.num_rows() > 0).then_some(Got { piece: Piece::Batch(rows), matching }))
    }
}

/// Chunks side by side whose bytes are asked for together: they lie in one object, and are about as much as one request brings.
pub(super) fn runs(plans: &[Arc<ChunkPlan>]) -> impl Iterator<Item = &[Arc<ChunkPlan>]> {
    let stored = |plan: &ChunkPlan| plan.segments().iter().map(|s| s.range.end - s.range.start).sum::<u64>();
    let mut bytes = 0;
    plans.chunk_by(move |a, b| {
        bytes += stored(a);
        let together = a.found.bytes.is_none()
            && b.found.bytes.is_none()
            && a.found.place.id == b.found.place.id
            && bytes + stored(b) <= MERGE_LIMIT;
        if !together {
            bytes = 0;
        }
        together
    })
}

/// Gets the bytes of a run of chunks: those at hand, or through the cache.
pub(super) async fn fetch_run(
    context: &Context,
    run: &[Arc<ChunkPlan>],
) -> Result<Vec<Fetched>, LogReadError> {
    let fetched = |plan: &Arc<ChunkPlan>, bytes| Fetched { plan: plan.clone(), bytes };
    let Some(first) = run.first() else { return Ok(Vec::new()) };
    if let Some(chunk) = &first.found.bytes {
        // Those are alone.
        return Ok(vec![fetched(first, first.cut(chunk, &first.segments())?)]);
    }
    let segments: Vec<Vec<Segment>> = run.iter().map(|plan| plan.segments()).collect();
    let mut bytes = fetch(context, &first.found.place, &segments.concat()).await?.into_iter();
    let of_each = run.iter().zip(&segments);
    Ok(of_each.map(|(plan, segments)| fetched(plan, bytes.by_ref().take(segments.len()).collect())).collect())
}

/// A chunk's bytes.
pub(super) struct Fetched {
    plan: Arc<ChunkPlan>,
    bytes: Vec<Bytes>,
}

impl Fetched {
    /// Makes rows of them. CPU work.
    pub(super) fn rows(self) -> Result<Option<Got>, LogReadError> {
        self.plan.rows(self.bytes)
    }
}

/// A whole chunk of a log object.
pub(in super::super) async fn whole_chunk(
    context: &Context,
    shard: ShardId,
    seq: LogSeq,
    chunk: &Chunk,
) -> Result<WholeChunk, ReadError> {
    let all: Vec<usize> = (0..chunk.columns.len()).collect();
    let place = StoredObject::log(&context.root, shard, seq);
    Ok(WholeChunk(fetch(context, &place, &segments_of(chunk, &all)).await?))
}

/// A chunk as it is stored, checked against its checksums.
pub(in super::super) struct WholeChunk(Vec<Bytes>);

impl WholeChunk {
    /// Its rows. CPU work.
    pub(in super::super) fn decode(
        self,
        chunk: &Chunk,
        columns: &SchemaRef,
    ) -> Result<RecordBatch, ipc::IpcError> {
        let message = match self.0.as_slice() {
            [whole] => plain(chunk, whole)?,
            several => several.concat().into(),
        };
        ipc::decode(&message, columns, MAX_RAW)
    }
}

/// The command that a chunk of a log object holds, checked against its checksum.
pub(in super::super) async fn whole_command(
    context: &Context,
    shard: ShardId,
    seq: LogSeq,
    chunk: &Chunk,
) -> Result<Command, ReadError> {
    let place = StoredObject::log(&context.root, shard, seq);
    let bytes = fetch(context, &place, &segments_of(chunk, &[])).await?;
    Command::read(&bytes.concat()).map_err(|e| ReadError::damaged(&place.path, e))
}

async fn fetch(
    context: &Context,
    place: &StoredObject,
    segments: &[Segment],
) -> Result<Vec<Bytes>, ReadError> {
    context.segments.fetch(&context.objects, &context.metrics, place, segments).await
}

/// A chunk that is read as a whole, as a message.
pub(crate) fn plain(chunk: &Chunk, stored: &Bytes) -> Result<Bytes, ipc::IpcError> {
    match chunk.codec() {
        Some(codec) => ipc::expand_small(stored, codec, chunk.raw_len as usize),
        None => Ok(stored.clone()),
    }
}

/// What must be read of an object for these columns of a chunk.
fn segments_of(chunk: &Chunk, columns: &[usize]) -> Vec<Segment> {
    if chunk.columns.is_empty() {
        return vec![Segment { range: chunk.range(), crc: chunk.crc }];
    }
    let at = u64::from(chunk.start);
    let head = Segment { range: at..at + u64::from(chunk.metadata_len), crc: chunk.crc };
    let column = |i: &usize| {
        chunk.columns.get(*i).map(|c| {
            let start = at + u64::from(c.start);
            Segment { range: start..start + u64::from(c.len), crc: c.crc }
        })
    };
    std::iter::once(head).chain(columns.iter().filter_map(column)).collect()
}
