//! What only a store with a server beside it can get into.

use std::time::Duration;

use tokio::time::Instant;
use wadi_meta::etcd::{EtcdOptions, EtcdStore, EtcdTls};
use wadi_meta::{MetaErrorKind, MetaStore, Txn};

use crate::etcd_server::EtcdServer;
use crate::fixture::{commit, in_time, value};
use crate::watches::{changes, watch_from_now};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_misses_nothing_when_etcd_restarts() {
    in_time(async {
        let mut server = EtcdServer::start().await;
        let store = server.connect("test").await;
        let mut watch = watch_from_now(&store, "w/").await;
        for round in 0..3 {
            commit(&store, Txn::new().put("w/k", format!("{round} before"))).await;
            if round != 1 {
                assert_eq!(changes(&mut watch).await.1, [format!("w/k={round} before")]);
            }
            server.kill();
            server.run();
            let other = server.connect("test").await;
            commit(&other, Txn::new().put("w/k", format!("{round} after")).put("beside", "")).await;
            if round == 1 {
                assert_eq!(changes(&mut watch).await.1, ["w/k=1 before"]);
            }
            assert_eq!(changes(&mut watch).await.1, [format!("w/k={round} after")]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_survives_a_short_restart_of_etcd() {
    in_time(async {
        let mut server = EtcdServer::start().await;
        let store = server.connect("test").await;
        let session = store.session(Duration::from_secs(20)).await.unwrap();
        commit(&store, Txn::new().put_in(session.id(), "k", "1")).await;
        let first = session.deadline();
        server.kill();
        server.run();
        while session.deadline() == first {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        session.hold().await.unwrap();
        assert!(value(&store, "k").await.is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_etcd_a_session_is_lost_at_its_deadline_and_stays_lost() {
    in_time(async {
        let mut server = EtcdServer::start().await;
        let store = server.connect("test").await;
        let session = store.session(Duration::from_secs(2)).await.unwrap();
        commit(&store, Txn::new().put_in(session.id(), "k", "1")).await;
        server.kill();
        session.lost().await;
        assert!(Instant::now() >= session.deadline());
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::SessionLost);
        server.run();
        let other = server.connect("test").await;
        let mut watch = other.watch("k", wadi_meta::Revision(0)).await.unwrap();
        assert_eq!(changes(&mut watch).await.1, ["k=1"]);
        assert_eq!(changes(&mut watch).await.1, ["-k"]);
        assert_eq!(session.hold().await.unwrap_err().kind(), MetaErrorKind::SessionLost);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_etcd_a_transaction_is_unknown_and_a_read_unavailable() {
    in_time(async {
        let mut server = EtcdServer::start().await;
        let store = server.connect("test").await;
        commit(&store, Txn::new().put("k", "1")).await;
        server.kill();
        assert_eq!(store.txn(Txn::new().put("k", "2")).await.unwrap_err().kind(), MetaErrorKind::Unknown);
        assert_eq!(store.get("k").await.unwrap_err().kind(), MetaErrorKind::Unavailable);
        assert_eq!(store.list("").await.unwrap_err().kind(), MetaErrorKind::Unavailable);
        assert_eq!(
            store.session(Duration::from_secs(2)).await.unwrap_err().kind(),
            MetaErrorKind::Unavailable
        );
        server.run();
        server.connect("test").await;
        while store.get("k").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        commit(&store, Txn::new().put("k", "3")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusters_under_two_prefixes_see_nothing_of_each_other() {
    in_time(async {
        let server = EtcdServer::start().await;
        let (one, two) = (server.connect("c").await, server.connect("c2/").await);
        let mut watch = watch_from_now(&one, "").await;
        commit(&two, Txn::new().put("k", "two")).await;
        commit(&one, Txn::new().put("k", "one")).await;
        assert_eq!(changes(&mut watch).await.1, ["k=one"]);
        assert_eq!(value(&two, "k").await.unwrap(), "two");
        assert_eq!(one.list("").await.unwrap().entries.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_address_without_etcd_is_named_in_the_error() {
    let mut options = EtcdOptions::new(vec!["http://127.0.0.1:1".into()], "test");
    options.timeout = Duration::from_secs(1);
    options.user = Some(("root".into(), "hunter2".into()));
    assert!(!format!("{options:?}").contains("hunter2"));
    let error = EtcdStore::connect(options).await.unwrap_err();
    assert_eq!(error.kind(), MetaErrorKind::Unavailable);
    assert!(error.to_string().contains("http://127.0.0.1:1"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_both_ends_show_certificates_and_others_are_not_spoken_to() {
    in_time(async {
        let server = EtcdServer::start_with_tls().await;
        let store = server.connect("tls").await;
        let mut watch = watch_from_now(&store, "").await;
        let session = store.session(Duration::from_secs(5)).await.unwrap();
        commit(&store, Txn::new().put_in(session.id(), "k", "1")).await;
        assert_eq!(changes(&mut watch).await.1, ["k=1"]);
        session.close().await.unwrap();
        assert_eq!(value(&store, "k").await, None);

        let refused = async |tls: EtcdTls| {
            let options = EtcdOptions::new(vec![server.url().to_owned()], "tls");
            let options = EtcdOptions { tls, timeout: Duration::from_secs(2), ..options };
            EtcdStore::connect(options).await.unwrap_err()
        };
        let ca = Some(server.tls().ca.clone().into_bytes());
        // Signed by nobody that the system knows; then known, but without a certificate of our own.
        refused(EtcdTls::default()).await;
        refused(EtcdTls { ca, identity: None }).await;
        let rubbish = EtcdTls { ca: Some(b"rubbish".to_vec()), identity: None };
        assert!(refused(rubbish).await.to_string().contains(server.url()));
    })
    .await;
}
