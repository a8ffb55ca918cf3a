//! Meaning of filters, by hand: every type, every trap that is known.

use super::*;

#[track_caller]
fn prints(text: &str, expected: &str) {
    let predicate = parse(text);
    assert_eq!(predicate.to_string(), expected, "{text}");
    assert_eq!(parse(&predicate.to_string()), predicate, "{text}");
}

#[test]
fn grammar_and_precedence() {
    prints("i32=1 or i32=2 and not b", "i32 = 1 OR (i32 = 2 AND NOT b)");
    prints("(i32 = 1 or i32 = 2) and b", "(i32 = 1 OR i32 = 2) AND b");
    prints("not not b", "NOT NOT b");
    prints("not i32 = 1 is true", "NOT (i32 = 1) IS TRUE");
    prints("i32 between -1 and 5 and b", "(i32 >= -1 AND i32 <= 5) AND b");
    prints("i32 not between 1 and 5", "NOT (i32 >= 1 AND i32 <= 5)");
    prints("5 between i32 and i64", "i32 <= 5 AND i64 >= 5");
    prints("1 < i32", "i32 > 1");
    prints("1 != i32", "i32 <> 1");
    prints("i32<-5", "i32 < -5");
    prints("i32>=-5 AND i32<=+5", "i32 >= -5 AND i32 <= 5");
    prints("i8 = i64", "i8 = i64");
    prints("i32 is not null /* yes */ -- end", "i32 IS NOT NULL");
    prints("list is null", "list IS NULL");
    prints("b is not true", "NOT b IS TRUE");
    prints("b is unknown or (b) is null", "b IS UNKNOWN OR b IS NULL");
    prints("(i32 = 1) is null", "(i32 = 1) IS UNKNOWN");
    prints("b = false and true", "b = FALSE AND TRUE");
    prints("i32 in (1, -2)", "i32 IN (1, -2)");
    prints("i32 not in ()", "i32 NOT IN ()");
    prints("s like 'a%' escape '!'", "s LIKE 'a%' ESCAPE '!'");
    prints("s not ilike '%''x'", "s NOT ILIKE '%''x'");
    prints("bin = X'00fF' or bin = 0x01", "bin = X'00FF' OR bin = X'01'");
}

#[test]
fn quoted_and_odd_column_names() {
    prints("\"select\" = 1", "\"select\" = 1");
    prints("I32 = 1", "i32 = 1");
    prints("\"case\" > 1", "\"Case\" > 1");
    prints("\"odd \"\"name\"\"\" = 1", "\"odd \"\"name\"\"\" = 1");
    prints("date = 5", "date = 5");
    prints("größe = 5", "\"größe\" = 5");
    prints("Case2 = 5", "Case2 = 5");
    assert!(error("case2 = 5").contains("any of \"cASE2\", \"Case2\""));
    assert_eq!(error("i3 = 1"), "there is no column `i3` at line 1, column 1; did you mean `i8`?");
    assert_eq!(
        error("b AND\n  nothing_like_it = 1"),
        "there is no column `nothing_like_it` at line 2, column 3"
    );
}

#[test]
fn integers_against_numbers_that_are_none_of_them() {
    prints("i32 < 1.5", "i32 <= 1");
    prints("i32 <= 1.5", "i32 <= 1");
    prints("i32 > -1.5", "i32 > -2");
    prints("i32 = 1.0", "i32 = 1");
    prints("i32 = 1e2", "i32 = 100");
    prints("i32 = 1.5", "i32 IS NULL AND NULL");
    prints("i32 <> 1.5", "i32 IS NOT NULL OR NULL");
    prints("i8 < 128", "i8 IS NOT NULL OR NULL");
    prints("i8 > 127.5", "i8 IS NULL AND NULL");
    prints("i8 > -128.5", "i8 IS NOT NULL OR NULL");
    prints("i8 = 127", "i8 = 127");
    prints("i8 >= -128", "i8 >= -128");
    prints("i64 <= 9223372036854775808", "i64 IS NOT NULL OR NULL");
    prints("i64 = -9223372036854775808", "i64 = -9223372036854775808");
    prints("i64 > 1e99999999999999999999", "i64 IS NULL AND NULL");
    prints("i64 < 1e-99999999999999999999", "i64 <= 0");
    prints("i8 IN (1, 300, 1.5)", "i8 IN (1)");
    prints("i8 IN (300)", "i8 IS NULL AND NULL");
    prints("i8 NOT IN (300)", "i8 IS NOT NULL OR NULL");
    let values: ArrayRef = Arc::new(Int8Array::from(vec![Some(-128), Some(127), None]));
    assert_eq!(outcomes("i8 < 1000", "i8", values.clone()), [T, T, N]);
    assert_eq!(outcomes("i8 = 1000", "i8", values.clone()), [F, F, N]);
    assert_eq!(outcomes("NOT i8 = 1000", "i8", values.clone()), [T, T, N]);
    assert_eq!(outcomes("i8 < -127.5", "i8", values), [T, F, N]);
}

#[test]
fn decimals_keep_their_scale() {
    prints("dec = 1.5", "dec = 1.50");
    prints("dec = 1.505", "dec IS NULL AND NULL");
    prints("dec < -1.505", "dec <= -1.51");
    prints("dec = -0.05", "dec = -0.05");
    prints("dec > 99999999.99", "dec > 99999999.99");
    prints("dec > 99999999.991", "dec IS NULL AND NULL");
    prints("dec < 1e40", "dec IS NOT NULL OR NULL");
    let nines = "9".repeat(38);
    prints(&format!("big_dec = {nines}"), &format!("big_dec = {nines}"));
    prints(&format!("big_dec = {nines}9"), "big_dec IS NULL AND NULL");
    let values =
        Decimal128Array::from(vec![Some(150), Some(151), None]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(outcomes("dec > 1.5", "dec", Arc::new(values)), [F, T, N]);
}

#[test]
fn floats_round_literals_and_have_one_zero() {
    let values: ArrayRef =
        Arc::new(Float32Array::from(vec![0.1, 16777216.0, -0.0, 0.0, f32::NAN, f32::INFINITY]));
    assert_eq!(outcomes("f32 = 0.1", "f32", values.clone()), [T, F, F, F, F, F]);
    assert_eq!(outcomes("f32 = 16777217", "f32", values.clone()), [F, T, F, F, F, F]);
    assert_eq!(outcomes("f32 = 0", "f32", values.clone()), [F, F, T, T, F, F]);
    assert_eq!(outcomes("f32 <> -0.0", "f32", values.clone()), [T, T, F, F, T, T]);
    assert_eq!(outcomes("f32 < 0", "f32", values.clone()), [F, F, F, F, F, F]);
    assert_eq!(outcomes("f32 >= 0", "f32", values.clone()), [T, T, T, T, T, T]);
    assert_eq!(outcomes("f32 = 'NaN'", "f32", values.clone()), [F, F, F, F, T, F]);
    assert_eq!(outcomes("f32 > 'Infinity'", "f32", values.clone()), [F, F, F, F, T, F]);
    assert_eq!(outcomes("f32 > 1e39", "f32", values.clone()), [F, F, F, F, T, T]);
    assert_eq!(outcomes("f32 < 1e39", "f32", values.clone()), [T, T, T, T, F, F]);
    assert_eq!(outcomes("f32 IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 'NaN')", "f32", values), [F, F, T, T, T, F]);
    prints("f64 = 1e300 or f64 = -1e-7", "f64 = 1e300 OR f64 = -1e-7");
    prints("f64 > -1e400", "f64 > '-Infinity'");
    prints("f64 = 1e400", "f64 IS NULL AND NULL");
    prints("f64 = '-NaN'", "f64 = '-NaN'");
}

#[test]
fn dates_and_timestamps() {
    prints("d = '2013-01-01' or d = DATE '2013-01-02'", "d = '2013-01-01' OR d = '2013-01-02'");
    prints("d < TIMESTAMP '2013-01-01T10:00:00Z'", "d <= '2013-01-01'");
    prints("d = '2013-01-01T10:00:00Z'", "d IS NULL AND NULL");
    prints("d < '1969-12-31 12:00:00'", "d <= '1969-12-31'");
    prints("ts_s >= '2013-01-01 10:00'", "ts_s >= '2013-01-01T10:00:00'");
    prints("ts_s > '2013-01-01T10:00:00.5'", "ts_s > '2013-01-01T10:00:00'");
    prints("ts_s = '2013-01-01T10:00:00Z'", "ts_s = '2013-01-01T10:00:00'");
    prints("ts_ms = '2013-01-01T10:00:00.5+02:00'", "ts_ms = '2013-01-01T08:00:00.500Z'");
    prints("ts_us = DATE '2013-01-01'", "ts_us = '2013-01-01T00:00:00'");
    prints("ts_ns = '1950-01-01T00:00:00.000000001Z'", "ts_ns = '1950-01-01T00:00:00.000000001Z'");
    prints("ts_ns < '1600-01-01'", "ts_ns IS NULL AND NULL");
    prints("ts_ns < '2600-01-01'", "ts_ns IS NOT NULL OR NULL");
    prints(
        "ts_s = '@9223372036854775807' or d = '@-2147483648'",
        "ts_s = '@9223372036854775807' OR d = '@-2147483648'",
    );
    prints("t_s >= '10:00' and t_ms = '10:00:00.001'", "t_s >= '10:00:00' AND t_ms = '10:00:00.001'");
    prints(
        "t_us < '23:59:59.9999999' and t_ns = '00:00:00'",
        "t_us <= '23:59:59.999999' AND t_ns = '00:00:00'",
    );
    let array = TimestampMillisecondArray::from(vec![Some(1), Some(-1), None]).with_timezone("UTC");
    assert_eq!(outcomes("ts_ms < '1970-01-01T00:00:00Z'", "ts_ms", Arc::new(array)), [F, T, N]);
    assert!(error("ts_s = '2013-01-01T10:00:00+02:00'").contains("without an offset"));
    assert!(error("d = DATE '2013-13-01'").contains("write '2013-01-01'"));
    assert!(error("ts_s = 5").contains("write '2013-01-01T10:00:00Z'"));
}

#[test]
fn null_in_comparisons_and_lists() {
    prints("i32 = NULL", "NULL");
    prints("i32 IN (1, NULL)", "i32 IN (1) OR NULL");
    prints("i32 NOT IN (1, NULL)", "i32 NOT IN (1) AND NULL");
    prints("i32 IN (NULL)", "NULL");
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
    assert_eq!(outcomes("i32 IN (1, NULL)", "i32", values.clone()), [T, N, N]);
    assert_eq!(outcomes("i32 NOT IN (1, NULL)", "i32", values.clone()), [F, N, N]);
    assert_eq!(outcomes("i32 IN ()", "i32", values.clone()), [F, F, F]);
    assert_eq!(outcomes("i32 NOT IN ()", "i32", values.clone()), [T, T, T]);
    let long = "i32 NOT IN (1,11,12,13,14,15,16,17,18,19)";
    assert_eq!(outcomes(long, "i32", values.clone()), [F, T, N]);
    assert_eq!(outcomes("(i32 = 1) IS NOT TRUE", "i32", values.clone()), [F, T, T]);
    assert_eq!(outcomes("(i32 = 1) IS FALSE", "i32", values.clone()), [F, T, F]);
    assert_eq!(outcomes("(i32 = 1) IS NULL", "i32", values), [F, F, T]);
}

#[test]
fn like_escapes_and_unicode() {
    let values =
        || -> ArrayRef { Arc::new(StringArray::from(vec!["a%b", "axb", "a\\b", "äöü", "Äx\ny", "a_b"])) };
    assert_eq!(outcomes("s LIKE 'a!%b' ESCAPE '!'", "s", values()), [T, F, F, F, F, F]);
    assert_eq!(outcomes(r"s LIKE 'a\%b'", "s", values()), [T, F, F, F, F, F]);
    assert_eq!(outcomes(r"s LIKE 'a\\b'", "s", values()), [F, F, T, F, F, F]);
    assert_eq!(outcomes(r"s LIKE 'a\b' ESCAPE '!'", "s", values()), [F, F, T, F, F, F]);
    assert_eq!(outcomes("s LIKE 'a%%b' ESCAPE '%'", "s", values()), [T, F, F, F, F, F]);
    assert_eq!(outcomes("s LIKE '___'", "s", values()), [T, T, T, T, F, T]);
    assert_eq!(outcomes("s ILIKE 'ä%'", "s", values()), [F, F, F, T, T, F]);
    assert_eq!(outcomes("s NOT LIKE 'a%'", "s", values()), [F, F, F, T, T, F]);
    assert_eq!(outcomes("s LIKE '%.b'", "s", values()), [F; 6]);
    assert!(error(r"s LIKE 'a\'").contains("ends with its escape character"));
    assert!(error("s LIKE 'a' ESCAPE 'ab'").contains("one character"));
    assert!(error("s LIKE 'a' ESCAPE ''").contains("one character"));
    assert!(error("i32 LIKE 'a'").contains("column `i32` is int"));
}

#[test]
fn binary_of_any_length() {
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        [Some([0, 1]), Some([1, 0]), None].into_iter(),
        2,
    )
    .unwrap();
    let fixed: ArrayRef = Arc::new(fixed);
    assert_eq!(outcomes("fixed = X'0001'", "fixed", fixed.clone()), [T, F, N]);
    assert_eq!(outcomes("fixed > X'00'", "fixed", fixed.clone()), [T, T, N]);
    assert_eq!(outcomes("fixed IN (X'', X'0100')", "fixed", fixed), [F, T, N]);
    assert!(error("bin = X'0'").contains("even number"));
    assert!(error("bin = 'a'").contains("X'00FF'"));
}

#[test]
fn columns_of_other_schema_versions() {
    let batch = RecordBatch::try_from_iter([
        ("i64", Arc::new(Int32Array::from(vec![1, 5])) as ArrayRef),
        ("i8", Arc::new(Int64Array::from(vec![1, 1000])) as ArrayRef),
        ("f64", Arc::new(Float32Array::from(vec![0.5, 1.5])) as ArrayRef),
    ])
    .unwrap();
    let run = |text: &str| parse(text).evaluate(&batch).unwrap().iter().collect::<Vec<_>>();
    assert_eq!(run("i64 > 3"), [F, T]);
    assert_eq!(run("i8 >= 1"), [T, T]);
    assert_eq!(run("f64 = 0.5"), [T, F]);
    assert_eq!(run("i64 IN (5, 10000000000, 2, 3, 4, 6, 7, 8, 9)"), [F, T]);
    assert_eq!(run("i64 = i8"), [T, F]);
    assert_eq!(run("s = 'x'"), [N, N]);
    assert_eq!(run("s IS NULL AND b IS NOT TRUE"), [T, T]);
    assert_eq!(run("s IS NOT NULL"), [F, F]);
    assert_eq!(run("i32 = i64 OR i64 = 1"), [T, N]);
    let wrong =
        RecordBatch::try_from_iter([("i64", Arc::new(StringArray::from(vec!["a"])) as ArrayRef)]).unwrap();
    assert!(matches!(parse("i64 > 3").evaluate(&wrong), Err(EvaluateError::ColumnType { .. })));
    assert!(matches!(parse("i64 = 3 OR b").evaluate(&wrong), Err(EvaluateError::ColumnType { .. })));
}

#[test]
fn filter_keeps_true_rows_only() {
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let batch = RecordBatch::try_from_iter([("i32", values)]).unwrap();
    assert_eq!(parse("i32 > 1").filter(&batch).unwrap().num_rows(), 1);
    assert_eq!(parse("i32 > 3").filter(&batch).unwrap().num_rows(), 0);
    assert_eq!(parse("TRUE").filter(&batch).unwrap(), batch);
    assert_eq!(parse("NULL").filter(&batch).unwrap().num_rows(), 0);
}

#[test]
fn needed_columns() {
    let predicate = parse("i32 = 1 AND (s LIKE 'x' OR NOT i8 = i64) AND b IS TRUE AND d IN ('2020-01-01')");
    assert_eq!(predicate.columns().into_iter().collect::<Vec<_>>(), ["b", "d", "i32", "i64", "i8", "s"]);
}

#[test]
fn mismatches_name_column_type_literal_place_and_fix() {
    assert_eq!(
        error("i32 = 'five'"),
        "column `i32` is int and cannot be used with 'five' at line 1, column 7: compare it with a number"
    );
    assert!(error("i32 = '5'").ends_with("write the number without quotes"));
    assert!(error("s = 5").ends_with("write '5' in single quotes"));
    assert!(error("b = 1").ends_with("compare it with TRUE or FALSE"));
    assert!(error("s = i32").contains("column `i32` of type int"));
    assert!(error("list = 1").contains("IS [NOT] NULL"));
    assert!(error("i32 AND b").contains("compare it with a literal"));
}

#[test]
fn the_rest_of_sql_is_refused_by_name() {
    for (text, what) in [
        ("length(s) = 1", "the function `length`"),
        ("i32 IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("i32 = (SELECT 1)", "a subquery"),
        ("CAST(i32 AS bigint) = 1", "a cast"),
        ("i32::bigint = 1", "a cast"),
        ("i32 + 1 = 2", "arithmetic"),
        ("t.i32 = 1", "a qualified name"),
        ("i32 = $1", "a parameter"),
        ("CASE WHEN b THEN b END", "CASE"),
        ("1 = 1", "a comparison of two literals"),
        ("(i32 = 1) = b", "a comparison of a predicate"),
        ("(i32, i64) IN ((1, 2))", "a list outside of IN"),
        ("i32 IN (i64)", "anything but a literal"),
    ] {
        let message = error(text);
        assert!(message.starts_with(what) && message.contains("is not supported"), "{text}: {message}");
    }
    for text in [
        "",
        "i32 =",
        "i32 = 1 AND",
        "(b",
        "b)",
        "b b",
        "i32 = 1 2",
        "i32 IN (1",
        "= 1",
        "b IS",
        "5",
        "i32 = -b",
    ] {
        assert!(error(text).contains("line 1"), "{text}: {}", error(text));
    }
}
