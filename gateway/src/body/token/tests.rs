use proptest::prelude::*;

use super::*;

/// Whether the whole text is one value.
fn is_json(text: &str) -> bool {
    let mut json = Json::new(text);
    json.skip().and_then(|_| json.end("")).is_ok()
}

#[test]
fn escapes_are_resolved() {
    let read = |text: &str| Json::new(text).string().map(Cow::into_owned);
    assert_eq!(read(r#""a\"\\\/\b\f\n\r\té\u00e9\ud83d\ude00z""#).unwrap(), "a\"\\/\u{8}\u{c}\n\r\téé😀z");
    for text in [
        r#""\ud83d""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ude00""#,
        r#""\u12""#,
        r#""\x""#,
        "\"a\nb\"",
        "\"a",
        "\"\\",
    ] {
        assert!(read(text).is_err(), "{text}");
    }
    assert!(matches!(Json::new("\"plain\"").string(), Ok(Cow::Borrowed("plain"))));
}

#[test]
fn numbers_follow_the_grammar() {
    for text in ["0", "-0", "10", "1.5", "1e5", "-1.25E-7", "0.0e+1"] {
        assert!(is_json(text), "{text}");
    }
    for text in ["01", "-", "1.", ".5", "+1", "1e", "--1", "0x1", "1_0", "NaN", "Infinity"] {
        assert!(!is_json(text), "{text}");
    }
}

proptest! {
    #[test]
    fn what_serde_reads_is_read_and_nothing_else(text in "[\\[\\]{}\",:0-9.eE+ntrufalse\\\\ -]{0,16}") {
        let serde = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(is_json(&text), serde, "{}", text);
    }

    #[test]
    fn strings_read_back_as_serde_writes_them(text in any::<String>()) {
        let written = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(Json::new(&written).string().unwrap(), text);
    }
}
