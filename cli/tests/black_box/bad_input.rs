//! Rows and bodies that do not fit: a clear answer, nothing written (or only the good rows), and the server lives.

use serde_json::{Value, json};

use crate::harness::{Answer, CSV, JSON, NDJSON, Server, Setup};

/// Good rows around the bad one in every body.
const GOOD: [&str; 2] = [r#"{"n":1,"text":"before"}"#, r#"{"n":3,"text":"after"}"#];

/// A line that does not fit, the column at fault, and a word of the explanation.
const BAD_LINES: [(&[u8], Option<&str>, &str); 19] = [
    (b"{\"n\":", None, "JSON"),
    (b"{\"n\":\"many\"}", Some("n"), "many"),
    (b"{\"n\":2147483648}", Some("n"), "2147483648"),
    (b"{\"n\":1.5}", Some("n"), "1.5"),
    (b"{\"n\":2,\"d\":\"12,5\"}", Some("d"), "12,5"),
    (b"{\"n\":2,\"d\":123456789.12}", Some("d"), "decimal(10,2)"),
    (b"{\"n\":2,\"d\":1.234}", Some("d"), "decimal(10,2)"),
    (b"{\"n\":2,\"f\":NaN}", None, "null"),
    (b"{\"n\":2,\"f\":-Infinity}", None, "JSON"),
    (b"{\"n\":2,\"t\":\"48690-01-01T00:00:00Z\"}", Some("t"), "48690"),
    (b"{\"n\":2,\"t\":1474416000000000}", Some("t"), "1474416000000000"),
    (b"{\"n\":2,\"day\":\"2013-02-30\"}", Some("day"), "2013-02-30"),
    (b"{\"text\":\"x\"}", Some("n"), "nothing"),
    (b"{\"n\":null}", Some("n"), "null"),
    (b"{\"n\":2,\"texts\":\"x\"}", Some("texts"), "did you mean \"text\"?"),
    (b"{\"n\":2,\"n\":3}", Some("n"), "twice"),
    (b"{\"n\":2,\"text\":\"\xFF\"}", None, "0xFF"),
    (b"[2]", None, "object"),
    (b"{\"n\":2} {\"n\":2}", None, "JSON"),
];

async fn table(server: &Server) -> String {
    server.api.create_database().await;
    let columns: Vec<Value> = [
        ("n", "int not null"),
        ("text", "string"),
        ("d", "decimal(10,2)"),
        ("f", "double"),
        ("t", "timestamp_ltz(3)"),
        ("day", "date"),
    ]
    .into_iter()
    .map(|(name, kind)| json!({ "name": name, "type": kind }))
    .collect();
    server.api.create_table(&json!({ "name": "bad", "columns": columns })).await
}

fn body_around(bad: &[u8]) -> Vec<u8> {
    [GOOD[0].as_bytes(), bad, GOOD[1].as_bytes(), b""].join(&b'\n')
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_is_named_and_nothing_of_its_request_is_written() {
    let server = Setup::dev().into_ready().await;
    let table = table(&server).await;
    for (line, column, word) in BAD_LINES {
        let shown = String::from_utf8_lossy(line);
        let body = body_around(line);
        let answer = server.api.post(&format!("{table}/append"), NDJSON, body).await;
        let problem = answer.problem();
        assert_eq!((answer.status, &problem["code"]), (422, &json!("rows_rejected")), "{shown}: {problem}");
        assert_eq!(problem["side_effects"], "none", "{shown}");
        assert_eq!(problem["retryable"], false, "{shown}");
        assert_eq!(problem["errors_total"], 1, "{shown}");
        check_row_error(&problem["errors"], &shown, column, word);
    }
    assert_eq!(server.api.scan(&table, "").await, Vec::<Value>::new());
}

fn check_row_error(errors: &Value, shown: &str, column: Option<&str>, word: &str) {
    let error = &errors[0];
    assert_eq!((&error["row"], &error["line"]), (&json!(1), &json!(2)), "{shown}: {errors}");
    if let Some(column) = column {
        assert_eq!(error["column"], column, "{shown}: {errors}");
    }
    assert!(error["expected"].as_str().is_some_and(|e| !e.is_empty()), "{shown}: {errors}");
    let text = errors.to_string().replace("\\\"", "\"");
    assert!(text.contains(word), "{shown}: no {word:?} in {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_good_rows_are_written_on_request_and_the_bad_ones_kept() {
    let server = Setup::dev().into_ready().await;
    let table = table(&server).await;
    let mut kept = 0;
    for (line, column, word) in BAD_LINES {
        let shown = String::from_utf8_lossy(line);
        for on_error in ["skip", "dlq"] {
            let path = format!("{table}/append?on_error={on_error}");
            let answer = server.api.post(&path, NDJSON, body_around(line)).await.expect(200).json();
            assert_eq!((&answer["rows"], &answer["rejected_rows"]), (&json!(2), &json!(1)), "{shown}");
            check_row_error(&answer["rejected"], &shown, column, word);
            kept += 2;
        }
    }
    let rows = server.api.scan(&table, "?columns=text").await;
    assert_eq!(rows.len(), kept);
    let of = |word| rows.iter().filter(|row| row["text"] == word).count();
    assert_eq!((of("before"), of("after")), (kept / 2, kept / 2));

    let rejected = server.api.scan(&format!("{table}__rejected"), "").await;
    assert_eq!(rejected.len(), BAD_LINES.len());
    for ((line, column, _), row) in BAD_LINES.iter().zip(&rejected) {
        assert_eq!(row["raw"], String::from_utf8_lossy(line).as_ref(), "{row}");
        assert_eq!((&row["row"], &row["line"]), (&json!(1), &json!(2)), "{row}");
        if let Some(column) = column {
            assert_eq!(row["column"], *column, "{row}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_faults_are_named_by_line() {
    let server = Setup::dev().into_ready().await;
    let table = table(&server).await;
    let append = format!("{table}/append");
    let body = "n,text,d,t\r\n1,a,1.5,2013-01-01T00:00:00Z\r\nx,b,,\r\n2,b,\"12,5\",\r\n3,b,,1474416000000000\r\n4\r\n,b,,\r\n";
    let answer = server.api.post(&append, CSV, body).await;
    let problem = answer.expect(422).problem();
    let lines: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| &e["line"]).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7], "{problem}");
    assert_eq!(problem["errors_total"], 5);
    let code = async |body: &'static str| {
        let answer = server.api.post(&append, CSV, body).await;
        let problem = answer.problem();
        (answer.status, problem["code"].as_str().unwrap().to_owned(), problem["detail"].to_string())
    };
    let (status, name, detail) = code("n,texts\n1,x\n").await;
    assert_eq!((status, name.as_str()), (422, "unknown_column"));
    assert!(detail.contains("did you mean \\\"text\\\"?"), "{detail}");
    assert_eq!(code("n,n\n1,2\n").await.1, "duplicate_column");
    assert_eq!(code("text\nx\n").await.1, "missing_column");
    assert_eq!(server.api.scan(&table, "").await, Vec::<Value>::new());
    let skipped = server.api.post(&format!("{append}?on_error=skip"), CSV, body).await.expect(200).json();
    assert_eq!((&skipped["rows"], &skipped["rejected_rows"]), (&json!(1), &json!(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_cannot_be_read_are_refused_as_a_whole() {
    let server = Setup::dev().into_ready().await;
    let table = table(&server).await;
    let append = format!("{table}/append");
    let expect = |answer: Answer, status: u16, code: &str| {
        let problem = answer.problem();
        assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{problem}");
        assert_eq!(problem["side_effects"], "none", "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    };
    for format in [NDJSON, JSON, CSV, crate::harness::ARROW, crate::harness::PARQUET] {
        expect(server.api.post(&append, format, "").await, 400, "empty_body");
    }
    let detail = expect(server.api.post(&append, JSON, "[{\"n\":1},\n{\"n\":}]").await, 400, "bad_json");
    assert!(detail.contains("line 2"), "{detail}");
    let deep = "[".repeat(100_000);
    expect(server.api.post(&append, JSON, deep).await, 400, "bad_json");
    let answer = server.api.post(&append, "application/xml", "<n/>").await;
    let detail = expect(answer, 415, "unsupported_media_type");
    assert!(detail.contains(NDJSON) && detail.contains(crate::harness::ARROW), "{detail}");
    let untyped = server.api.request(http::Method::POST, &append).body("{\"n\":1}");
    expect(crate::harness::send(untyped).await.unwrap(), 415, "unsupported_media_type");
    let latin = server.api.post(&append, "text/csv; charset=latin1", "n\n1\n").await;
    expect(latin, 415, "unsupported_charset");

    let encoded = async |encoding: &str, body: Vec<u8>| {
        server.api.post_with(&append, NDJSON, &[("content-encoding", encoding)], body).await
    };
    expect(encoded("br", b"x".to_vec()).await, 415, "unsupported_encoding");
    expect(encoded("gzip", b"no gzip".to_vec()).await, 400, "bad_encoding");
    expect(encoded("zstd", b"no zstd".to_vec()).await, 400, "bad_encoding");
    let row = b"{\"n\":1}\n".repeat(1000);
    for (encoding, whole) in [("gzip", gzip(&row).await), ("zstd", zstd::encode_all(&row[..], 1).unwrap())] {
        let answer = encoded(encoding, whole[..whole.len() / 2].to_vec()).await;
        let problem = answer.problem();
        assert_eq!(answer.status, 400, "a part of a {encoding} stream: {problem}");
    }
    // 300 MiB of line breaks in less than 1 MiB.
    let bomb = b"\n".repeat(300 << 20);
    for (encoding, bomb) in [("gzip", gzip(&bomb).await), ("zstd", zstd::encode_all(&bomb[..], 1).unwrap())] {
        assert!(bomb.len() < 1 << 20);
        expect(encoded(encoding, bomb).await, 413, "body_too_large");
    }
    assert_eq!(server.api.scan(&table, "").await, Vec::<Value>::new());
}

pub(crate) async fn gzip(bytes: &[u8]) -> Vec<u8> {
    use tokio::io::AsyncReadExt;
    let mut packed = Vec::new();
    let mut encoder = async_compression::tokio::bufread::GzipEncoder::new(bytes);
    encoder.read_to_end(&mut packed).await.unwrap();
    packed
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_bodies_that_are_right_are_taken() {
    let server = Setup::dev().into_ready().await;
    let table = table(&server).await;
    let cases: [(&str, &str, u64); 9] = [
        (NDJSON, "\u{FEFF}{\"n\":1}\r\n\r\n{\"n\":2}\r\n", 2),
        (CSV, "\u{FEFF}n,text\r\n1,\"a\r\nb\"\r\n2,\r\n", 2),
        (JSON, "\u{FEFF}\r\n[{\"n\":1},\r\n{\"n\":2}]\r\n", 2),
        (JSON, "{\"n\":1}", 1),
        ("text/csv; header=absent", "1,x,,,,\n", 1),
        (NDJSON, "\n", 0),
        (JSON, "[]", 0),
        (CSV, "n,text\n", 0),
        (CSV, "n", 0),
    ];
    let mut rows = 0;
    for (format, body, want) in cases {
        let answer = server.api.post(&format!("{table}/append"), format, body).await.expect(200).json();
        assert_eq!((&answer["rows"], &answer["rejected_rows"]), (&json!(want), &json!(0)), "{body:?}");
        assert_eq!(answer["offsets"].as_array().unwrap().is_empty(), want == 0, "{body:?}");
        rows += want;
    }
    let found = server.api.scan(&table, "?columns=text").await;
    assert_eq!(found.len() as u64, rows);
    assert!(found.contains(&json!({ "text": "a\r\nb" })), "{found:?}");
}
