//! Log reads: `[offset, …)` of one bucket, only the asked-for columns, only the rows that match.
//!
//! Where rows lie comes from the view, and below it from SlateDB. Bytes come from the tail in memory, else from cached
//! segments. Without filter and system columns a chunk is served as it is stored: its message is rewritten to the asked
//! columns and nothing is decompressed. Every answer is checked against the claim at its end (K3 of later owners).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use wadi_model::batch::{ReadAs, read_as};
use wadi_model::ipc::{self, Layout};
use wadi_model::predicate::{ColumnStatistics, Predicate};
use wadi_model::{Bucket, ErrorKind, Fault, LogSeq, Offset, Schema, Table};

use super::Shared;
use crate::container::{Chunk, ChunkKind, Footer};
use crate::keys::index::{self, IndexedChunk};
use crate::keys::object;
use crate::segments::Segment;
use system::SystemColumns;

mod system;

/// Chunks that are read at once.
const PARALLEL: usize = 4;

/// Footers that are loaded at once. Without cached blocks each is a few requests.
const FOOTERS_AHEAD: usize = 16;

/// A chunk's message may grow to this when it is decompressed; nothing that was written is larger.
const MAX_RAW: u64 = 512 << 20;

/// What is to be read.
#[derive(Clone, Debug)]
pub struct LogRead<'a> {
    /// The table, with all its schema versions.
    pub table: &'a Table,
    /// The bucket.
    pub bucket: Bucket,
    /// From here on.
    pub offset: Offset,
    /// Positions in the newest schema of the columns wanted, in the order wanted.
    pub columns: Vec<usize>,
    /// Names of the system columns wanted, behind the others.
    pub system: Vec<String>,
    /// Only rows that match.
    pub filter: Option<&'a Predicate>,
    /// No rows from here on, whatever is readable.
    pub until: Option<Offset>,
    /// About how many stored bytes to read; at least one chunk is.
    pub max_bytes: usize,
    /// Most rows to answer.
    pub max_rows: usize,
}

/// Rows of a log.
#[derive(Clone, Debug)]
pub struct LogAnswer {
    /// The rows, in order.
    pub pieces: Vec<Piece>,
    /// Where the next read goes on.
    pub next_offset: Offset,
    /// The bucket's ends when the read began.
    pub bounds: super::Bounds,
}

/// A piece of an answer.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A record batch message with the asked columns, compressed as it was stored.
    Message {
        /// The encapsulated message.
        message: Bytes,
        /// Its rows.
        rows: u32,
    },
    /// Decoded rows.
    Batch(RecordBatch),
}

impl Piece {
    /// Its rows.
    pub fn rows(&self) -> usize {
        match self {
            Piece::Message { rows, .. } => *rows as usize,
            Piece::Batch(batch) => batch.num_rows(),
        }
    }
}

/// All that can go wrong when a log is read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogReadError {
    /// The offset is below the log's start, or above its end.
    #[error("offset {offset} is out of range; {bucket} has offsets {} to {}", .bounds.log_start, .bounds.high_watermark)]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// The bucket.
        bucket: Bucket,
        /// Its ends.
        bounds: super::Bounds,
    },
    /// The shard is not open here any more.
    #[error("the shard of this bucket is not open here now")]
    NotOwned,
    /// The object store did not answer.
    #[error("the object store did not answer: {0}")]
    Unavailable(String),
    /// Stored data is damaged, or the filter could not be evaluated.
    #[error("{0}")]
    Internal(String),
}

impl Fault for LogReadError {
    fn kind(&self) -> ErrorKind {
        match self {
            LogReadError::OutOfRange { .. } => ErrorKind::Gone,
            LogReadError::NotOwned | LogReadError::Unavailable(_) => ErrorKind::Unavailable,
            LogReadError::Internal(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            LogReadError::OutOfRange { .. } => "offset_out_of_range",
            LogReadError::NotOwned => "shard_not_open",
            LogReadError::Unavailable(_) => "store_unavailable",
            LogReadError::Internal(_) => "internal",
        }
    }
}

fn internal(error: impl ToString) -> LogReadError {
    LogReadError::Internal(error.to_string())
}

impl From<crate::log::ReadError> for LogReadError {
    fn from(error: crate::log::ReadError) -> LogReadError {
        match error {
            crate::log::ReadError::Store { .. } => LogReadError::Unavailable(error.to_string()),
            crate::log::ReadError::Damaged { .. } => internal(error),
        }
    }
}

impl From<slatedb::Error> for LogReadError {
    fn from(error: slatedb::Error) -> LogReadError {
        match error.kind() {
            slatedb::ErrorKind::Closed(_) => LogReadError::NotOwned,
            slatedb::ErrorKind::Unavailable => LogReadError::Unavailable(error.to_string()),
            _ => internal(error),
        }
    }
}

/// Reads a log.
pub(super) async fn read(shared: &Shared, request: &LogRead<'_>) -> Result<LogAnswer, LogReadError> {
    let located = locate(shared, &request.bucket, request.offset).await?;
    let bounds = located.bounds;
    if request.offset < bounds.log_start || request.offset > bounds.high_watermark {
        let (offset, bucket) = (request.offset, request.bucket);
        return Err(LogReadError::OutOfRange { offset, bucket, bounds });
    }
    let (plans, end) = plan(shared, request, located.chunks).await?;
    let bytes: usize = plans.iter().map(ChunkPlan::bytes).sum();
    let _share = shared.context.reads.take(bytes).await;
    let mut reads = Vec::with_capacity(plans.len());
    for plan in &plans {
        reads.push(plan.read(shared, request));
    }
    let got: Vec<Option<Got>> = stream::iter(reads).buffered(PARALLEL).try_collect().await?;
    let (pieces, next_offset) = cut(got, &plans, request, end);
    if !shared.claim.hold().await {
        return Err(LogReadError::NotOwned);
    }
    Ok(LogAnswer { pieces, next_offset, bounds })
}

/// Rows of one chunk, and with a filter which of the chunk's rows they are.
struct Got {
    piece: Piece,
    matching: Option<BooleanArray>,
}

/// Keeps to `max_rows`: the piece that goes beyond is cut, and the next read begins at the first row that was left.
fn cut(
    got: Vec<Option<Got>>,
    plans: &[ChunkPlan],
    request: &LogRead<'_>,
    end: Offset,
) -> (Vec<Piece>, Offset) {
    let mut left = request.max_rows;
    let mut kept = Vec::with_capacity(got.len());
    for (got, plan) in got.into_iter().zip(plans) {
        let Some(Got { piece, matching }) = got else { continue };
        let first = plan.first(request.offset);
        if piece.rows() <= left {
            left -= piece.rows();
            kept.push(piece);
            continue;
        }
        let Piece::Batch(batch) = piece else { return (kept, first) };
        if left > 0 {
            kept.push(Piece::Batch(batch.slice(0, left)));
        }
        let row = matching.map_or(Some(left), |m| m.values().set_indices().nth(left));
        return (kept, Offset(first.0 + row.unwrap_or(0) as u64));
    }
    (kept, end)
}

struct LocatedChunks {
    bounds: super::Bounds,
    /// From the asked offset on, possibly not to the end.
    chunks: Vec<IndexedChunk>,
}

async fn locate(shared: &Shared, bucket: &Bucket, offset: Offset) -> Result<LocatedChunks, LogReadError> {
    let located = shared.view.locate(bucket, offset);
    let bounds = located.bounds;
    if offset >= located.from || offset < bounds.log_start {
        return Ok(LocatedChunks { bounds, chunks: located.recent });
    }
    let mut chunks = Vec::new();
    let mut entries = shared.db.scan(index::from(bucket, offset)).await?;
    // One entry holds up to a second of chunks; more than a few are never read at once.
    while let Some(entry) = entries.next().await? {
        let (_, _, entry) = index::decode(&entry.key, &entry.value).map_err(internal)?;
        chunks
            .extend(entry.chunks.into_iter().filter(|c| c.end() > offset && c.base_offset < located.from.0));
        if chunks.len() >= 256 {
            return Ok(LocatedChunks { bounds, chunks });
        }
    }
    chunks.extend(located.recent);
    Ok(LocatedChunks { bounds, chunks })
}

/// A chunk that is to be read.
struct ChunkPlan {
    seq: LogSeq,
    footer: Arc<Footer>,
    position: usize,
    read_as: ReadAs,
    /// Stored columns to read: those of `read_as`, then those of the filter.
    filter_as: Option<ReadAs>,
    sources: Vec<usize>,
    stored: Schema,
}

async fn plan(
    shared: &Shared,
    request: &LogRead<'_>,
    located: Vec<IndexedChunk>,
) -> Result<(Vec<ChunkPlan>, Offset), LogReadError> {
    let mut plans = Vec::new();
    let (mut bytes, mut rows, mut end) = (0usize, 0u64, request.offset);
    let mut footers = Footers::default();
    for (place, indexed) in located.iter().enumerate() {
        let beyond = request.until.is_some_and(|until| Offset(indexed.base_offset) >= until);
        if beyond || bytes >= request.max_bytes || rows >= request.max_rows as u64 {
            break;
        }
        if Offset(indexed.base_offset) > end {
            return Err(internal(format!("{} has no rows from offset {end} on", request.bucket)));
        }
        let footer = footers.of(shared, &located[place..]).await?;
        let position = indexed.position as usize;
        let chunk = footer
            .chunks
            .get(position)
            .ok_or_else(|| internal("the index names a chunk that is not there"))?;
        let Some(stored) = request.table.schema_of(chunk.schema()) else {
            // Written under a version that this reader does not know yet; what comes before it can be answered.
            if plans.is_empty() {
                return Err(LogReadError::Unavailable(format!(
                    "schema version {} is not known yet",
                    chunk.schema_id
                )));
            }
            break;
        };
        end = indexed.end().min(request.until.unwrap_or(Offset(u64::MAX)));
        if chunk.kind() == ChunkKind::Command {
            continue;
        }
        let plan = ChunkPlan::new(request, indexed.log_seq(), footer.clone(), position, stored);
        if plan.may_match(request) {
            bytes += plan.bytes();
            if request.filter.is_none() {
                rows += end.0 - plan.first(request.offset).0;
            }
            plans.push(plan);
        }
    }
    Ok((plans, end))
}

/// Footers that are about to be needed, loaded several at once.
#[derive(Default)]
struct Footers(BTreeMap<LogSeq, Arc<Footer>>);

impl Footers {
    /// The footer of the first of these chunks; those of the next ones are loaded with it.
    async fn of(&mut self, shared: &Shared, chunks: &[IndexedChunk]) -> Result<Arc<Footer>, LogReadError> {
        let first = chunks.first().map_or(LogSeq(0), IndexedChunk::log_seq);
        if let Some(footer) = self.0.get(&first) {
            return Ok(footer.clone());
        }
        let mut loads = Vec::with_capacity(FOOTERS_AHEAD);
        for chunk in chunks.iter().take(FOOTERS_AHEAD) {
            loads.push(footer_of(shared, chunk.log_seq()));
        }
        let loaded: Vec<(LogSeq, Arc<Footer>)> =
            stream::iter(loads).buffered(FOOTERS_AHEAD).try_collect().await?;
        self.0 = loaded.into_iter().collect();
        self.0.get(&first).cloned().ok_or_else(|| internal("a footer was not loaded"))
    }
}

async fn footer_of(shared: &Shared, seq: LogSeq) -> Result<(LogSeq, Arc<Footer>), LogReadError> {
    if let Some((footer, _)) = shared.view.object(seq) {
        return Ok((seq, footer));
    }
    let stored = shared.db.get(object::key(seq)).await?;
    let stored = stored.ok_or_else(|| internal(format!("the footer of log object {seq} is missing")))?;
    Ok((seq, Arc::new(object::decode(&stored).map_err(internal)?)))
}

impl ChunkPlan {
    fn new(
        request: &LogRead<'_>,
        seq: LogSeq,
        footer: Arc<Footer>,
        position: usize,
        stored: &Schema,
    ) -> ChunkPlan {
        let newest = request.table.schema();
        let read_as_wanted = read_as(stored, newest, &request.columns);
        let filter_as = request.filter.map(|filter| {
            let needed: Vec<usize> =
                filter.columns().iter().filter_map(|name| newest.index_of(name)).collect();
            read_as(stored, newest, &needed)
        });
        let mut sources: BTreeSet<usize> = read_as_wanted.sources().iter().copied().collect();
        sources.extend(filter_as.iter().flat_map(|f| f.sources().iter().copied()));
        ChunkPlan {
            seq,
            footer,
            position,
            read_as: read_as_wanted,
            filter_as,
            sources: sources.into_iter().collect(),
            stored: stored.clone(),
        }
    }

    fn chunk(&self) -> &Chunk {
        &self.footer.chunks[self.position]
    }

    /// The first offset that is asked for.
    fn first(&self, from: Offset) -> Offset {
        self.chunk().first().max(from)
    }

    /// Stored bytes that are read.
    fn bytes(&self) -> usize {
        self.segments().iter().map(|s| (s.range.end - s.range.start) as usize).sum()
    }

    /// Whether the chunk's statistics leave any row that may match.
    fn may_match(&self, request: &LogRead<'_>) -> bool {
        let (Some(filter), chunk) = (request.filter, self.chunk()) else { return true };
        if chunk.columns.is_empty() {
            return true;
        }
        let newest = request.table.schema();
        let mut known = BTreeMap::new();
        for name in filter.columns() {
            let Some(index) = newest.index_of(name) else { continue };
            let column = &newest.columns()[index];
            // A widened column's statistics have the old type; they are left alone.
            let Some(stored) = self.stored.index_of_id(column.id) else { continue };
            if self.stored.columns()[stored].data_type != column.data_type {
                continue;
            }
            let statistics =
                chunk.columns.get(stored).map(|c| ColumnStatistics::decode(&mut c.statistics.as_ref()));
            if let Some(Ok(statistics)) = statistics {
                known.insert(name.to_string(), statistics);
            }
        }
        filter.may_match(u64::from(chunk.rows), |name| known.get(name))
    }

    /// What must be read of the object.
    fn segments(&self) -> Vec<Segment> {
        let chunk = self.chunk();
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
        std::iter::once(head).chain(self.sources.iter().filter_map(column)).collect()
    }

    async fn read(&self, shared: &Shared, request: &LogRead<'_>) -> Result<Option<Got>, LogReadError> {
        let segments = self.segments();
        let bytes = match shared.view.object(self.seq).and_then(|(_, chunks)| chunks) {
            Some(chunks) => self.cut_from_tail(&chunks[self.position], &segments),
            None => {
                let context = &shared.context;
                let object = (shared.claim.shard(), self.seq);
                context
                    .segments
                    .fetch(&context.objects, &context.root, &context.metrics, object, &segments)
                    .await?
            }
        };
        let whole = self.first(request.offset) == self.chunk().first()
            && request.until.is_none_or(|until| self.chunk().end() <= until);
        let as_stored = self.read_as.is_identity() && self.read_as.sources() == self.sources.as_slice();
        if whole && as_stored && request.filter.is_none() && request.system.is_empty() {
            let rows = self.chunk().rows;
            if rows as usize <= request.max_rows {
                let piece = Piece::Message { message: self.message(bytes)?, rows };
                return Ok(Some(Got { piece, matching: None }));
            }
        }
        let chunk = self.decode(bytes)?;
        self.select(chunk, request)
    }

    fn cut_from_tail(&self, chunk: &Bytes, segments: &[Segment]) -> Vec<Bytes> {
        let at = u64::from(self.chunk().start);
        segments
            .iter()
            .map(|s| chunk.slice((s.range.start - at) as usize..(s.range.end - at) as usize))
            .collect()
    }

    /// One message with the source columns.
    fn message(&self, bytes: Vec<Bytes>) -> Result<Bytes, LogReadError> {
        let [head, columns @ ..] = bytes.as_slice() else { return Err(internal("a chunk has no bytes")) };
        if self.chunk().columns.is_empty() {
            return match self.sources.len() == self.stored.columns().len() {
                true => Ok(head.clone()),
                false => ipc::project_message(head, self.stored.arrow(), &self.sources).map_err(internal),
            };
        }
        let layout = Layout::parse(head, self.stored.arrow()).map_err(internal)?;
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
        let schema = Arc::new(self.stored.arrow().project(&self.sources).map_err(internal)?);
        ipc::decode(&message, &schema, MAX_RAW).map_err(internal)
    }

    /// Filters, orders and converts what was decoded, and adds the system columns.
    fn select(&self, chunk: RecordBatch, request: &LogRead<'_>) -> Result<Option<Got>, LogReadError> {
        let first = self.first(request.offset);
        let skip = (first.0 - self.chunk().base_offset) as usize;
        let end = request.until.map_or(self.chunk().end(), |until| self.chunk().end().min(until));
        let chunk = chunk.slice(skip, (end.0 - first.0) as usize);
        let sources = |read: &ReadAs| -> Result<RecordBatch, LogReadError> {
            let place =
                |s: &usize| self.sources.binary_search(s).map_err(|_| internal("a column was not read"));
            let places = read.sources().iter().map(place).collect::<Result<Vec<_>, _>>()?;
            read.apply(&chunk.project(&places).map_err(internal)?).map_err(internal)
        };
        let mut rows = sources(&self.read_as)?;
        if !request.system.is_empty() {
            let system = SystemColumns { chunk: self.chunk(), first, table: request.table };
            rows = system.append(rows, &request.system).map_err(internal)?;
        }
        let mut matching = None;
        if let (Some(filter), Some(filter_as)) = (request.filter, &self.filter_as) {
            let mask = filter.evaluate(&sources(filter_as)?).map_err(internal)?;
            // A row whose condition is null does not match.
            let mask = if mask.null_count() > 0 { prep_null_mask_filter(&mask) } else { mask };
            rows = filter_record_batch(&rows, &mask).map_err(internal)?;
            matching = Some(mask);
        }
        Ok((rows.num_rows() > 0).then_some(Got { piece: Piece::Batch(rows), matching }))
    }
}

/// The first offset flushed at `time` or later.
pub(super) async fn offset_at(shared: &Shared, bucket: &Bucket, time: i64) -> Result<Offset, LogReadError> {
    let mut offset = shared.view.bounds(bucket).log_start;
    loop {
        let located = locate(shared, bucket, offset).await?;
        if let Some(found) = located.chunks.iter().find(|c| c.time >= time) {
            return Ok(Offset(found.base_offset).max(offset));
        }
        match located.chunks.last() {
            Some(last) if last.end() < located.bounds.high_watermark => offset = last.end(),
            _ => return Ok(located.bounds.high_watermark),
        }
    }
}
