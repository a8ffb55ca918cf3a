//! The one place where this crate starts a task.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A background task that ends when this handle is dropped.
#[derive(Debug)]
pub(crate) struct Task {
    handle: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

/// Starts `future` on the current runtime, in a span of this name.
#[allow(clippy::disallowed_methods)] // The helper that the rule asks for: every task has a name and an owner.
pub(crate) fn spawn(name: &'static str, future: impl Future<Output = ()> + Send + 'static) -> Task {
    let span = tracing::info_span!("task", name);
    Task { handle: tokio::spawn(future.instrument(span)) }
}
