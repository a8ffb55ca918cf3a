use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::Txn;

fn put(state: &mut State, key: &str, value: &str, session: Option<SessionId>) -> Revision {
    let op = Op::Put { key: key.into(), value: Bytes::copy_from_slice(value.as_bytes()), session };
    commit(state, &[op])
}

fn commit(state: &mut State, ops: &[Op]) -> Revision {
    let revision = Revision(state.revision().0 + 1);
    if let Some(commit) = state.plan(ops, revision) {
        state.apply(commit);
    }
    state.revision()
}

#[test]
fn a_put_keeps_the_created_revision_and_a_delete_ends_it() {
    let mut state = State::default();
    let first = put(&mut state, "k", "1", None);
    let second = put(&mut state, "k", "2", None);
    let kv = state.get("k").unwrap();
    assert_eq!((kv.created, kv.modified), (first, second));
    commit(&mut state, &Txn::new().delete("k").ops);
    let third = put(&mut state, "k", "3", None);
    assert_eq!(state.get("k").unwrap().created, third);
}

#[test]
fn what_is_only_planned_is_not_visible() {
    let state = State::default();
    assert!(state.plan(&Txn::new().put("k", "v").ops, Revision(1)).is_some());
    assert!(state.get("k").is_none());
    assert_eq!(state.revision(), Revision(0));
}

#[test]
fn deleting_nothing_changes_nothing() {
    let state = State::default();
    assert!(state.plan(&Txn::new().delete("k").ops, Revision(1)).is_none());
}

#[test]
fn a_put_without_session_unties_the_key() {
    let mut state = State::default();
    put(&mut state, "a", "1", Some(SessionId(1)));
    put(&mut state, "b", "1", Some(SessionId(1)));
    put(&mut state, "a", "2", None);
    assert_eq!(state.deletes_of(|_| true), Txn::new().delete("b").ops);
    assert!(state.deletes_of(|id| id == SessionId(2)).is_empty());
}

#[test]
fn history_is_bounded_in_bytes_and_says_what_it_forgot() {
    let mut state = State::default();
    let big = "x".repeat(1 << 20);
    let first = put(&mut state, "k", &big, None);
    for _ in 0..20 {
        put(&mut state, "k", &big, None);
    }
    assert!(state.history_bytes <= HISTORY_BYTES);
    assert!(!state.remembers(first));
    let last = state.revision();
    assert!(state.remembers(last));
    state.compact();
    assert!(state.remembers(last));
    assert_eq!(state.history_bytes, 0);
}

#[test]
fn history_is_bounded_in_number() {
    let mut state = State::default();
    for _ in 0..HISTORY_COMMITS + 5 {
        put(&mut state, "k", "", None);
    }
    assert_eq!(state.history.len(), HISTORY_COMMITS);
    assert!(state.remembers(Revision(5)) && !state.remembers(Revision(4)));
}

#[test]
fn a_prefix_is_bytes_not_a_path() {
    let mut state = State::default();
    for key in ["a", "a/", "a/b", "a0", "b", "ä"] {
        put(&mut state, key, "", None);
    }
    let keys =
        |prefix: &str| -> Vec<String> { state.list(prefix).entries.into_iter().map(|kv| kv.key).collect() };
    assert_eq!(keys("a/"), ["a/", "a/b"]);
    assert_eq!(keys("a"), ["a", "a/", "a/b", "a0"]);
    assert_eq!(keys("").len(), 6);
    assert_eq!(keys("ä"), ["ä"]);
}

fn ops() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let op = ("[abc]{1,2}", any::<Option<u8>>()).prop_map(|(key, value)| match value {
        Some(value) => Op::Put { key, value: Bytes::from(vec![value]), session: None },
        None => Op::Delete { key },
    });
    prop::collection::vec(prop::collection::vec(op, 1..4), 0..40)
}

proptest! {
    /// Whoever folds the changes of a prefix, from any revision, has the listing.
    #[test]
    fn the_fold_of_the_changes_is_the_listing(txns in ops(), start in 0usize..40, prefix in "[abc]?") {
        let mut state = State::default();
        let mut seen: BTreeMap<String, KeyValue> = BTreeMap::new();
        let mut after = Revision(0);
        for (number, mut ops) in txns.into_iter().enumerate() {
            ops.sort_by(|a, b| a.key().cmp(b.key()));
            ops.dedup_by(|a, b| a.key() == b.key());
            if number == start {
                let listing = state.list(&prefix);
                after = listing.revision;
                seen = listing.entries.into_iter().map(|kv| (kv.key.clone(), kv)).collect();
            }
            commit(&mut state, &ops);
        }
        while let Some((revision, changes)) = state.next_change(&prefix, after) {
            prop_assert!(revision > after);
            after = revision;
            for change in changes {
                match change {
                    Change::Put(kv) => { seen.insert(kv.key.clone(), kv); }
                    Change::Delete { key } => { prop_assert!(seen.remove(&key).is_some()); }
                }
            }
        }
        prop_assert_eq!(seen.into_values().collect::<Vec<_>>(), state.list(&prefix).entries);
    }
}
