//! Arrow and Parquet bodies: every encoding of a column is taken, every damaged byte is survived.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, RecordBatch, RunArray,
    StringArray, StringViewArray,
};
use arrow::datatypes::Int32Type;
use arrow_ipc::writer::{DictionaryHandling, IpcWriteOptions, StreamWriter};
use futures::{StreamExt, stream};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::harness::{ARROW, Answer, PARQUET, Server, Setup};

async fn server_with_table() -> (Server, String) {
    let server = Setup::dev().into_ready().await;
    server.api.create_database().await;
    let columns: Vec<Value> =
        [("n", "bigint not null"), ("d", "string"), ("l", "string"), ("v", "string"), ("r", "int")]
            .into_iter()
            .map(|(name, kind)| json!({ "name": name, "type": kind }))
            .collect();
    let table = server.api.create_table(&json!({ "name": "arrow", "columns": columns })).await;
    (server, format!("{table}/append"))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(fields).unwrap()
}

fn ipc(batches: &[RecordBatch], options: IpcWriteOptions) -> Vec<u8> {
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), batches[0].schema_ref(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn plain(batch: &RecordBatch) -> Vec<u8> {
    ipc(std::slice::from_ref(batch), IpcWriteOptions::default())
}

fn numbers(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn dictionary(values: &[&str], keys: Vec<i32>) -> ArrayRef {
    let values: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values))
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    let problem = answer.problem();
    assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{problem}");
    assert_eq!(problem["side_effects"], "none", "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_come_in_any_order_and_encoding() {
    let (server, append) = server_with_table().await;
    let runs =
        RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &Int32Array::from(vec![7, 8])).unwrap();
    let rows = batch(vec![
        ("r", Arc::new(runs)),
        ("v", Arc::new(StringViewArray::from(vec!["p", "q", "a text of more than twelve bytes"]))),
        ("l", Arc::new(LargeStringArray::from(vec!["x", "y", "z"]))),
        ("d", dictionary(&["one", "two"], vec![1, 0, 1])),
        ("n", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ]);
    server.api.post(&append, ARROW, plain(&rows)).await.expect(200);
    // Columns that may be null may be missing.
    server.api.post(&append, ARROW, plain(&batch(vec![("n", numbers(vec![4]))]))).await.expect(200);
    let table = append.trim_end_matches("/append");
    let found = server.api.scan(table, "").await;
    let third = json!({ "n": 3, "d": "two", "l": "z", "v": "a text of more than twelve bytes", "r": 8 });
    assert_eq!((found.len(), &found[2]), (4, &third));
    assert_eq!(found[3], json!({ "n": 4, "d": null, "l": null, "v": null, "r": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_columns_that_do_not_fit_are_named() {
    let (server, append) = server_with_table().await;
    let post = async |rows: RecordBatch| server.api.post(&append, ARROW, plain(&rows)).await;
    let text = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    refused(&post(batch(vec![("d", text(vec!["x"]))])).await, 422, "missing_column");
    let unknown = batch(vec![("n", numbers(vec![1])), ("x", text(vec!["x"]))]);
    refused(&post(unknown).await, 422, "unknown_column");
    let nulls = batch(vec![("n", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    let answer = post(nulls).await;
    refused(&answer, 422, "rows_rejected");
    let errors = &answer.problem()["errors"];
    assert_eq!((&errors[0]["row"], &errors[0]["column"]), (&json!(1), &json!("n")), "{errors}");
    let wide = batch(vec![("n", numbers(vec![1, 2])), ("r", numbers(vec![1, 1 << 40]))]);
    refused(&post(wide.clone()).await, 422, "rows_rejected");
    let path = format!("{append}?on_error=skip");
    let skipped = server.api.post(&path, ARROW, plain(&wide)).await.expect(200).json();
    assert_eq!((&skipped["rows"], &skipped["rejected_rows"]), (&json!(1), &json!(1)));
}

/// The messages of a stream, each with its frame.
fn messages(stream: &[u8]) -> Vec<&[u8]> {
    let mut rest = stream;
    let mut messages = Vec::new();
    while rest.len() > 8 {
        let metadata = 8 + i32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        let body = arrow_ipc::root_as_message(&rest[8..metadata]).unwrap().bodyLength() as usize;
        let (message, behind) = rest.split_at(metadata + body);
        messages.push(message);
        rest = behind;
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn dictionaries_without_base_are_refused_and_deltas_with_one_are_not() {
    let (server, append) = server_with_table().await;
    let rows = |keys: Vec<i32>, values: &[&str]| {
        batch(vec![("n", numbers(vec![1; keys.len()])), ("d", dictionary(values, keys))])
    };
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let whole = ipc(&[rows(vec![0], &["a"]), rows(vec![1], &["a", "b"])], options);
    let parts = messages(&whole);
    let [schema, base, first, delta, second] = parts[..] else { panic!("{} messages", parts.len()) };
    let end = &[0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0][..];
    for parts in [vec![schema, first, end], vec![schema, delta, second, end], vec![schema, delta, end]] {
        refused(&server.api.post(&append, ARROW, parts.concat()).await, 400, "bad_arrow");
    }
    let answer = server.api.post(&append, ARROW, [schema, base, first, delta, second, end].concat()).await;
    answer.expect(200);
    let found = server.api.scan(append.trim_end_matches("/append"), "?columns=d").await;
    assert_eq!(found, [json!({ "d": "a" }), json!({ "d": "b" })]);
}

/// Cut anywhere, and with any byte changed: an answer comes, it is no fault of the server, and the next request works.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_streams_are_survived() {
    let (server, append) = server_with_table().await;
    let rows = batch(vec![("n", numbers(vec![1, 2, 3])), ("d", dictionary(&["one", "two"], vec![1, 0, 1]))]);
    let whole = plain(&rows);
    let cuts = (1..whole.len()).step_by(7).map(|length| whole[..length].to_vec());
    let mut bodies: Vec<Vec<u8>> = cuts.collect();
    let cut_bodies = bodies.len();
    for value in [0xFF, 0x7F, 0x80] {
        bodies.extend((0..whole.len()).map(|place| {
            let mut body = whole.clone();
            body[place] ^= value;
            body
        }));
    }
    let answers = stream::iter(bodies).map(|body| server.api.post(&append, ARROW, body)).buffered(16);
    let answers: Vec<Answer> = answers.collect().await;
    let mut written = 0;
    for (number, answer) in answers.iter().enumerate() {
        match answer.status {
            // What was changed may be a value, or the end that is cut off a marker that nobody needs.
            200 => written += answer.json()["rows"].as_u64().unwrap(),
            400 | 413 | 415 | 422 => drop(answer.problem()),
            _ => panic!("{number}: {answer:?}"),
        }
    }
    let refused = answers[..cut_bodies].iter().filter(|a| a.status == 400).count();
    assert!(refused + 2 >= cut_bodies, "{refused} of {cut_bodies} cuts were refused");
    server.api.post(&append, ARROW, whole).await.expect(200);
    let found = server.api.scan(append.trim_end_matches("/append"), "?columns=n").await;
    assert_eq!(found.len() as u64, written + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_is_read_and_what_cannot_be_is_refused() {
    let (server, append) = server_with_table().await;
    let file = |rows: &RecordBatch| {
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), None).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        bytes
    };
    let rows = batch(vec![("d", dictionary(&["x"], vec![0, 0])), ("n", numbers(vec![5, 6]))]);
    let whole = file(&rows);
    server.api.post(&append, PARQUET, whole.clone()).await.expect(200);
    refused(&server.api.post(&append, PARQUET, "no parquet").await, 400, "bad_parquet");
    for length in (1..whole.len()).step_by(97) {
        refused(&server.api.post(&append, PARQUET, whole[..length].to_vec()).await, 400, "bad_parquet");
    }
    let mut encrypted = whole.clone();
    let end = encrypted.len();
    encrypted[end - 4..].copy_from_slice(b"PARE");
    refused(&server.api.post(&append, PARQUET, encrypted).await, 415, "unsupported_parquet");
    let nested: ArrayRef = Arc::new(arrow::array::StructArray::from(batch(vec![("x", numbers(vec![1]))])));
    assert!(nested.is_valid(0));
    let misfit = file(&batch(vec![("n", numbers(vec![1])), ("d", nested)]));
    refused(&server.api.post(&append, PARQUET, misfit).await, 422, "type_mismatch");
    let found = server.api.scan(append.trim_end_matches("/append"), "?columns=n,d").await;
    assert_eq!(found, [json!({ "n": 5, "d": "x" }), json!({ "n": 6, "d": "x" })]);
}
