//! What only a store of one process can get into.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use tokio::time::Instant;
use wadi_meta::embedded::{EmbeddedOptions, EmbeddedStore, Place};
use wadi_meta::{Compare, MetaErrorKind, MetaStore, Revision, Txn, WatchEvent};

use crate::fixture::{commit, open_local, value};
use crate::object_store_probe::Probe;
use crate::watches::{changes, watch_from_now};

const TTL: Duration = Duration::from_secs(10);

async fn open_remote(objects: &Arc<impl ObjectStore>) -> EmbeddedStore {
    let options = EmbeddedOptions::new("meta", Place::Remote);
    EmbeddedStore::open(Arc::clone(objects) as _, options).await.unwrap()
}

/// Commits some transactions and returns what the store then holds.
async fn fill(store: &EmbeddedStore) -> wadi_meta::Listing {
    for number in 0..20u8 {
        commit(store, Txn::new().put(format!("k{number}"), vec![number; 10]).put("last", vec![number])).await;
    }
    commit(store, Txn::new().delete("k7")).await;
    store.list("").await.unwrap()
}

#[tokio::test]
async fn a_second_process_on_a_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_local(&dir).await;
    let files = object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let place = Place::Local { root: dir.path().to_owned() };
    let second = EmbeddedStore::open(Arc::new(files), EmbeddedOptions::new("meta", place)).await;
    let message = second.unwrap_err().to_string();
    assert!(message.contains("in use by another process"), "{message}");
    assert!(message.contains(&std::process::id().to_string()), "{message}");
    // The first has not noticed.
    commit(&store, Txn::new().put("k", "1")).await;
}

#[tokio::test]
async fn the_lock_lasts_as_long_as_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_local(&dir).await;
    let session = store.session(TTL).await.unwrap();
    drop(store);
    session.hold().await.unwrap();
    let files = object_store::local::LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let place = Place::Local { root: dir.path().to_owned() };
    let second = EmbeddedStore::open(Arc::new(files), EmbeddedOptions::new("meta", place)).await;
    assert!(second.is_err());
    drop(session);
    open_local(&dir).await;
}

#[tokio::test]
async fn a_directory_keeps_what_was_committed_and_ends_sessions() {
    for clean in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let store = open_local(&dir).await;
        let before = fill(&store).await;
        let session = store.session(TTL).await.unwrap();
        commit(&store, Txn::new().put_in(session.id(), "mine", "1")).await;
        if clean {
            store.close().await.unwrap();
            assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::Closed);
        }
        drop((store, session));
        let store = open_local(&dir).await;
        let after = store.list("").await.unwrap();
        assert_eq!(after.entries, before.entries, "clean: {clean}");
        assert!(after.revision > before.revision);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_close_a_start_waits_for_nobody_and_after_a_crash_one_ttl() {
    let objects = Arc::new(InMemory::new());
    let mut last = Revision(0);
    for clean in [true, false, false, true] {
        let store = open_remote(&objects).await;
        let before = fill(&store).await;
        assert!(before.revision > last);
        let session = store.session(2 * TTL).await.unwrap();
        last = commit(&store, Txn::new().put_in(session.id(), "mine", "1")).await;
        if clean {
            store.close().await.unwrap();
            store.close().await.unwrap();
            assert_eq!(store.get("last").await.unwrap_err().kind(), MetaErrorKind::Closed);
            assert!(session.is_lost());
        }
        drop((store, session));
        let start = Instant::now();
        let store = open_remote(&objects).await;
        let waited = start.elapsed();
        // The longest session counts.
        assert_eq!(waited >= 2 * TTL, !clean, "waited {waited:?}, clean: {clean}");
        assert_eq!(store.list("").await.unwrap().entries, before.entries);
        store.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_start_fences_the_earlier_process() {
    let objects = Arc::new(InMemory::new());
    let first = open_remote(&objects).await;
    let session = first.session(TTL).await.unwrap();
    let claimed = commit(&first, Txn::new().put_in(session.id(), "claim", "first")).await;
    let mut watch = watch_from_now(&first, "").await;

    let opening = open_remote(&objects);
    tokio::pin!(opening);
    let start = Instant::now();
    let second = loop {
        tokio::select! {
            biased;
            second = &mut opening => break second,
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                // Whatever the first still promises ends before the second serves.
                if let Ok(deadline) = session.hold().await {
                    assert!(deadline < start + TTL);
                }
            }
        }
    };
    assert!(Instant::now() >= start + TTL);
    for _ in 0..2 {
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::Fenced);
        assert_eq!(first.get("claim").await.unwrap_err().kind(), MetaErrorKind::Fenced);
        assert_eq!(first.list("").await.unwrap_err().kind(), MetaErrorKind::Fenced);
        let late = first.txn(Txn::new().put("late", "1")).await;
        assert_eq!(late.unwrap_err().kind(), MetaErrorKind::Fenced);
        assert_eq!(first.watch("", claimed).await.unwrap_err().kind(), MetaErrorKind::Fenced);
    }
    assert_eq!(watch.next().await.unwrap_err().kind(), MetaErrorKind::Fenced);
    session.lost().await;
    assert!(value(&second, "late").await.is_none());
    let taken = commit(&second, Txn::new().when(Compare::absent("claim")).put("claim", "second")).await;
    assert!(taken.0 >> 24 > claimed.0 >> 24, "{taken} is not of a later epoch than {claimed}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_fenced_process_is_not_believed() {
    let objects = Arc::new(InMemory::new());
    let first = open_remote(&objects).await;
    commit(&first, Txn::new().put("k", "1")).await;
    let second = open_remote(&objects).await;
    commit(&second, Txn::new().delete("k")).await;
    let stale = first.txn(Txn::new().when(Compare::absent("k")).put("k", "2")).await;
    assert_eq!(stale.unwrap_err().kind(), MetaErrorKind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn an_idle_process_learns_that_it_was_fenced() {
    let objects = Arc::new(InMemory::new());
    let first = open_remote(&objects).await;
    let session = first.session(TTL).await.unwrap();
    let _second = open_remote(&objects).await;
    let start = Instant::now();
    session.lost().await;
    assert!(start.elapsed() <= Duration::from_secs(61));
    assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::Fenced);
}

#[tokio::test(start_paused = true)]
async fn an_idle_store_writes_nothing_and_a_held_session_little() {
    let objects = Probe::new();
    let store = open_remote(&objects).await;
    let session = store.session(TTL).await.unwrap();
    fill(&store).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let (writes, reads) = (objects.writes.load(Ordering::Relaxed), objects.reads.load(Ordering::Relaxed));
    let hours = 6;
    tokio::time::sleep(Duration::from_secs(hours * 3600)).await;
    let idle_writes = objects.writes.load(Ordering::Relaxed) - writes;
    let idle_reads = objects.reads.load(Ordering::Relaxed) - reads;
    // The collector may move its mark once.
    assert!(idle_writes <= 2, "{idle_writes} writes in {hours} idle hours");
    assert!(idle_reads < hours * 60 * 10, "{idle_reads} reads in {hours} idle hours");

    let writes = objects.writes.load(Ordering::Relaxed);
    for _ in 0..600 {
        session.hold().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held_writes = objects.writes.load(Ordering::Relaxed) - writes;
    assert!((6..=14).contains(&held_writes), "{held_writes} writes in a minute");
}

#[tokio::test(start_paused = true)]
async fn thousands_of_transactions_are_compacted_and_come_back() {
    let objects = Arc::new(InMemory::new());
    let store = open_remote(&objects).await;
    for number in 0..4000u32 {
        commit(&store, Txn::new().put(format!("k{}", number % 50), number.to_string())).await;
        if number % 250 == 0 {
            // Time for the compactor, which looks once a minute.
            tokio::time::sleep(Duration::from_secs(120)).await;
        }
    }
    let before = store.list("").await.unwrap();
    assert_eq!(before.entries.len(), 50);
    drop(store);
    let store = open_remote(&objects).await;
    assert_eq!(store.list("").await.unwrap().entries, before.entries);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_storage_does_not_confirm_is_unknown_and_decided_later() {
    let objects = Probe::new();
    let store = open_remote(&objects).await;
    commit(&store, Txn::new().put("k", "1")).await;
    let mut watch = watch_from_now(&store, "").await;
    objects.stick(true);
    let late = store.txn(Txn::new().put("k", "2")).await;
    assert_eq!(late.unwrap_err().kind(), MetaErrorKind::Unknown);
    // Not durable, so not visible; and nobody who came after has been served on top of it.
    assert_eq!(value(&store, "k").await.unwrap(), "1");
    let next = store.txn(Txn::new().put("k", "never")).await;
    assert_eq!(next.unwrap_err().kind(), MetaErrorKind::Unknown);
    // Reads rest on the last proof of life; when that is old, they cannot be answered either.
    assert_eq!(store.get("k").await.unwrap_err().kind(), MetaErrorKind::Unavailable);
    objects.stick(false);
    let WatchEvent::Changes { changes, .. } = watch.next().await.unwrap() else { panic!("a reset") };
    assert!(matches!(&changes[..], [wadi_meta::Change::Put(kv)] if kv.value == "2"));
    assert_eq!(value(&store, "k").await.unwrap(), "2");
    commit(&store, Txn::new().put("k", "3")).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_only_a_watch_that_missed_something_is_reset() {
    let objects = Arc::new(InMemory::new());
    let store = open_remote(&objects).await;
    let before = fill(&store).await;
    store.close().await.unwrap();
    let store = open_remote(&objects).await;
    let mut behind = store.watch("", Revision(before.revision.0 - 1)).await.unwrap();
    let WatchEvent::Reset(listing) = behind.next().await.unwrap() else { panic!("not a reset") };
    assert_eq!(listing.entries, before.entries);
    let mut level = store.watch("", before.revision).await.unwrap();
    commit(&store, Txn::new().put("new", "1")).await;
    assert_eq!(changes(&mut level).await.1, ["new=1"]);
}
