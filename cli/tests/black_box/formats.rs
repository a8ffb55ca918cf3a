//! Every format and encoding of rows, in and out.

use std::io::Cursor;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::bad_input::gzip;
use crate::harness::{ARROW, Answer, CSV, JSON, NDJSON, PARQUET, Server, Setup};

async fn server_with_table() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns: Vec<Value> =
        [("a", "bigint not null"), ("b", "string"), ("c", "decimal(10,2)"), ("t", "timestamp_ltz(3)")]
            .into_iter()
            .map(|(name, kind)| json!({ "name": name, "type": kind }))
            .collect();
    let table = server.api.create_table(&json!({ "name": "formats", "columns": columns })).await;
    (server, table)
}

fn rows() -> [Value; 2] {
    [
        json!({ "a": 1, "b": "x, \"y\"\nz", "c": 12.5, "t": "2013-01-31T10:00:00.125Z" }),
        json!({ "a": -9007199254740993i64, "b": null, "c": null, "t": null }),
    ]
}

/// The stream of an answer.
pub(crate) fn batches(answer: &Answer) -> Vec<RecordBatch> {
    assert_eq!(answer.header("content-type"), ARROW);
    let reader = StreamReader::try_new(Cursor::new(answer.body.clone()), None).unwrap();
    reader.map(Result::unwrap).collect()
}

pub(crate) fn as_arrow(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batches[0].schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub(crate) fn as_parquet(batches: &[RecordBatch]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.close().unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_in_in_any_format_comes_out_in_any_format() {
    let (server, table) = server_with_table().await;
    let append = format!("{table}/append");
    let lines: String = rows().iter().map(|row| format!("{row}\n")).collect();
    server.api.post(&append, NDJSON, lines.clone()).await.expect(200);
    let arrow = batches(&server.api.get_as(&format!("{table}/scan"), ARROW).await.expect(200));
    let csv = server.api.get_as(&format!("{table}/scan"), CSV).await.expect(200).body;
    let bodies: [(&str, Bytes); 5] = [
        (NDJSON, lines.into()),
        (JSON, serde_json::to_vec(&rows()).unwrap().into()),
        (CSV, csv),
        (ARROW, as_arrow(&arrow).into()),
        (PARQUET, as_parquet(&arrow).into()),
    ];
    let mut copies = 1;
    for (format, body) in bodies {
        for encoding in ["identity", "gzip", "zstd"] {
            let body = match encoding {
                "gzip" => gzip(&body).await.into(),
                "zstd" => zstd::encode_all(&body[..], 3).unwrap().into(),
                _ => body.clone(),
            };
            let headers = [("content-encoding", encoding)];
            let answer = server.api.post_with(&append, format, &headers, body).await;
            assert_eq!(answer.status, 200, "{format} {encoding}: {answer:?}");
            let answer = answer.json();
            assert_eq!(answer["offsets"][0]["base_offset"], 2 * copies, "{format} {encoding}");
            assert_eq!(answer["offsets"][0]["last_offset"], 2 * copies + 1, "{format} {encoding}");
            copies += 1;
        }
    }

    let scanned = server.api.scan(&table, "").await;
    assert_eq!(scanned.len() as u64, 2 * copies);
    for pair in scanned.chunks(2) {
        assert_eq!(pair, rows());
    }
    for read in ["scan", "log"] {
        let path = format!("{table}/{read}");
        let json = server.api.get(&path).await.expect(200);
        assert_eq!(json.header("content-type"), JSON);
        assert_eq!(json.json()["rows"], Value::from(scanned.clone()), "{read}");
        let lines = server.api.get_as(&path, NDJSON).await.expect(200);
        let lines: Vec<Value> =
            lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, scanned, "{read}");
        let csv = server.api.get_as(&path, CSV).await.expect(200);
        assert!(
            csv.text().starts_with("a,b,c,t\n1,\"x, \"\"y\"\"\nz\",12.50,2013-01-31T10:00:00.125Z\n"),
            "{csv:?}"
        );
        let arrow = batches(&server.api.get_as(&path, ARROW).await.expect(200));
        let numbers = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let numbers: Vec<i64> = arrow.iter().flat_map(numbers).collect();
        let want: Vec<i64> = scanned.iter().map(|row| row["a"].as_i64().unwrap()).collect();
        assert_eq!(numbers, want, "{read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_accept_header_is_weighed() {
    let (server, table) = server_with_table().await;
    let path = format!("{table}/scan");
    for (accept, want) in [
        ("*/*", JSON),
        ("text/*", "text/csv; charset=utf-8; header=present"),
        ("application/json;q=0.1, application/x-ndjson", NDJSON),
        ("text/html, application/vnd.apache.arrow.stream", ARROW),
    ] {
        assert_eq!(
            server.api.get_as(&path, accept).await.expect(200).header("content-type"),
            want,
            "{accept}"
        );
    }
}
