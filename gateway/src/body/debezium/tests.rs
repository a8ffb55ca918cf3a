use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;

use super::*;
use crate::body::tests::schema;

const COLUMNS: [(&str, &str); 3] = [("id", "bigint not null"), ("a", "string"), ("b", "array<int>")];

fn read(format: BodyFormat, body: &str) -> Result<Envelopes, BodyError> {
    let events =
        decode(format, body.as_bytes(), &schema(&COLUMNS), &[0], UNAVAILABLE, &BodyLimits::default())?;
    let good = events.decoded.batch.num_rows();
    assert_eq!(good as u64 + events.decoded.rejects.count(), events.decoded.rows);
    assert_eq!((events.deletes.len(), events.of_rows.len(), events.lines.len()), (good, good, good));
    assert!(events.of_rows.iter().all(|set| usize::from(*set) < events.absent.len()));
    assert!(events.absent[0].is_empty());
    Ok(events)
}

#[test]
fn rejected_rows_and_tombstones_leave_no_mark() {
    let body = [
        r#"{"op":"c","after":{"id":1,"a":"x"}}"#,
        r#"{"op":"u","after":{"id":"bad","a":"__debezium_unavailable_value"}}"#,
        "null",
        r#"{"op":"d","before":{"id":2,"b":"whatever"}}"#,
        r#"{"op":"u","after":{"id":3,"b":["__debezium_unavailable_value"],"a":"__debezium_unavailable_value"}}"#,
        r#"{"payload":null,"schema":null}"#,
        r#"{"op":"u","after":{"id":4,"a":"x, __debezium_unavailable_value","b":[1]}}"#,
        r#"{"op":"u","after":{"id":5,"a":"__debezium_unavailable_value"#,
    ];
    let events = read(BodyFormat::Ndjson, &body.join("\n")).unwrap();
    assert_eq!(events.decoded.rejects.rows().collect::<Vec<_>>(), [1, 5]);
    assert_eq!(events.decoded.batch.column(0).as_primitive::<Int64Type>().values().to_vec(), [1, 2, 3, 4]);
    assert_eq!(events.deletes, [false, true, false, false]);
    assert_eq!(events.lines, [1, 4, 5, 7]);
    let absent: Vec<&[usize]> =
        events.of_rows.iter().map(|set| events.absent[usize::from(*set)].as_slice()).collect();
    assert_eq!(absent, [&[][..], &[], &[1, 2], &[]]);
    let array = format!("[{}]", body[..7].join(","));
    let events = read(BodyFormat::Json, &array).unwrap();
    assert_eq!((events.decoded.rows, events.deletes.len()), (5, 4));
}

#[test]
fn sets_of_absent_columns_are_bounded() {
    let columns: Vec<(String, &str)> = (0..12).map(|n| (format!("c{n}"), "string")).collect();
    let columns: Vec<(&str, &str)> = columns.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let schema = schema(&[&[("id", "bigint not null")], &columns[..]].concat());
    let row = |bits: usize| {
        let absent = (0..12).filter(|n| bits >> n & 1 == 1).map(|n| format!(",\"c{n}\":\"{UNAVAILABLE}\""));
        format!("{{\"op\":\"u\",\"after\":{{\"id\":{bits}{}}}}}\n", absent.collect::<String>())
    };
    let body: String = (0..4096).map(row).collect();
    let events =
        decode(BodyFormat::Ndjson, body.as_bytes(), &schema, &[0], UNAVAILABLE, &BodyLimits::default())
            .unwrap();
    assert_eq!((events.absent.len(), events.decoded.rejects.count()), (MAX_SETS, (4096 - MAX_SETS) as u64));
}

fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "null",
        "1",
        "\\",
        " ",
        "\n",
        "\"op\"",
        "\"after\"",
        "\"before\"",
        "\"payload\"",
        "\"u\"",
        "\"d\"",
        "\"id\"",
        "\"a\"",
        "\"b\"",
        "\"__debezium_unavailable_value\"",
        "{\"op\":\"u\",\"after\":",
        "{\"id\":1,\"a\":",
        "{\"payload\":",
        "é",
        "\\u0000",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_does_harm(text in text()) {
        for format in [BodyFormat::Ndjson, BodyFormat::Json] {
            let _ = read(format, &text);
        }
    }
}
