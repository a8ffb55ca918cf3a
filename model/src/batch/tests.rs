use arrow::array::*;
use arrow::datatypes::{Int8Type, Int32Type, Int64Type};

use super::*;
use crate::ids::TableId;
use crate::table::{Table, TableSpec};

fn schema(columns: &[(&str, &str)]) -> Schema {
    let spec = TableSpec::log("t", columns);
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap().schema().clone()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

/// The rejected rows, and the first value of the first column as text.
fn rejected(column_type: &str, array: ArrayRef) -> Vec<u64> {
    let schema = schema(&[("c", column_type)]);
    let (conformed, rejects) = conform(&batch(vec![("c", array)]), &schema).unwrap();
    let rows: Vec<u64> = rejects.rows().collect();
    let kept = without(&conformed, &rejects, &schema).unwrap();
    assert_eq!(kept.num_rows() + rows.len(), conformed.num_rows());
    assert_eq!(kept.schema_ref(), schema.arrow());
    rows
}

#[test]
fn columns_are_found_by_name_and_filled_up() {
    let schema = schema(&[("a", "bigint"), ("b", "string"), ("c", "int")]);
    let given = batch(vec![
        ("b", Arc::new(LargeStringArray::from(vec!["x", "y"])) as ArrayRef),
        ("a", Arc::new(Int32Array::from(vec![1, 2]))),
    ]);
    let (conformed, rejects) = conform(&given, &schema).unwrap();
    assert!(rejects.is_empty());
    assert_eq!(conformed.schema_ref(), schema.arrow());
    assert_eq!(conformed.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(conformed.column(2).null_count(), 2);
}

#[test]
fn wrong_shapes_are_named() {
    let schema = schema(&[("carrier", "string"), ("n", "int not null")]);
    let error = |columns| conform(&batch(columns), &schema).unwrap_err().to_string();
    let strings = || Arc::new(StringArray::from(vec!["x"])) as ArrayRef;
    assert_eq!(
        error(vec![("carier", strings())]),
        "column \"carier\" is not in the table; did you mean \"carrier\"?"
    );
    assert!(error(vec![("carrier", strings())]).contains("\"n\" is missing"));
    assert!(
        error(vec![("carrier", strings()), ("n", strings())]).contains("n\" is int in the table and Utf8")
    );
}

#[test]
fn numbers_convert_only_where_they_stay_the_same() {
    assert_eq!(rejected("tinyint", Arc::new(Int64Array::from(vec![1, 127, 128, -129]))), [2, 3]);
    assert_eq!(rejected("bigint", Arc::new(UInt64Array::from(vec![1, u64::MAX]))), [1]);
    let floats = Float64Array::from(vec![Some(517.0), Some(1.5), None, Some(f64::NAN), Some(1e300)]);
    assert_eq!(rejected("bigint", Arc::new(floats)), [1, 3, 4]);
    let decimal = Decimal128Array::from(vec![12345, 12300]).with_precision_and_scale(10, 3).unwrap();
    assert_eq!(rejected("decimal(10,1)", Arc::new(decimal)), [0]);
    let decimal = Decimal128Array::from(vec![123_456, 12]).with_precision_and_scale(10, 0).unwrap();
    assert_eq!(rejected("decimal(5,2)", Arc::new(decimal)), [0]);
    assert_eq!(rejected("double", Arc::new(Int64Array::from(vec![1 << 60]))), [0u64; 0]);
}

#[test]
fn text_becomes_dates_and_decimals() {
    let text = |values: Vec<&str>| Arc::new(StringArray::from(values)) as ArrayRef;
    assert_eq!(rejected("timestamp_ltz(3)", text(vec!["2013-01-01T10:00:00Z", "soon"])), [1]);
    assert_eq!(rejected("date", text(vec!["2013-01-31", "2013-02-31"])), [1]);
    assert_eq!(rejected("decimal(10,2)", text(vec!["12.5", "12,5"])), [1]);
}

#[test]
fn instants_far_outside_the_calendar_are_rejected() {
    let ltz = |v| Arc::new(TimestampMillisecondArray::from(v).with_timezone("UTC")) as ArrayRef;
    // 2013 in microseconds, taken for milliseconds, is the year 44 970.
    assert_eq!(rejected("timestamp_ltz(3)", ltz(vec![1_357_034_400_000, 1_357_034_400_000_000])), [1]);
    assert_eq!(rejected("date", Arc::new(Date32Array::from(vec![Some(0), None, Some(i32::MAX)]))), [2]);
}

#[test]
fn nulls_in_not_null_columns_are_rejected() {
    assert_eq!(rejected("int not null", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))), [1]);
    assert_eq!(rejected("int not null", Arc::new(NullArray::new(2))), [0, 1]);
}

#[test]
fn other_encodings_are_plain_afterwards() {
    let dictionary: DictionaryArray<Int8Type> = vec!["a", "b", "a"].into_iter().collect();
    assert!(rejected("string", Arc::new(dictionary)).is_empty());
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int64Array::from(vec![7, 8])).unwrap();
    assert!(rejected("bigint", Arc::new(runs)).is_empty());
    assert!(
        rejected("string", Arc::new(StringViewArray::from(vec!["a long enough text to be out of line"])))
            .is_empty()
    );
    assert!(rejected("bytes", Arc::new(BinaryViewArray::from(vec![b"x".as_slice()]))).is_empty());
    assert!(rejected("binary(2)", Arc::new(BinaryArray::from(vec![b"xy".as_slice()]))).is_empty());
}

#[test]
fn a_bad_item_rejects_only_its_row() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![
        Some(vec![Some(1), Some(2)]),
        Some(vec![Some(1), Some(1 << 40)]),
        None,
        Some(vec![None]),
    ]);
    assert_eq!(rejected("array<int>", Arc::new(lists.clone())), [1]);
    assert_eq!(rejected("array<int not null>", Arc::new(lists)), [1, 3]);
}

#[test]
fn rows_are_converted_field_by_field() {
    let fields: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(StringArray::from(vec!["x", "y"]))),
        ("a", Arc::new(Int64Array::from(vec![1, 1 << 40]))),
    ];
    let rows = StructArray::from(RecordBatch::try_from_iter(fields).unwrap());
    assert_eq!(rejected("row<a int, b string, c double>", Arc::new(rows.clone())), [1]);
    let schema = schema(&[("c", "row<a int>")]);
    let error = conform(&batch(vec![("c", Arc::new(rows))]), &schema).unwrap_err();
    assert!(error.to_string().contains("\"c.b\""), "{error}");
}

#[test]
fn stored_rows_are_read_under_a_later_version() {
    use crate::evolve::SchemaChange::*;
    use crate::table::ColumnSpec;
    let spec = TableSpec::log("t", &[("id", "int"), ("name", "string"), ("gone", "double")]);
    let table = Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap();
    let new =
        ColumnSpec { name: "n".into(), column_type: "int".into(), comment: None, default: Some(7.into()) };
    let later = table
        .evolved(&[
            WidenColumn { name: "id".into(), data_type: "bigint".parse().unwrap() },
            RenameColumn { from: "name".into(), to: "title".into() },
            DropColumn { name: "gone".into() },
            AddColumn(new),
        ])
        .unwrap();
    let plan = read_as(table.schema(), later.schema(), &[2, 0]);
    assert_eq!(plan.sources(), [0]);
    let stored = batch(vec![("id", Arc::new(Int32Array::from(vec![5, 6])) as ArrayRef)]);
    let read = plan.apply(&stored).unwrap();
    assert_eq!(read.schema_ref().field(0).name(), "n");
    assert_eq!(read.column(0).as_primitive::<Int32Type>().values(), &[7, 7]);
    assert_eq!(read.column(1).as_primitive::<Int64Type>().values(), &[5, 6]);
}
