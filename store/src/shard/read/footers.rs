//! The footers that a log read needs: of objects in the view from there, of others from SlateDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::super::Shared;
use super::{LogReadError, internal};
use crate::container::Footer;
use crate::keys::index::IndexedChunk;
use crate::keys::{object, pack};
use crate::stored::{ObjectId, StoredObject};

/// Footers that are loaded at once. Without cached blocks each is a few requests.
const FOOTERS_AHEAD: usize = 16;

/// An object that rows are read from.
#[derive(Debug)]
pub(super) struct Opened {
    pub place: StoredObject,
    pub footer: Arc<Footer>,
}

/// Objects that are about to be needed, opened several at once.
#[derive(Default)]
pub(super) struct Footers(BTreeMap<ObjectId, Arc<Opened>>);

impl Footers {
    /// The object of the first of these chunks; those of the next ones are opened with it.
    pub(super) async fn of(
        &mut self,
        shared: &Shared,
        chunks: &[IndexedChunk],
    ) -> Result<Arc<Opened>, LogReadError> {
        let Some(first) = chunks.first().map(IndexedChunk::object) else {
            return Err(internal("no chunk was asked for"));
        };
        if let Some(opened) = self.0.get(&first) {
            return Ok(opened.clone());
        }
        let mut ids: Vec<ObjectId> = chunks.iter().take(FOOTERS_AHEAD).map(IndexedChunk::object).collect();
        // A bucket's chunks of one pack stand side by side.
        ids.dedup();
        let loads: Vec<_> = ids.into_iter().map(|id| open(shared, id)).collect();
        let loaded: Vec<Arc<Opened>> = stream::iter(loads).buffered(FOOTERS_AHEAD).try_collect().await?;
        self.0 = loaded.into_iter().map(|opened| (opened.place.id, opened)).collect();
        self.0.get(&first).cloned().ok_or_else(|| internal("a footer was not loaded"))
    }
}

async fn open(shared: &Shared, id: ObjectId) -> Result<Arc<Opened>, LogReadError> {
    let (root, shard) = (&shared.context.root, shared.claim.shard());
    // An entry that is gone was there when the index was read: the rows lie elsewhere now.
    let moved = || LogReadError::Moved(id.to_string());
    let opened = match id {
        ObjectId::Log(seq) => {
            let place = StoredObject::log(root, shard, seq);
            match shared.view.object(seq) {
                Some((footer, _)) => Opened { place, footer },
                None => {
                    let stored = shared.db.get(object::key(seq)).await?.ok_or_else(moved)?;
                    Opened { place, footer: Arc::new(object::decode(&stored).map_err(internal)?) }
                }
            }
        }
        ObjectId::Pack(pack) => {
            let stored = shared.db.get(pack::contents_key(pack)).await?.ok_or_else(moved)?;
            let (name, footer) = pack::decode_contents(&stored).map_err(internal)?;
            Opened { place: StoredObject::pack(root, shard, &name), footer: Arc::new(footer) }
        }
    };
    Ok(Arc::new(opened))
}
