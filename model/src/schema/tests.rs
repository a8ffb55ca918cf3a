use arrow::array::{AsArray, Int32Array};
use arrow::datatypes::{Decimal128Type, Int32Type};
use serde_json::json;

use super::*;

fn column(data_type: &str, default: serde_json::Value) -> Column {
    let data_type = data_type.parse().unwrap();
    Column {
        id: FieldId(1),
        name: "c".into(),
        data_type,
        nullable: true,
        comment: None,
        default: Some(default),
    }
}

#[test]
fn defaults_are_typed() {
    let value = default_value(&column("int", json!(7))).unwrap().unwrap();
    assert_eq!(value.as_primitive::<Int32Type>(), &Int32Array::from(vec![7]));
    let value = default_value(&column("decimal(5,2)", json!("1.50"))).unwrap().unwrap();
    assert_eq!(value.as_primitive::<Decimal128Type>().value(0), 150);
}

#[test]
fn bad_defaults_are_refused() {
    for (data_type, bad) in
        [("int", json!("x")), ("tinyint", json!(300)), ("date", json!("yesterday")), ("int", json!([1]))]
    {
        assert!(default_value(&column(data_type, bad.clone())).is_err(), "{bad} was taken for {data_type}");
    }
}

#[test]
fn a_stored_schema_reads_back_the_same() {
    let schema = Schema::new(SchemaId(3), vec![column("int", json!(7))]);
    let stored = serde_json::to_string(&schema).unwrap();
    assert_eq!(serde_json::from_str::<Schema>(&stored).unwrap(), schema);
}
