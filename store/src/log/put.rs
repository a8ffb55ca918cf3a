//! The conditional PUT of a log object, whose outcome is known in the end or said to be unknown.
//!
//! A PUT can time out or fail and still have happened, and object_store's own retries can meet the object that an
//! earlier try made. So an error tells nothing by itself: the header at the name does. Ours (by put id): written.
//! Another's: the slot is taken. None: the same PUT again, which is safe because it carries the same put id. When the
//! budget is spent before the outcome is known, the caller must stop being the owner (see `shard::actor`).

use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};
use tokio::time::Instant;

use super::{ReadError, read_header};
use crate::container::Header;

/// Between two tries, so that a store in trouble is not made worse.
const PAUSE: Duration = Duration::from_millis(100);

/// What became of a PUT.
#[derive(Clone, Debug, PartialEq)]
pub enum PutOutcome {
    /// The object is there, and it is ours.
    Written,
    /// Another object is there.
    Taken(Header),
    /// Nobody can tell within the budget. The object may still appear.
    Unknown(String),
}

/// Creates the object `header` says at `path`, until `deadline`.
pub async fn create(
    store: &dyn ObjectStore,
    path: &Path,
    header: &Header,
    pieces: &[Bytes],
    deadline: Instant,
) -> PutOutcome {
    let mut last = "the time was too short for one try".to_owned();
    loop {
        match within(deadline, put(store, path, pieces)).await {
            None => return PutOutcome::Unknown(last),
            Some(Ok(())) => return PutOutcome::Written,
            Some(Err(error)) => last = error.to_string(),
        }
        // Failed, or exists: what is there?
        loop {
            match within(deadline, read_header(store, path)).await {
                None => return PutOutcome::Unknown(last),
                Some(Ok(Some(found))) if found.put_id == header.put_id => return PutOutcome::Written,
                Some(Ok(Some(found))) => return PutOutcome::Taken(found),
                Some(Ok(None)) => break,
                Some(Err(ReadError::Damaged { source, .. })) => {
                    return PutOutcome::Unknown(source.to_string());
                }
                Some(Err(error)) => last = error.to_string(),
            }
            tokio::time::sleep(PAUSE).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn put(store: &dyn ObjectStore, path: &Path, pieces: &[Bytes]) -> object_store::Result<()> {
    let payload: PutPayload = pieces.iter().cloned().collect();
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    store.put_opts(path, payload, create).await.map(drop)
}

/// The result, unless the deadline comes first. A timeout alone would let work that ends at once be done for ever.
async fn within<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    if Instant::now() >= deadline {
        return None;
    }
    tokio::time::timeout_at(deadline, work).await.ok()
}
