use super::*;

fn origin() -> Origin {
    Origin {
        table: "nyc.flights".into(),
        table_id: 7,
        table_created: "1".into(),
        file: "/data/a.csv".into(),
        bytes: 100,
        modified: 5,
        hash: 9,
        format: FileFormat::Csv,
        piece_bytes: 10,
        compression: "zstd".into(),
        on_error: OnError::Fail,
        intent: "append".into(),
        again: 0,
    }
}

const ACKED: Acked = Acked { rows: 5, rejected: 1 };

fn open(directory: &Path, origin: Origin) -> Begun {
    Journal::open(directory, origin, None).unwrap()
}

#[test]
fn an_interrupted_run_continues_with_the_same_producer() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = open(directory.path(), origin());
    first.journal.acked(2, ACKED).unwrap();
    let again = open(directory.path(), origin());
    assert_eq!(again.acked, BTreeMap::from([(2, ACKED)]));
    assert_eq!(again.origin.producer(), first.origin.producer());
    assert!(!again.done);
}

#[test]
fn a_line_that_was_cut_off_is_dropped_and_later_ones_are_kept_apart_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = open(directory.path(), origin());
    first.journal.acked(1, ACKED).unwrap();
    first.journal.file.write_all(b"{\"acked\":{\"piece\":2,").unwrap();
    let mut second = open(directory.path(), origin());
    assert_eq!(second.acked.len(), 1);
    second.journal.acked(3, ACKED).unwrap();
    second.journal.done().unwrap();
    let third = open(directory.path(), origin());
    assert_eq!(third.acked.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert!(third.done);
}

#[test]
fn an_unfinished_run_is_not_continued_with_other_pieces() {
    let directory = tempfile::tempdir().unwrap();
    open(directory.path(), origin());
    let cases = [
        (Origin { modified: 6, ..origin() }, "has changed"),
        (Origin { on_error: OnError::Skip, ..origin() }, "--on-error fail"),
        (Origin { piece_bytes: 11, ..origin() }, "--piece-size 10"),
        (Origin { compression: "lz4".into(), ..origin() }, "--compression zstd"),
        (Origin { format: FileFormat::Ndjson, ..origin() }, "another format"),
    ];
    for (origin, want) in cases {
        let error = Journal::open(directory.path(), origin, None).unwrap_err().to_string();
        assert!(error.contains(want) && error.contains("--again"), "{error}");
    }
}

#[test]
fn a_new_table_or_a_new_content_after_the_end_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = open(directory.path(), origin());
    first.journal.acked(1, ACKED).unwrap();
    let recreated = open(directory.path(), Origin { table_created: "2".into(), ..origin() });
    assert!(recreated.acked.is_empty());
    let mut recreated = recreated;
    recreated.journal.done().unwrap();
    let changed = open(directory.path(), Origin { table_created: "2".into(), hash: 10, ..origin() });
    assert!(!changed.done);
}

#[test]
fn again_is_another_producer_and_can_itself_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = open(directory.path(), origin());
    first.journal.done().unwrap();
    assert!(open(directory.path(), origin()).done);
    let second = Journal::open(directory.path(), origin(), Some(42)).unwrap();
    assert!(!second.done);
    assert_ne!(second.origin.producer(), first.origin.producer());
    let third = open(directory.path(), origin());
    assert_eq!(third.origin.producer(), second.origin.producer());
}

#[test]
fn producers_fit_the_api() {
    assert!(origin().producer().len() <= 64);
}
