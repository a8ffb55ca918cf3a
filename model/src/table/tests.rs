use super::*;

fn create(spec: TableSpec) -> Result<Table, InvalidTable> {
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| n.to_string()).collect()
}

#[test]
fn a_log_table_is_made() {
    let table = create(TableSpec::log("t", &[("id", "bigint not null"), ("name", "string")])).unwrap();
    assert!(!table.has_primary_key());
    assert_eq!(table.buckets, 1);
    assert_eq!(table.schema().columns()[1].id, FieldId(2));
    let stored = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&stored).unwrap(), table);
}

#[test]
fn a_primary_key_is_not_null_and_gives_the_bucket_key() {
    let mut spec = TableSpec::log("t", &[("day", "string"), ("id", "bigint"), ("v", "double")]);
    spec.primary_key = names(&["day", "id"]);
    spec.partition_by = names(&["day"]);
    let table = create(spec).unwrap();
    assert_eq!(table.names_of(&table.bucket_key), ["id"]);
    assert!(!table.schema().columns()[0].nullable);
}

#[test]
fn mistakes_are_named() {
    let base = TableSpec::log("t", &[("id", "bigint"), ("tags", "array<string>")]);
    let message = |change: &dyn Fn(&mut TableSpec)| {
        let mut spec = base.clone();
        change(&mut spec);
        create(spec).unwrap_err().to_string()
    };
    assert_eq!(
        message(&|s| s.bucket_key = names(&["idd"])),
        "the bucket key names column \"idd\", which does not exist; did you mean \"id\"?"
    );
    assert!(message(&|s| s.bucket_key = names(&["tags"])).contains("cannot be part of the bucket key"));
    assert!(message(&|s| s.buckets = Some(0)).contains("1 to 4096"));
    assert!(message(&|s| s.columns[0].name = "_offset".into()).contains("belong to the system"));
    assert!(message(&|s| s.columns[1].name = "id".into()).contains("twice"));
    assert!(message(&|s| s.columns.clear()).contains("not 0"));
    assert!(message(&|s| s.columns[0].default = Some("x".into())).contains("default"));
    let option = |s: &mut TableSpec, name: &str, value: &str| s.properties.insert(name.into(), value.into());
    assert!(
        message(&|s| drop(option(s, "table.merge-engine", "first_row"))).contains("primary-key tables only")
    );
    assert!(message(&|s| drop(option(s, "table.statistics.columns", "id, nope"))).contains("nope"));
}
