//! The objects of a round: their footers first, then the rows of some buckets at a time, one request for each object.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange};
use wadi_model::{Bucket, ShardId};

use super::merge::Source;
use super::{
    AHEAD, Bytes, Damaged, Inputs, LogSeq, MakeError, Maker, ObjectStore, ObjectStoreExt, ReadError,
    StoredObject,
};
use crate::container::{Footer, HEADER_LEN, TAIL_BYTES, TRAILER_LEN, Trailer};

/// An object of a round.
#[derive(Debug)]
pub(super) struct Input {
    place: StoredObject,
    pub footer: Arc<Footer>,
    /// Its end, from which the footer was read. Small objects are there as a whole.
    tail: Bytes,
    size: u64,
}

impl Input {
    /// Bytes that were read for it so far.
    pub(super) fn read(&self) -> u64 {
        self.tail.len() as u64
    }

    fn damaged(&self, why: impl ToString) -> MakeError {
        MakeError::Read(ReadError::damaged(&self.place.path, Damaged(why.to_string())))
    }

    /// Where the chunks of these buckets lie. Buckets are in order in every object, so they lie side by side.
    fn range(&self, buckets: &[(Bucket, u64)]) -> Option<(Range<usize>, Range<u64>)> {
        let (first, last) = (buckets.first()?.0, buckets.last()?.0);
        let inside = |position: &usize| {
            let chunk = &self.footer.chunks[*position];
            chunk.rows > 0 && (first..=last).contains(&chunk.bucket_id())
        };
        let from = (0..self.footer.chunks.len()).find(inside)?;
        let to = (0..self.footer.chunks.len()).rfind(inside)?;
        Some((from..to + 1, self.footer.chunks[from].range().start..self.footer.chunks[to].range().end))
    }

    /// The chunks of these buckets.
    async fn chunks(
        &self,
        store: &dyn ObjectStore,
        buckets: &[(Bucket, u64)],
    ) -> Result<Vec<Source>, MakeError> {
        let Some((positions, range)) = self.range(buckets) else { return Ok(Vec::new()) };
        let tail_start = self.size - self.tail.len() as u64;
        let bytes = match range.start.checked_sub(tail_start) {
            Some(at) => self.tail.slice(at as usize..(range.end - tail_start) as usize),
            None => store
                .get_range(&self.place.path, range.clone())
                .await
                .map_err(|source| ReadError::Store { path: self.place.path.clone(), source })?,
        };
        let mut sources = Vec::with_capacity(positions.len());
        for chunk in self.footer.chunks[positions].iter().filter(|chunk| chunk.rows > 0) {
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
        let places: Vec<StoredObject> = match inputs {
            Inputs::Log(log) => log.iter().map(|seq: &LogSeq| StoredObject::log(root, shard, *seq)).collect(),
            Inputs::Packs(names) => names.iter().map(|name| StoredObject::pack(root, shard, name)).collect(),
        };
        let reads: Vec<_> =
            places.into_iter().map(|place| open(self.place.objects.as_ref(), place)).collect();
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

async fn open(store: &dyn ObjectStore, place: StoredObject) -> Result<Input, MakeError> {
    let failed = |source| ReadError::Store { path: place.path.clone(), source };
    let suffix = GetOptions { range: Some(GetRange::Suffix(TAIL_BYTES)), ..GetOptions::default() };
    let found = store.get_opts(&place.path, suffix).await.map_err(failed)?;
    let size = found.meta.size;
    let mut tail = found.bytes().await.map_err(failed)?;
    let parse = |e| ReadError::damaged(&place.path, e);
    let trailer = Trailer::read(&tail).map_err(parse)?;
    let end = (TRAILER_LEN as u64) + u64::from(trailer.footer_len);
    if size < end + HEADER_LEN as u64 {
        return Err(parse(Damaged("the footer is longer than the object".into())).into());
    }
    if end > tail.len() as u64 {
        tail = store.get_range(&place.path, size - end..size).await.map_err(failed)?;
    }
    let footer = tail.len() - end as usize..tail.len() - TRAILER_LEN;
    let footer = trailer.footer(&tail.slice(footer)).map_err(parse)?;
    Ok(Input { footer: Arc::new(footer), tail, size, place })
}
