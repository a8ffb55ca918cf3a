//! The checker catches histories that are wrong, each by the invariant that it breaks.

use super::*;

const BUCKET: Bucket = Bucket { table: TableId(1), partition: wadi_model::PartitionId::NONE, bucket: 0 };

/// Two acked requests of three rows, as they should be read: ids of the first, then of the second.
fn history() -> (Checker, Vec<i64>) {
    let mut checker = Checker::new(Trace::new(false));
    let (a, b) = (checker.begin(BUCKET, 3), checker.begin(BUCKET, 3));
    checker.acked(a, 0, 3, false);
    checker.acked(b, 3, 3, false);
    let ids = (0..3).map(|i| first_id(a) + i).chain((0..3).map(|i| first_id(b) + i));
    (checker, ids.collect())
}

fn rows(ids: &[i64]) -> Vec<Entry> {
    ids.iter().map(|id| Entry::Row(*id)).collect()
}

fn finished(mut checker: Checker, end: u64) -> Vec<&'static str> {
    checker.finish(&BTreeMap::from([(BUCKET, end)]));
    checker.violations().iter().map(|v| v.invariant).collect()
}

#[test]
fn a_good_history_passes() {
    let (mut checker, ids) = history();
    checker.read(BUCKET, 0, &rows(&ids), "r");
    checker.read(BUCKET, 2, &rows(&ids[2..]), "again");
    assert!(finished(checker, 6).is_empty());
}

#[test]
fn a_lost_acked_row_is_caught() {
    let (mut checker, ids) = history();
    checker.read(BUCKET, 0, &rows(&ids[..5]), "r");
    assert_eq!(finished(checker, 5), ["L1"]);
}

#[test]
fn a_row_of_a_failed_request_is_caught_before_and_after_it_failed() {
    for early in [false, true] {
        let (mut checker, mut ids) = history();
        let failed = checker.begin(BUCKET, 1);
        ids.push(first_id(failed));
        if early {
            checker.read(BUCKET, 0, &rows(&ids), "r");
            checker.failed(failed);
        } else {
            checker.failed(failed);
            checker.read(BUCKET, 0, &rows(&ids), "r");
        }
        assert!(finished(checker, 7).contains(&"L2"));
    }
}

#[test]
fn a_duplicate_is_caught() {
    let (mut checker, mut ids) = history();
    ids.extend_from_within(0..3);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 9)[0], "L3");
}

#[test]
fn a_second_ack_with_other_offsets_is_caught() {
    let (mut checker, ids) = history();
    checker.acked(0, 3, 3, true);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 6)[0], "L3");
}

#[test]
fn an_offset_that_changes_its_row_is_caught() {
    let (mut checker, ids) = history();
    let open = checker.begin(BUCKET, 1);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    checker.read(BUCKET, 5, &rows(&[first_id(open)]), "other");
    assert_eq!(finished(checker, 6)[0], "L4");
}

#[test]
fn a_gap_and_an_end_that_went_back_are_caught() {
    let (mut checker, ids) = history();
    checker.read(BUCKET, 0, &rows(&ids[..2]), "r");
    checker.read(BUCKET, 3, &rows(&ids[3..]), "r");
    assert!(finished(checker, 6).contains(&"L4"));
    let (mut checker, ids) = history();
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 4), ["L4"]);
}

#[test]
fn a_row_that_nobody_sent_is_caught() {
    let (mut checker, mut ids) = history();
    ids.push(1_000_000_000);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 7), ["L4"]);
}

#[test]
fn a_torn_request_is_caught() {
    let (mut checker, mut ids) = history();
    let open = checker.begin(BUCKET, 2);
    ids.push(first_id(open));
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 7), ["L5"]);
}

#[test]
fn a_reordered_request_is_caught() {
    let (mut checker, mut ids) = history();
    let open = checker.begin(BUCKET, 2);
    ids.extend([first_id(open) + 1, first_id(open)]);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert_eq!(finished(checker, 8), ["L5"]);
    // Acked rows that are elsewhere than the ack said: the ack came from somebody who was not the owner.
    let (mut checker, mut ids) = history();
    ids.swap(0, 1);
    checker.read(BUCKET, 0, &rows(&ids), "r");
    assert!(finished(checker, 6).contains(&"F1"));
}

#[test]
fn a_request_in_doubt_may_be_there_or_not() {
    for there in [false, true] {
        let (mut checker, mut ids) = history();
        let open = checker.begin(BUCKET, 1);
        if there {
            ids.push(first_id(open));
        }
        checker.read(BUCKET, 0, &rows(&ids), "r");
        assert!(finished(checker, ids.len() as u64).is_empty());
    }
}

#[test]
fn what_goes_back_in_real_time_is_caught() {
    // A request stands before what was acked, or only seen, when it was sent.
    let (mut checker, _) = history();
    let late = checker.begin(BUCKET, 1);
    checker.acked(late, 5, 1, false);
    assert_eq!(checker.violations()[0].invariant, "K3");
    let (mut checker, ids) = history();
    checker.saw_end(&BUCKET, 8);
    let late = checker.begin(BUCKET, 1);
    checker.read(BUCKET, 0, &rows(&[&ids[..], &[first_id(late)]].concat()), "r");
    assert_eq!(checker.violations()[0].invariant, "K3");
    // What was sent before that may stand there.
    let (mut checker, ids) = history();
    let early = checker.begin(BUCKET, 1);
    checker.saw_end(&BUCKET, 8);
    checker.read(BUCKET, 0, &rows(&[&ids[..], &[first_id(early)]].concat()), "r");
    assert!(checker.violations().is_empty());
}
