//! Column statistics: bounds of every type, cut strings, bytes, and chunks that must be skipped.

use super::*;

fn of(array: impl Array + 'static) -> ColumnStatistics {
    ColumnStatistics::compute(&(Arc::new(array) as ArrayRef))
}

fn bounds(statistics: &ColumnStatistics) -> (Option<Value>, Option<Value>) {
    let value = |bound: &Option<Literal>| bound.as_ref().map(|bound| bound.value().clone());
    (value(&statistics.min), value(&statistics.max))
}

#[test]
fn long_strings_are_cut_to_bounds_that_hold() {
    let utf8 = |text: &str| Some(Value::Utf8(text.to_owned()));
    let long = "x".repeat(40);
    assert_eq!(
        bounds(&of(StringArray::from(vec![long.as_str()]))),
        (utf8(&"x".repeat(32)), utf8(&format!("{}y", "x".repeat(31))))
    );
    // 'é' has two bytes and would be split at byte 32; U+D7FF is followed by the surrogates.
    let odd = format!("{}\u{D7FF}é", "x".repeat(28));
    assert_eq!(
        bounds(&of(StringArray::from(vec![odd.as_str()]))),
        (utf8(&format!("{}\u{D7FF}", "x".repeat(28))), utf8(&format!("{}\u{E000}", "x".repeat(28))))
    );
    let top = "\u{10FFFF}".repeat(9);
    assert_eq!(bounds(&of(StringArray::from(vec![top.as_str()]))), (utf8(&"\u{10FFFF}".repeat(8)), None));
    let bytes = |value: Vec<u8>| Some(Value::Binary(value));
    let array = BinaryArray::from_iter_values([vec![255; 33]]);
    assert_eq!(bounds(&of(array)), (bytes(vec![255; 32]), None));
    let mut value = vec![255; 33];
    value[0] = 1;
    assert_eq!(bounds(&of(BinaryArray::from_iter_values([value]))).1, bytes(vec![2]));
}

#[test]
fn bounds_are_the_least_and_the_greatest() {
    // Alike for no, some and all of the words that are compared at once; zeros where a shorter one ends.
    let beginnings = ["", "a", "seven b", "eight by", "eight byt", "https://example.org/"];
    let endings = ["", "\0", "\0\0", "\u{1}", "b", "z", "\u{7f}", "Ä", "\u{10FFFF}"];
    let texts: Vec<String> = beginnings.iter().flat_map(|b| endings.map(|e| format!("{b}{e}"))).collect();
    for a in &texts {
        for b in &texts {
            for c in ["eight by", "eight bytes and", "\0"] {
                let values = [Some(a.as_str()), None, Some(c), Some(b), None];
                let wanted = (values.iter().flatten().min(), values.iter().flatten().max());
                let found = bounds(&of(StringArray::from(values.to_vec())));
                let text = |text: Option<&&str>| text.map(|text| Value::Utf8((*text).to_owned()));
                assert_eq!(found, (text(wanted.0), text(wanted.1)), "{values:?}");
                let bytes = |text: Option<&&str>| text.map(|text| Value::Binary(text.as_bytes().to_vec()));
                let found = bounds(&of(BinaryArray::from_iter(values)));
                assert_eq!(found, (bytes(wanted.0), bytes(wanted.1)), "{values:?}");
            }
        }
    }
    assert_eq!(bounds(&of(StringArray::from(vec![None::<&str>; 3]))), (None, None));
}

#[test]
fn nan_is_no_bound() {
    let statistics = of(Float64Array::from(vec![Some(1.0), Some(f64::NAN), None]));
    assert_eq!(bounds(&statistics), (Some(Value::Float(1.0)), None));
    assert_eq!(statistics.null_count, 1);
    assert_eq!(bounds(&of(Float32Array::from(vec![f32::NAN]))), (None, None));
    assert!(parse("f64 > 5").may_match(3, |_| Some(&statistics)));
    assert!(!parse("f64 < 1").may_match(3, |_| Some(&statistics)));
}

#[test]
fn nested_columns_have_a_null_count_only() {
    let list =
        ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(vec![Some(vec![Some(1)]), None]);
    let statistics = of(list);
    assert_eq!(statistics, ColumnStatistics { min: None, max: None, null_count: 1 });
    assert!(parse("list IS NULL").may_match(2, |_| Some(&statistics)));
    let (no_nulls, all_null) = (ColumnStatistics::default(), ColumnStatistics::all_null(2));
    assert!(!parse("list IS NULL").may_match(2, |_| Some(&no_nulls)));
    assert!(!parse("list IS NOT NULL").may_match(2, |_| Some(&all_null)));
}

#[test]
fn chunks_are_skipped_where_bounds_exclude_all_rows() {
    let ints = of(Int32Array::from(vec![10, 20]));
    let strings = of(StringArray::from(vec!["banana", "cherry"]));
    let stats = |name: &str| Some(if name == "s" { &strings } else { &ints });
    for skipped in [
        "i32 = 9",
        "i32 < 10",
        "i32 <= 9.5",
        "i32 > 20",
        "NOT i32 >= 10",
        "NOT (i32 < 21 OR s = 'x')",
        "i32 IN (1, 2, 21)",
        "i32 BETWEEN 21 AND 30",
        "i32 IS NULL",
        "(i32 > 5) IS FALSE",
        "(i32 > 5) IS UNKNOWN",
        "(i32 = 5) IS TRUE",
        "i32 = 15 AND s = 'apple'",
        "s LIKE 'app%'",
        "s LIKE 'd%'",
        "s NOT IN ()  AND FALSE",
        "i32 = 15 AND NULL",
        "i32 <> i64 AND i32 = 300",
    ] {
        assert!(!parse(skipped).may_match(2, stats), "{skipped}");
    }
    for read in ["i32 = 15", "s LIKE '%x'", "s LIKE 'b%'", "s ILIKE 'APP%'", "NOT i32 = 15", "i32 = i64"] {
        assert!(parse(read).may_match(2, stats), "{read}");
    }
    assert!(!parse("i32 = 15").may_match(0, stats));
    let one = of(Int32Array::from(vec![7, 7]));
    assert!(!parse("i32 <> 7").may_match(2, |_| Some(&one)));
    assert!(!parse("i32 NOT IN (6, 7)").may_match(2, |_| Some(&one)));
    assert!(!parse("i32 < i64").may_match(2, |_| Some(&one)));
}

#[test]
fn encoding_is_small_and_exact() {
    let samples: Vec<(ColumnStatistics, usize)> = vec![
        (of(Int64Array::from(vec![1, 60])), 5),
        (of(BooleanArray::from(vec![true, false])), 5),
        (of(Float32Array::from(vec![-0.0, 1.5])), 19),
        (of(Decimal128Array::from(vec![i128::MAX / 2]).with_precision_and_scale(38, -3).unwrap()), 43),
        (of(TimestampNanosecondArray::from(vec![0]).with_timezone("UTC")), 5),
        (of(StringArray::from(vec![None, Some("ab")])), 9),
        (ColumnStatistics::all_null(300), 3),
    ];
    for (statistics, size) in samples {
        let mut bytes = Vec::new();
        statistics.encode(&mut bytes);
        assert_eq!(bytes.len(), size, "{statistics:?}");
        let mut rest = bytes.as_slice();
        assert_eq!(ColumnStatistics::decode(&mut rest), Ok(statistics));
        assert!(rest.is_empty());
        for end in 0..bytes.len() {
            assert_eq!(ColumnStatistics::decode(&mut &bytes[..end]), Err(StatisticsError::Truncated));
        }
    }
}

#[test]
fn encoded_bytes_stay_the_same() {
    let mut bytes = Vec::new();
    of(TimestampMillisecondArray::from(vec![Some(-1), Some(300), None]).with_timezone("UTC"))
        .encode(&mut bytes);
    assert_eq!(bytes, [3, 1, 64 + 17, 1, 0xD8, 4]);
}
