use super::*;
use crate::shard::prefixes::Limit;

fn key(n: u8) -> Bytes {
    Bytes::copy_from_slice(&[b'r', n])
}

fn row(text: &'static str) -> Row {
    Some(Bytes::from_static(text.as_bytes()))
}

fn lasting(text: &'static str) -> State {
    State::lasting(row(text))
}

const GONE: State = State { row: None, expires: FOREVER };

const NOW: i64 = 1_000;

fn rows() -> Arc<Rows> {
    Arc::new(Rows::new(1 << 20))
}

#[test]
fn a_read_is_believed_while_nobody_writes() {
    let rows = rows();
    let mut reads = rows.begin_reads(vec![key(1), key(2)], Keep::Missing);
    reads.finish(vec![lasting("one"), GONE]);
    assert_eq!(reads.valid(NOW).len(), 2);
    assert_eq!(rows.known(&[key(1), key(2), key(3)], NOW), [Some(row("one")), Some(None), None]);
}

#[test]
fn a_write_voids_reads_that_began_before_it() {
    // A cache that keeps nothing, so that the written row is soon known to SlateDB alone.
    let rows = Arc::new(Rows::new(0));
    let mut before = rows.begin_reads(vec![key(1)], Keep::Missing);
    rows.confirm(LogSeq(1), [(key(1), lasting("new"))]);
    rows.applied(LogSeq(1));
    let mut after = rows.begin_reads(vec![key(1)], Keep::Missing);
    before.finish(vec![lasting("old")]);
    assert!(before.valid(NOW).is_empty(), "it may have been read before the write");
    assert_eq!(rows.known(&[key(1)], NOW), [None]);
    after.finish(vec![lasting("new")]);
    assert_eq!(after.valid(NOW).len(), 1);
}

#[test]
fn a_write_after_the_read_voids_it_too() {
    let rows = rows();
    let mut reads = rows.begin_reads(vec![key(1)], Keep::Missing);
    reads.finish(vec![lasting("old")]);
    rows.confirm(LogSeq(1), [(key(1), GONE)]);
    assert!(reads.valid(NOW).is_empty());
    assert_eq!(rows.known(&[key(1)], NOW), [Some(None)]);
}

#[test]
fn readers_of_one_state_share_their_registration() {
    let rows = rows();
    let mut first = rows.begin_reads(vec![key(1)], Keep::Missing);
    let mut second = rows.begin_reads(vec![key(1)], Keep::Missing);
    first.finish(vec![lasting("one")]);
    drop(first);
    second.finish(vec![lasting("one")]);
    assert_eq!(second.valid(NOW).len(), 1, "the first one's end must not void the second");
    drop(second);
    assert!(rows.inner.read().loads.is_empty());
}

#[test]
fn what_the_overlay_knows_is_not_read() {
    let rows = Arc::new(Rows::new(0));
    rows.confirm(LogSeq(1), [(key(1), lasting("new"))]);
    assert_eq!(
        rows.begin_reads(vec![key(1), key(2)], Keep::Missing).missing().count(),
        1,
        "SlateDB would answer an older row"
    );
    rows.applied(LogSeq(1));
    assert_eq!(
        rows.begin_reads(vec![key(1)], Keep::Missing).missing().count(),
        1,
        "nothing but SlateDB has it now"
    );
}

#[test]
fn the_overlay_ends_with_what_the_database_has() {
    let rows = rows();
    rows.confirm(LogSeq(1), [(key(1), lasting("a")), (key(2), lasting("b"))]);
    rows.confirm(LogSeq(2), [(key(2), lasting("c"))]);
    rows.applied(LogSeq(1));
    let overlay = rows.overlay(key(0)..key(9));
    let overlay: Vec<_> = overlay.iter().map(|(k, c)| (k.clone(), c.seq.0, c.state.row.clone())).collect();
    assert_eq!(overlay, [(key(2), 2, row("c"))]);
}

#[test]
fn the_cache_keeps_to_its_bytes_and_to_what_is_used() {
    let mut cache = cache::RowCache::new(100 * 200);
    for n in 0..100u16 {
        cache.put(&n.to_be_bytes(), &lasting("x"));
        cache.get(&0u16.to_be_bytes());
    }
    for n in 100..1000u16 {
        cache.put(&n.to_be_bytes(), &lasting("x"));
        assert!(cache.get(&0u16.to_be_bytes()).is_some(), "row 0 is asked for all the time");
    }
    assert!(cache.len() <= 100 * 200 / 96);
}

#[test]
fn a_reader_of_more_than_the_cache_holds_keeps_all_of_it() {
    let rows = Arc::new(Rows::new(0));
    rows.confirm(LogSeq(1), [(key(1), lasting("one")), (key(2), lasting("two"))]);
    let mut reads = rows.begin_reads(vec![key(1), key(2), key(3)], Keep::All);
    rows.applied(LogSeq(1));
    assert_eq!(rows.known(&[key(1)], NOW), [None]);
    assert_eq!(reads.missing().collect::<Vec<_>>(), [&key(3)]);
    reads.finish(vec![GONE]);
    rows.confirm(LogSeq(2), [(key(2), GONE)]);
    rows.applied(LogSeq(2));
    let valid = reads.valid(NOW);
    assert_eq!(
        (valid.len(), valid.get(key(1).as_ref())),
        (2, Some(&row("one"))),
        "and what is written is void"
    );
}

#[test]
fn a_row_is_absent_when_its_life_is_over() {
    let short = State { row: row("short"), expires: NOW };
    let long = State { row: row("long"), expires: NOW + 1 };
    for cache in [0, 1 << 20] {
        let rows = Arc::new(Rows::new(cache));
        rows.confirm(LogSeq(1), [(key(1), short.clone()), (key(2), long.clone())]);
        assert_eq!(rows.known(&[key(1), key(2)], NOW), [Some(None), Some(row("long"))]);
        assert_eq!(rows.known(&[key(2)], NOW + 1), [Some(None)]);
        let mut reads = rows.begin_reads(vec![key(3), key(4)], Keep::Missing);
        reads.finish(vec![short.clone(), long.clone()]);
        let valid = reads.valid(NOW);
        assert_eq!(
            (valid.get(key(3).as_ref()), valid.get(key(4).as_ref())),
            (Some(&None), Some(&row("long")))
        );
    }
}

// ---- groups. The prefix of key `n` is its first byte and the next one.

fn member(group: u8, n: u8) -> Bytes {
    Bytes::copy_from_slice(&[b'r', group, n])
}

fn group(rows: &Rows, prefix: &[u8]) -> PrefixRows {
    within(rows, prefix, prefix)
}

fn within(rows: &Rows, prefix: &[u8], within: &[u8]) -> PrefixRows {
    let mut limit = Limit { rows: 1 << 20, bytes: 1 << 30 };
    rows.groups([(prefix, within)], NOW, &mut limit).unwrap().remove(0)
}

fn all(texts: &[&'static str]) -> PrefixRows {
    PrefixRows::All(texts.iter().filter_map(|text| row(text)).collect())
}

#[test]
fn a_group_that_was_read_is_known_and_follows_writes() {
    let rows = rows();
    assert_eq!(group(&rows, &key(1)), PrefixRows::Unknown);
    let read = rows.begin_group(key(1));
    read.finish(&[(member(1, 2), lasting("two")), (member(1, 5), lasting("five"))]);
    assert_eq!(group(&rows, &key(1)), all(&["two", "five"]));
    assert_eq!(within(&rows, &key(1), &member(1, 5)), all(&["five"]));
    assert_eq!(within(&rows, &key(1), &member(1, 3)), all(&[]));
    assert_eq!(group(&rows, &key(2)), PrefixRows::Unknown);
    rows.confirm(
        LogSeq(1),
        [(member(1, 3), lasting("three")), (member(1, 2), GONE), (member(1, 5), lasting("FIVE"))],
    );
    assert_eq!(group(&rows, &key(1)), all(&["three", "FIVE"]));
    rows.confirm(LogSeq(2), [(member(1, 2), lasting("two again"))]);
    assert_eq!(group(&rows, &key(1)), all(&["two again", "three", "FIVE"]));
}

#[test]
fn a_prefix_without_rows_is_known_too() {
    let rows = rows();
    rows.begin_group(key(1)).finish(&[]);
    assert_eq!(group(&rows, &key(1)), all(&[]));
    rows.confirm(LogSeq(1), [(member(1, 1), lasting("one"))]);
    assert_eq!(group(&rows, &key(1)), all(&["one"]));
}

#[test]
fn a_write_under_the_prefix_voids_the_read_of_a_group() {
    let rows = rows();
    let (before, other) = (rows.begin_group(key(1)), rows.begin_group(key(2)));
    rows.confirm(LogSeq(1), [(member(1, 7), lasting("new"))]);
    let after = rows.begin_group(key(1));
    before.finish(&[]);
    assert_eq!(group(&rows, &key(1)), PrefixRows::Unknown, "it may have been read before the write");
    before.finish_many();
    assert_eq!(group(&rows, &key(1)), PrefixRows::Unknown);
    other.finish(&[]);
    assert_eq!(group(&rows, &key(2)), all(&[]), "the write was under another prefix");
    drop(before);
    after.finish(&[(member(1, 7), lasting("new"))]);
    assert_eq!(group(&rows, &key(1)), all(&["new"]));
    drop((after, other));
    assert!(rows.inner.read().group_loads.is_empty());
}

#[test]
fn a_group_that_outgrows_its_bound_is_known_as_large() {
    let rows = rows();
    let full: Vec<_> = (0..GROUP_ROWS as u16)
        .map(|n| (Bytes::from([b"r\x01".as_slice(), &n.to_be_bytes()].concat()), lasting("x")))
        .collect();
    rows.begin_group(key(1)).finish(&full);
    let PrefixRows::All(found) = group(&rows, &key(1)) else { panic!("it has just as many as it may") };
    assert_eq!(found.len(), GROUP_ROWS);
    rows.confirm(LogSeq(1), [(full[3].0.clone(), lasting("y"))]);
    assert!(matches!(group(&rows, &key(1)), PrefixRows::All(_)), "no row more than before");
    rows.confirm(LogSeq(2), [(member(1, 200), lasting("one more"))]);
    assert_eq!(group(&rows, &key(1)), PrefixRows::Many);
    rows.confirm(LogSeq(3), [(member(1, 200), GONE)]);
    assert_eq!(group(&rows, &key(1)), PrefixRows::Many, "nobody counts");
    assert_eq!(
        rows.known(std::slice::from_ref(&full[3].0), NOW),
        [Some(row("y"))],
        "its rows are still known"
    );
}

#[test]
fn rows_whose_life_is_over_are_not_in_their_group_and_come_back_when_written() {
    let rows = rows();
    let over = State { row: row("over"), expires: NOW };
    // Known as over before the group is read, which does not show it any more.
    rows.confirm(LogSeq(1), [(member(1, 1), over)]);
    rows.begin_group(key(1)).finish(&[(member(1, 2), lasting("two"))]);
    assert_eq!(group(&rows, &key(1)), all(&["two"]));
    rows.confirm(LogSeq(2), [(member(1, 1), lasting("one"))]);
    assert_eq!(group(&rows, &key(1)), all(&["one", "two"]));
}

#[test]
fn the_answer_is_bounded() {
    let rows = rows();
    rows.begin_group(key(1)).finish(&[(member(1, 1), lasting("one")), (member(1, 2), lasting("two"))]);
    let ask = |limit: (usize, usize)| {
        let (prefix, mut limit) = (key(1), Limit { rows: limit.0, bytes: limit.1 });
        rows.groups([(prefix.as_ref(), prefix.as_ref()); 2], NOW, &mut limit).map(|found| found.len())
    };
    assert_eq!((ask((4, 12)), ask((3, 12)), ask((4, 11))), (Some(2), None, None));
}

proptest::proptest! {
    /// Whatever is written, read and driven out: what is known is what there is, and so is each group that is known.
    #[test]
    fn what_is_known_is_right(
        cache in proptest::sample::select(vec![0usize, 700, 2_000, 1 << 20]),
        steps in proptest::collection::vec((0u8..6, 0u8..3, 0u8..4, 0u8..4), 1..200),
    ) {
        let rows = Arc::new(Rows::new(cache));
        let (mut truth, mut seq) = (BTreeMap::<Bytes, Bytes>::new(), 0);
        // SlateDB, as it was when it was last written.
        let mut database = truth.clone();
        let (mut reads, mut groups) = (Vec::new(), Vec::new());
        for (what, group_of, n, value) in steps {
            let of = member(group_of, n);
            match what {
                0 | 1 => {
                    seq += 1;
                    let row = (value > 0).then(|| Bytes::from(vec![value; usize::from(value) * 40]));
                    match &row {
                        Some(row) => truth.insert(of.clone(), row.clone()),
                        None => truth.remove(&of),
                    };
                    rows.confirm(LogSeq(seq), [(of, State::lasting(row))]);
                }
                2 => {
                    database = truth.clone();
                    rows.applied(LogSeq(seq));
                }
                3 => {
                    let read = rows.begin_reads(vec![of.clone()], Keep::Missing);
                    let found = read.missing().map(|key| State::lasting(database.get(key).cloned())).collect();
                    reads.push((read, found));
                }
                4 => {
                    let read = rows.begin_group(key(group_of));
                    // As a scan sees it: the overlay over the database.
                    let mut seen = database.clone();
                    for (key, confirmed) in rows.overlay(key(0)..key(9)) {
                        match confirmed.state.row {
                            Some(row) => seen.insert(key, row),
                            None => seen.remove(&key),
                        };
                    }
                    let seen = seen.into_iter().filter(|(of, _)| of.starts_with(&key(group_of)));
                    groups.push((read, seen.map(|(key, row)| (key, State::lasting(Some(row)))).collect::<Vec<_>>()));
                }
                _ => {
                    if n % 2 == 0 && !reads.is_empty() {
                        let (mut read, found): (Reads, Vec<State>) = reads.remove(0);
                        read.finish(found);
                        for (key, row) in read.valid(NOW) {
                            proptest::prop_assert_eq!(row.as_ref(), truth.get(key));
                        }
                    } else if !groups.is_empty() {
                        let (read, found) = groups.remove(0);
                        read.finish(&found);
                    }
                }
            }
            for group_of in 0..3 {
                if let PrefixRows::All(found) = group(&rows, &key(group_of)) {
                    let there = truth.iter().filter(|(of, _)| of.starts_with(&key(group_of)));
                    proptest::prop_assert_eq!(found, there.map(|(_, row)| row.clone()).collect::<Vec<_>>());
                }
                for n in 0..4 {
                    let of = member(group_of, n);
                    if let Some(known) = rows.known(std::slice::from_ref(&of), NOW).remove(0) {
                        proptest::prop_assert_eq!(known.as_ref(), truth.get(&of));
                    }
                }
            }
            proptest::prop_assert!(rows.inner.read().cache.bytes() <= cache);
        }
    }
}
