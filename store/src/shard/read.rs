//! Log reads: `[offset, …)` of one bucket, only the asked-for columns, only the rows that match.
//!
//! Where rows lie comes from the view, and below it from SlateDB. Bytes come from the tail in memory, else from cached
//! segments. Without filter and system columns a chunk is served as it is stored: its message is rewritten to the asked
//! columns and nothing is decompressed. All work on bytes runs on the CPU pool. Every answer is checked against the
//! claim at its end (K3 of later owners), and carries its share of the read budget until the client has it.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use wadi_model::predicate::Predicate;
use wadi_model::{Bucket, ErrorKind, Fault, Offset, Table, Told};

use super::Shared;
use crate::container::ChunkKind;
use crate::context::{Context, Share};
use crate::keys::index::IndexedChunk;
use crate::stored::ObjectId;
use chunk::{ChunkPlan, Fetched, Got, Wanted};
use footers::Footers;
use found::{Own, locate};

pub(crate) use chunk::{MAX_RAW, plain};
pub(super) use chunk::{whole_chunk, whole_command};
pub(super) use found::tell;
pub(crate) use found::{Chunks, Found};

mod chunk;
mod footers;
mod found;
mod system;

/// Chunks that are read at once, and groups of them that are converted at once.
const PARALLEL: usize = 4;

/// Most chunks that go to the CPU pool together.
const AT_ONCE: usize = 8;

/// How often rows are looked for that move while they are read.
const TRIES: usize = 3;

/// How long a read waits for its share of the budget. Who holds it may be slow for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be read.
#[derive(Clone, Debug)]
pub struct LogRead<'a> {
    /// The table, with all its schema versions.
    pub table: &'a Arc<Table>,
    /// The bucket.
    pub bucket: Bucket,
    /// The name of its partition, for `_partition`; empty without partitions.
    pub partition: &'a str,
    /// From here on.
    pub offset: Offset,
    /// Positions in the newest schema of the columns wanted, in the order wanted.
    pub columns: Vec<usize>,
    /// Names of the system columns wanted, behind the others.
    pub system: Vec<String>,
    /// Only rows that match. Its columns are the table's and the system columns.
    pub filter: Option<&'a Arc<Predicate>>,
    /// No rows from here on, whatever is readable.
    pub until: Option<Offset>,
    /// About how many stored bytes to read; at least one chunk is.
    pub max_bytes: usize,
    /// Most rows to answer.
    pub max_rows: usize,
}

/// Rows of a log.
#[derive(Debug)]
pub struct LogAnswer {
    /// The rows, in order.
    pub pieces: Vec<Piece>,
    /// Their share of the read budget, to be held until the client has the rows.
    pub share: Arc<Share>,
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
    /// Whether its bytes are as they were stored.
    pub fn is_stored(&self) -> bool {
        matches!(self, Piece::Message { .. })
    }

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
    /// The shard's owner cannot be reached.
    #[error("the owner of this bucket's shard did not answer: {0}")]
    Unreachable(String),
    /// An object that the index named is not there any more; whoever asks again finds the rows where they lie now.
    #[error("{0} was replaced while it was read; read again")]
    Moved(String),
    /// Other answers hold the memory for reads.
    #[error("too much is being read; ask again in a moment")]
    Overloaded,
    /// The object store did not answer.
    #[error("the object store did not answer: {0}")]
    Unavailable(String),
    /// Stored data is damaged, or the filter could not be evaluated.
    #[error("{0}")]
    Internal(String),
    /// What its owner said.
    #[error(transparent)]
    Told(Told),
}

impl From<Told> for LogReadError {
    fn from(told: Told) -> LogReadError {
        match told.code.as_str() {
            "shard_not_open" => LogReadError::NotOwned,
            "rows_moved" => LogReadError::Moved(told.message),
            _ => LogReadError::Told(told),
        }
    }
}

impl Fault for LogReadError {
    fn kind(&self) -> ErrorKind {
        match self {
            LogReadError::OutOfRange { .. } => ErrorKind::Gone,
            LogReadError::NotOwned
            | LogReadError::Unreachable(_)
            | LogReadError::Moved(_)
            | LogReadError::Unavailable(_) => ErrorKind::Unavailable,
            LogReadError::Told(told) => told.kind(),
            LogReadError::Overloaded => ErrorKind::Overloaded,
            LogReadError::Internal(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &str {
        match self {
            LogReadError::OutOfRange { .. } => "offset_out_of_range",
            LogReadError::Unreachable(_) => "owner_unreachable",
            LogReadError::Told(told) => told.code(),
            LogReadError::NotOwned => "shard_not_open",
            LogReadError::Moved(_) => "rows_moved",
            LogReadError::Unavailable(_) => "store_unavailable",
            LogReadError::Overloaded => "overloaded",
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
            crate::log::ReadError::Store { ref path, source: object_store::Error::NotFound { .. } } => {
                LogReadError::Moved(path.to_string())
            }
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
    settled(|| read_once(shared, request)).await
}

/// Looks again where rows were packed, merged or deleted meanwhile: the index says where they are now.
pub(crate) async fn settled<T, F>(look: impl Fn() -> F) -> Result<T, LogReadError>
where
    F: Future<Output = Result<T, LogReadError>>,
{
    for _ in 1..TRIES {
        match look().await {
            Err(LogReadError::Moved(what)) => tracing::debug!(what, "rows were moved while they were read"),
            answer => return answer,
        }
    }
    look().await
}

async fn read_once(shared: &Shared, request: &LogRead<'_>) -> Result<LogAnswer, LogReadError> {
    let located = locate(shared, &request.bucket, request.offset).await?;
    let bounds = located.bounds;
    let mut own = Own::new(shared, located.chunks);
    let answer = read_found(&shared.context, request, bounds, &mut own).await?;
    if !shared.claim.hold().await {
        return Err(LogReadError::NotOwned);
    }
    Ok(answer)
}

/// Reads what was found.
pub(crate) async fn read_found(
    context: &Context,
    request: &LogRead<'_>,
    bounds: super::Bounds,
    chunks: &mut impl Chunks,
) -> Result<LogAnswer, LogReadError> {
    if request.offset < bounds.log_start || request.offset > bounds.high_watermark {
        let (offset, bucket) = (request.offset, request.bucket);
        return Err(LogReadError::OutOfRange { offset, bucket, bounds });
    }
    let (plans, end) = plan(request, chunks).await?;
    let bytes: usize = plans.iter().map(|plan| plan.bytes()).sum();
    let share = tokio::time::timeout(PATIENCE, context.reads.take(bytes)).await;
    let share = share.ok().flatten().ok_or(LogReadError::Overloaded)?;
    let got = rows_of(context, &plans).await?;
    let (pieces, next_offset) = cut(got, &plans, request, end);
    Ok(LogAnswer { pieces, share: Arc::new(share), next_offset, bounds })
}

/// Fetches the chunks, neighbours together and others side by side, and makes rows of them on the CPU pool, some at a time.
async fn rows_of(context: &Context, plans: &[Arc<ChunkPlan>]) -> Result<Vec<Option<Got>>, LogReadError> {
    let mut fetches = Vec::with_capacity(plans.len());
    for run in chunk::runs(plans) {
        fetches.push(chunk::fetch_run(context, run));
    }
    let convert = |group: Vec<Result<Fetched, LogReadError>>| {
        let work = move || group.into_iter().map(|fetched| fetched?.rows()).collect();
        async move { context.cpu.run(work).await.unwrap_or_else(|| Err(internal("reading panicked"))) }
    };
    let each = |run: Result<Vec<Fetched>, LogReadError>| {
        stream::iter(match run {
            Ok(run) => run.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    };
    let fetched = stream::iter(fetches).buffered(PARALLEL).flat_map(each).ready_chunks(AT_ONCE);
    let groups: Vec<Vec<Option<Got>>> = fetched.map(convert).buffered(PARALLEL).try_collect().await?;
    Ok(groups.into_iter().flatten().collect())
}

/// Keeps to `max_rows`: the piece that goes beyond is cut, and the next read begins at the first row that was left.
fn cut(
    got: Vec<Option<Got>>,
    plans: &[Arc<ChunkPlan>],
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

async fn plan(
    request: &LogRead<'_>,
    chunks: &mut impl Chunks,
) -> Result<(Vec<Arc<ChunkPlan>>, Offset), LogReadError> {
    let wanted = Arc::new(Wanted::new(request));
    let mut plans = Vec::new();
    let (mut bytes, mut rows, mut end) = (0usize, 0u64, request.offset);
    let mut place = 0;
    while let Some(indexed) = chunks.indexed(place) {
        let beyond = request.until.is_some_and(|until| Offset(indexed.base_offset) >= until);
        if beyond || bytes >= request.max_bytes || rows >= request.max_rows as u64 {
            break;
        }
        if Offset(indexed.base_offset) > end {
            if chunks.log_start(&request.bucket) > end {
                return Err(LogReadError::Moved(format!(
                    "{} was trimmed; what lay at offset {end}",
                    request.bucket
                )));
            }
            return Err(internal(format!("{} has no rows from offset {end} on", request.bucket)));
        }
        place += 1;
        // What the index alone excludes costs no footer.
        if request.filter.is_some_and(|filter| !system::may_match(filter, &request.bucket, &indexed)) {
            end = indexed.end().min(request.until.unwrap_or(Offset(u64::MAX)));
            continue;
        }
        let found = chunks.found(place - 1).await?;
        let Some(stored) = request.table.schema_of(found.chunk().schema()) else {
            // Written under a version that this reader does not know yet; what comes before it can be answered.
            if plans.is_empty() {
                return Err(LogReadError::Unavailable(format!(
                    "schema version {} is not known yet",
                    found.chunk().schema_id
                )));
            }
            break;
        };
        end = indexed.end().min(request.until.unwrap_or(Offset(u64::MAX)));
        if found.chunk().kind() == ChunkKind::Command {
            continue;
        }
        let plan = ChunkPlan::new(request, &wanted, found, stored);
        if plan.may_match(request) {
            bytes += plan.bytes();
            if request.filter.is_none() {
                rows += end.0 - plan.first(request.offset).0;
            }
            plans.push(Arc::new(plan));
        }
    }
    Ok((plans, end))
}

/// The first offset flushed at `time` or later.
pub(super) async fn offset_at(shared: &Shared, bucket: &Bucket, time: i64) -> Result<Offset, LogReadError> {
    settled(|| offset_at_once(shared, bucket, time)).await
}

async fn offset_at_once(shared: &Shared, bucket: &Bucket, time: i64) -> Result<Offset, LogReadError> {
    let mut offset = shared.view.bounds(bucket).log_start;
    loop {
        let located = locate(shared, bucket, offset).await?;
        if let Some(found) = located.chunks.iter().position(|c| c.time >= time) {
            let within = &located.chunks[found..=found];
            return Ok(first_at(shared, within, time).await?.max(offset));
        }
        match located.chunks.last() {
            Some(last) if last.end() < located.bounds.high_watermark => offset = last.end(),
            _ => return Ok(located.bounds.high_watermark),
        }
    }
}

/// The first offset in a chunk whose row was flushed at `time` or later. Rows of a log object have one time; a pack has many.
async fn first_at(shared: &Shared, chunk: &[IndexedChunk], time: i64) -> Result<Offset, LogReadError> {
    let [indexed] = chunk else { return Err(internal("one chunk is looked at")) };
    let base = indexed.base_offset;
    if let ObjectId::Log(_) = indexed.object() {
        return Ok(Offset(base));
    }
    let opened = Footers::default().of(shared, chunk).await?;
    let chunk = opened.footer.chunks.get(indexed.position as usize);
    let chunk = chunk.ok_or_else(|| internal("the index names a chunk that is not there"))?;
    let earlier = chunk.runs.iter().take_while(|run| run.time < time).map(|run| u64::from(run.rows));
    Ok(Offset(base + earlier.sum::<u64>()))
}
