//! Transactions.

use std::sync::Arc;

use bytes::Bytes;
use wadi_meta::{
    Compare, KeyValue, MAX_KEY, MAX_OPS, MAX_VALUE, MetaErrorKind, MetaStore, Revision, Txn, TxnOutcome,
};

use crate::fixture::{Fixture, commit, value};

async fn refused(store: &dyn MetaStore, txn: Txn) -> Vec<Option<KeyValue>> {
    match store.txn(txn).await.unwrap() {
        TxnOutcome::Refused(current) => current,
        TxnOutcome::Committed(revision) => panic!("committed at {revision}"),
    }
}

pub(crate) async fn compares_decide(fixture: Fixture) {
    let store = &*fixture.store;
    let first = commit(store, Txn::new().when(Compare::absent("k")).put("k", "1")).await;
    let second = commit(store, Txn::new().when(Compare::present("k")).put("k", "2")).await;
    let holding = [
        Compare::absent("no"),
        Compare::present("k"),
        Compare::created("k", first),
        Compare::modified("k", second),
    ];
    let failing = [
        Compare::absent("k"),
        Compare::present("no"),
        Compare::created("k", second),
        Compare::modified("k", first),
        Compare::created("no", first),
        Compare::modified("no", second),
        // Revision 0 is not a way to say absent.
        Compare::created("no", Revision(0)),
        Compare::modified("no", Revision(0)),
        Compare::created("k", Revision(u64::MAX)),
    ];
    let all = holding.iter().cloned().fold(Txn::new(), Txn::when);
    commit(store, all.clone().put("seen", "")).await;
    for compare in failing {
        let current = refused(store, all.clone().when(compare.clone()).put("k", "3")).await;
        assert_eq!(current.len(), 5);
        assert_eq!(current[4], store.get(compare.key()).await.unwrap(), "{compare:?}");
    }
    assert_eq!(value(store, "k").await.unwrap(), "2");
}

pub(crate) async fn a_transaction_is_all_or_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let made = commit(store, Txn::new().put("a", "1").put("b", "1").put("c", "1")).await;
    let half = Txn::new()
        .when(Compare::modified("a", made))
        .when(Compare::absent("b"))
        .when(Compare::absent("d"))
        .put("a", "2")
        .put("d", "2")
        .delete("c");
    let current = refused(store, half).await;
    let held: Vec<Option<&[u8]>> = current.iter().map(|kv| kv.as_ref().map(|kv| &kv.value[..])).collect();
    assert_eq!(held, [Some(&b"1"[..]), Some(&b"1"[..]), None]);
    let listing = store.list("").await.unwrap();
    assert!(listing.entries.iter().all(|kv| kv.modified == made && kv.value == "1"));
    assert_eq!(listing.entries.len(), 3);

    let whole =
        commit(store, Txn::new().when(Compare::present("a")).put("a", "2").put("d", "2").delete("c")).await;
    let listing = store.list("").await.unwrap();
    let now: Vec<(&str, Revision)> =
        listing.entries.iter().map(|kv| (kv.key.as_str(), kv.modified)).collect();
    assert_eq!(now, [("a", whole), ("b", made), ("d", whole)]);
}

pub(crate) async fn a_contended_counter_ends_exact(fixture: Fixture) {
    const TASKS: u64 = 8;
    const STEPS: u64 = 15;
    commit(&*fixture.store, Txn::new().put("n", "0")).await;
    let tasks = (0..TASKS).map(|_| count_up(Arc::clone(&fixture.store), STEPS));
    futures::future::join_all(tasks).await;
    assert_eq!(value(&*fixture.store, "n").await.unwrap(), (TASKS * STEPS).to_string());
}

async fn count_up(store: Arc<dyn MetaStore>, steps: u64) {
    let mut current = store.get("n").await.unwrap().unwrap();
    let mut done = 0;
    while done < steps {
        let count: u64 = std::str::from_utf8(&current.value).unwrap().parse().unwrap();
        let step =
            Txn::new().when(Compare::modified("n", current.modified)).put("n", (count + 1).to_string());
        match store.txn(step).await.unwrap() {
            TxnOutcome::Committed(revision) => {
                done += 1;
                current.modified = revision;
                current.value = Bytes::from((count + 1).to_string());
            }
            // A refusal tells enough to try again without another read.
            TxnOutcome::Refused(mut now) => current = now.remove(0).unwrap(),
        }
    }
}

pub(crate) async fn revisions_grow_and_are_shared_by_one_transaction(fixture: Fixture) {
    let store = &*fixture.store;
    let mut last = store.list("").await.unwrap().revision;
    for round in 0..10 {
        let revision = commit(store, Txn::new().put("a", "x").put(format!("b{round}"), "x")).await;
        assert!(revision > last);
        last = revision;
        assert_eq!(store.get("a").await.unwrap().unwrap().modified, revision);
        assert_eq!(store.get(&format!("b{round}")).await.unwrap().unwrap().created, revision);
        assert_eq!(store.list("").await.unwrap().revision, revision);
    }
}

pub(crate) async fn a_key_made_again_is_another_key(fixture: Fixture) {
    let store = &*fixture.store;
    let first = commit(store, Txn::new().put("owner", "a")).await;
    commit(store, Txn::new().put("owner", "a again")).await;
    assert_eq!(store.get("owner").await.unwrap().unwrap().created, first);
    commit(store, Txn::new().delete("owner")).await;
    let second = commit(store, Txn::new().when(Compare::absent("owner")).put("owner", "b")).await;
    assert_eq!(store.get("owner").await.unwrap().unwrap().created, second);
    refused(store, Txn::new().when(Compare::created("owner", first)).delete("owner")).await;
}

pub(crate) async fn deleting_nothing_changes_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let before = commit(store, Txn::new().put("a", "1")).await;
    let revision = commit(store, Txn::new().delete("no").delete("neither")).await;
    assert_eq!(revision, before);
    assert_eq!(store.list("").await.unwrap().revision, before);
}

pub(crate) async fn odd_keys_and_values_come_back_as_they_were(fixture: Fixture) {
    let store = &*fixture.store;
    let keys = [
        "/",
        "//a",
        " ",
        "a b",
        "a\0b",
        "\u{1}",
        "ключ",
        "🌧",
        "\u{10ffff}",
        "%2F",
        "a\nb",
        "'\"\\",
        &"k".repeat(MAX_KEY),
    ];
    let values = [vec![], vec![0], (0..=255).collect(), vec![0xff; 1000], b"text".to_vec()];
    for (number, key) in keys.iter().enumerate() {
        commit(store, Txn::new().put(*key, values[number % values.len()].clone())).await;
    }
    for (number, key) in keys.iter().enumerate() {
        assert_eq!(value(store, key).await.unwrap(), values[number % values.len()], "{key:?}");
    }
    let listed = store.list("").await.unwrap().entries;
    let mut sorted = keys.map(str::as_bytes);
    sorted.sort_unstable();
    assert_eq!(listed.iter().map(|kv| kv.key.as_bytes()).collect::<Vec<_>>(), sorted);

    let largest = Bytes::from(vec![0xa5u8; MAX_VALUE]);
    commit(store, Txn::new().put("largest", largest.clone())).await;
    assert_eq!(value(store, "largest").await.unwrap(), largest);
}

pub(crate) async fn what_breaks_a_limit_is_refused(fixture: Fixture) {
    let store = &*fixture.store;
    let before = store.list("").await.unwrap();
    let large = vec![0u8; MAX_VALUE / 2];
    let many = (0..=MAX_OPS).fold(Txn::new(), |txn, number| txn.put(format!("k{number}"), ""));
    let bad = [
        Txn::new().put("", "v"),
        Txn::new().put("k".repeat(MAX_KEY + 1), "v"),
        Txn::new().put("k", vec![0u8; MAX_VALUE + 1]),
        Txn::new().put("a", large.clone()).put("b", large.clone()).put("c", large),
        Txn::new().put("k", "1").delete("k"),
        Txn::new().when(Compare::absent("")).put("k", "v"),
        many,
    ];
    for (number, txn) in bad.into_iter().enumerate() {
        assert_eq!(store.txn(txn).await.unwrap_err().kind(), MetaErrorKind::Invalid, "{number}");
    }
    assert_eq!(store.get("").await.unwrap_err().kind(), MetaErrorKind::Invalid);
    assert_eq!(store.list("").await.unwrap(), before);

    let most = (0..MAX_OPS).fold(Txn::new(), |txn, number| {
        txn.when(Compare::absent(format!("k{number}"))).put(format!("k{number}"), "")
    });
    commit(store, most).await;
}
