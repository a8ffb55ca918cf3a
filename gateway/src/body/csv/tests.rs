use super::*;

fn split(body: &str, keep_blank: bool) -> Vec<(u64, Vec<Option<String>>)> {
    let mut records = Records::new(body.as_bytes());
    records.keep_blank = keep_blank;
    let mut record = Record::default();
    let mut all = Vec::new();
    while records.next(&mut record).unwrap() {
        let text = std::str::from_utf8(record.raw).unwrap();
        let fields =
            record.fields.iter().map(|f| (!f.is_absent()).then(|| f.text(text).into_owned())).collect();
        all.push((record.line, fields));
    }
    all
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|t| Some((*t).to_owned())).collect()
}

#[test]
fn quotes_hold_commas_line_breaks_and_quotes() {
    let body = "a,\"b,\"\"c\"\"\nd\",e\r\n\"\",,\"x\"\r\nlast,5\" pipe,z";
    let records = split(body, false);
    assert_eq!(records[0], (1, some(&["a", "b,\"c\"\nd", "e"])));
    assert_eq!(records[1], (3, vec![Some(String::new()), None, Some("x".into())]));
    assert_eq!(records[2], (4, some(&["last", "5\" pipe", "z"])));
    assert_eq!(records.len(), 3);
}

#[test]
fn blank_lines_count_where_one_column_can_be_null() {
    assert_eq!(split("a\n\n\r\nb\n", false).len(), 2);
    let kept = split("a\n\n\r\nb\n", true);
    assert_eq!(kept.len(), 4);
    assert_eq!(kept[1], (2, vec![None]));
    assert_eq!(kept[2], (3, vec![None]));
}

#[test]
fn a_comma_at_the_end_opens_one_more_field() {
    assert_eq!(split("a,", false), [(1, vec![Some("a".into()), None])]);
    assert_eq!(split(",\n", false), [(1, vec![None, None])]);
}

#[test]
fn a_quote_that_is_never_closed_ends_the_reading() {
    let mut records = Records::new(b"a,b\nc,\"d\ne,f\n");
    let mut record = Record::default();
    assert!(records.next(&mut record).unwrap());
    let error = records.next(&mut record).unwrap_err();
    assert!(matches!(error, BodyError::BadCsv { line: 2, .. }));
}

#[test]
fn text_behind_a_closing_quote_spoils_one_record() {
    let mut records = Records::new(b"\"a\"b,c\nd,e\n");
    let mut record = Record::default();
    records.next(&mut record).unwrap();
    assert_eq!((record.flaw, record.fields.len()), (Some(Flaw::BehindQuote), 2));
    records.next(&mut record).unwrap();
    assert_eq!((record.flaw, record.line), (None, 2));
}
