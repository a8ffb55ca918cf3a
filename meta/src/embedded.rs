//! The store of a single process: one SlateDB database on a directory or in a bucket, and no server beside it.
//!
//! All keys are also in memory (metadata is small), so a read asks no storage. One [writer](writer) task changes them, one
//! transaction after the other: it writes a batch to SlateDB's log, waits until it is durable, and only then shows it.
//! An idle store writes nothing.
//!
//! **Who is the one process?** There are two cases, see [`Place`]:
//!
//! * *Local*: a lock on a file. A second process is refused; the lock falls with the process, however that ends. So a
//!   process that runs is the holder, and its sessions need no proof of life.
//! * *Remote*: the later start wins. Opening fences the earlier process in SlateDB's log: no write of it can become durable
//!   any more. Its reads and sessions rest on its last durable write, and hold for one TTL from before that was sent; after
//!   that they need a new one, which a fenced process cannot make. The later process waits for one TTL after the fence
//!   before it answers anything, unless the earlier one closed cleanly.
//!
//! | what happens | then |
//! | --- | --- |
//! | crash | every committed transaction is there at the next start; session keys are deleted, no session survives |
//! | the later process starts while the earlier is paused | the earlier finds `Fenced` at its next write, or within a minute |
//! | storage is slow or away | a transaction ends `Unknown` after its timeout; the writer goes on, and decides it |
//! | the database fails for good | everything ends `Internal`; transactions that were committed are safe |
//!
//! Revisions are `epoch << 24` plus a count, where the epoch is SlateDB's and grows with each start. So a process that
//! was fenced, and does not know it, never gives out a revision that its successor uses too.

mod clock;
mod codec;
mod lock;
mod open;
mod session;
mod settings;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::session::validate_ttl;
use crate::state::Shared;
use crate::task::Task;
use crate::txn::validate_key;
use crate::{KeyValue, Listing, MetaError, MetaStore, Revision, Session, Txn, TxnOutcome, Watch};
use lock::LockFile;
use session::{EmbeddedSession, Proof};
use writer::{Command, Reply};

/// How long a caller waits for the writer.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long closing may take: it writes a memtable, and waits for a compaction that runs.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// What keeps a second process out.
#[derive(Debug, Clone)]
pub enum Place {
    /// A directory of this machine: a second process is refused.
    Local {
        /// The directory that holds everything of the cluster; the lock is the file `LOCK` in it.
        root: PathBuf,
    },
    /// A bucket: a later start takes over, and the earlier process fails `Fenced`.
    Remote,
}

/// Where and how to open an [`EmbeddedStore`].
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The path of the database in the object store, for example `meta`.
    pub path: String,
    /// What keeps a second process out.
    pub place: Place,
    /// Remote: how long reads may rest on the last durable write, and how long a later start waits at least, if this
    /// process does not close cleanly.
    pub ttl: Duration,
}

impl EmbeddedOptions {
    /// The database at `path`, with the usual TTL of 10 s.
    pub fn new(path: impl Into<String>, place: Place) -> Self {
        Self { path: path.into(), place, ttl: Duration::from_secs(10) }
    }
}

/// A [`MetaStore`] for one process.
#[derive(Debug)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
    ttl: Duration,
}

impl EmbeddedStore {
    /// Opens the database, or makes it; ends all earlier sessions. On a directory, give an object store with fsync.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process holds the lock (the message names it), or the storage cannot be reached;
    /// `Fenced` if another process starts at the same time and wins; `Internal` if what is stored cannot be read.
    pub async fn open(store: Arc<dyn ObjectStore>, options: EmbeddedOptions) -> Result<Self, MetaError> {
        validate_ttl(options.ttl)?;
        let lock = match &options.place {
            Place::Local { root } => Some(LockFile::take(root)?),
            Place::Remote => None,
        };
        let opened = open::open(store, &options).await?;
        let inner = Inner {
            shared: Arc::clone(&opened.shared),
            proof: Arc::clone(&opened.proof),
            commands: opened.commands,
            _writer: opened.writer,
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner), ttl: options.ttl })
    }
}

#[async_trait]
impl MetaStore for EmbeddedStore {
    async fn get(&self, key: &str) -> Result<Option<KeyValue>, MetaError> {
        validate_key(key)?;
        self.inner.hold(self.ttl).await?;
        Ok(self.inner.shared.lock().get(key))
    }

    async fn list(&self, prefix: &str) -> Result<Listing, MetaError> {
        self.inner.hold(self.ttl).await?;
        Ok(self.inner.shared.lock().list(prefix))
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, MetaError> {
        txn.validate()?;
        self.inner.call(|reply| Command::Txn { txn, reply }).await.map_err(Late::unknown)?
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Watch, MetaError> {
        self.inner.shared.check()?;
        Ok(self.inner.shared.watch(prefix, after))
    }

    async fn session(&self, ttl: Duration) -> Result<Arc<dyn Session>, MetaError> {
        validate_ttl(ttl)?;
        let id = self
            .inner
            .call(|reply| Command::StartSession { ttl, reply })
            .await
            .map_err(Late::unavailable)??;
        let session = Arc::new(EmbeddedSession::new(Arc::clone(&self.inner), id, ttl));
        session.hold().await?;
        Ok(session)
    }

    async fn close(&self) -> Result<(), MetaError> {
        if self.inner.shared.check().is_err() {
            return Ok(());
        }
        self.inner
            .call_within(CLOSE_TIMEOUT, |reply| Command::Close { reply })
            .await
            .map_err(Late::unavailable)?
    }
}

/// What the store and its sessions share. The lock falls when the last of them is gone.
#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    proof: Arc<Proof>,
    /// Unbounded, but every sender waits for its reply: there are no more commands than callers.
    commands: mpsc::UnboundedSender<Command>,
    _writer: Task,
    _lock: Option<LockFile>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.end(MetaError::closed());
    }
}

impl Inner {
    /// Asks the writer, and waits for its answer for a while.
    async fn call<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<Result<T, MetaError>, Late> {
        self.call_within(CALL_TIMEOUT, command).await
    }

    async fn call_within<T>(
        &self,
        timeout: Duration,
        command: impl FnOnce(Reply<T>) -> Command,
    ) -> Result<Result<T, MetaError>, Late> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(command(reply)).is_err() {
            return Err(Late { timeout });
        }
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) | Err(_) => Err(Late { timeout }),
        }
    }

    /// Confirms that this process still has the store, and returns until when it may believe that, at the given TTL.
    async fn hold(&self, ttl: Duration) -> Result<Instant, MetaError> {
        self.shared.check()?;
        let deadline = self.proof.deadline(ttl);
        let now = Instant::now();
        if now < deadline {
            if deadline - now < ttl / 3 && self.proof.ask_early() {
                // Whoever is busy never waits for a renewal; whoever is idle never comes here.
                let (reply, _) = oneshot::channel();
                let _ = self.commands.send(Command::Renew { behind: deadline, ttl, reply });
            }
            return Ok(deadline);
        }
        self.call(|reply| Command::Renew { behind: deadline, ttl, reply })
            .await
            .map_err(Late::unavailable)??;
        let deadline = self.proof.deadline(ttl);
        if Instant::now() < deadline {
            return Ok(deadline);
        }
        Err(MetaError::unavailable("a proof of life took longer than the time to live"))
    }
}

/// The writer did not answer in time.
struct Late {
    timeout: Duration,
}

impl Late {
    fn unknown(self) -> MetaError {
        MetaError::unknown(format!("a metadata change was not confirmed within {:?}", self.timeout))
    }

    fn unavailable(self) -> MetaError {
        MetaError::unavailable(format!("the metadata database did not answer within {:?}", self.timeout))
    }
}
