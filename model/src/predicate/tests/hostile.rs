//! Texts and bytes made to break the parser and the decoder.

use super::*;
use proptest::prelude::*;

/// Runs on a stack like those of the runtime's worker threads, or less.
fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn deep_nesting_is_an_error() {
    on_small_stack(|| {
        for text in [
            format!("{}b{}", "(".repeat(30_000), ")".repeat(30_000)),
            "(".repeat(60_000),
            format!("{}b", "NOT ".repeat(16_000)),
            format!("{}b", "NOT (".repeat(13_000)),
        ] {
            assert!(error(&text).contains("nested more than 64 levels"));
        }
        assert!(error(&format!("b{}", " IS TRUE".repeat(8_000))).contains("IS"));
        let fits = format!("{}b{}", "(".repeat(64), ")".repeat(64));
        assert_eq!(parse(&fits), Predicate::Column("b".into()));
        let nots = format!("{}b", "NOT ".repeat(64));
        assert_eq!(parse(&nots).to_string(), nots);
    });
}

#[test]
fn long_chains_are_flat() {
    on_small_stack(|| {
        let chain = format!("b{}", " OR b".repeat(9_999));
        let predicate = parse(&chain);
        assert_eq!(parse(&predicate.to_string()), predicate);
        assert!(error(&format!("b{}", " OR b".repeat(10_000))).contains("more than 10000"));
        assert!(error(&format!("i8 IN (1{})", ",1".repeat(10_000))).contains("more than 10000"));
        assert!(error(&format!("b{} AND )", " AND b".repeat(9_000))).contains("expected"));
        assert!(error(&format!("i8 = {}", "1 + ".repeat(10_000))).contains("arithmetic"));
    });
}

#[test]
fn long_text_is_an_error() {
    assert!(error(&" ".repeat(64 * 1024 + 1)).contains("at most 65536"));
    assert!(error(&"x".repeat(60_000)).len() < 200);
    assert!(error(&format!("i8 = '{}'", "é".repeat(30_000))).len() < 300);
    assert!(error(&format!("{}(1)", "x".repeat(60_000))).len() < 600);
    parse(&format!("i8 < {}", "9".repeat(60_000)));
    parse(&format!("dec < 0.{}1", "0".repeat(60_000)));
    parse(&format!("f64 < {}", "9".repeat(60_000)));
}

#[test]
fn like_pattern_too_large_to_compile_is_an_error_while_parsing() {
    let text = format!("s LIKE '{}'", "_%".repeat(30_000));
    match Predicate::parse(&text, &schema()) {
        Ok(predicate) => {
            let batch =
                RecordBatch::try_from_iter([("s", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]);
            predicate.evaluate(&batch.unwrap()).unwrap();
        }
        Err(error) => assert!(error.to_string().contains("too complex")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_gives_a_predicate_or_an_error(text in "\\PC*") {
        let _ = Predicate::parse(&text, &schema());
    }

    #[test]
    fn any_tokens_give_a_predicate_or_an_error(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "b", "i32", "s", "d", "dec", "ts_ms", "=", "<", "<>", ">=", "(", ")", ",", "1", "-", "1.5", "'a'", "AND",
                "OR", "NOT", "IN", "IS", "NULL", "TRUE", "LIKE", "ILIKE", "ESCAPE", "BETWEEN", "DATE", "X'00'", "'2020-01-01'",
            ]),
            0..12,
        )
    ) {
        if let Ok(predicate) = Predicate::parse(&words.join(" "), &schema()) {
            prop_assert_eq!(parse(&predicate.to_string()), predicate);
        }
    }

    #[test]
    fn any_bytes_give_statistics_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = ColumnStatistics::decode(&mut bytes.as_slice());
    }

    #[test]
    fn likely_bytes_give_statistics_or_an_error(
        flags in 0_u8..4,
        tag in 0_u8..90,
        rest in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let bytes: Vec<u8> = [flags, 0, tag].into_iter().chain(rest).collect();
        if let Ok(statistics) = ColumnStatistics::decode(&mut bytes.as_slice()) {
            let mut again = Vec::new();
            statistics.encode(&mut again);
            prop_assert_eq!(ColumnStatistics::decode(&mut again.as_slice()), Ok(statistics));
        }
    }
}
