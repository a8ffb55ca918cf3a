//! Listings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use wadi_meta::Txn;

use crate::fixture::{Fixture, commit};

pub(crate) async fn a_list_is_one_moment(fixture: Fixture) {
    // More keys than one page of etcd has, all changed together.
    const ROUNDS: u32 = 40;
    let store = Arc::clone(&fixture.store);
    for half in ["a", "b"] {
        commit(&*store, (0..100).fold(Txn::new(), |txn, key| txn.put(format!("p/{half}{key:03}"), ""))).await;
    }
    let done = AtomicBool::new(false);
    let write = async {
        for round in 0..ROUNDS {
            // The first and the last key, so on two pages.
            let value = Bytes::from(round.to_string());
            commit(&*store, Txn::new().put("p/a000", value.clone()).put("p/b099", value)).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    let read = async {
        let mut last = None;
        while !done.load(Ordering::Relaxed) {
            let listing = fixture.store.list("p/").await.unwrap();
            assert_eq!(listing.entries.len(), 200);
            let (first, final_) = (&listing.entries[0], &listing.entries[199]);
            if !first.value.is_empty() {
                assert_eq!((&first.value, first.modified), (&final_.value, final_.modified));
            }
            assert!(first.modified <= listing.revision);
            assert!(last <= Some(listing.revision));
            last = Some(listing.revision);
            // A store in memory answers without a pause, and the writer needs one.
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write, read);
}

pub(crate) async fn a_long_list_is_whole_and_in_order(fixture: Fixture) {
    let store = &*fixture.store;
    for block in 0..4 {
        let keys = (0..100).map(|key| format!("long/{:03}", block * 100 + key));
        commit(store, keys.fold(Txn::new(), |txn, key| txn.put(key, ""))).await;
    }
    commit(store, Txn::new().put("long0", "").put("lonf", "")).await;
    let listed: Vec<String> =
        store.list("long/").await.unwrap().entries.into_iter().map(|kv| kv.key).collect();
    assert_eq!(listed, (0..400).map(|key| format!("long/{key:03}")).collect::<Vec<_>>());
    assert_eq!(store.list("").await.unwrap().entries.len(), 402);
    assert!(store.list("none").await.unwrap().entries.is_empty());
}
