//! Footers of log objects, from the view or from SlateDB.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use wadi_model::LogSeq;

use super::super::Shared;
use super::{LogReadError, internal};
use crate::container::Footer;
use crate::keys::index::IndexedChunk;
use crate::keys::object;

/// Footers that are loaded at once. Without cached blocks each is a few requests.
const FOOTERS_AHEAD: usize = 16;

/// Footers that are about to be needed, loaded several at once.
#[derive(Default)]
pub(super) struct Footers(BTreeMap<LogSeq, Arc<Footer>>);

impl Footers {
    /// The footer of the first of these chunks; those of the next ones are loaded with it.
    pub(super) async fn of(
        &mut self,
        shared: &Shared,
        chunks: &[IndexedChunk],
    ) -> Result<Arc<Footer>, LogReadError> {
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
