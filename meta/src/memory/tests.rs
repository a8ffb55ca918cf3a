use super::*;
use crate::{Change, WatchEvent};

const TTL: Duration = Duration::from_secs(10);

async fn put_in(store: &MemoryStore, session: &dyn Session, key: &str) {
    store.txn(Txn::new().put_in(session.id(), key, "v")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_as_long_as_it_is_held() {
    let store = MemoryStore::new();
    let session = store.session(TTL).await.unwrap();
    put_in(&store, &*session, "k").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    session.hold().await.unwrap();
    assert!(store.get("k").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_paused_session_is_lost_to_its_holder_before_others_see_it() {
    let store = MemoryStore::new();
    let session = store.session(TTL).await.unwrap();
    put_in(&store, &*session, "k").await;
    store.pause(session.id(), true);
    session.lost().await;
    assert!(store.get("k").await.unwrap().is_some());
    store.pause(session.id(), false);
    assert!(session.hold().await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(store.get("k").await.unwrap().is_none());
    assert!(session.hold().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_session_ends_after_its_ttl_and_watches_see_it_without_any_call() {
    let store = MemoryStore::new();
    let session = store.session(TTL).await.unwrap();
    put_in(&store, &*session, "k").await;
    let start = Instant::now();
    let mut watch = store.watch("", store.list("").await.unwrap().revision).await.unwrap();
    drop(session);
    let event = watch.next().await.unwrap();
    assert!(
        matches!(event, WatchEvent::Changes { changes, .. } if changes == [Change::Delete { key: "k".into() }])
    );
    assert_eq!(Instant::now() - start, TTL);
}

#[tokio::test(start_paused = true)]
async fn an_early_expiry_is_known_to_the_holder_at_its_next_proof() {
    let store = MemoryStore::new();
    let session = store.session(TTL).await.unwrap();
    put_in(&store, &*session, "k").await;
    store.expire(session.id());
    assert!(store.get("k").await.unwrap().is_none());
    assert!(!session.is_lost());
    session.lost().await;
    assert!(session.is_lost());
}

#[tokio::test(start_paused = true)]
async fn reset_watches_makes_live_watches_list_again() {
    let store = MemoryStore::new();
    let mut watch = store.watch("a", Revision(0)).await.unwrap();
    store.txn(Txn::new().put("a", "1").put("b", "1")).await.unwrap();
    store.reset_watches();
    let WatchEvent::Reset(listing) = watch.next().await.unwrap() else { panic!("not a reset") };
    assert_eq!(listing.entries.len(), 1);
    store.txn(Txn::new().put("a", "2")).await.unwrap();
    assert!(matches!(watch.next().await.unwrap(), WatchEvent::Changes { .. }));
}
