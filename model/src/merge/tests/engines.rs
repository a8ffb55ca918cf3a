//! The four engines: upserts, partial updates, deletes, and what is refused.

use super::*;

fn engine(properties: &[(&str, &str)]) -> Table {
    table(&[("a", "string"), ("b", "bigint"), ("v", "int")], properties)
}

fn row(a: Option<&str>, b: Option<i128>, v: Option<i128>) -> Row {
    vec![int(1), a.and_then(text), b.and_then(int), v.and_then(int)]
}

#[test]
fn the_newest_row_wins() {
    let t = engine(&[]);
    let (old, new) = (row(Some("x"), Some(1), None), row(None, None, Some(3)));
    assert_eq!(upsert(&t, None, new.clone()), Became::Row(new.clone()));
    assert_eq!(upsert(&t, Some(&old), new.clone()), Became::Row(new));
    assert_eq!(upsert(&t, Some(&old), old.clone()), Became::Row(old), "the same row again is a change");
    assert!(MergeEngine::new(&t).unwrap().replaces());
}

#[test]
fn the_first_row_stays() {
    let t = engine(&[("table.merge-engine", "first_row")]);
    let (old, new) = (row(Some("x"), Some(1), None), row(Some("y"), None, Some(3)));
    assert_eq!(upsert(&t, None, old.clone()), Became::Row(old.clone()));
    assert_eq!(upsert(&t, Some(&old), new), Became::Unchanged);
    assert_eq!(apply(&t, Some(&old), &Op::Delete(None)).unwrap(), Became::Unchanged);
}

#[test]
fn the_highest_version_wins() {
    for versions in ["int", "bigint", "timestamp(3)", "timestamp_ltz(9)"] {
        let t = table(
            &[("a", "string"), ("v", versions)],
            &[("table.merge-engine", "versioned"), ("table.merge-engine.versioned.ver-column", "v")],
        );
        let row = |v: Option<i128>| vec![int(1), text("x"), v.and_then(int)];
        // Stored version, new version, whether the new row wins.
        let cases = [
            (Some(5), Some(6), true),
            (Some(5), Some(5), true),
            (Some(5), Some(4), false),
            (Some(5), None, false),
            (None, Some(-7), true),
            (None, None, true),
            (Some(-300), Some(-299), true),
            (Some(-300), Some(-301), false),
        ];
        for (stored, new, wins) in cases {
            let expected = if wins { Became::Row(row(new)) } else { Became::Unchanged };
            assert_eq!(upsert(&t, Some(&row(stored)), row(new)), expected, "{stored:?} {new:?}");
        }
        assert_eq!(apply(&t, Some(&row(None)), &Op::Delete(None)).unwrap(), Became::Unchanged);
    }
}

#[test]
fn a_partial_update_touches_its_targets_only() {
    let t = engine(&[]);
    let op = |row: Row| Op::Upsert(row, Some(vec!["k", "b"]));
    let old = row(Some("x"), Some(1), Some(2));
    let new = row(Some("not a target"), Some(9), Some(9));
    assert_eq!(
        apply(&t, Some(&old), &op(new.clone())).unwrap(),
        Became::Row(row(Some("x"), Some(9), Some(2)))
    );
    assert_eq!(apply(&t, None, &op(new)).unwrap(), Became::Row(row(None, Some(9), None)));
    let null = row(None, None, None);
    assert_eq!(apply(&t, Some(&old), &op(null)).unwrap(), Became::Row(row(Some("x"), None, Some(2))));
}

#[test]
fn a_first_insert_takes_defaults_for_what_it_leaves_out() {
    let columns = [
        ("flag", "boolean not null", serde_json::json!(true), Some(vec![1])),
        ("tiny", "tinyint", serde_json::json!(-1), Some(vec![0xff])),
        ("big", "bigint", serde_json::json!(300), int(300)),
        ("price", "decimal(10,2)", serde_json::json!("1.50"), int(150)),
        ("half", "double", serde_json::json!(0.5), Some(0.5f64.to_le_bytes().to_vec())),
        ("name", "string", serde_json::json!("none"), text("none")),
        ("raw", "bytes", serde_json::json!("ab"), text("ab")),
        ("day", "date", serde_json::json!("1970-01-03"), int(2)),
        ("at", "timestamp(3)", serde_json::json!("1970-01-01T00:00:01.5"), int(1500)),
        ("when", "time(0)", serde_json::json!("00:01:00"), int(60)),
        ("nothing", "string", serde_json::Value::Null, None),
    ];
    let mut spec = TableSpec::log("t", &[("k", "int"), ("x", "int")]);
    spec.primary_key = vec!["k".to_owned()];
    for (name, column_type, default, _) in &columns {
        let mut column = TableSpec::log("t", &[(name, column_type)]).columns.remove(0);
        column.default = Some(default.clone());
        spec.columns.push(column);
    }
    let t = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
    let mut change = vec![int(1), int(2)];
    change.resize(2 + columns.len(), text("of no meaning"));
    let mut expected = vec![int(1), int(2)];
    expected.extend(columns.iter().map(|(.., bytes)| bytes.clone()));
    let op = Op::Upsert(change, Some(vec!["k", "x"]));
    assert_eq!(apply(&t, None, &op).unwrap(), Became::Row(expected));
}

#[test]
fn deletes_do_what_the_table_says() {
    let old = row(Some("x"), Some(1), Some(2));
    let delete =
        |behavior: &[(&str, &str)], stored: Option<&Row>| apply(&engine(behavior), stored, &Op::Delete(None));
    assert_eq!(delete(&[], Some(&old)).unwrap(), Became::Gone);
    assert_eq!(delete(&[], None).unwrap(), Became::Unchanged);
    let ignore = [("table.delete.behavior", "ignore")];
    assert_eq!(delete(&ignore, Some(&old)).unwrap(), Became::Unchanged);
    let disable = [("table.delete.behavior", "disable")];
    assert_eq!(delete(&disable, Some(&old)).unwrap_err(), MergeFault::DeleteDisabled);
    assert_eq!(delete(&disable, None).unwrap_err(), MergeFault::DeleteDisabled);
    let aggregation = ("table.merge-engine", "aggregation");
    assert_eq!(delete(&[aggregation], Some(&old)).unwrap(), Became::Unchanged);
    assert_eq!(delete(&[aggregation, ("table.delete.behavior", "allow")], Some(&old)).unwrap(), Became::Gone);
    let versioned = [
        ("table.merge-engine", "versioned"),
        ("table.merge-engine.versioned.ver-column", "v"),
        ("table.merge-engine.versioned.delete-behavior", "disable"),
    ];
    assert_eq!(delete(&versioned, Some(&old)).unwrap_err(), MergeFault::DeleteDisabled);
}

#[test]
fn a_partial_delete_takes_the_row_only_when_nothing_is_left() {
    for properties in
        [&[][..], &[("table.merge-engine", "aggregation"), ("table.delete.behavior", "allow")][..]]
    {
        let t = engine(properties);
        let op = Op::Delete(Some(vec!["k", "a"]));
        let became = |stored: Option<Row>| apply(&t, stored.as_ref(), &op).unwrap();
        assert_eq!(became(None), Became::Unchanged);
        assert_eq!(became(Some(row(Some("x"), Some(1), None))), Became::Row(row(None, Some(1), None)));
        assert_eq!(became(Some(row(Some("x"), None, None))), Became::Gone);
        assert_eq!(became(Some(row(None, None, None))), Became::Gone);
        let all = Op::Delete(Some(vec!["k", "a", "b", "v"]));
        assert_eq!(apply(&t, Some(&row(Some("x"), Some(1), Some(1))), &all).unwrap(), Became::Gone);
    }
}

#[test]
fn the_auto_increment_column_keeps_what_the_row_was_inserted_with() {
    for properties in [&[][..], &[("table.merge-engine", "aggregation")][..]] {
        let t = create(&[("a", "string"), ("id", "bigint")], properties, &["id"]).unwrap();
        let row = |a: &str, id: i128| vec![int(1), text(a), int(id)];
        assert_eq!(upsert(&t, None, row("x", 7)), Became::Row(row("x", 7)));
        assert_eq!(upsert(&t, Some(&row("x", 7)), row("y", 8)), Became::Row(row("y", 7)));
        let partial = Op::Upsert(row("y", 8), Some(vec!["k"]));
        let inserted = vec![int(1), None, int(8)];
        assert_eq!(apply(&t, None, &partial).unwrap(), Became::Row(inserted));
        assert_eq!(apply(&t, Some(&row("x", 7)), &partial).unwrap(), Became::Row(row("x", 7)));
        assert!(!MergeEngine::new(&t).unwrap().replaces());
    }
    let t = create(&[("a", "string"), ("id", "bigint")], &[], &["id"]).unwrap();
    let stored = vec![int(1), text("x"), int(7)];
    let cleared = Became::Row(vec![int(1), None, int(7)]);
    assert_eq!(apply(&t, Some(&stored), &Op::Delete(Some(vec!["k", "a"]))).unwrap(), cleared);
}

#[test]
fn rows_of_another_shape_are_refused() {
    let t = engine(&[]);
    let short = vec![int(1)];
    let whole = row(None, None, None);
    let misfit = |stored: Option<&Row>, op: Op| {
        let error = apply(&t, stored, &op).unwrap_err();
        assert!(matches!(error, MergeFault::Misfit(_)), "{error}");
    };
    misfit(None, Op::Upsert(short.clone(), None));
    misfit(Some(&short), Op::Upsert(whole.clone(), None));
    misfit(Some(&short), Op::Delete(None));
    let engine = MergeEngine::new(&t).unwrap();
    let for_delete = TargetColumns::new(&t, ["k", "a"], Verb::Delete).unwrap();
    let fields: Vec<Option<&[u8]>> = whole.iter().map(|f| f.as_deref()).collect();
    let change = Change::Upsert { fields: &fields, targets: Some(&for_delete) };
    assert!(engine.merge(None, change, &mut MergeScratch::default()).is_err());
    let for_upsert = TargetColumns::new(&t, ["k", "a"], Verb::Upsert).unwrap();
    let change = Change::Delete { targets: Some(&for_upsert) };
    assert!(engine.merge(None, change, &mut MergeScratch::default()).is_err());
}

#[test]
fn damaged_versions_are_faults() {
    let t = engine(&[("table.merge-engine", "versioned"), ("table.merge-engine.versioned.ver-column", "v")]);
    let mut stored = row(None, None, Some(1));
    stored[3] = Some(vec![0x80]);
    let error = apply(&t, Some(&stored), &Op::Upsert(row(None, None, Some(1)), None)).unwrap_err();
    assert_eq!(error, MergeFault::Damaged { column: "v".to_owned() });
}

#[test]
fn log_tables_have_no_engine() {
    let t =
        Table::create(TableId(1), "a.t".parse().unwrap(), &TableSpec::log("t", &[("a", "int")]), 0).unwrap();
    assert!(MergeEngine::new(&t).is_err());
}
