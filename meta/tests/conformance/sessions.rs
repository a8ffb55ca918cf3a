//! Sessions.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use wadi_meta::{Compare, MetaErrorKind, Session, SessionId, Txn};

use crate::fixture::{Fixture, SecondProcess, commit, value};
use crate::watches::{changes, watch_from_now};

const TTL: Duration = Duration::from_secs(10);

pub(crate) async fn closing_a_session_deletes_its_keys_at_once(fixture: Fixture) {
    let store = &*fixture.store;
    let session = store.session(TTL).await.unwrap();
    commit(
        store,
        Txn::new().put_in(session.id(), "s/a", "1").put_in(session.id(), "s/b", "1").put("s/c", "1"),
    )
    .await;
    let mut watch = watch_from_now(store, "s/").await;
    let before = Instant::now();
    assert!(session.hold().await.unwrap() > before);
    assert!(session.deadline() <= Instant::now() + TTL);
    session.close().await.unwrap();
    // Read after the close, before the watch is asked: it is not only a matter of time.
    assert!(value(store, "s/a").await.is_none() && value(store, "s/b").await.is_none());
    let (revision, texts) = changes(&mut watch).await;
    assert_eq!(texts, ["-s/a", "-s/b"]);
    let listing = store.list("s/").await.unwrap();
    assert_eq!(listing.entries.iter().map(|kv| kv.key.as_str()).collect::<Vec<_>>(), ["s/c"]);
    assert_eq!(listing.revision, revision);
}

pub(crate) async fn a_closed_session_holds_and_puts_nothing_for_ever(fixture: Fixture) {
    let store = &*fixture.store;
    let session = store.session(TTL).await.unwrap();
    assert!(!session.is_lost());
    session.close().await.unwrap();
    session.lost().await;
    assert!(session.is_lost());
    for _ in 0..3 {
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::SessionLost);
    }
    let claim =
        Txn::new().when(Compare::absent("claim")).put_in(session.id(), "claim", "1").put("beside", "1");
    assert_eq!(store.txn(claim).await.unwrap_err().kind(), MetaErrorKind::SessionLost);
    assert!(store.list("").await.unwrap().entries.is_empty());
    session.close().await.unwrap();
    let next = store.session(TTL).await.unwrap();
    assert_ne!(next.id(), session.id());
}

pub(crate) async fn sessions_end_each_for_itself(fixture: Fixture) {
    let store = &*fixture.store;
    let (one, two) = (store.session(TTL).await.unwrap(), store.session(TTL).await.unwrap());
    commit(store, Txn::new().put_in(one.id(), "one", "").put_in(two.id(), "two", "")).await;
    // A key belongs to the session of its last put.
    commit(store, Txn::new().put_in(one.id(), "moved", "")).await;
    commit(store, Txn::new().put_in(two.id(), "moved", "")).await;
    one.close().await.unwrap();
    let keys: Vec<String> = store.list("").await.unwrap().entries.into_iter().map(|kv| kv.key).collect();
    assert_eq!(keys, ["moved", "two"]);
    two.hold().await.unwrap();
}

pub(crate) async fn an_untied_key_outlives_the_session(fixture: Fixture) {
    let store = &*fixture.store;
    let session = store.session(TTL).await.unwrap();
    commit(store, Txn::new().put_in(session.id(), "k", "1")).await;
    commit(store, Txn::new().put("k", "2")).await;
    session.close().await.unwrap();
    assert_eq!(value(store, "k").await.unwrap(), "2");
}

pub(crate) async fn a_ttl_out_of_bounds_is_refused(fixture: Fixture) {
    for ttl in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(86_400)] {
        assert_eq!(fixture.store.session(ttl).await.unwrap_err().kind(), MetaErrorKind::Invalid);
    }
}

/// What the paused process tells before its pause.
struct Paused {
    session: SessionId,
    deadline: Instant,
}

pub(crate) async fn a_paused_process_loses_its_session_before_others_see_it(fixture: Fixture) {
    let store = &*fixture.store;
    let mut watch = watch_from_now(store, "claim").await;
    let (report, reported) = oneshot::channel();
    let (resume, resumed) = mpsc::channel();
    let process = fixture.second_process();
    let thread =
        std::thread::Builder::new().spawn(move || paused_process(process, report, &resumed)).unwrap();

    let paused = reported.await.unwrap();
    let (claimed, texts) = changes(&mut watch).await;
    assert_eq!(texts, ["claim=1"]);
    let (_, texts) = changes(&mut watch).await;
    assert_eq!(texts, ["-claim"]);
    assert!(Instant::now() > paused.deadline, "others saw the end before the holder's deadline");
    assert_eq!(
        store.txn(Txn::new().put_in(paused.session, "late", "")).await.unwrap_err().kind(),
        MetaErrorKind::SessionLost
    );
    let taken = commit(store, Txn::new().when(Compare::absent("claim")).put("claim", "2")).await;
    assert!(taken > claimed);
    resume.send(()).unwrap();
    thread.join().unwrap();
    assert_eq!(value(store, "claim").await.unwrap(), "2");
}

/// A process with a runtime of its own, of one thread that stops: nothing in it runs meanwhile, as after SIGSTOP.
fn paused_process(process: SecondProcess, report: oneshot::Sender<Paused>, resumed: &mpsc::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = process.connect().await;
        let session: Arc<dyn Session> = store.session(Duration::from_secs(2)).await.unwrap();
        commit(&*store, Txn::new().put_in(session.id(), "claim", "1")).await;
        session.hold().await.unwrap();
        report.send(Paused { session: session.id(), deadline: session.deadline() }).ok().unwrap();
        resumed.recv().unwrap();
        assert!(session.is_lost());
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::SessionLost);
        session.lost().await;
        // Time enough for the keeper to run: nothing brings the session back.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::SessionLost);
    });
}
