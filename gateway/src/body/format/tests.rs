use rstest::rstest;
use wadi_model::{ErrorKind, Fault};

use super::*;

#[rstest]
#[case("application/vnd.apache.arrow.stream", BodyFormat::ArrowStream)]
#[case("Application/X-NDJSON; charset=UTF-8", BodyFormat::Ndjson)]
#[case("application/jsonl", BodyFormat::Ndjson)]
#[case("application/jsonlines", BodyFormat::Ndjson)]
#[case("application/json;charset=\"utf-8\"", BodyFormat::Json)]
#[case("text/csv", BodyFormat::Csv { header: true })]
#[case("text/csv; header=present", BodyFormat::Csv { header: true })]
#[case("text/csv;Header=absent", BodyFormat::Csv { header: false })]
#[case("application/vnd.apache.parquet", BodyFormat::Parquet)]
#[case("application/x-parquet", BodyFormat::Parquet)]
fn content_types_are_known(#[case] given: &str, #[case] format: BodyFormat) {
    assert_eq!(BodyFormat::of(Some(given)), Ok(format));
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

#[rstest]
#[case(None, AnswerFormat::Json)]
#[case(Some("*/*"), AnswerFormat::Json)]
#[case(Some("text/csv"), AnswerFormat::Csv)]
#[case(Some("text/*"), AnswerFormat::Csv)]
#[case(Some("application/*"), AnswerFormat::Json)]
#[case(Some("application/vnd.apache.arrow.stream, */*;q=0.1"), AnswerFormat::ArrowStream)]
#[case(Some("application/json;q=0.5, application/jsonl"), AnswerFormat::Ndjson)]
#[case(Some("application/x-ndjson, application/json"), AnswerFormat::Ndjson)]
#[case(Some("text/html, */*"), AnswerFormat::Json)]
#[case(Some("application/json;q=0, */*"), AnswerFormat::Ndjson)]
#[case(Some("*/*, text/csv"), AnswerFormat::Csv)]
fn answers_are_chosen_by_weight(#[case] accept: Option<&str>, #[case] chosen: AnswerFormat) {
    assert_eq!(AnswerFormat::choose(accept, &OFFERED), Ok(chosen));
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
