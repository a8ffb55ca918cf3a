use wadi_model::{ErrorKind, Fault};

use super::*;

#[test]
fn content_types_are_known() {
    let cases = [
        ("application/vnd.apache.arrow.stream", BodyFormat::ArrowStream),
        ("Application/X-NDJSON; charset=UTF-8", BodyFormat::Ndjson),
        ("application/jsonl", BodyFormat::Ndjson),
        ("application/jsonlines", BodyFormat::Ndjson),
        ("application/json;charset=\"utf-8\"", BodyFormat::Json),
        ("text/csv", BodyFormat::Csv { header: true }),
        ("text/csv; header=present", BodyFormat::Csv { header: true }),
        ("text/csv;Header=absent", BodyFormat::Csv { header: false }),
        ("application/vnd.apache.parquet", BodyFormat::Parquet),
        ("application/x-parquet", BodyFormat::Parquet),
    ];
    for (given, format) in cases {
        assert_eq!(BodyFormat::of(Some(given)), Ok(format), "{given}");
    }
}

#[test]
fn other_content_types_are_refused_with_what_is_accepted() {
    for given in
        [None, Some(""), Some("application/xml"), Some("application/x-www-form-urlencoded"), Some("*/*")]
    {
        let error = BodyFormat::of(given).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("unsupported_media_type", ErrorKind::UnsupportedMedia));
        assert!(BodyFormat::ACCEPTED.iter().all(|a| error.to_string().contains(a)));
    }
    let error = BodyFormat::of(Some("text/csv; charset=latin1")).unwrap_err();
    assert_eq!(error.code(), "unsupported_charset");
}

const OFFERED: [AnswerFormat; 4] =
    [AnswerFormat::Json, AnswerFormat::Ndjson, AnswerFormat::ArrowStream, AnswerFormat::Csv];

#[test]
fn answers_are_chosen_by_weight() {
    let cases = [
        (None, AnswerFormat::Json),
        (Some("*/*"), AnswerFormat::Json),
        (Some("text/csv"), AnswerFormat::Csv),
        (Some("text/*"), AnswerFormat::Csv),
        (Some("application/*"), AnswerFormat::Json),
        (Some("application/vnd.apache.arrow.stream, */*;q=0.1"), AnswerFormat::ArrowStream),
        (Some("application/json;q=0.5, application/jsonl"), AnswerFormat::Ndjson),
        (Some("application/x-ndjson, application/json"), AnswerFormat::Ndjson),
        (Some("text/html, */*"), AnswerFormat::Json),
        (Some("application/json;q=0, */*"), AnswerFormat::Ndjson),
        (Some("*/*, text/csv"), AnswerFormat::Csv),
    ];
    for (accept, chosen) in cases {
        assert_eq!(AnswerFormat::choose(accept, &OFFERED), Ok(chosen), "{accept:?}");
    }
}

#[test]
fn what_cannot_be_answered_is_said() {
    for accept in ["text/html", "application/json;q=0", "text/event-stream", "*/*;q=0"] {
        let error = AnswerFormat::choose(Some(accept), &OFFERED).unwrap_err();
        assert_eq!(error.code(), "not_acceptable");
        assert!(error.to_string().contains("application/x-ndjson"));
    }
    let tail = [AnswerFormat::Ndjson, AnswerFormat::EventStream];
    assert_eq!(AnswerFormat::choose(Some("text/event-stream"), &tail), Ok(AnswerFormat::EventStream));
}
