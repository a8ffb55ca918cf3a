//! What the object store can do to a shard: fail, hang, and lie about what it did.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::*;

/// A store whose PUTs fail in chosen ways.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    /// All PUTs fail without effect.
    pub(super) read_only: AtomicBool,
    /// The next log PUTs take effect, and say that they failed.
    lose_replies: AtomicUsize,
    /// Log PUTs fail without effect.
    refuse: AtomicBool,
    /// Log PUTs hang without effect.
    hang: AtomicBool,
}

impl Faulty {
    fn new() -> Arc<Faulty> {
        Faulty::over(Arc::new(InMemory::new()))
    }

    pub(super) fn over(inner: Arc<dyn ObjectStore>) -> Arc<Faulty> {
        Arc::new(Faulty {
            inner,
            read_only: AtomicBool::new(false),
            lose_replies: AtomicUsize::new(0),
            refuse: AtomicBool::new(false),
            hang: AtomicBool::new(false),
        })
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

fn failed() -> Error {
    Error::Generic { store: "faulty", source: "503 SlowDown".into() }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.read_only.load(Ordering::SeqCst) {
            return Err(failed());
        }
        if path.as_ref().contains("/log/") {
            if self.hang.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.refuse.load(Ordering::SeqCst) {
                return Err(failed());
            }
            let lose = |n: usize| n.checked_sub(1);
            if self.lose_replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok() {
                self.inner.put_opts(path, payload, options).await?;
                return Err(failed());
            }
        }
        self.inner.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_found_out() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |_| {});
    let shard = world.open().await;
    for i in 0..5 {
        store.lose_replies.store(1, Ordering::SeqCst);
        shard.append(world.part(0, i..i + 1)).await.unwrap();
    }
    assert_eq!(world.read(&shard, 0, 0).await, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_brown_out_shorter_than_the_budget_is_not_noticed() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |_| {});
    let shard = world.open().await;
    store.refuse.store(true, Ordering::SeqCst);
    let append = shard.append(world.part(0, 0..3));
    let heal = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        store.refuse.store(false, Ordering::SeqCst);
    };
    let (appended, ()) = tokio::join!(append, heal);
    appended.unwrap();
    assert_eq!(world.read(&shard, 0, 0).await, [0, 1, 2]);
}

/// Poison: what was in the PUT is in doubt, what came behind it is not written, and both can be sent again.
#[tokio::test(start_paused = true)]
async fn out_of_budget_poisons_the_shard_and_a_retry_completes() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |_| {});
    let shard = world.open().await;
    store.hang.store(true, Ordering::SeqCst);
    let first = shard.append(world.stamped(0, 0..3, "p", 1));
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        shard.append(world.stamped(0, 3..6, "p", 2)).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first, second), (Err(AppendError::OutcomeUnknown), Err(AppendError::NotOwned)));
    store.hang.store(false, Ordering::SeqCst);
    let next = world.open().await;
    assert!(world.read(&next, 0, 0).await.is_empty());
    next.append(world.stamped(0, 0..3, "p", 1)).await.unwrap();
    next.append(world.stamped(0, 3..6, "p", 2)).await.unwrap();
    assert_eq!(world.read(&next, 0, 0).await, [0, 1, 2, 3, 4, 5]);
}

/// The store answers at once, so no timeout ever finds the PUT waiting.
#[tokio::test(start_paused = true)]
async fn a_put_that_is_refused_at_once_ends_with_its_budget() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |_| {});
    let shard = world.open().await;
    store.read_only.store(true, Ordering::SeqCst);
    let append = tokio::time::timeout(Duration::from_secs(60), shard.append(world.part(0, 0..1)));
    assert_eq!(append.await.expect("it ends"), Err(AppendError::OutcomeUnknown));
}

/// The object of a poisoned shard may have landed: then its rows are there, once.
#[tokio::test(start_paused = true)]
async fn a_row_in_doubt_is_there_once_after_a_retry() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |settings| settings.put_budget = Duration::from_millis(1));
    let shard = world.open().await;
    // It lands, the reply is lost, and the budget is over before anybody looked.
    store.lose_replies.store(1, Ordering::SeqCst);
    let claim = shard.claim().clone();
    let append = shard.append(world.stamped(0, 0..3, "p", 1));
    let outcome = append.await;
    claim.give_up();
    let next = world.open().await;
    let again = next.append(world.stamped(0, 0..3, "p", 1)).await.unwrap();
    assert_eq!(again.base_offset, Offset(0));
    assert!(again.again, "the first try had landed: {outcome:?}");
    assert_eq!(world.read(&next, 0, 0).await, [0, 1, 2]);
}

/// F1: a session that ran out while the PUT was under way acks nothing, although the object is durable.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_lease_ran_out_acks_nothing() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |_| {});
    let shard = world.open().await;
    shard.append(world.part(0, 0..1)).await.unwrap();
    shard.claim().give_up();
    assert_eq!(shard.append(world.part(0, 1..2)).await, Err(AppendError::OutcomeUnknown));
    assert!(matches!(world.try_read(&shard, 0, 0).await, Err(LogReadError::NotOwned)));
    // The object landed before anybody else opened the shard, so its rows are part of the log.
    assert_eq!(world.read(&world.open().await, 0, 0).await, [0, 1]);
}

/// Many owners one after the other, some of which never see an append through: dense offsets, each row once.
#[tokio::test(start_paused = true)]
async fn a_storm_of_takeovers_keeps_order_and_rows() {
    let store = Faulty::new();
    let world = World::on(store.clone(), |settings| settings.group_objects = 2);
    let mut acked = BTreeSet::new();
    for round in 0..12u64 {
        let shard = world.open().await;
        for i in 0..3u64 {
            let sequence = round * 3 + i;
            let first = sequence as i64 * 10;
            if round % 3 == 0 && i == 2 {
                store.lose_replies.store(1, Ordering::SeqCst);
            }
            let rival = (round % 4 == 1 && i == 1).then(|| world.open());
            let (appended, _rival) = match rival {
                Some(rival) => {
                    let part = world.stamped(0, first..first + 10, "p", sequence);
                    let (appended, rival) = tokio::join!(shard.append(part), rival);
                    (appended, Some(rival))
                }
                None => (shard.append(world.stamped(0, first..first + 10, "p", sequence)).await, None),
            };
            if appended.is_ok() {
                acked.extend(first..first + 10);
            } else {
                break;
            }
        }
    }
    let shard = world.open().await;
    let read = world.read_all(&shard, 0, 0).await;
    let distinct: BTreeSet<i64> = read.iter().copied().collect();
    assert_eq!(distinct.len(), read.len(), "a row is there twice");
    assert!(acked.is_subset(&distinct), "an acked row is missing");
    assert_eq!(shard.bounds(&world.bucket(0)).high_watermark, Offset(read.len() as u64));
}
