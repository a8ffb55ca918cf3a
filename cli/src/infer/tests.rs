use std::fs;

use arrow::array::{ArrayRef, Int32Array, LargeStringArray, RecordBatch, TimestampMicrosecondArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;

use super::*;

fn infer(name: &str, content: &[u8]) -> Result<Vec<String>, Failure> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, content).unwrap();
    let inferred = columns(&path, FileFormat::of(&path, None)?)?;
    let columns = inferred.columns.into_iter().map(|c| format!("{} {}", c.name, c.column_type));
    Ok(columns.chain(inferred.remarks).collect())
}

#[test]
fn ndjson_numbers_widen_and_times_stay_text() {
    let rows =
        br#"{"id":1,"price":1,"at":"2026-01-31T12:00:00Z","ok":true,"gone":null,"tags":["a"],"geo":{"x":1.5}}
{"id":2,"price":2.5,"at":"2026-01-31T12:00:01Z","ok":false,"gone":null,"tags":[],"geo":{"x":2,"y":null}}
"#;
    let got = infer("a.ndjson", rows).unwrap();
    let want = [
        "id bigint",
        "price double",
        "at string",
        "ok boolean",
        "gone string",
        "tags array<string>",
        "geo row<x double, y string>",
    ];
    assert_eq!(got, want);
}

#[test]
fn csv_is_sampled_below_its_header() {
    let got = infer(
        "a.csv",
        b"\xef\xbb\xbfid,name,price,day,none\n1,\"a, b\",2.5,2026-01-31,\n2,c,3,2026-02-01,\n",
    );
    assert_eq!(got.unwrap(), ["id bigint", "name string", "price double", "day date", "none string"]);
}

#[test]
fn csv_times_are_instants_if_all_have_a_zone_and_text_if_only_some_have() {
    let got = infer(
        "a.csv",
        b"zoned,bare,mixed,odd,day\n\
          2026-01-31T12:00:00Z,2026-01-31 12:00:00,2026-01-31T12:00:00Z,2026-01-31T12:00:00 noon,2026-01-31\n\
          2026-01-31T12:00:00.5+01:00,2026-01-31 12:00:00.123456,2026-01-31T12:00:00,,2026-02-01\n",
    );
    let want = [
        "zoned timestamp_ltz(3)",
        "bare timestamp(6)",
        "mixed string",
        "odd string",
        "day date",
        "column \"mixed\" is string: some of its times have a zone and others have none",
    ];
    assert_eq!(got.unwrap(), want);
}

fn batch() -> RecordBatch {
    let index: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let names: ArrayRef = Arc::new(LargeStringArray::from(vec![None::<&str>]));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"));
    RecordBatch::try_from_iter_with_nullable([
        ("id", index.clone(), false),
        ("name", names, true),
        ("at", times, true),
        ("__index_level_0__", index, true),
    ])
    .unwrap()
}

const WANT: [&str; 3] = ["id int not null", "name string", "at timestamp_ltz(6)"];

#[test]
fn parquet_declares_its_columns_and_pandas_index_is_left_out() {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch().schema(), None).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    assert_eq!(infer("a.parquet", &file).unwrap(), WANT);
}

#[test]
fn arrow_files_and_streams_declare_their_columns() {
    let mut file = FileWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    file.write(&batch()).unwrap();
    assert_eq!(infer("a.arrow", &file.into_inner().unwrap()).unwrap(), WANT);
    let mut stream = StreamWriter::try_new(Vec::new(), &batch().schema()).unwrap();
    stream.write(&batch()).unwrap();
    assert_eq!(infer("a.arrow", &stream.into_inner().unwrap()).unwrap(), WANT);
}

#[test]
fn what_cannot_be_inferred_says_why() {
    for (name, content, want) in [
        ("a.ndjson", &b""[..], "no rows"),
        ("a.csv", b"", "no rows"),
        ("a.ndjson", b"{\"a\":", "cannot be read"),
        ("a.parquet", b"not parquet", "cannot be read"),
        ("a.arrow", b"", "cannot be read"),
        ("a.txt", b"a", "--format"),
    ] {
        let error = infer(name, content).unwrap_err().to_string();
        assert!(error.contains(want), "{name}: {error}");
    }
}
