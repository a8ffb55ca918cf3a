use wadi_model::TableId;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
const BUCKET: Bucket = Bucket { table: TableId(1), partition: wadi_model::PartitionId(0), bucket: 0 };

fn producers() -> Producers<u32> {
    Producers::new(Lifetimes { producer: 7 * DAY, key: DAY })
}

fn stamp(sequence: u64, fingerprint: u64) -> Stamp {
    Stamp { producer: "p".into(), sequence, fingerprint, once: false }
}

fn known(producers: &mut Producers<u32>) {
    assert_eq!(producers.judge(BUCKET, &stamp(1, 1), 0), Verdict::Load { first: true });
    producers.wait(BUCKET, &stamp(1, 1), 1);
    assert_eq!(producers.judge(BUCKET, &stamp(2, 1), 0), Verdict::Load { first: false });
    assert_eq!(producers.loaded(stamp(1, 1).key(BUCKET), None), [1]);
}

fn confirm(producers: &mut Producers<u32>, sequence: u64) -> SeenRequest {
    let request = SeenRequest { sequence, fingerprint: sequence, base_offset: sequence * 10, rows: 10 };
    producers.confirm(stamp(sequence, 0).key(BUCKET), false, request, LogSeq(sequence), 0);
    request
}

#[test]
fn a_retry_finds_its_first_try() {
    let mut p = producers();
    known(&mut p);
    assert_eq!(p.judge(BUCKET, &stamp(5, 5), 0), Verdict::New);
    p.begin(BUCKET, &stamp(5, 5));
    assert_eq!(p.judge(BUCKET, &stamp(5, 5), 0), Verdict::InFlight);
    assert_eq!(p.judge(BUCKET, &stamp(5, 6), 0), Verdict::Reused);
    let request = confirm(&mut p, 5);
    assert_eq!(p.judge(BUCKET, &stamp(5, 5), 0), Verdict::Seen(request));
    assert_eq!(p.judge(BUCKET, &stamp(5, 6), 0), Verdict::Reused);
    assert_eq!(p.judge(BUCKET, &stamp(4, 4), 0), Verdict::New, "requests may overtake each other");
}

#[test]
fn what_is_older_than_the_window_is_refused() {
    let mut p = producers();
    known(&mut p);
    for sequence in 10..10 + WINDOW as u64 {
        confirm(&mut p, sequence);
    }
    assert_eq!(p.judge(BUCKET, &stamp(9, 9), 0), Verdict::TooOld);
    assert!(matches!(p.judge(BUCKET, &stamp(10, 10), 0), Verdict::Seen(_)));
    confirm(&mut p, 200);
    assert_eq!(p.judge(BUCKET, &stamp(10, 10), 0), Verdict::TooOld);
}

#[test]
fn silence_is_forgotten() {
    let mut p = producers();
    known(&mut p);
    confirm(&mut p, 5);
    let week = 7 * DAY.as_millis() as i64;
    assert!(matches!(p.judge(BUCKET, &stamp(5, 5), week - 1), Verdict::Seen(_)));
    assert_eq!(p.judge(BUCKET, &stamp(5, 5), week), Verdict::New);
}

#[test]
fn keys_and_producers_of_one_name_are_different() {
    let mut p = producers();
    known(&mut p);
    let key = Stamp { once: true, ..stamp(1, 1) };
    assert_eq!(p.judge(BUCKET, &key, 0), Verdict::Load { first: true });
}

#[test]
fn entries_leave_memory_only_when_the_database_has_them() {
    let mut p = producers();
    for i in 0..KEPT as u64 + 10 {
        let key = (BUCKET, name_of(false, &format!("p{i}")));
        let request = SeenRequest { sequence: 1, fingerprint: 1, base_offset: i, rows: 1 };
        p.confirm(key, false, request, LogSeq(i + 1), 0);
    }
    p.trim(LogSeq(0));
    assert_eq!(p.known.len(), KEPT + 10);
    p.trim(LogSeq(5));
    assert_eq!(p.known.len(), KEPT + 5);
    p.trim(LogSeq(1 << 40));
    assert_eq!(p.known.len(), KEPT);
}
