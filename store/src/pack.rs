//! Packs are made: the objects of a round are read, the rows of each bucket merged into larger chunks, and those written as new objects.
//!
//! Called by compactors, which own nothing: the [round](crate::shard::Round) says what to read, and what is made counts once the owner
//! has [taken](crate::shard::Shard::commit_packs) it. A compactor that dies leaves objects that nobody knows.
//!
//! Rows are decoded only where chunks are small; large ones move as they are. A bucket with [`OWN_BYTES`] or more gets packs of its own, which are
//! final; all others share packs, in the order of their tables, so that the next merge and each reader finds a bucket in one place.
//!
//! Memory is bounded: rows are read by windows of buckets, and a pack is written as soon as it is full.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wadi_model::{Bucket, SchemaId, ShardId, TableId};

use crate::container::{Chunk, Header, Kind, seal};
use crate::database::Place;
use crate::keyed::TableSource;
use crate::log::{PutOutcome, ReadError, create};
use crate::shard::Round;
use crate::stored::{FINAL, PackId, PackName, StoredObject};
use crate::task::Cpu;
use merge::{Source, merge};

mod merge;
mod read;

/// A bucket with so many stored bytes in a round gets packs of its own.
const OWN_BYTES: u64 = 8 << 20;

/// A pack is written when it has so many bytes.
const PACK_BYTES: u64 = 128 << 20;

/// Buckets whose rows are read together have about so many bytes.
const WINDOW_BYTES: u64 = 32 << 20;

/// How long a pack's PUT may take with all its retries.
const PUT_BUDGET: Duration = Duration::from_secs(120);

/// Objects that are read at once.
const AHEAD: usize = 8;

/// Why packs could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// An object could not be read, or is not what it should be.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An object of the round is not there any more.
    #[error("{0} is not there; another compactor was faster")]
    Missing(String),
    /// A table is not known now.
    #[error("table {table}: {why}")]
    Table {
        /// Its id.
        table: TableId,
        /// Why.
        why: String,
    },
    /// A pack could not be written.
    #[error("pack {name} could not be written: {why}")]
    Write {
        /// The pack.
        name: PackName,
        /// Why.
        why: String,
    },
}

/// What packs are made with.
#[derive(Clone, Debug)]
pub struct Maker {
    /// Where the shards are.
    pub place: Place,
    /// Where CPU work runs.
    pub cpu: Cpu,
    /// Where tables come from.
    pub tables: Arc<dyn TableSource>,
}

/// What came of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// The packs, in the order of their rows.
    pub packs: Vec<PackName>,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Maker {
    /// Makes the packs of a round and writes them.
    pub async fn make(&self, shard: ShardId, round: &Round) -> Result<Made, MakeError> {
        let inputs = self.open(shard, &round.inputs).await?;
        let mut sizes: BTreeMap<Bucket, u64> = BTreeMap::new();
        for chunk in inputs.iter().flat_map(|input| &input.footer().chunks).filter(|chunk| chunk.rows > 0) {
            *sizes.entry(chunk.bucket_id()).or_default() += u64::from(chunk.len);
        }
        let mut packing =
            Packing { maker: self, shard, round, made: Made::default(), shared: Vec::new(), size: 0 };
        packing.made.read = inputs.iter().map(|input| input.read()).sum();
        let sizes: Vec<(Bucket, u64)> = sizes.into_iter().collect();
        for window in windows(&sizes) {
            let mut sources = self.read(&inputs, window).await?;
            packing.made.read += sources.values().flatten().map(|s| s.bytes.len() as u64).sum::<u64>();
            for (bucket, size) in window {
                let sources = sources.remove(bucket).unwrap_or_default();
                let chunks = self.merge(bucket, sources).await?;
                packing.add(*size >= OWN_BYTES, chunks).await?;
            }
        }
        packing.write_shared().await?;
        Ok(packing.made)
    }

    /// Merges the chunks of a bucket. Those of a table or partition that is dropped are left out.
    async fn merge(
        &self,
        bucket: &Bucket,
        mut sources: Vec<Source>,
    ) -> Result<Vec<(Chunk, Bytes)>, MakeError> {
        sources.sort_by_key(|source| source.chunk.base_offset);
        let newest = sources.iter().map(|source| source.chunk.schema()).max().unwrap_or(SchemaId(1));
        let failed = |why: String| MakeError::Table { table: bucket.table, why };
        if self.tables.kept(bucket).await.map_err(failed)?.is_none() {
            return Ok(Vec::new());
        }
        let Some(table) = self.tables.table(bucket.table, newest).await.map_err(failed)? else {
            return Ok(Vec::new());
        };
        let work = move || merge(&table, sources);
        let merged = self.cpu.run(work).await;
        merged.unwrap_or_else(|| Err("merging panicked".into())).map_err(failed)
    }
}

/// Buckets that are read together.
fn windows(sizes: &[(Bucket, u64)]) -> impl Iterator<Item = &[(Bucket, u64)]> {
    let mut rest = sizes;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(_, size): &&(Bucket, u64)| {
            bytes += size;
            bytes <= WINDOW_BYTES
        };
        let many = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (window, left) = rest.split_at(many);
        rest = left;
        (!window.is_empty()).then_some(window)
    })
}

/// Packs that are being filled.
struct Packing<'a> {
    maker: &'a Maker,
    shard: ShardId,
    round: &'a Round,
    made: Made,
    shared: Vec<(Chunk, Bytes)>,
    size: u64,
}

impl Packing<'_> {
    /// Adds the chunks of the next bucket.
    async fn add(&mut self, own: bool, chunks: Vec<(Chunk, Bytes)>) -> Result<(), MakeError> {
        if !own {
            self.size += bytes_of(&chunks);
            self.shared.extend(chunks);
            return if self.size >= PACK_BYTES { self.write_shared().await } else { Ok(()) };
        }
        let (mut pack, mut size) = (Vec::new(), 0);
        for (chunk, bytes) in chunks {
            size += bytes.len() as u64;
            pack.push((chunk, bytes));
            if size >= PACK_BYTES {
                self.write(FINAL, std::mem::take(&mut pack)).await?;
                size = 0;
            }
        }
        self.write(FINAL, pack).await
    }

    async fn write_shared(&mut self) -> Result<(), MakeError> {
        self.size = 0;
        let chunks = std::mem::take(&mut self.shared);
        self.write(self.round.level, chunks).await
    }

    async fn write(&mut self, level: u32, chunks: Vec<(Chunk, Bytes)>) -> Result<(), MakeError> {
        if chunks.is_empty() {
            return Ok(());
        }
        let Packing { maker, shard, round, .. } = *self;
        let id = PackId::new(&maker.place.env);
        let name = PackName { from: round.from, to: round.to, level, token: round.token, id };
        let header = Header {
            kind: Kind::Pack,
            shard,
            seq: round.from,
            last: round.to,
            token: round.token,
            put_id: id.0,
            time: maker.place.env.now_millis(),
        };
        let pack = seal(header, chunks);
        let object = StoredObject::pack(&maker.place.root, shard, &name);
        let deadline = Instant::now() + PUT_BUDGET;
        let store = maker.place.objects.as_ref();
        match create(store, &object.path, &header, &pack.pieces, deadline).await {
            PutOutcome::Written => {}
            PutOutcome::Taken(_) => {
                return Err(MakeError::Write { name, why: "another object has its name".into() });
            }
            PutOutcome::Unknown(why) => return Err(MakeError::Write { name, why }),
        }
        self.made.written += pack.len() as u64;
        self.made.packs.push(name);
        Ok(())
    }
}

fn bytes_of(chunks: &[(Chunk, Bytes)]) -> u64 {
    chunks.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}
