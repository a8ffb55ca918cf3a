use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{Decimal128Type, Int32Type, Int64Type};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use proptest::prelude::*;
use wadi_model::ids::TableId;
use wadi_model::ipc;
use wadi_model::reject::RowError;
use wadi_model::table::{ColumnSpec, Table, TableSpec};
use wadi_model::{ErrorKind, Fault};

use super::*;

/// A table of these columns.
pub(super) fn schema(columns: &[(&str, &str)]) -> Schema {
    schema_with(columns, &[])
}

fn schema_with(columns: &[(&str, &str)], defaults: &[(&str, serde_json::Value)]) -> Schema {
    let mut spec = TableSpec::log("t", columns);
    for column in &mut spec.columns {
        column.default = defaults.iter().find(|(name, _)| *name == column.name).map(|(_, v)| v.clone());
    }
    let _: &Vec<ColumnSpec> = &spec.columns;
    Table::create(TableId(1), "a.t".parse().unwrap(), &spec, 0).unwrap().schema().clone()
}

pub(super) fn read(
    format: BodyFormat,
    body: impl Into<Bytes>,
    schema: &Schema,
) -> Result<Decoded, BodyError> {
    let decoded = decode(format, body.into(), schema, &BodyLimits::default())?;
    assert_eq!(decoded.batch.schema_ref(), schema.arrow());
    assert_eq!(decoded.batch.num_rows() as u64 + decoded.rejects.count(), decoded.rows);
    Ok(decoded)
}

fn ndjson(body: &str, columns: &[(&str, &str)]) -> Decoded {
    read(BodyFormat::Ndjson, body.to_owned(), &schema(columns)).unwrap()
}

/// The only fault of a body of one JSON row and one CSV field of column `c`.
fn fault(column_type: &str, json: &str) -> RowError {
    let decoded = ndjson(&format!("{{\"c\":{json}}}\n"), &[("c", column_type)]);
    assert_eq!((decoded.rows, decoded.rejects.count()), (1, 1), "{json} is taken as {column_type}");
    decoded.rejects.told().next().unwrap().clone()
}

fn hint(column_type: &str, json: &str) -> String {
    fault(column_type, json).hint.unwrap_or_default()
}

const CSV: BodyFormat = BodyFormat::Csv { header: true };

#[test]
fn malformed_json_is_told_with_its_line() {
    let decoded = ndjson("{\"c\":1}\n{\"c\":2\n{\"c\":3}\n", &[("c", "int")]);
    assert_eq!(decoded.rejects.rows().collect::<Vec<_>>(), [1]);
    let error = decoded.rejects.told().next().unwrap();
    assert_eq!((error.row, error.line), (1, Some(2)));
    assert_eq!(decoded.batch.column(0).as_primitive::<Int32Type>().values(), &[1, 3]);

    let error = read(BodyFormat::Json, "[{\"c\":1},\n {\"c\":}]", &schema(&[("c", "int")])).unwrap_err();
    assert!(matches!(error, BodyError::BadJson { line: 2, column: 7, .. }), "{error:?}");
    assert_eq!((error.code(), error.kind()), ("bad_json", ErrorKind::Invalid));
}

#[test]
fn values_that_do_not_fit_come_with_a_hint() {
    let cases = [
        ("bigint", "\"7\"", "without quotes"),
        ("bigint", "1.5", "fraction"),
        ("bigint", "1e3", "fraction"),
        ("bigint", "9223372036854775808", "to 9223372036854775807"),
        ("tinyint", "128", "from -128 to 127"),
        ("smallint", "-32769", "from -32768"),
        ("int", "2147483648", "2147483647"),
        ("double", "1e999", "too large"),
        ("float", "1e39", "too large"),
        ("boolean", "\"true\"", "without quotes"),
        ("string", "5", "in quotes"),
        ("decimal(10,2)", "\"12,5\"", "dot"),
        ("decimal(10,2)", "123456789.5", "8 digits before the point and 2 after"),
        ("decimal(10,2)", "1.125", "2 after"),
        ("timestamp_ltz(3)", "1474416000000000", "numbers are milliseconds"),
        ("timestamp_ltz(3)", "\"48690-01-01T00:00:00Z\"", "years reach"),
        ("timestamp(3)", "\"2013-01-01T00:00:00Z\"", "no zone"),
        ("timestamp(9)", "\"2300-01-01T00:00:00\"", "2262"),
        ("date", "\"2013-02-30\"", "2013-01-31"),
        ("date", "15000", "in quotes"),
        ("timestamp(3)", "\"20130131\"", "2013-01-31T10:00:00"),
        ("bytes", "\"???\"", "base64"),
        ("binary(4)", "\"AAAA\"", "exactly 4 bytes"),
        ("array<int>", "[1,\"x\"]", "without quotes"),
        ("int not null", "null", "not null"),
    ];
    for (column_type, json, part) in cases {
        let told = hint(column_type, json);
        assert!(told.contains(part), "{column_type} {json}: {told}");
    }
}

#[test]
fn nan_and_infinity_are_no_json() {
    for json in ["NaN", "Infinity", "-Infinity"] {
        assert!(fault("double", json).expected.contains("JSON object"), "{json}");
    }
    assert!(hint("double", "NaN").contains("send null"));
}

#[test]
fn faults_name_the_place_inside_of_the_column() {
    let place = |column_type, json| fault(column_type, json).column.unwrap();
    assert_eq!(place("array<int>", "[1,2,1.5]"), "c[2]");
    assert_eq!(place("row<a row<b int>>", r#"{"a":{"b":"x"}}"#), "c.a.b");
    assert_eq!(place("map<string,int>", r#"{"k":"x"}"#), "c[k]");
    assert_eq!(place("array<row<a int>>", r#"[{"a":1},{"a":true}]"#), "c[1].a");
    assert_eq!(place("row<a int>", r#"{"b":1}"#), "c.b");
}

#[test]
fn missing_unknown_and_repeated_columns_are_bad_rows() {
    let columns = [("carrier", "string"), ("n", "int not null")];
    let decoded = ndjson(
        "{\"n\":1}\n{\"carrier\":\"x\"}\n{\"carier\":\"x\",\"n\":1}\n{\"n\":1,\"n\":2}\n{}\n[1]\n7\n",
        &columns,
    );
    let told: Vec<_> = decoded.rejects.told().cloned().collect();
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(told.len(), 6);
    assert_eq!((told[0].column.as_deref(), told[0].got.as_str()), (Some("n"), "nothing"));
    assert_eq!(told[1].hint.as_deref(), Some("did you mean \"carrier\"?"));
    assert!(told[2].got.contains("twice"));
    assert_eq!(told[5].line, Some(7));
}

#[test]
fn repeated_names_inside_of_rows_and_maps_are_refused() {
    assert!(fault("row<a int>", r#"{"a":1,"a":2}"#).got.contains("twice"));
    assert!(fault("map<string,int>", r#"{"a":1,"b":1,"a":2}"#).got.contains("twice"));
}

#[test]
fn a_bad_row_leaves_nothing_behind() {
    let columns = [
        ("a", "array<string>"),
        ("b", "binary(2)"),
        ("r", "row<x int, y array<int>>"),
        ("m", "map<string,int>"),
        ("n", "int not null"),
    ];
    let good = r#"{"a":["x"],"b":"AAA=","r":{"x":1,"y":[1,2]},"m":{"k":1},"n":1}"#;
    let bad = r#"{"a":["p","q"],"b":"////","r":{"x":1,"y":[1,2]},"m":{"k":1},"n":1}"#;
    let late = r#"{"a":["p","q"],"b":"AAA=","r":{"x":1,"y":[1,2]},"m":{"k":1},"n":null}"#;
    let alone = ndjson(&format!("{good}\n{good}\n"), &columns);
    let mixed = ndjson(&format!("{good}\n{bad}\n{late}\n{good}\n{bad}"), &columns);
    assert_eq!(mixed.batch, alone.batch);
    assert_eq!(mixed.rejects.rows().collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn absent_columns_get_their_default_or_null() {
    let defaults = [("d", serde_json::json!(7)), ("s", serde_json::json!("x"))];
    let schema = schema_with(&[("a", "int"), ("d", "int not null"), ("s", "string")], &defaults);
    for (format, body) in
        [(BodyFormat::Ndjson, "{\"a\":1}\n{}"), (BodyFormat::Json, "[{\"a\":1},{}]"), (CSV, "a\n1\n\n")]
    {
        let decoded = read(format, body, &schema).unwrap();
        assert_eq!(decoded.batch.num_rows(), 2, "{format:?}");
        assert_eq!(decoded.batch.column(0).null_count(), 1);
        assert_eq!(decoded.batch.column(1).as_primitive::<Int32Type>().values(), &[7, 7]);
        assert_eq!(decoded.batch.column(2).as_string::<i32>().value(1), "x");
    }
    let decoded = read(BodyFormat::Json, "{\"s\":null}", &schema).unwrap();
    assert!(decoded.batch.column(2).is_null(0), "a null that is said is no default");
}

#[test]
fn invalid_utf8_is_a_bad_row_and_tells_the_byte() {
    let schema = schema(&[("c", "string")]);
    let decoded = read(BodyFormat::Ndjson, &b"{\"c\":\"a\xFFb\"}\n{\"c\":\"x\"}\n"[..], &schema).unwrap();
    assert!(decoded.rejects.told().next().unwrap().got.contains("0xFF at byte 8"));
    assert_eq!(decoded.batch.num_rows(), 1);
    let decoded = read(CSV, &b"c\na\xFFb\nx\n"[..], &schema).unwrap();
    assert!(decoded.rejects.told().next().unwrap().got.contains("0xFF at byte 2"));
    let error = read(BodyFormat::Json, &b"[\n{\"c\":\"\xFF\"}]"[..], &schema).unwrap_err();
    assert!(error.to_string().contains("line 2, character 7: byte 0xFF"), "{error}");
}

#[test]
fn byte_order_marks_and_carriage_returns_are_no_data() {
    let schema = schema(&[("a", "int"), ("b", "string")]);
    let bodies = [
        (BodyFormat::Ndjson, "\u{FEFF}{\"a\":1,\"b\":\"x\"}\r\n\r\n{\"a\":2,\"b\":\"y\"}\r\n"),
        (BodyFormat::Json, "\u{FEFF}\r\n[{\"a\":1,\"b\":\"x\"},\r\n{\"a\":2,\"b\":\"y\"}]\r\n"),
        (CSV, "\u{FEFF}a,b\r\n1,x\r\n2,y\r\n"),
        (BodyFormat::Csv { header: false }, "1,x\r\n2,y"),
    ];
    for (format, body) in bodies {
        let decoded = read(format, body, &schema).unwrap();
        assert!(decoded.rejects.is_empty(), "{format:?} {:?}", decoded.rejects);
        assert_eq!(decoded.batch.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
        assert_eq!(decoded.batch.column(1).as_string::<i32>().value(1), "y");
    }
}

#[test]
fn an_empty_body_is_an_error_and_a_body_without_rows_is_none() {
    let schema = schema(&[("c", "int")]);
    let formats = [BodyFormat::ArrowStream, BodyFormat::Ndjson, BodyFormat::Json, CSV, BodyFormat::Parquet];
    for format in formats {
        let error = read(format, "", &schema).unwrap_err();
        assert_eq!(error.code(), "empty_body");
    }
    assert_eq!(read(BodyFormat::Json, " \n", &schema).unwrap_err().code(), "empty_body");
    for (format, body) in [(BodyFormat::Ndjson, "\n"), (BodyFormat::Json, "[]"), (CSV, "c\n"), (CSV, "c")] {
        assert_eq!(read(format, body, &schema).unwrap().rows, 0, "{format:?}");
    }
    let mut writer = write::ArrowStreamWriter::new(schema.arrow()).unwrap();
    writer.finish().unwrap();
    assert_eq!(read(BodyFormat::ArrowStream, writer.take(), &schema).unwrap().rows, 0);
}

#[test]
fn json_takes_one_row_or_an_array_and_says_what_else_it_got() {
    let schema = schema(&[("c", "int")]);
    assert_eq!(read(BodyFormat::Json, " {\"c\":1} ", &schema).unwrap().rows, 1);
    let decoded = read(BodyFormat::Json, "[{\"c\":1}, 5, {\"c\":\"x\"},\n{\"c\":2}]", &schema).unwrap();
    assert_eq!(decoded.rejects.rows().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(decoded.batch.column(0).as_primitive::<Int32Type>().values(), &[1, 2]);
    let message = |body: &'static str| read(BodyFormat::Json, body, &schema).unwrap_err().to_string();
    assert!(message("{\"c\":1}\n{\"c\":2}").contains("x-ndjson"));
    assert!(message("7").contains("array of rows"));
    assert!(message("[{\"c\":1}").contains("ends"));
    assert!(message("[{\"c\":1},]").contains("comma"));
    assert!(message("[] []").contains("behind the array"));
    let pretty = ndjson("{\n\"c\": 1\n}\n", &[("c", "int")]);
    assert!(pretty.rejects.told().next().unwrap().hint.as_ref().unwrap().contains("application/json"));
}

#[test]
fn deep_nesting_ends_in_an_error() {
    let deep = "[".repeat(100_000);
    assert!(fault("int", &deep).hint.unwrap().contains("deep"));
    let error = read(BodyFormat::Json, deep.clone(), &schema(&[("c", "int")])).unwrap_err();
    assert!(error.to_string().contains("deep"));
    let objects = "{\"a\":".repeat(100_000);
    assert!(fault("int", &objects).hint.unwrap().contains("deep"));
}

#[test]
fn values_are_exact() {
    let decoded = ndjson(
        concat!(
            "{\"d\":\"12345678901234567890.123456789\",\"b\":-9223372036854775808}\n",
            "{\"d\":0.100000000000000000,\"b\":9007199254740993}\n",
            "{\"d\":1.5e1,\"b\":-0}\n"
        ),
        &[("d", "decimal(38,9)"), ("b", "bigint")],
    );
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    let d = decoded.batch.column(0).as_primitive::<Decimal128Type>();
    assert_eq!(d.values(), &[12_345_678_901_234_567_890_123_456_789, 100_000_000, 15_000_000_000]);
    let b = decoded.batch.column(1).as_primitive::<Int64Type>();
    assert_eq!(b.values(), &[i64::MIN, 9_007_199_254_740_993, 0]);
}

#[test]
fn limits_are_named() {
    let wide = schema(&[("c", "binary(100000)")]);
    let limits = BodyLimits { max_rows: 100, max_row_bytes: 20, max_batch_bytes: 1 << 20 };
    let error = |format, body: String| decode(format, body.into(), &wide, &limits).unwrap_err();
    for (format, row) in [(BodyFormat::Ndjson, "{}\n"), (CSV, "\n")] {
        let head = if format == CSV { "c\n" } else { "" };
        let many = error(format, format!("{head}{}", row.repeat(50)));
        assert_eq!(many, BodyError::BatchTooLarge { limit: 1 << 20 });
        assert_eq!((many.code(), many.kind()), ("body_too_large", ErrorKind::TooLarge));
    }
    let small = schema(&[("c", "int")]);
    let many = decode(BodyFormat::Ndjson, "{}\n".repeat(101).into(), &small, &limits).unwrap_err();
    assert_eq!(many.code(), "too_many_rows");
    let long = format!("{{\"c\":{}1}}\n{{\"c\":1}}\n", " ".repeat(30));
    let decoded = decode(BodyFormat::Ndjson, long.clone().into(), &small, &limits).unwrap();
    assert_eq!((decoded.batch.num_rows(), decoded.rejects.count()), (1, 1));
    let array = format!("[{}]", long.trim().replace('\n', ","));
    let decoded = decode(BodyFormat::Json, array.into(), &small, &limits).unwrap();
    assert_eq!((decoded.batch.num_rows(), decoded.rejects.count()), (1, 1));
}

#[test]
fn csv_headers_are_checked() {
    let schema = schema(&[("carrier", "string"), ("n", "int not null")]);
    let error = |body: &'static str| read(CSV, body, &schema).unwrap_err();
    assert_eq!(error("n,carier\n1,x\n").code(), "unknown_column");
    assert!(error("n,carier\n1,x\n").to_string().contains("did you mean \"carrier\"?"));
    assert_eq!(error("n,n\n1,2\n").code(), "duplicate_column");
    assert_eq!(error("carrier\nx\n").code(), "missing_column");
    let decoded = read(CSV, "n, carrier\n1,x\n2\n3,y,z\nq,x\n,x\n", &schema).unwrap();
    let lines: Vec<_> = decoded.rejects.told().map(|e| e.line.unwrap()).collect();
    assert_eq!(lines, [3, 4, 5, 6]);
    assert_eq!(decoded.batch.num_rows(), 1);
}

/// An Arrow stream of one batch.
fn stream(batch: &RecordBatch) -> Bytes {
    let mut writer = write::ArrowStreamWriter::new(batch.schema_ref()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.take()
}

#[test]
fn arrow_columns_come_in_any_order_and_encoding() {
    let schema = schema(&[("a", "bigint"), ("d", "string"), ("l", "string"), ("v", "string"), ("r", "int")]);
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int32Array::from(vec![7, 8])).unwrap();
    let dictionary: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
    let batch = RecordBatch::try_from_iter([
        ("r", Arc::new(runs) as ArrayRef),
        ("v", Arc::new(StringViewArray::from(vec!["p", "q", "a text longer than twelve bytes"]))),
        ("l", Arc::new(LargeStringArray::from(vec!["l", "m", "n"]))),
        ("d", Arc::new(dictionary)),
        ("a", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ])
    .unwrap();
    let decoded = read(BodyFormat::ArrowStream, stream(&batch), &schema).unwrap();
    assert!(decoded.rejects.is_empty());
    assert_eq!(decoded.batch.column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    assert_eq!(decoded.batch.column(1).as_string::<i32>().value(2), "x");
    assert_eq!(decoded.batch.column(3).as_string::<i32>().value(0), "p");
    assert_eq!(decoded.batch.column(4).as_primitive::<Int32Type>().values(), &[7, 7, 8]);
}

#[test]
fn columns_that_fit_keep_the_buffers_that_they_came_in() {
    let schema = schema(&[("n", "bigint not null"), ("wide", "bigint not null")]);
    let numbers = || Int64Array::from_iter_values((0..2_000).map(|i| i * i % 911));
    let narrow = Int32Array::from_iter_values((0..2_000).map(|i| i % 17));
    let batch = RecordBatch::try_from_iter([
        ("wide", Arc::new(narrow.clone()) as ArrayRef),
        ("n", Arc::new(numbers()) as ArrayRef),
    ])
    .unwrap();
    let zstd = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), zstd).unwrap();
    writer.write(&batch).unwrap();
    let decoded = read(BodyFormat::ArrowStream, writer.into_inner().unwrap(), &schema).unwrap();
    let compressed = |level| ipc::encode(&decoded.batch, ipc::Compression::Zstd { level }).unwrap();
    let stored =
        ipc::encode_reusing(&decoded.batch, ipc::Compression::default(), &decoded.originals).unwrap();
    let column = |encoded: &ipc::Encoded, i: usize| {
        let extent = encoded.columns[i];
        encoded.message.slice(extent.start as usize..(extent.start + extent.len) as usize)
    };
    // Arrow's writer compresses with level 3, this table with 1; the other column was converted.
    assert_eq!(column(&stored, 0), column(&compressed(3), 0));
    assert_ne!(column(&stored, 0), column(&compressed(1), 0));
    assert_eq!(column(&stored, 1), column(&compressed(1), 1));
    assert_eq!(ipc::decode(&stored.message, schema.arrow(), 1 << 20).unwrap(), decoded.batch);
}

#[test]
fn arrow_rows_are_rejected_one_by_one_and_across_batches() {
    let narrow = schema(&[("c", "tinyint not null")]);
    let batch = |values: Vec<Option<i64>>| {
        RecordBatch::try_from_iter_with_nullable([(
            "c",
            Arc::new(Int64Array::from(values)) as ArrayRef,
            true,
        )])
        .unwrap()
    };
    let (first, second) = (batch(vec![Some(1), Some(300)]), batch(vec![None, Some(2)]));
    let mut writer = write::ArrowStreamWriter::new(first.schema_ref()).unwrap();
    writer.write(&first).unwrap();
    writer.write(&second).unwrap();
    writer.finish().unwrap();
    let decoded = read(BodyFormat::ArrowStream, writer.take(), &narrow).unwrap();
    assert_eq!(decoded.rejects.rows().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(decoded.batch.num_rows(), 2);
    let error = read(BodyFormat::ArrowStream, "no stream at all", &narrow).unwrap_err();
    assert_eq!(error.code(), "bad_arrow");
    let other = RecordBatch::try_from_iter([("d", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    assert_eq!(read(BodyFormat::ArrowStream, stream(&other), &narrow).unwrap_err().code(), "unknown_column");
}

#[test]
fn a_large_value_shared_by_many_rows_is_counted_before_it_is_unfolded() {
    let values = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
    let shared = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 2000]), values);
    let batch = RecordBatch::try_from_iter([("c", Arc::new(shared) as ArrayRef)]).unwrap();
    let error = read(BodyFormat::ArrowStream, stream(&batch), &schema(&[("c", "string")])).unwrap_err();
    assert_eq!(error.code(), "body_too_large");
}

fn every_type() -> Schema {
    schema(&[
        ("a", "int"),
        ("b", "string"),
        ("c", "decimal(10,2)"),
        ("d", "timestamp_ltz(3)"),
        ("e", "array<row<x int not null, y map<int,string>>>"),
        ("f", "binary(3)"),
        ("g", "time(6)"),
    ])
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 1..300)) {
        for format in [BodyFormat::ArrowStream, BodyFormat::Ndjson, BodyFormat::Json, CSV, BodyFormat::Csv { header: false }, BodyFormat::Parquet] {
            let _ = read(format, body.clone(), &every_type());
        }
    }

    #[test]
    fn random_text_of_json_and_csv_letters_never_panics(body in "[{}\\[\\]\",:abcdefg0-9.eE+ \n\r\\\\u\u{e9}-]{1,200}") {
        for format in [BodyFormat::Ndjson, BodyFormat::Json, CSV, BodyFormat::Csv { header: false }] {
            let _ = read(format, body.clone(), &every_type());
        }
        let _ = read(CSV, format!("a,b,c,d,e,f,g\n{body}"), &every_type());
    }
}

#[test]
fn digits_alone_are_a_count_of_the_unit_where_nothing_tells_numbers_from_text() {
    let schema = schema(&[("t", "timestamp_ltz(3)")]);
    let decoded =
        read(CSV, "t\n1359626400125\n2013-01-31T10:00:00.125Z\n-1\n1474416000000000\n", &schema).unwrap();
    assert_eq!(decoded.rejects.rows().collect::<Vec<_>>(), [3]);
    let ticks = decoded.batch.column(0).as_primitive::<arrow::datatypes::TimestampMillisecondType>();
    assert_eq!(ticks.values(), &[1_359_626_400_125, 1_359_626_400_125, -1]);
}

#[test]
fn names_that_clients_make_up_are_cut_in_errors() {
    let long = "x".repeat(1 << 20);
    let body = format!("{{\"{long}\":1}}\n{{\"c\":{{\"{long}\":\"x\"}}}}\n");
    let decoded = ndjson(&body, &[("c", "map<string,int>")]);
    assert_eq!(decoded.rejects.count(), 2);
    assert!(decoded.rejects.told().all(|error| error.to_string().len() < 1000));
    let error = read(CSV, format!("{long}\n1\n"), &schema(&[("c", "int")])).unwrap_err();
    assert!(error.to_string().len() < 1000);
}
