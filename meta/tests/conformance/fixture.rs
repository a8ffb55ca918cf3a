//! A fresh store of each kind, and what a check may have to do to it from outside.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use tempfile::TempDir;
use wadi_meta::embedded::{EmbeddedOptions, EmbeddedStore, Place};
use wadi_meta::memory::MemoryStore;
use wadi_meta::{MetaStore, Revision, Txn, TxnOutcome};

use crate::etcd_server::EtcdServer;

pub(crate) struct Fixture {
    /// The store under test.
    pub(crate) store: Arc<dyn MetaStore>,
    backend: Backend,
}

enum Backend {
    Memory(Arc<MemoryStore>),
    Local { _dir: TempDir },
    Remote,
    Etcd(EtcdServer),
}

impl Fixture {
    pub(crate) async fn memory() -> Self {
        let store = Arc::new(MemoryStore::new());
        Self { store: Arc::clone(&store) as _, backend: Backend::Memory(store) }
    }

    pub(crate) async fn local() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open_local(&dir).await;
        Self { store: Arc::new(store), backend: Backend::Local { _dir: dir } }
    }

    pub(crate) async fn remote() -> Self {
        let options = EmbeddedOptions::new("meta", Place::Remote);
        let store = EmbeddedStore::open(Arc::new(InMemory::new()), options).await.unwrap();
        Self { store: Arc::new(store), backend: Backend::Remote }
    }

    pub(crate) async fn etcd_cluster() -> Self {
        let server = EtcdServer::start().await;
        let store = server.connect("test").await;
        Self { store: Arc::new(store), backend: Backend::Etcd(server) }
    }

    /// What makes a second process of the same cluster, for stores that can be shared. Runs on the runtime of that process.
    pub(crate) fn second_process(&self) -> SecondProcess {
        match &self.backend {
            Backend::Memory(store) => SecondProcess::Memory(Arc::clone(store)),
            Backend::Etcd(server) => SecondProcess::Etcd(server.url().to_owned()),
            Backend::Local { .. } | Backend::Remote => panic!("an embedded store belongs to one process"),
        }
    }

    /// Makes the store forget what changed up to now.
    pub(crate) async fn compact(&self) {
        match &self.backend {
            Backend::Memory(store) => store.compact(),
            Backend::Local { .. } | Backend::Remote => {
                let big = Bytes::from(vec![7u8; wadi_meta::MAX_VALUE]);
                for _ in 0..10 {
                    commit(&*self.store, Txn::new().put("filler", big.clone())).await;
                }
            }
            Backend::Etcd(server) => {
                let now = self.store.list("").await.unwrap().revision;
                server.client().await.compact(now.0.cast_signed(), None).await.unwrap();
            }
        }
    }
}

pub(crate) enum SecondProcess {
    Memory(Arc<MemoryStore>),
    Etcd(String),
}

impl SecondProcess {
    pub(crate) async fn connect(self) -> Arc<dyn MetaStore> {
        match self {
            Self::Memory(store) => store,
            Self::Etcd(url) => {
                let options = wadi_meta::etcd::EtcdOptions::new(vec![url], "test");
                Arc::new(wadi_meta::etcd::EtcdStore::connect(options).await.unwrap())
            }
        }
    }
}

pub(crate) async fn open_local(dir: &TempDir) -> EmbeddedStore {
    let files = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let place = Place::Local { root: dir.path().to_owned() };
    EmbeddedStore::open(Arc::new(files), EmbeddedOptions::new("meta", place)).await.unwrap()
}

/// Commits a transaction that must not be refused.
pub(crate) async fn commit(store: &dyn MetaStore, txn: Txn) -> Revision {
    match store.txn(txn).await.unwrap() {
        TxnOutcome::Committed(revision) => revision,
        TxnOutcome::Refused(current) => panic!("refused: {current:?}"),
    }
}

/// The value of a key.
pub(crate) async fn value(store: &dyn MetaStore, key: &str) -> Option<Bytes> {
    store.get(key).await.unwrap().map(|kv| kv.value)
}

/// Fails a check that hangs; far longer than any check takes.
pub(crate) async fn in_time<T>(check: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), check).await.expect("the check hangs")
}
