use std::collections::BTreeMap;

use super::*;
use crate::evolve::SchemaChange;
use crate::ids::TableId;
use crate::table::{ColumnSpec, TableSpec};

const AGGREGATION: (&str, &str) = ("table.merge-engine", "aggregation");
const VERSIONED: (&str, &str) = ("table.merge-engine", "versioned");
const VERSION: &str = "table.merge-engine.versioned.ver-column";

fn spec(properties: &[(&str, &str)]) -> TableSpec {
    let mut spec = TableSpec::log(
        "t",
        &[("id", "int"), ("clicks", "bigint"), ("name", "string"), ("at", "timestamp(3)"), ("raw", "bytes")],
    );
    spec.primary_key = vec!["id".to_owned()];
    spec.properties = properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    spec
}

fn create(spec: &TableSpec) -> Result<Table, InvalidTable> {
    Table::create(TableId(1), "a.t".parse().unwrap(), spec, 0)
}

fn fails(properties: &[(&str, &str)]) -> String {
    create(&spec(properties)).unwrap_err().to_string()
}

#[test]
fn functions_are_read_whatever_their_spelling() {
    let table = create(&spec(&[
        AGGREGATION,
        ("fields.clicks.agg", "SUM"),
        ("fields.name.agg", "String-Agg"),
        ("fields.name.string_agg.delimiter", ";"),
    ]))
    .unwrap();
    let aggregates = table.aggregates().unwrap();
    assert_eq!(aggregates[1].function, AggFunction::Sum);
    assert_eq!(aggregates[2].function, AggFunction::StringAgg);
    assert_eq!(aggregates[2].delimiter, ";");
    assert_eq!(aggregates[3].function, AggFunction::LastValueIgnoreNulls);
    assert_eq!(table.options.get("fields.name.agg"), Some("string_agg"), "kept in the normal spelling");
}

#[test]
fn every_function_is_known_by_its_name() {
    for function in AggFunction::ALL {
        assert_eq!(AggFunction::parse(function.name()), Ok(function));
        assert_eq!(AggFunction::parse(&function.name().to_uppercase().replace('_', "-")), Ok(function));
    }
    assert_eq!(AggFunction::parse("summ"), Err(Some("sum")));
    assert_eq!(AggFunction::parse("percentile"), Err(None));
}

#[test]
fn wrong_functions_are_explained() {
    let agg = |name: &str, value: &str| fails(&[AGGREGATION, (name, value)]);
    assert_eq!(
        agg("fields.clicks.agg", "summ"),
        "option \"fields.clicks.agg\" is \"summ\": no aggregate function has this name; did you mean \"sum\"?"
    );
    assert!(agg("fields.clicks.agg", "percentile").contains("write sum or product"));
    assert_eq!(
        agg("fields.cliks.agg", "sum"),
        "the aggregation names column \"cliks\", which does not exist; did you mean \"clicks\"?"
    );
    assert_eq!(
        agg("fields.name.agg", "sum"),
        "option \"fields.name.agg\" does not fit this table: column \"name\" is string, and sum takes whole numbers, floats and decimals"
    );
    assert!(agg("fields.id.agg", "sum").contains("column \"id\" is part of the primary key"));
    assert!(agg("fields.clicks.aggg", "sum").contains("did you mean \"fields.<column>.agg\""));
    assert!(agg("fields.agg", "sum").contains("is not known"));
    assert!(agg("fields.name.listagg.delimiter", "").contains("one character at least"));
    assert!(agg("fields.name.listagg.delimiter", ";").contains("is not listagg"));
    let twice = fails(&[
        AGGREGATION,
        ("fields.name.agg", "listagg"),
        ("fields.name.listagg.delimiter", ";"),
        ("fields.name.string_agg.delimiter", "|"),
    ]);
    assert!(twice.contains("given twice"), "{twice}");
    assert!(fails(&[("fields.clicks.agg", "sum")]).contains("aggregation only"));
    let mut log = spec(&[("fields.clicks.agg", "sum")]);
    log.primary_key.clear();
    assert!(create(&log).unwrap_err().to_string().contains("aggregation only"));
}

#[test]
fn functions_take_some_types_only() {
    use AggFunction::*;
    let cases: [(AggFunction, &[&str], &[&str]); 7] = [
        (Sum, &["tinyint", "bigint", "float", "decimal(5,2)"], &["string", "date", "boolean"]),
        (
            Max,
            &["string", "char(3)", "time(3)", "timestamp_ltz(6)", "double"],
            &["bytes", "boolean", "array<int>"],
        ),
        (ListAgg, &["string", "char(3)"], &["bytes", "int"]),
        (BoolOr, &["boolean"], &["int"]),
        (Rbm32, &["bytes"], &["binary(8)", "string"]),
        (Count, &["bigint"], &["int", "string"]),
        (LastValue, &["array<int>", "map<int,int>", "row<a int>", "bytes"], &[]),
    ];
    for (function, good, bad) in cases {
        for (spellings, expected) in [(good, true), (bad, false)] {
            for spelling in spellings {
                let data_type: DataType = spelling.parse().unwrap();
                assert_eq!(function.takes(&data_type), expected, "{function:?} {spelling}");
            }
        }
    }
}

#[test]
fn defaults_of_bitmap_columns_are_bitmaps() {
    let mut spec = spec(&[AGGREGATION, ("fields.raw.agg", "rbm32")]);
    spec.columns[4].default = Some("x".into());
    assert!(create(&spec).unwrap_err().to_string().contains("the default of column \"raw\" is no bitmap"));
    spec.columns[4].default = Some(":0\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}".into());
    create(&spec).unwrap();
}

#[test]
fn versioned_tables_need_a_version() {
    assert!(fails(&[VERSIONED]).contains("versioned needs table.merge-engine.versioned.ver-column"));
    assert!(fails(&[VERSIONED, (VERSION, "att")]).contains("did you mean \"at\"?"));
    assert!(fails(&[VERSIONED, (VERSION, "name")]).contains("column \"name\" is string; versions are int"));
    assert!(fails(&[(VERSION, "at")]).contains("versioned only"));
    assert!(fails(&[AGGREGATION, (VERSION, "at")]).contains("versioned only"));
    let table = create(&spec(&[VERSIONED, (VERSION, "at")])).unwrap();
    assert_eq!(table.version_column(), Ok(3));
}

#[test]
fn engines_and_deletes_must_agree() {
    let allow = ("table.delete.behavior", "allow");
    let versioned_deletes = "table.merge-engine.versioned.delete-behavior";
    assert!(fails(&[("table.merge-engine", "first_row"), allow]).contains("ignore or disable"));
    assert!(fails(&[VERSIONED, (VERSION, "at"), allow]).contains("table.delete.behavior"));
    assert!(fails(&[VERSIONED, (VERSION, "at"), (versioned_deletes, "allow")]).contains(versioned_deletes));
    let both = fails(&[
        VERSIONED,
        (VERSION, "at"),
        (versioned_deletes, "disable"),
        ("table.delete.behavior", "ignore"),
    ]);
    assert!(both.contains("something else"), "{both}");
    assert!(fails(&[(versioned_deletes, "ignore")]).contains("versioned only"));
    assert!(fails(&[AGGREGATION, ("table.changelog.image", "wal")]).contains("full changelog"));
    let behavior = |properties: &[(&str, &str)]| create(&spec(properties)).unwrap().options.delete_behavior();
    assert_eq!(behavior(&[]), DeleteBehavior::Allow);
    assert_eq!(behavior(&[AGGREGATION]), DeleteBehavior::Ignore);
    assert_eq!(behavior(&[AGGREGATION, allow]), DeleteBehavior::Allow);
    let versioned = [VERSIONED, (VERSION, "at"), (versioned_deletes, "disable")];
    assert_eq!(behavior(&versioned), DeleteBehavior::Disable);
    let mut log = spec(&[("table.merge-engine.versioned.ver-column", "at")]);
    log.primary_key.clear();
    assert!(create(&log).unwrap_err().to_string().contains("primary-key tables only"));
}

#[test]
fn rows_expire_by_a_time() {
    let ttl = ("table.kv.row.ttl", "1d");
    let column = "table.kv.row.ttl.time-column";
    assert!(fails(&[ttl, (column, "at")]).contains("milliseconds"));
    assert!(fails(&[ttl, (column, "a")]).contains("does not exist"));
    assert!(fails(&[ttl, ("table.datalake.enabled", "true")]).contains("do not expire"));
    let table = create(&spec(&[ttl, (column, "clicks")])).unwrap();
    assert_eq!(table.options.row_ttl(), Some(std::time::Duration::from_secs(86_400)));
    let lake = BTreeMap::from([("table.datalake.enabled".to_owned(), Some("true".to_owned()))]);
    assert!(table.altered(&[], &lake).unwrap_err().to_string().contains("do not expire"), "later too");
}

#[test]
fn one_column_may_count_by_itself() {
    let auto = |columns: &[&str], change: &dyn Fn(&mut TableSpec)| {
        let mut spec = spec(&[]);
        spec.auto_increment = columns.iter().map(|c| c.to_string()).collect();
        change(&mut spec);
        create(&spec).map_err(|e| e.to_string())
    };
    let table = auto(&["clicks"], &|_| ()).unwrap();
    assert_eq!(table.auto_increment, Some(FieldId(2)));
    assert!(!table.schema().columns()[1].nullable);
    let stored = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&stored).unwrap(), table);
    let fails = |columns: &[&str], change: &dyn Fn(&mut TableSpec)| auto(columns, change).unwrap_err();
    assert!(fails(&["click"], &|_| ()).contains("did you mean \"clicks\"?"));
    assert!(fails(&["clicks", "at"], &|_| ()).contains("at most one auto-increment column, not 2"));
    assert!(fails(&["id"], &|_| ()).contains("it is part of the primary key"));
    assert!(fails(&["name"], &|_| ()).contains("it must be int or bigint"));
    assert!(fails(&["clicks"], &|s| s.columns[1].default = Some(1.into())).contains("it has a default"));
    assert!(fails(&["clicks"], &|s| s.primary_key.clear()).contains("only primary-key tables have one"));
    let aggregated = |s: &mut TableSpec| {
        s.properties =
            [AGGREGATION, ("fields.clicks.agg", "sum")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    };
    assert!(fails(&["clicks"], &aggregated).contains("is the auto-increment column"));
}

#[test]
fn options_follow_their_columns() {
    let table = create(&spec(&[
        AGGREGATION,
        ("fields.name.agg", "listagg"),
        ("fields.name.listagg.delimiter", ";"),
        ("table.statistics.columns", "id, name,at"),
    ]))
    .unwrap();
    let none = BTreeMap::new();
    let rename = |from: &str, to: &str| SchemaChange::RenameColumn { from: from.into(), to: to.into() };
    let renamed = table.altered(&[rename("name", "a.b")], &none).unwrap();
    assert_eq!(renamed.options.get("fields.a.b.agg"), Some("listagg"));
    assert_eq!(renamed.options.get("fields.a.b.listagg.delimiter"), Some(";"));
    assert_eq!(renamed.options.get("table.statistics.columns"), Some("id,a.b,at"));
    assert_eq!(renamed.aggregates().unwrap(), table.aggregates().unwrap());
    let drop = |name: &str| SchemaChange::DropColumn { name: name.into() };
    let dropped = table.altered(&[drop("name")], &none).unwrap();
    assert_eq!(dropped.options.get("table.statistics.columns"), Some("id,at"));
    assert!(dropped.options.of_columns().next().is_none());
    let versioned = create(&spec(&[VERSIONED, (VERSION, "at")])).unwrap();
    let error = versioned.altered(&[drop("at")], &none).unwrap_err();
    assert_eq!(error.to_string(), "column \"at\" cannot be dropped: it is the version column");
    let renamed = versioned.altered(&[rename("at", "when")], &none).unwrap();
    assert_eq!(renamed.options.get(VERSION), Some("when"));
    let mut auto = spec(&[]);
    auto.auto_increment = vec!["clicks".into()];
    assert!(create(&auto).unwrap().altered(&[drop("clicks")], &none).is_err());
}

#[test]
fn only_new_columns_get_a_function_later() {
    let table = create(&spec(&[AGGREGATION])).unwrap();
    let set = |name: &str| BTreeMap::from([(name.to_owned(), Some("sum".to_owned()))]);
    let error = table.altered(&[], &set("fields.clicks.agg")).unwrap_err();
    assert!(error.to_string().contains("cannot be changed"), "{error}");
    let mut column = ColumnSpec::of("views", &DataType::Int, true);
    let added = table.altered(&[SchemaChange::AddColumn(column.clone())], &set("fields.views.agg")).unwrap();
    assert_eq!(added.aggregates().unwrap()[5].function, AggFunction::Sum);
    column.column_type = "string".into();
    let error = table.altered(&[SchemaChange::AddColumn(column)], &set("fields.views.agg")).unwrap_err();
    assert!(error.to_string().contains("is string, and sum takes"), "{error}");
    assert!(table.altered(&[], &set("fields.vews.agg")).is_err());
}
