use super::*;
use crate::ids::TableId;
use crate::table::TableSpec;

fn table() -> Table {
    let mut spec = TableSpec::log("t", &[("id", "int"), ("name", "string"), ("price", "decimal(10,2)")]);
    spec.bucket_key = vec!["id".into()];
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap()
}

fn add(name: &str, column_type: &str) -> SchemaChange {
    let (name, column_type) = (name.to_owned(), column_type.to_owned());
    SchemaChange::AddColumn(ColumnSpec { name, column_type, comment: None, default: None })
}

#[test]
fn ids_outlive_names_and_are_never_used_again() {
    let rename = SchemaChange::RenameColumn { from: "name".into(), to: "title".into() };
    let dropped = table().evolved(&[rename, SchemaChange::DropColumn { name: "price".into() }]).unwrap();
    let again = dropped.evolved(&[add("price", "double")]).unwrap();
    let columns = again.schema().columns();
    assert_eq!(
        columns.iter().map(|c| (c.name.as_str(), c.id.0)).collect::<Vec<_>>(),
        [("id", 1), ("title", 2), ("price", 4)]
    );
    assert_eq!(again.schema().id(), SchemaId(3));
    assert_eq!(again.schemas.len(), 3);
}

#[test]
fn types_only_widen() {
    let widen = |to: &str| {
        let spec = TableSpec::log("t", &[("id", "int")]);
        let table = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
        table.evolved(&[SchemaChange::WidenColumn { name: "id".into(), data_type: to.parse().unwrap() }])
    };
    assert_eq!(widen("bigint").unwrap().schema().columns()[0].data_type, DataType::BigInt);
    assert!(matches!(widen("smallint"), Err(InvalidTable::NotWider { .. })));
    assert!(matches!(widen("string"), Err(InvalidTable::NotWider { .. })));
}

#[test]
fn columns_of_the_primary_key_keep_their_types() {
    let mut spec = TableSpec::log("t", &[("id", "int"), ("n", "int")]);
    spec.primary_key = vec!["id".into()];
    let table = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
    let widen = |name: &str, to: &str| {
        table.evolved(&[SchemaChange::WidenColumn { name: name.into(), data_type: to.parse().unwrap() }])
    };
    assert_eq!(
        widen("id", "bigint").unwrap_err().to_string(),
        "column \"id\" cannot change its type: it is part of the primary key, and where stored rows lie does not change"
    );
    assert!(widen("n", "bigint").is_ok());
    let rename = SchemaChange::RenameColumn { from: "id".into(), to: "key".into() };
    assert!(table.evolved(&[rename]).is_ok());
}

/// The same value hashes to another bucket under another type.
#[test]
fn columns_of_the_bucket_key_keep_their_types() {
    let mut spec = TableSpec::log("t", &[("user", "int"), ("n", "int")]);
    (spec.bucket_key, spec.buckets) = (vec!["user".into()], Some(4));
    let table = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
    let widen = |name: &str| {
        table
            .evolved(&[SchemaChange::WidenColumn { name: name.into(), data_type: "bigint".parse().unwrap() }])
    };
    assert!(matches!(widen("user"), Err(InvalidTable::WidensKey { role: "bucket key", .. })));
    assert!(widen("n").is_ok());
}

#[test]
fn what_would_break_stored_rows_is_refused() {
    let refused = |change: SchemaChange| table().evolved(&[change]).unwrap_err();
    assert!(matches!(refused(SchemaChange::DropColumn { name: "id".into() }), InvalidTable::DropsKey { .. }));
    assert!(matches!(refused(add("x", "int not null")), InvalidTable::NewNotNull { .. }));
    assert!(matches!(refused(add("name", "int")), InvalidTable::ColumnTwice { .. }));
    assert!(matches!(
        refused(SchemaChange::DropColumn { name: "nmae".into() }),
        InvalidTable::UnknownColumn { .. }
    ));
    let onto = SchemaChange::RenameColumn { from: "name".into(), to: "price".into() };
    assert!(matches!(refused(onto), InvalidTable::ColumnTwice { .. }));
}
