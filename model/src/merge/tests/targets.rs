//! Which columns a partial update or delete can name.

use super::*;

fn message(table: &Table, names: &[&str], verb: Verb) -> String {
    TargetColumns::new(table, names.iter().copied(), verb).unwrap_err().to_string()
}

#[test]
fn wrong_targets_are_explained() {
    let t = create(&[("clicks", "bigint"), ("must", "int not null"), ("id", "int")], &[], &["id"]).unwrap();
    let upsert = |names: &[&str]| message(&t, names, Verb::Upsert);
    assert_eq!(
        upsert(&["k", "must", "cliks"]),
        "column \"cliks\" is not in the table; did you mean \"clicks\"?"
    );
    assert_eq!(
        upsert(&["clicks", "must"]),
        "the named columns leave out \"k\", which is part of the primary key"
    );
    assert!(upsert(&["k", "must", "id"]).contains("its values come from the server"));
    assert!(upsert(&["k", "clicks"]).contains("leave out \"must\", which is not null and has no default"));
    assert_eq!(upsert(&["k", "must", "k"]), "column \"k\" is named twice");
    assert!(message(&t, &["k", "must"], Verb::Delete).contains("cannot be deleted alone"));
    let delete = TargetColumns::new(&t, ["k", "clicks"], Verb::Delete).unwrap();
    assert!(delete.contains(1) && !delete.contains(2) && !delete.contains(99));
    assert!(!delete.is_full());
    let all = TargetColumns::new(&t, ["must", "k", "clicks"], Verb::Upsert).unwrap();
    assert!(all.is_full(), "all that a writer may name");
}

#[test]
fn some_engines_take_whole_rows_only() {
    let first = table(&[("a", "int")], &[("table.merge-engine", "first_row")]);
    assert_eq!(
        message(&first, &["k", "a"], Verb::Upsert),
        "merge engine first_row takes whole rows only, no partial updates"
    );
    let versioned = table(
        &[("a", "int")],
        &[("table.merge-engine", "versioned"), ("table.merge-engine.versioned.ver-column", "a")],
    );
    assert!(message(&versioned, &["k", "a"], Verb::Upsert).contains("versioned"));
    let log =
        Table::create(TableId(1), "a.t".parse().unwrap(), &TableSpec::log("t", &[("a", "int")]), 0).unwrap();
    assert!(message(&log, &["a"], Verb::Upsert).contains("primary key"));
}
