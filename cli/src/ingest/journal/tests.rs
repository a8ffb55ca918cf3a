use super::*;

const ACKED: Acked = Acked { rows: 5, rejected: 1, hash: Some(3) };

/// A directory with a file, and journals of it.
struct World {
    directory: tempfile::TempDir,
    format: FileFormat,
    table_created: &'static str,
}

impl World {
    fn new(content: &str) -> World {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a.csv"), content).unwrap();
        World { directory, format: FileFormat::Csv, table_created: "1" }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, name: &str, piece_bytes: u64, again: Option<u64>) -> Result<Begun, Failure> {
        let file = self.file(name);
        let state = FileState::of(&file).unwrap();
        let origin = Origin {
            table: "nyc.flights".into(),
            table_id: 7,
            table_created: self.table_created.into(),
            file,
            bytes: state.bytes,
            hash: state.hash,
            format: self.format,
            piece_bytes,
            intent: "append".into(),
            again: 0,
        };
        Journal::open(&self.file("state"), origin, state, again)
    }

    fn open(&self) -> Begun {
        self.run("a.csv", 10, None).unwrap()
    }

    fn refusal(&self, piece_bytes: u64) -> String {
        self.run("a.csv", piece_bytes, None).unwrap_err().to_string()
    }
}

fn numbers(begun: &Begun) -> Vec<u64> {
    begun.acked.keys().copied().collect()
}

#[test]
fn an_interrupted_run_continues_with_the_same_producer() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.sent(1).unwrap();
    first.journal.sent(2).unwrap();
    first.journal.acked(2, ACKED).unwrap();
    let again = world.open();
    assert_eq!(again.acked, BTreeMap::from([(2, ACKED)]));
    assert_eq!((again.producer, again.ends, again.done), (first.producer, vec![4], false));
}

#[test]
fn a_line_that_was_cut_off_is_dropped_and_later_ones_are_kept_apart_from_it() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.acked(1, ACKED).unwrap();
    first.journal.file.write_all(b"{\"acked\":{\"piece\":2,").unwrap();
    let mut second = world.open();
    assert_eq!(numbers(&second), [1]);
    second.journal.acked(3, ACKED).unwrap();
    second.journal.done().unwrap();
    let third = world.open();
    assert_eq!(numbers(&third), [1, 3]);
    assert!(third.done);
}

#[test]
fn a_run_that_has_written_is_not_continued_with_other_pieces() {
    let mut world = World::new("a\n1\n");
    world.open().journal.acked(1, ACKED).unwrap();
    assert!(world.refusal(11).contains("--piece-size 10, and 1 requests of it are written"));
    world.format = FileFormat::Ndjson;
    assert!(world.refusal(10).contains("another format"));
    world.format = FileFormat::Csv;
    std::fs::write(world.file("a.csv"), "b\n1\n").unwrap();
    let error = world.refusal(10);
    assert!(error.contains("has changed") && error.contains("--again"), "{error}");
}

#[test]
fn a_run_that_may_have_written_is_not_either() {
    let world = World::new("a\n1\n");
    world.open().journal.sent(1).unwrap();
    assert!(world.refusal(11).contains("may have been written"));
}

#[test]
fn a_run_that_has_certainly_written_nothing_stands_in_nobodys_way() {
    for refused in [false, true] {
        let world = World::new("a\n1\n");
        let mut first = world.open();
        if refused {
            first.journal.sent(1).unwrap();
            first.journal.refused(1).unwrap();
        }
        let other = world.run("a.csv", 11, None).unwrap();
        assert_ne!(other.producer, first.producer);
        std::fs::write(world.file("a.csv"), "b\n1\n").unwrap();
        assert!(!world.run("a.csv", 11, None).unwrap().done);
    }
}

#[test]
fn a_file_that_has_grown_goes_on_where_it_ended() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.acked(1, ACKED).unwrap();
    first.journal.done().unwrap();
    std::fs::write(world.file("a.csv"), "a\n1\n2\n").unwrap();
    let mut second = world.open();
    assert_eq!((&second.producer, numbers(&second)), (&first.producer, vec![1]));
    assert_eq!((&second.ends, second.done), (&vec![4, 6], false));
    assert!(second.remark.as_ref().unwrap().contains("has grown"));
    second.journal.acked(2, ACKED).unwrap();
    second.journal.done().unwrap();
    let third = world.open();
    assert_eq!((third.ends, third.done), (vec![4, 6], true));
}

#[test]
fn what_does_not_begin_as_it_did_has_not_grown() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.acked(1, ACKED).unwrap();
    std::fs::write(world.file("a.csv"), "a\n9\n2\n").unwrap();
    assert!(world.refusal(10).contains("not only grown"));
    first.journal.done().unwrap();
    let second = world.open();
    assert!(second.acked.is_empty() && second.remark.is_some());
}

#[test]
fn a_file_that_was_renamed_keeps_its_journal_and_a_copy_has_its_own() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.acked(1, ACKED).unwrap();
    std::fs::copy(world.file("a.csv"), world.file("copy.csv")).unwrap();
    let copy = world.run("copy.csv", 10, None).unwrap();
    assert!(copy.acked.is_empty() && copy.producer != first.producer);

    std::fs::rename(world.file("a.csv"), world.file("b.csv")).unwrap();
    let renamed = world.run("b.csv", 10, None).unwrap();
    assert_eq!((&renamed.producer, numbers(&renamed)), (&first.producer, vec![1]));
    assert!(renamed.remark.unwrap().contains("a.csv"));
    std::fs::rename(world.file("b.csv"), world.file("c.csv")).unwrap();
    assert_eq!(numbers(&world.run("c.csv", 10, None).unwrap()), [1]);
}

#[test]
fn a_table_that_was_created_anew_begins_anew() {
    let mut world = World::new("a\n1\n");
    world.open().journal.acked(1, ACKED).unwrap();
    world.table_created = "2";
    assert!(world.open().acked.is_empty());
}

#[test]
fn again_is_another_producer_and_can_itself_be_continued() {
    let world = World::new("a\n1\n");
    let mut first = world.open();
    first.journal.done().unwrap();
    assert!(world.open().done);
    let second = world.run("a.csv", 10, Some(42)).unwrap();
    assert!(!second.done);
    assert_ne!(second.producer, first.producer);
    assert_eq!(world.open().producer, second.producer);
    assert!(second.producer.len() <= 64);
}
