//! Threads and tasks of the commands. The command line stands outside the simulation, so it may start them itself;
//! this is the one place that does.

use crate::failure::Failure;

/// Runs work that blocks or computes on a thread of its own.
#[allow(clippy::disallowed_methods, reason = "see the module's text")]
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Failure::new(format!("a part of the command ended by itself: {error}"))),
    }
}
