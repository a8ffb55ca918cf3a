//! Whether this gateway can write. One that cannot, while others may, gives its shards away.
//!
//! ```text
//! well ── a write failed, and none has succeeded for `unwell_after` ──▶ unwell ── WELL writes in a row succeed ──▶ well
//! ```
//! A gateway that is well asks nothing of the object store; once a write has failed it tries others by itself, at one object that all
//! gateways share, because nobody else may try any more. While it is unwell it answers requests with the help of the others'
//! shards, and is not given any of its own unless all gateways are unwell (`assignment`).

use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::time::sleep;

use super::Inner;

/// Writes that only try are sent so often in the time after which a gateway is unwell.
const TRIES: u32 = 10;

/// So many in a row must succeed before an unwell gateway is well again.
const WELL: u32 = 3;

/// What is written, relative to the root.
const PROBE: &str = "PROBE";

/// Watches over the gateway for ever, and keeps `Inner::unwell` true.
pub(super) async fn watch(inner: Arc<Inner>) {
    let mut unwritten = inner.context.health.unwritten();
    let unwell_after = inner.context.settings.unwell_after;
    let pause = unwell_after / TRIES;
    loop {
        if unwritten.wait_for(Option::is_some).await.is_err() {
            return;
        }
        loop {
            let failing = unwritten.borrow_and_update().clone();
            let Some(failing) = failing else { break };
            if failing.since.elapsed() >= unwell_after {
                be_unwell(&inner, failing.error, pause).await;
                break;
            }
            tokio::select! {
                biased;
                changed = unwritten.changed() => if changed.is_err() { return },
                () = sleep(pause) => { try_to_write(&inner).await; }
            }
        }
    }
}

/// Says that the gateway is unwell until it is well again.
async fn be_unwell(inner: &Inner, why: String, pause: Duration) {
    tracing::warn!(why, "nothing can be written; the shards are given to other gateways, if there are any");
    inner.unwell.send_replace(Some(why));
    let mut succeeded = 0;
    while succeeded < WELL {
        sleep(pause).await;
        succeeded = if try_to_write(inner).await { succeeded + 1 } else { 0 };
    }
    tracing::info!("writes succeed again");
    inner.unwell.send_replace(None);
}

/// Whether a write succeeds. Its outcome is noted by the store itself too.
async fn try_to_write(inner: &Inner) -> bool {
    let context = &inner.context;
    let path = Path::from(format!("{}/{PROBE}", context.root));
    context
        .objects
        .put(&path, PutPayload::from_static(b"written by a gateway that could not write\n"))
        .await
        .is_ok()
}
