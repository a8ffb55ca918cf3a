//! Watches.

use std::time::Duration;

use futures::FutureExt;
use wadi_meta::{Change, MetaStore, Revision, Txn, Watch, WatchEvent};

use crate::fixture::{Fixture, commit};

/// The next event, which must be changes, as `key=value` or `-key`, sorted.
pub(crate) async fn changes(watch: &mut Watch) -> (Revision, Vec<String>) {
    match watch.next().await.unwrap() {
        WatchEvent::Changes { revision, changes } => {
            let mut texts: Vec<String> = changes.iter().map(text).collect();
            texts.sort();
            (revision, texts)
        }
        WatchEvent::Reset(listing) => panic!("reset to {listing:?}"),
    }
}

fn text(change: &Change) -> String {
    match change {
        Change::Put(kv) => format!("{}={}", kv.key, String::from_utf8_lossy(&kv.value)),
        Change::Delete { key } => format!("-{key}"),
    }
}

pub(crate) async fn watch_from_now(store: &dyn MetaStore, prefix: &str) -> Watch {
    let now = store.list(prefix).await.unwrap().revision;
    store.watch(prefix, now).await.unwrap()
}

pub(crate) async fn each_change_is_seen_once_and_in_order(fixture: Fixture) {
    const CHANGES: u32 = 60;
    let store = &*fixture.store;
    let mut watch = watch_from_now(store, "w/").await;
    let write = async {
        let mut revisions = Vec::new();
        for number in 0..CHANGES {
            revisions.push(commit(store, Txn::new().put("w/k", number.to_string())).await);
            // Not under the prefix, though its key begins alike.
            commit(store, Txn::new().put("w", "x").put("w0", "x")).await;
        }
        revisions
    };
    let read = async {
        let mut seen = Vec::new();
        for number in 0..CHANGES {
            let (revision, texts) = changes(&mut watch).await;
            assert_eq!(texts, [format!("w/k={number}")]);
            seen.push(revision);
        }
        seen
    };
    let (written, seen) = tokio::join!(write, read);
    assert_eq!(written, seen);
    commit(store, Txn::new().put("w/end", "")).await;
    assert_eq!(changes(&mut watch).await.1, ["w/end="]);
}

pub(crate) async fn a_watch_goes_on_where_another_stopped(fixture: Fixture) {
    let store = &*fixture.store;
    let mut watch = watch_from_now(store, "w/").await;
    for number in 0..10 {
        commit(store, Txn::new().put("w/k", number.to_string())).await;
    }
    let mut last = Revision(0);
    for _ in 0..4 {
        last = changes(&mut watch).await.0;
    }
    drop(watch);
    let mut watch = store.watch("w/", last).await.unwrap();
    for number in 4..10 {
        assert_eq!(changes(&mut watch).await.1, [format!("w/k={number}")]);
    }
}

pub(crate) async fn a_transaction_is_one_event(fixture: Fixture) {
    let store = &*fixture.store;
    commit(store, Txn::new().put("w/old", "1")).await;
    let mut watch = watch_from_now(store, "w/").await;
    let revision =
        commit(store, Txn::new().put("w/a", "1").delete("w/old").put("other", "1").put("w/b", "1")).await;
    assert_eq!(changes(&mut watch).await, (revision, vec!["-w/old".into(), "w/a=1".into(), "w/b=1".into()]));
}

pub(crate) async fn a_dropped_wait_loses_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let mut watch = watch_from_now(store, "w/").await;
    let write = async {
        for number in 0..20 {
            commit(store, Txn::new().put("w/k", number.to_string())).await;
        }
    };
    let read = async {
        for number in 0..20 {
            // Polled once and dropped, again and again.
            let (_, texts) = loop {
                match changes(&mut watch).now_or_never() {
                    Some(found) => break found,
                    None => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            };
            assert_eq!(texts, [format!("w/k={number}")]);
        }
    };
    tokio::join!(write, read);
}

pub(crate) async fn after_a_compaction_a_watch_is_reset(fixture: Fixture) {
    let store = &*fixture.store;
    let old = commit(store, Txn::new().put("w/gone", "1").put("w/a", "1")).await;
    commit(store, Txn::new().delete("w/gone").put("w/b", "1").put("other", "1")).await;
    commit(store, Txn::new().put("w/a", "2")).await;
    fixture.compact().await;
    let mut watch = store.watch("w/", old).await.unwrap();
    let WatchEvent::Reset(listing) = watch.next().await.unwrap() else { panic!("not a reset") };
    let held: Vec<String> = listing.entries.iter().map(|kv| text(&Change::Put(kv.clone()))).collect();
    assert_eq!(held, ["w/a=2", "w/b=1"]);
    assert!(listing.revision >= old);
    // Once; then it goes on.
    let next = commit(store, Txn::new().put("w/a", "3")).await;
    assert_eq!(changes(&mut watch).await, (next, vec!["w/a=3".into()]));
}
