//! The judge of primary-key tables catches changelogs and reads that are wrong, each by the invariant that it breaks.

use wadi_model::PartitionId;

use super::*;
use crate::trace::Trace;

const BUCKET: Bucket = Bucket { table: TableId(1), partition: PartitionId::NONE, bucket: 0 };

/// The change, the key, and the ids in the two columns.
type Row = (ChangeType, i64, Option<i64>, Option<i64>);

use ChangeType::{Delete, Insert, UpdateAfter, UpdateBefore};

/// What is judged: requests, what became of them, the changelog and what reads saw.
struct History {
    checker: Checker,
    log: Vec<Row>,
}

fn op(verb: Verb, key: i64) -> Op {
    Op { key, verb }
}

/// Request 0 puts keys 1 and 2, request 1 writes one column of key 1, request 2 deletes key 2 and a key that is not there.
fn history() -> History {
    let mut checker = Checker::new(Trace::new(false));
    checker.keyed(BUCKET, Rules::default());
    checker.begin_keyed(BUCKET, vec![op(Verb::Put, 1), op(Verb::Put, 2)]);
    checker.begin_keyed(BUCKET, vec![op(Verb::PutOther, 1)]);
    checker.begin_keyed(BUCKET, vec![op(Verb::Delete, 2), op(Verb::Delete, 3)]);
    checker.acked(0, 0, 2, false);
    checker.acked(1, 2, 2, false);
    checker.acked(2, 4, 1, false);
    let (one, two, other) = (Some(first_id(0)), Some(first_id(0) + 1), Some(first_id(1)));
    let log = vec![
        (Insert, 1, one, one),
        (Insert, 2, two, two),
        (UpdateBefore, 1, one, one),
        (UpdateAfter, 1, one, other),
        (Delete, 2, two, two),
    ];
    History { checker, log }
}

impl History {
    fn logged(&self) -> Vec<Entry> {
        let entry = |(change, key, id, other): &Row| {
            let image = Image { id: *id, other: *other, auto: None };
            Entry::Change(Logged { change: *change, key: *key, image })
        };
        self.log.iter().map(entry).collect()
    }

    fn violations(mut self) -> Vec<&'static str> {
        let entries = self.logged();
        self.checker.read(BUCKET, 0, &entries, "r");
        self.checker.finish(&BTreeMap::from([(BUCKET, entries.len() as u64)]));
        self.checker.violations().iter().map(|v| v.invariant).collect()
    }

    fn saw(mut self, between: (u64, u64), seen: Seen) -> Vec<&'static str> {
        self.checker.looked(BUCKET, between, seen, "r");
        self.violations()
    }
}

fn changed(at: usize, row: Row) -> Vec<&'static str> {
    let mut history = history();
    history.log[at] = row;
    history.violations()
}

#[test]
fn a_good_history_passes() {
    assert!(history().violations().is_empty());
}

#[test]
fn images_that_are_not_the_row_before_are_caught() {
    let (one, wrong) = (Some(first_id(0)), Some(first_id(1)));
    assert_eq!(changed(2, (UpdateBefore, 1, one, None)), ["K2"]);
    assert_eq!(changed(4, (Delete, 2, one, wrong)), ["K2"]);
    assert_eq!(changed(1, (UpdateAfter, 2, Some(first_id(0) + 1), Some(first_id(0) + 1))), ["K2"]);
}

#[test]
fn a_partial_update_that_touches_more_is_caught() {
    assert_eq!(changed(3, (UpdateAfter, 1, None, Some(first_id(1)))), ["K4"]);
}

#[test]
fn a_torn_request_is_caught() {
    let mut history = history();
    history.log.truncate(3);
    assert!(history.violations().contains(&"L5"));
}

#[test]
fn an_acked_request_that_is_not_there_is_caught() {
    let mut history = history();
    history.log.truncate(4);
    assert_eq!(history.violations(), ["L1"]);
}

#[test]
fn a_failed_request_that_is_there_and_one_that_is_there_twice_are_caught() {
    let mut failed = history();
    let request = failed.checker.begin_keyed(BUCKET, vec![op(Verb::Put, 5)]);
    failed.checker.failed(request);
    let id = Some(first_id(request));
    failed.log.push((Insert, 5, id, id));
    assert_eq!(failed.violations(), ["L2"]);
    let mut twice = history();
    let (one, id) = (Some(first_id(0)), Some(first_id(1)));
    twice.log.extend([(UpdateBefore, 1, one, id), (UpdateAfter, 1, Some(first_id(0)), Some(first_id(0)))]);
    assert_eq!(twice.violations(), ["L3"]);
}

#[test]
fn requests_in_doubt_may_be_there_or_not() {
    for there in [false, true] {
        let mut history = history();
        let put = history.checker.begin_keyed(BUCKET, vec![op(Verb::Put, 4)]);
        history.checker.begin_keyed(BUCKET, vec![op(Verb::Delete, 4)]);
        if there {
            let id = Some(first_id(put));
            history.log.extend([(Insert, 4, id, id), (Delete, 4, id, id)]);
        }
        assert!(history.violations().is_empty());
    }
    let mut nobody = history();
    let (one, other) = (Some(first_id(0)), Some(first_id(1)));
    nobody.log.push((Delete, 1, one, other));
    assert_eq!(nobody.violations(), ["L4"]);
}

#[test]
fn an_ack_that_says_nothing_changed_must_be_true() {
    for (key, broken) in [(9, None), (1, Some("K1"))] {
        let mut history = history();
        let request = history.checker.begin_keyed(BUCKET, vec![op(Verb::Delete, key)]);
        let end = history.log.len() as u64;
        history.checker.acked(request, end, 0, false);
        assert_eq!(history.violations().first().copied(), broken);
    }
}

#[test]
fn reads_are_held_against_the_fold() {
    let image = |id, other| Some(Image { id: Some(id), other: Some(other), auto: None });
    let (old, new) = (image(first_id(0), first_id(0)), image(first_id(0), first_id(1)));
    assert!(history().saw((2, 2), Seen::Key(1, old)).is_empty());
    assert!(history().saw((2, 4), Seen::Key(1, new)).is_empty());
    assert_eq!(history().saw((4, 5), Seen::Key(1, old)), ["K3"], "stale");
    assert_eq!(history().saw((0, 2), Seen::Key(1, new)), ["K1"], "not yet");
    assert_eq!(
        history().saw((5, 4), Seen::Key(1, new)),
        ["K3"],
        "an owner that does not know of what was acked"
    );
    let state = |rows: &[(i64, Option<Image>)]| {
        Seen::All(rows.iter().filter_map(|(key, image)| Some((*key, (*image)?))).collect())
    };
    let two = image(first_id(0) + 1, first_id(0) + 1);
    assert!(history().saw((2, 5), state(&[(1, new), (2, two)])).is_empty());
    assert!(history().saw((5, 5), state(&[(1, new)])).is_empty());
    assert_eq!(history().saw((0, 5), state(&[(1, old)])), ["K1"], "never at one time");
    assert!(history().saw((2, 2), Seen::Count(2)).is_empty());
    assert_eq!(history().saw((5, 5), Seen::Count(2)), ["K1"], "one was deleted");
    let group = |keys, rows: &[(i64, Option<Image>)]| {
        Seen::Group(keys, rows.iter().filter_map(|(key, image)| Some((*key, (*image)?))).collect())
    };
    assert!(history().saw((2, 5), group(2..9, &[(2, two)])).is_empty());
    assert!(history().saw((5, 5), group(2..9, &[])).is_empty());
    assert_eq!(history().saw((2, 4), group(2..9, &[])), ["K6"], "a row is missing");
    assert_eq!(history().saw((5, 5), group(2..9, &[(2, two)])), ["K6"], "a row that was deleted");
    assert_eq!(history().saw((2, 4), group(0..2, &[(1, old), (2, two)])), ["K6"], "a row of another group");
    // Between the rows of a request nobody may read.
    assert_eq!(history().saw((0, 5), state(&[(1, old), (2, None)])), ["K1"]);
}

#[test]
fn ids_are_given_once_and_kept() {
    let violations = |first: Option<i64>, second: Option<i64>, updated: Option<i64>| {
        let mut checker = Checker::new(Trace::new(false));
        checker.keyed(BUCKET, Rules { auto: true, ..Rules::default() });
        checker.begin_keyed(BUCKET, vec![op(Verb::Ensure, 1), op(Verb::Ensure, 2), op(Verb::Ensure, 1)]);
        checker.begin_keyed(BUCKET, vec![op(Verb::Put, 1)]);
        let image = |id, auto| Image { id, other: id, auto };
        let id = Some(first_id(1));
        let rows = [
            (Insert, 1, image(None, first)),
            (Insert, 2, image(None, second)),
            (UpdateBefore, 1, image(None, first)),
            (UpdateAfter, 1, image(id, updated)),
        ];
        let entries = rows.map(|(change, key, image)| Entry::Change(Logged { change, key, image }));
        checker.read(BUCKET, 0, &entries, "r");
        checker.finish(&BTreeMap::from([(BUCKET, 4)]));
        checker.violations().iter().map(|v| v.invariant).collect::<Vec<_>>()
    };
    assert!(violations(Some(7), Some(9), Some(7)).is_empty());
    assert_eq!(violations(Some(7), Some(7), Some(7)), ["I1"]);
    assert_eq!(violations(Some(7), None, Some(7)), ["I1"]);
    assert!(!violations(Some(7), Some(8), Some(9)).is_empty());
}
