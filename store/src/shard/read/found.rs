//! Where the rows of a bucket lie: chunk by chunk, from the shard's own view and database, or as the owner of the shard told it.
//!
//! A process that does not own a shard asks its owner for chunks and reads their bytes from the object store itself; the newest ones,
//! which the owner has in memory, come with the answer. Objects never change, so what was told stays right for as long as they are kept.

use std::sync::Arc;

use bytes::Bytes;
use wadi_model::{Bucket, Offset};

use super::super::{Bounds, Shared};
use super::footers::Footers;
use super::{LogReadError, internal};
use crate::container::{Chunk, Footer};
use crate::database;
use crate::keys::index::{self, IndexedChunk};
use crate::stored::{ObjectId, StoredObject};

/// The chunks from an offset on, side by side, possibly not to the end.
pub(crate) trait Chunks {
    /// What the index says of the one at this place.
    fn indexed(&self, at: usize) -> Option<IndexedChunk>;

    /// Where it lies, and what is in it.
    fn found(&mut self, at: usize) -> impl Future<Output = Result<Found, LogReadError>> + Send;

    /// Where the log of the bucket begins now.
    fn log_start(&self, bucket: &Bucket) -> Offset;
}

/// A chunk's place and contents.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub place: StoredObject,
    footer: Arc<Footer>,
    position: usize,
    /// All its bytes, if they are at hand.
    pub bytes: Option<Bytes>,
}

impl Found {
    /// A chunk of an object of which nothing else is known.
    pub(crate) fn alone(place: StoredObject, chunk: Chunk, bytes: Option<Bytes>) -> Found {
        let footer = Footer { chunks: vec![chunk], ..Footer::default() };
        Found { place, footer: Arc::new(footer), position: 0, bytes }
    }

    /// What the footer says of it.
    pub(crate) fn chunk(&self) -> &Chunk {
        &self.footer.chunks[self.position]
    }
}

/// Chunks that the shard's own view and database know.
pub(super) struct Own<'a> {
    shared: &'a Shared,
    located: Vec<IndexedChunk>,
    footers: Footers,
}

impl Own<'_> {
    pub(super) fn new(shared: &Shared, located: Vec<IndexedChunk>) -> Own<'_> {
        Own { shared, located, footers: Footers::default() }
    }
}

impl Chunks for Own<'_> {
    fn indexed(&self, at: usize) -> Option<IndexedChunk> {
        self.located.get(at).copied()
    }

    async fn found(&mut self, at: usize) -> Result<Found, LogReadError> {
        let Some(chunks @ [indexed, ..]) = self.located.get(at..) else {
            return Err(internal("no chunk was asked for"));
        };
        let position = indexed.position as usize;
        let opened = self.footers.of(self.shared, chunks).await?;
        if position >= opened.footer.chunks.len() {
            return Err(internal("the index names a chunk that is not there"));
        }
        let in_memory = match opened.place.id {
            ObjectId::Log(seq) => self.shared.view.object(seq).and_then(|(_, chunks)| chunks),
            ObjectId::Pack(_) => None,
        };
        let bytes = in_memory.and_then(|chunks| chunks.get(position).cloned());
        Ok(Found { place: opened.place.clone(), footer: opened.footer.clone(), position, bytes })
    }

    fn log_start(&self, bucket: &Bucket) -> Offset {
        self.shared.view.bounds(bucket).log_start
    }
}

/// Most chunks that are told to another process at once, most stored bytes of them, and most bytes that go with them.
const TOLD_CHUNKS: usize = 128;
const TOLD_BYTES: u64 = 32 << 20;
const TOLD_INLINE: usize = 1 << 20;

/// Tells another process what a bucket has from an offset on: it reads what is durable by itself. Bytes of the newest rows, which are
/// in memory here, go with it.
pub(in super::super) async fn tell(
    shared: &Shared,
    bucket: &Bucket,
    offset: Offset,
) -> Result<(Bounds, Vec<Found>), LogReadError> {
    let located = locate(shared, bucket, offset).await?;
    let mut own = Own::new(shared, located.chunks);
    let mut told = Vec::new();
    let (mut stored, mut inline) = (0, 0);
    while told.len() < TOLD_CHUNKS && stored < TOLD_BYTES {
        if own.indexed(told.len()).is_none() {
            break;
        }
        let mut found = own.found(told.len()).await?;
        stored += u64::from(found.chunk().len);
        inline += found.bytes.as_ref().map_or(0, Bytes::len);
        if inline > TOLD_INLINE {
            found.bytes = None;
        }
        told.push(found);
    }
    if !shared.claim.hold().await {
        return Err(LogReadError::NotOwned);
    }
    Ok((located.bounds, told))
}

pub(super) struct LocatedChunks {
    pub bounds: Bounds,
    /// From the asked offset on, possibly not to the end.
    pub chunks: Vec<IndexedChunk>,
}

/// Where a bucket's rows from an offset on lie, by the view and the database.
pub(super) async fn locate(
    shared: &Shared,
    bucket: &Bucket,
    offset: Offset,
) -> Result<LocatedChunks, LogReadError> {
    let located = shared.view.locate(bucket, offset);
    let bounds = located.bounds;
    if offset >= located.from || offset < bounds.log_start {
        return Ok(LocatedChunks { bounds, chunks: located.recent });
    }
    let mut chunks = Vec::new();
    let mut entries = shared.db.scan_with_options(index::from(bucket, offset), &database::near()).await?;
    // One entry holds up to a second of chunks; more than a few are never read at once.
    while let Some(entry) = entries.next().await? {
        let (_, _, entry) = index::decode(&entry.key, &entry.value).map_err(internal)?;
        chunks
            .extend(entry.chunks.into_iter().filter(|c| c.end() > offset && c.base_offset < located.from.0));
        if chunks.len() >= 256 {
            return Ok(LocatedChunks { bounds, chunks });
        }
    }
    // The view has chunks as they were flushed; a pack may hold the first of them already.
    let known = chunks.last().map_or(located.from, IndexedChunk::end);
    chunks.extend(located.recent.into_iter().filter(|c| c.base_offset >= known.0));
    Ok(LocatedChunks { bounds, chunks })
}
