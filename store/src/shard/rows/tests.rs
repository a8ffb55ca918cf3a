use super::*;

fn key(n: u8) -> Bytes {
    Bytes::copy_from_slice(&[b'r', n])
}

fn row(text: &'static str) -> Row {
    Some(Bytes::from_static(text.as_bytes()))
}

fn rows() -> Arc<Rows> {
    Arc::new(Rows::new(1 << 20))
}

#[test]
fn a_read_is_believed_while_nobody_writes() {
    let rows = rows();
    let mut reads = rows.begin_reads(vec![key(1), key(2)], Keep::Missing);
    reads.finish(vec![row("one"), None]);
    assert_eq!(reads.valid().len(), 2);
    assert_eq!(rows.known(&[key(1), key(2), key(3)]), [Some(row("one")), Some(None), None]);
}

#[test]
fn a_write_voids_reads_that_began_before_it() {
    // A cache that keeps nothing, so that the written row is soon known to SlateDB alone.
    let rows = Arc::new(Rows::new(0));
    let mut before = rows.begin_reads(vec![key(1)], Keep::Missing);
    rows.confirm(LogSeq(1), [(key(1), row("new"))]);
    rows.applied(LogSeq(1));
    let mut after = rows.begin_reads(vec![key(1)], Keep::Missing);
    before.finish(vec![row("old")]);
    assert!(before.valid().is_empty(), "it may have been read before the write");
    assert_eq!(rows.known(&[key(1)]), [None]);
    after.finish(vec![row("new")]);
    assert_eq!(after.valid().len(), 1);
}

#[test]
fn a_write_after_the_read_voids_it_too() {
    let rows = rows();
    let mut reads = rows.begin_reads(vec![key(1)], Keep::Missing);
    reads.finish(vec![row("old")]);
    rows.confirm(LogSeq(1), [(key(1), None)]);
    assert!(reads.valid().is_empty());
    assert_eq!(rows.known(&[key(1)]), [Some(None)]);
}

#[test]
fn readers_of_one_state_share_their_registration() {
    let rows = rows();
    let mut first = rows.begin_reads(vec![key(1)], Keep::Missing);
    let mut second = rows.begin_reads(vec![key(1)], Keep::Missing);
    first.finish(vec![row("one")]);
    drop(first);
    second.finish(vec![row("one")]);
    assert_eq!(second.valid().len(), 1, "the first one's end must not void the second");
    drop(second);
    assert!(rows.inner.read().loads.is_empty());
}

#[test]
fn what_the_overlay_knows_is_not_read() {
    let rows = Arc::new(Rows::new(0));
    rows.confirm(LogSeq(1), [(key(1), row("new"))]);
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
    rows.confirm(LogSeq(1), [(key(1), row("a")), (key(2), row("b"))]);
    rows.confirm(LogSeq(2), [(key(2), row("c"))]);
    rows.applied(LogSeq(1));
    let overlay = rows.overlay(key(0)..key(9));
    let overlay: Vec<_> = overlay.iter().map(|(k, c)| (k.clone(), c.seq.0, c.row.clone())).collect();
    assert_eq!(overlay, [(key(2), 2, row("c"))]);
}

#[test]
fn the_cache_keeps_to_its_bytes_and_to_what_is_used() {
    let mut cache = cache::RowCache::new(100 * 200);
    for n in 0..100u16 {
        cache.put(&Bytes::copy_from_slice(&n.to_be_bytes()), row("x"));
        cache.get(&0u16.to_be_bytes());
    }
    for n in 100..1000u16 {
        cache.put(&Bytes::copy_from_slice(&n.to_be_bytes()), row("x"));
        assert!(cache.get(&0u16.to_be_bytes()).is_some(), "row 0 is asked for all the time");
    }
    assert!(cache.len() <= 100 * 200 / 160);
}

#[test]
fn a_reader_of_more_than_the_cache_holds_keeps_all_of_it() {
    let rows = Arc::new(Rows::new(0));
    rows.confirm(LogSeq(1), [(key(1), row("one")), (key(2), row("two"))]);
    let mut reads = rows.begin_reads(vec![key(1), key(2), key(3)], Keep::All);
    rows.applied(LogSeq(1));
    assert_eq!(rows.known(&[key(1)]), [None]);
    assert_eq!(reads.missing().collect::<Vec<_>>(), [&key(3)]);
    reads.finish(vec![None]);
    rows.confirm(LogSeq(2), [(key(2), None)]);
    rows.applied(LogSeq(2));
    let valid = reads.valid();
    assert_eq!(
        (valid.len(), valid.get(key(1).as_ref())),
        (2, Some(&&row("one"))),
        "and what is written is void"
    );
}
