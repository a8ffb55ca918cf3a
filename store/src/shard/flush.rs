//! One flush: the open parts become an object, and the object becomes durable, or not.
//!
//! Runs outside the actor, one at a time. Parts of one bucket and schema version that are small share a chunk.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use tokio::time::Instant;
use wadi_model::Bucket;
use wadi_model::options::LogCompression;

use super::Shared;
use super::encode::{EncodedChunk, Payload, Prepared, encode_together};
use super::open::{OpenObject, Order, Slot};
use super::part::AppendError;
use crate::container::{Chunk, ChunkKind, Command, Header, Producer, Run, SealedObject, seal};
use crate::flaws::{self, Flaw};
use crate::log::{PutOutcome, create, object_path};
use crate::task;

/// Small parts of a bucket share a chunk up to this size, so that a chunk stays cheap to read.
const SHARED_CHUNK_BYTES: usize = 4 << 20;

/// How a flush ended.
#[derive(Debug)]
pub(super) struct Flushed {
    pub slots: Vec<Slot>,
    pub orders: Vec<Order>,
    pub result: FlushResult,
    /// When the PUT began, and how long it took.
    pub put_began: Instant,
    pub put: Duration,
}

/// What became of the object.
#[derive(Debug)]
pub(super) enum FlushResult {
    /// It is durable. `live` is whether the claim held after the PUT had returned.
    Durable {
        /// The object.
        object: Box<SealedObject>,
        /// Whether it may be acked.
        live: bool,
    },
    /// Nothing was sent.
    NotSent(AppendError),
    /// It may appear, now or later.
    InDoubt(String),
}

/// Makes and writes one object.
pub(super) async fn flush(shared: &Shared, header: Header, open: OpenObject) -> Flushed {
    let OpenObject { mut slots, orders, .. } = open;
    // Chunks of a bucket stand side by side; the sort is stable, so offsets stay in order.
    slots.sort_by_key(|slot| slot.part.bucket);
    let commands = commands(&slots);
    let of_shard: Vec<_> = orders.iter().map(|order| order.command.chunk_of_shard()).collect();
    let pieces: Vec<Piece> = slots.iter_mut().map(Piece::take).collect();
    let context = &shared.context;
    let work = move || {
        let rows = with_commands(chunks(pieces, header.time)?, commands);
        Ok(seal(header, of_shard.into_iter().chain(rows).collect()))
    };
    let sealed = context.cpu.run(work).await;
    let put_began = Instant::now();
    slots.iter_mut().for_each(|slot| slot.part.stages.put(header.seq.0));
    let object = match sealed.unwrap_or_else(|| Err(AppendError::Internal("encoding panicked".into()))) {
        Ok(object) => object,
        Err(error) => {
            let put = Duration::ZERO;
            return Flushed { slots, orders, result: FlushResult::NotSent(error), put_began, put };
        }
    };
    let path = object_path(&context.root, shared.claim.shard(), header.seq);
    let deadline = put_began + context.settings.put_budget;
    let outcome = if flaws::has(Flaw::ReadsEarly) {
        let (objects, pieces) = (context.objects.clone(), object.pieces.clone());
        drop(task::spawn(async move { create(objects.as_ref(), &path, &header, &pieces, deadline).await }));
        PutOutcome::Written
    } else {
        create(context.objects.as_ref(), &path, &header, &object.pieces, deadline).await
    };
    let put = put_began.elapsed();
    context.metrics.put_seconds.observe(put.as_secs_f64());
    let result = match outcome {
        PutOutcome::Written => {
            context.metrics.log_objects.inc();
            context.metrics.log_object_bytes.inc_by(object.len() as u64);
            let live = flaws::has(Flaw::AcksLate) || shared.claim.hold().await;
            FlushResult::Durable { object: Box::new(object), live }
        }
        PutOutcome::Taken(other) => FlushResult::InDoubt(format!(
            "log position {} holds an object of token {}, ours is {}",
            header.seq, other.token, header.token
        )),
        PutOutcome::Unknown(why) => FlushResult::InDoubt(format!("the outcome of a PUT is unknown: {why}")),
    };
    Flushed { slots, orders, result, put_began, put }
}

/// What the buckets of an object have to say beside their rows: the last word of each.
fn commands(slots: &[Slot]) -> BTreeMap<Bucket, Command> {
    let said = slots.iter().filter_map(|slot| Some((slot.part.bucket, slot.ids.clone()?)));
    said.map(|(bucket, ids)| (bucket, Command { ids: Some(ids), ..Command::default() })).collect()
}

/// Puts each command before the rows of its bucket.
fn with_commands(
    chunks: Vec<(Chunk, Bytes)>,
    mut commands: BTreeMap<Bucket, Command>,
) -> Vec<(Chunk, Bytes)> {
    let mut all = Vec::with_capacity(chunks.len() + commands.len());
    for (chunk, bytes) in chunks {
        all.extend(commands.remove(&chunk.bucket_id()).map(|command| command.chunk(&chunk)));
        all.push((chunk, bytes));
    }
    all
}

/// What a chunk is made of.
struct Piece {
    payload: Payload,
    compression: LogCompression,
    chunk: Chunk,
    raw_bytes: usize,
}

impl Piece {
    /// Takes the payload out of a slot, which keeps what the answer needs.
    fn take(slot: &mut Slot) -> Piece {
        let empty =
            Payload::Rows(RecordBatch::new_empty(std::sync::Arc::new(arrow::datatypes::Schema::empty())));
        let Prepared { bucket, schema, compression, rows, raw_bytes, stamp, payload, .. } = &mut slot.part;
        let base_offset = slot.base_offset.0;
        let kind = match payload {
            Payload::Rows(_) | Payload::Chunk(_) => ChunkKind::Log,
            Payload::Keyed(_) | Payload::Changes(_) => ChunkKind::Changelog,
        };
        let producer = stamp.as_ref().map(|stamp| Producer {
            id: stamp.producer.to_string(),
            sequence: stamp.sequence,
            fingerprint: stamp.fingerprint,
            base_offset,
            rows: *rows,
            once: stamp.once,
        });
        let chunk = Chunk {
            table: bucket.table.0,
            partition: bucket.partition.0,
            bucket: bucket.bucket,
            kind: kind as i32,
            schema_id: u32::from(schema.0),
            base_offset,
            rows: *rows,
            producers: producer.into_iter().collect(),
            ..Chunk::default()
        };
        let payload = std::mem::replace(payload, empty);
        Piece { payload, compression: *compression, chunk, raw_bytes: *raw_bytes }
    }
}

fn chunks(pieces: Vec<Piece>, time: i64) -> Result<Vec<(Chunk, Bytes)>, AppendError> {
    let mut done = Vec::with_capacity(pieces.len());
    let mut shared: Option<(Chunk, Vec<RecordBatch>, LogCompression, usize)> = None;
    for piece in pieces {
        let Piece { payload, compression, chunk, raw_bytes } = piece;
        let batch = match payload {
            Payload::Rows(batch) => batch,
            Payload::Changes(changes) => changes.to_batch()?,
            Payload::Keyed(_) => return Err(AppendError::internal("rows were not merged")),
            Payload::Chunk(encoded) => {
                finish_shared(&mut shared, time, &mut done)?;
                done.push(complete(chunk, encoded, time));
                continue;
            }
        };
        match &mut shared {
            Some((first, batches, c, bytes))
                if first.bucket_id() == chunk.bucket_id()
                    && first.schema_id == chunk.schema_id
                    && *c == compression
                    && *bytes + raw_bytes <= SHARED_CHUNK_BYTES =>
            {
                first.rows += chunk.rows;
                first.producers.extend(chunk.producers);
                batches.push(batch);
                *bytes += raw_bytes;
            }
            _ => {
                finish_shared(&mut shared, time, &mut done)?;
                shared = Some((chunk, vec![batch], compression, raw_bytes));
            }
        }
    }
    finish_shared(&mut shared, time, &mut done)?;
    Ok(done)
}

fn finish_shared(
    shared: &mut Option<(Chunk, Vec<RecordBatch>, LogCompression, usize)>,
    time: i64,
    done: &mut Vec<(Chunk, Bytes)>,
) -> Result<(), AppendError> {
    if let Some((chunk, batches, compression, _)) = shared.take() {
        done.push(complete(chunk, encode_together(&batches, compression)?, time));
    }
    Ok(())
}

fn complete(chunk: Chunk, encoded: EncodedChunk, time: i64) -> (Chunk, Bytes) {
    let EncodedChunk { message, metadata_len, crc, raw_len, columns, frame } = encoded;
    let runs = vec![Run { rows: chunk.rows, time }];
    (Chunk { metadata_len, crc, raw_len, columns, frame: frame as i32, runs, ..chunk }, message)
}
