//! Log reads: of a shard that is here from its view, of another by what its owner tells.
//!
//! The owner tells where the asked rows lie; their bytes come from the object store through this process's cache, so that any number
//! of gateways serve history without the owner's help. What the owner still has in memory comes with its answer: a reader at the tail
//! costs no request to the object store. Rows that were packed and deleted between the two are looked for again.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use wadi_model::{Bucket, LogSeq, Offset, ShardId};

use super::{ANSWER, At, Call, Peer, Route, RouteError};
use crate::container::Chunk;
use crate::context::Context;
use crate::keys::index::IndexedChunk;
use crate::shard::{Bounds, Chunks, Found, LogAnswer, LogRead, LogReadError, Shard, read_found, settled};
use crate::stored::{ObjectId, PackName, StoredObject};

/// The chunks of an answer.
#[derive(Clone, PartialEq, Message)]
struct ToldChunks {
    #[prost(message, repeated, tag = "1")]
    chunks: Vec<ToldChunk>,
}

/// A chunk, where it lies, and its bytes if the owner has them.
#[derive(Clone, PartialEq, Message)]
struct ToldChunk {
    /// The log object; 0 if it is a pack.
    #[prost(uint64, tag = "1")]
    seq: u64,
    /// The pack's name.
    #[prost(string, tag = "2")]
    pack: String,
    #[prost(message, required, tag = "3")]
    chunk: Chunk,
    #[prost(bytes = "bytes", optional, tag = "4")]
    bytes: Option<Bytes>,
}

impl ToldChunk {
    fn of(found: Found) -> ToldChunk {
        let chunk = found.chunk().clone();
        let (seq, pack) = match found.place.id {
            ObjectId::Log(seq) => (seq.0, String::new()),
            ObjectId::Pack(_) => (0, found.place.path.filename().unwrap_or_default().to_owned()),
        };
        ToldChunk { seq, pack, chunk, bytes: found.bytes }
    }

    fn read(self, context: &Context, shard: ShardId) -> Result<Found, LogReadError> {
        let ToldChunk { seq, pack, chunk, bytes } = self;
        let place = match seq {
            0 => {
                let name: PackName = pack.parse().map_err(internal)?;
                StoredObject::pack(&context.root, shard, &name)
            }
            seq => StoredObject::log(&context.root, shard, LogSeq(seq)),
        };
        Ok(Found::alone(place, chunk, bytes))
    }
}

fn internal(why: impl ToString) -> LogReadError {
    LogReadError::Internal(why.to_string())
}

/// Chunks as the owner of their shard told them.
struct Told {
    found: Vec<Found>,
    bounds: Bounds,
}

impl Chunks for Told {
    fn indexed(&self, at: usize) -> Option<IndexedChunk> {
        self.found.get(at).map(|found| IndexedChunk::new(found.place.id, 0, found.chunk()))
    }

    async fn found(&mut self, at: usize) -> Result<Found, LogReadError> {
        self.found.get(at).cloned().ok_or_else(|| internal("no chunk was asked for"))
    }

    fn log_start(&self, _: &Bucket) -> Offset {
        self.bounds.log_start
    }
}

impl Route {
    /// Reads a bucket's log; see [`Shard::read`].
    pub async fn read(
        &self,
        request: &LogRead<'_>,
        patience: Duration,
    ) -> Result<LogAnswer, RouteError<LogReadError>> {
        let context = self.inner.host.context();
        let question = move |at: At| async move {
            match at {
                At::Here(shard) => shard.read(request).await,
                At::There(peer) => settled(|| read_there(context, &peer, request)).await,
            }
        };
        self.ask(self.shard(&request.bucket), patience, question).await
    }
}

async fn read_there(
    context: &Context,
    peer: &Peer,
    request: &LogRead<'_>,
) -> Result<LogAnswer, LogReadError> {
    let asked = (request.bucket, request.offset);
    let (bounds, sections) = peer.ask::<Bounds>(Call::Chunks, &asked, Vec::new(), ANSWER).await?;
    let [chunks] = sections.as_slice() else { return Err(internal("an answer has no chunks")) };
    let told = ToldChunks::decode(chunks.clone()).map_err(internal)?;
    let found = told.chunks.into_iter().map(|told| told.read(context, peer.shard));
    let mut told = Told { found: found.collect::<Result<_, _>>()?, bounds };
    read_found(context, request, bounds, &mut told).await
}

/// Tells where a bucket's rows from an offset on lie. Below or above its log there are none; who asked sees that from the bounds.
pub(super) async fn answer(
    shard: &Shard,
    bucket: &Bucket,
    offset: Offset,
) -> Result<(Bounds, Vec<Bytes>), LogReadError> {
    let (bounds, found) = shard.tell_chunks(bucket, offset).await?;
    let told = ToldChunks { chunks: found.into_iter().map(ToldChunk::of).collect() };
    Ok((bounds, vec![told.encode_to_vec().into()]))
}
