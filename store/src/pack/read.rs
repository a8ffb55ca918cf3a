//! The objects of a round: their footers first, then the rows of some buckets at a time, one request for each object.

use std::collections::BTreeMap;
use std::ops::Range;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use wadi_model::{Bucket, ShardId};

use super::merge::Source;
use super::{AHEAD, MakeError, Maker};
use crate::container::{Damaged, Footer};
use crate::log::{ReadError, Tail, read_tail};
use crate::shard::Inputs;
use crate::stored::StoredObject;

/// An object of a round.
#[derive(Debug)]
pub(super) struct Input {
    object: StoredObject,
    tail: Tail,
}

impl Input {
    pub(super) fn footer(&self) -> &Footer {
        &self.tail.footer
    }

    /// Bytes that were read for it so far.
    pub(super) fn read(&self) -> u64 {
        self.tail.read()
    }

    fn damaged(&self, why: impl ToString) -> MakeError {
        MakeError::Read(ReadError::damaged(&self.object.path, Damaged(why.to_string())))
    }

    /// Where the chunks of these buckets lie. Buckets are in order in every object, so they lie side by side.
    fn range(&self, buckets: &[(Bucket, u64)]) -> Option<(Range<usize>, Range<u64>)> {
        let (first, last) = (buckets.first()?.0, buckets.last()?.0);
        let inside = |position: &usize| {
            let chunk = &self.footer().chunks[*position];
            chunk.rows > 0 && (first..=last).contains(&chunk.bucket_id())
        };
        let from = (0..self.footer().chunks.len()).find(inside)?;
        let to = (0..self.footer().chunks.len()).rfind(inside)?;
        Some((from..to + 1, self.footer().chunks[from].range().start..self.footer().chunks[to].range().end))
    }

    /// The chunks of these buckets.
    async fn chunks(
        &self,
        store: &dyn ObjectStore,
        buckets: &[(Bucket, u64)],
    ) -> Result<Vec<Source>, MakeError> {
        let Some((positions, range)) = self.range(buckets) else { return Ok(Vec::new()) };
        let bytes = self.tail.range(store, range.clone()).await?;
        let mut sources = Vec::with_capacity(positions.len());
        for chunk in self.footer().chunks[positions].iter().filter(|chunk| chunk.rows > 0) {
            let at = (chunk.range().start - range.start) as usize;
            let end = at + chunk.len as usize;
            if end > bytes.len() {
                return Err(self.damaged("it is shorter than its footer says"));
            }
            let source = Source { chunk: chunk.clone(), bytes: bytes.slice(at..end) };
            source.verify().map_err(|why| self.damaged(why))?;
            sources.push(source);
        }
        Ok(sources)
    }
}

impl Maker {
    /// Reads the footers of a round's objects.
    pub(super) async fn open(&self, shard: ShardId, inputs: &Inputs) -> Result<Vec<Input>, MakeError> {
        let root = &self.place.root;
        let objects: Vec<StoredObject> = match inputs {
            Inputs::Log(log) => log.iter().map(|seq| StoredObject::log(root, shard, *seq)).collect(),
            Inputs::Packs(names) => names.iter().map(|name| StoredObject::pack(root, shard, name)).collect(),
        };
        let reads: Vec<_> =
            objects.into_iter().map(|object| open(self.place.objects.as_ref(), object)).collect();
        stream::iter(reads).buffered(AHEAD).try_collect().await
    }

    /// Reads the rows of some buckets.
    pub(super) async fn read(
        &self,
        inputs: &[Input],
        buckets: &[(Bucket, u64)],
    ) -> Result<BTreeMap<Bucket, Vec<Source>>, MakeError> {
        let reads: Vec<_> =
            inputs.iter().map(|input| input.chunks(self.place.objects.as_ref(), buckets)).collect();
        let found: Vec<Vec<Source>> = stream::iter(reads).buffered(AHEAD).try_collect().await?;
        let mut sources: BTreeMap<Bucket, Vec<Source>> = BTreeMap::new();
        for source in found.into_iter().flatten() {
            sources.entry(source.chunk.bucket_id()).or_default().push(source);
        }
        Ok(sources)
    }
}

async fn open(store: &dyn ObjectStore, object: StoredObject) -> Result<Input, MakeError> {
    let missing = || MakeError::Missing(object.path.to_string());
    let tail = read_tail(store, &object.path).await?.ok_or_else(missing)?;
    Ok(Input { tail, object })
}
