//! The one place that spawns tasks and moves work to other threads.
//!
//! A simulation runs everything on one thread: tasks on its own runtime, CPU work inline.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

/// Starts a task. It ends by itself or with the runtime.
#[allow(clippy::disallowed_methods)]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(future)
}

/// A task that is aborted when its handle is dropped.
#[derive(Debug)]
pub struct Owned(AbortHandle);

impl Owned {
    /// Starts a task that lives no longer than the handle.
    pub fn spawn<F>(future: F) -> Owned
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Owned(spawn(future).abort_handle())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tasks that end together: all are aborted when it is dropped.
#[derive(Debug, Default)]
pub struct Crew(JoinSet<()>);

impl Crew {
    /// Starts one more.
    pub fn spawn(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(future);
    }

    /// Waits until all have ended.
    pub async fn join(mut self) {
        while let Some(ended) = self.0.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task ended by itself");
            }
        }
    }
}

/// Where CPU work runs: encoding, compression, statistics.
#[derive(Clone, Debug)]
pub struct Cpu(Option<Arc<rayon::ThreadPool>>);

/// Why a pool has no threads.
pub use rayon::ThreadPoolBuildError as ThreadsError;

impl Cpu {
    /// A pool of so many threads, named `wadi-cpu-N`.
    pub fn pool(threads: usize) -> Result<Cpu, ThreadsError> {
        let name = |i| format!("wadi-cpu-{i}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build()?;
        Ok(Cpu(Some(Arc::new(pool))))
    }

    /// Work runs at once on the caller's thread, for simulations.
    pub fn inline() -> Cpu {
        Cpu(None)
    }

    /// Runs `work` there. `None` if it panicked, which is a fault that must not take the caller's shard along.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let Some(pool) = &self.0 else { return Some(work()) };
        let (tell, told) = oneshot::channel();
        // The caller may have gone; then nobody needs the result.
        pool.spawn(move || drop(tell.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)))));
        told.await.ok()?.ok()
    }
}
