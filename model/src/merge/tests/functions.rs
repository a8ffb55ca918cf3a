//! Every function: its NULLs, its limits, its first value.

use super::*;
use crate::fault::{ErrorKind, Fault};

fn aggregation(column_type: &str, function: &str) -> Table {
    table(&[("a", column_type)], &[("table.merge-engine", "aggregation"), ("fields.a.agg", function)])
}

fn step(t: &Table, stored: Option<&Row>, value: Option<Vec<u8>>) -> Result<Row, MergeFault> {
    match apply(t, stored, &Op::Upsert(vec![int(1), value], None))? {
        Became::Row(row) => Ok(row),
        other => panic!("an aggregation always writes, but: {other:?}"),
    }
}

/// What the column holds after these values came, one after the other.
fn fold(
    column_type: &str,
    function: &str,
    values: &[Option<Vec<u8>>],
) -> Result<Option<Vec<u8>>, MergeFault> {
    let t = aggregation(column_type, function);
    let mut stored: Option<Row> = None;
    for value in values {
        stored = Some(step(&t, stored.as_ref(), value.clone())?);
    }
    Ok(stored.and_then(|row| row[1].clone()))
}

/// As [`fold`], of whole numbers.
fn ints(column_type: &str, function: &str, values: &[Option<i128>]) -> Option<i128> {
    let coded = values.iter().map(|v| v.and_then(|v| code(column_type, v))).collect::<Vec<_>>();
    let result =
        fold(column_type, function, &coded).unwrap_or_else(|e| panic!("{column_type} {function}: {e}"));
    result.map(|bytes| match column_type {
        "tinyint" => i128::from(field::tiny(&bytes).unwrap()),
        _ => field::int(&bytes).unwrap(),
    })
}

fn code(column_type: &str, value: i128) -> Option<Vec<u8>> {
    match column_type {
        "tinyint" => Some(vec![i8::try_from(value).unwrap() as u8]),
        _ => int(value),
    }
}

fn overflows(column_type: &str, function: &str, values: &[i128]) {
    let coded = values.iter().map(|v| code(column_type, *v)).collect::<Vec<_>>();
    let error = fold(column_type, function, &coded).unwrap_err();
    assert_eq!(error, MergeFault::Overflow { column: "a".to_owned() }, "{column_type} {function} {values:?}");
    assert_eq!((error.kind(), error.code()), (ErrorKind::Rejected, "aggregate_overflow"));
}

const WHOLE: [(&str, i128, i128); 4] = [
    ("tinyint", i8::MIN as i128, i8::MAX as i128),
    ("smallint", i16::MIN as i128, i16::MAX as i128),
    ("int", i32::MIN as i128, i32::MAX as i128),
    ("bigint", i64::MIN as i128, i64::MAX as i128),
];

#[test]
fn whole_numbers_add_and_multiply_within_their_type() {
    for (column_type, min, max) in WHOLE {
        assert_eq!(ints(column_type, "sum", &[Some(3), Some(-5)]), Some(-2));
        assert_eq!(ints(column_type, "sum", &[Some(max - 1), Some(1)]), Some(max));
        assert_eq!(ints(column_type, "sum", &[Some(min + 1), Some(-1)]), Some(min));
        overflows(column_type, "sum", &[max, 1]);
        overflows(column_type, "sum", &[min, -1]);
        assert_eq!(ints(column_type, "product", &[Some(3), Some(-5)]), Some(-15));
        assert_eq!(ints(column_type, "product", &[Some(max), Some(-1)]), Some(-max));
        overflows(column_type, "product", &[min, -1]);
        overflows(column_type, "product", &[max, 2]);
    }
    for function in ["sum", "product", "max", "min"] {
        assert_eq!(ints("int", function, &[None, None]), None);
        assert_eq!(ints("int", function, &[None, Some(4), None]), Some(4));
    }
}

#[test]
fn decimals_add_and_multiply_exactly() {
    // 1.50 + 2.25, and 1.50 * 2.25 = 3.375, which rounds away from zero.
    assert_eq!(ints("decimal(10,2)", "sum", &[Some(150), Some(225)]), Some(375));
    assert_eq!(ints("decimal(10,2)", "product", &[Some(150), Some(225)]), Some(338));
    assert_eq!(ints("decimal(10,2)", "product", &[Some(-150), Some(225)]), Some(-338));
    assert_eq!(ints("decimal(10,2)", "product", &[Some(101), Some(104)]), Some(105), "1.0504");
    assert_eq!(ints("decimal(3,0)", "product", &[Some(-37), Some(27)]), Some(-999));
    overflows("decimal(3,1)", "sum", &[999, 1]);
    overflows("decimal(3,1)", "sum", &[-999, -1]);
    overflows("decimal(3,0)", "product", &[500, 2]);
    let most = 10i128.pow(38) - 1;
    overflows("decimal(38,0)", "sum", &[most, 1]);
    overflows("decimal(38,0)", "product", &[most, most]);
    assert_eq!(ints("decimal(38,38)", "product", &[Some(most), Some(most)]), Some(most - 1));
}

#[test]
fn floats_add_multiply_and_compare() {
    let double = |v: f64| Some(v.to_le_bytes().to_vec());
    let result = |function: &str, values: &[f64]| {
        let coded: Vec<_> = values.iter().map(|v| double(*v)).collect();
        field::double(&fold("double", function, &coded).unwrap().unwrap()).unwrap()
    };
    assert_eq!(result("sum", &[0.5, 0.25]), 0.75);
    assert_eq!(result("product", &[0.5, 0.25]), 0.125);
    assert_eq!(result("sum", &[f64::MAX, f64::MAX]), f64::INFINITY);
    assert_eq!(result("max", &[1.0, -2.0]), 1.0);
    assert_eq!(result("min", &[1.0, -2.0]), -2.0);
    assert!(result("max", &[f64::INFINITY, f64::NAN]).is_nan(), "NaN is above all others");
    assert_eq!(result("min", &[f64::NAN, 7.0]), 7.0);
    let float = |v: f32| Some(v.to_le_bytes().to_vec());
    assert_eq!(fold("float", "sum", &[float(0.5), float(1.0)]).unwrap(), float(1.5));
    assert_eq!(fold("float", "product", &[float(0.5), float(1.0)]).unwrap(), float(0.5));
    assert_eq!(fold("float", "max", &[float(0.5), float(1.0)]).unwrap(), float(1.0));
}

#[test]
fn extremes_of_all_ordered_types() {
    for column_type in [
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "decimal(5,2)",
        "date",
        "time(3)",
        "timestamp(6)",
        "timestamp_ltz(0)",
    ] {
        let values = [Some(-1), None, Some(-128), Some(127), Some(3)];
        assert_eq!(ints(column_type, "max", &values), Some(127), "{column_type}");
        assert_eq!(ints(column_type, "min", &values), Some(-128), "{column_type}");
    }
    for column_type in ["string", "char(4)"] {
        let values = [text("b"), text("ba"), None, text("a"), text("é")];
        assert_eq!(fold(column_type, "max", &values).unwrap(), text("é"), "by bytes");
        assert_eq!(fold(column_type, "min", &values).unwrap(), text("a"));
    }
}

#[test]
fn first_and_last_values() {
    type Case<'a> = (&'a str, &'a [Option<&'a str>], Option<&'a str>);
    let cases: [Case<'_>; 11] = [
        ("last_value", &[Some("a"), Some("b")], Some("b")),
        ("last_value", &[Some("a"), None], None),
        ("last_value_ignore_nulls", &[Some("a"), None], Some("a")),
        ("last_value_ignore_nulls", &[None, Some("b")], Some("b")),
        ("last_value_ignore_nulls", &[None, None], None),
        ("first_value", &[Some("a"), Some("b")], Some("a")),
        ("first_value", &[None, Some("b")], None),
        ("first_value_ignore_nulls", &[None, Some("b"), Some("c")], Some("b")),
        ("first_value_ignore_nulls", &[Some("a"), None], Some("a")),
        ("listagg", &[None, Some("a"), None, Some(""), Some("b")], Some("a,,b")),
        ("string_agg", &[Some("a"), Some("b")], Some("a,b")),
    ];
    for (function, values, expected) in cases {
        let values: Vec<_> = values.iter().map(|v| v.and_then(text)).collect();
        assert_eq!(
            fold("string", function, &values).unwrap(),
            expected.and_then(text),
            "{function} {values:?}"
        );
    }
    let t = table(&[("a", "array<int>")], &[("table.merge-engine", "aggregation")]);
    let first = step(&t, None, text("any")).unwrap();
    assert_eq!(
        step(&t, Some(&first), None).unwrap()[1],
        text("any"),
        "what has no function keeps what is not NULL"
    );
}

#[test]
fn delimiters_are_chosen_per_column() {
    for option in
        ["fields.a.listagg.delimiter", "fields.a.string_agg.delimiter", "fields.a.string-agg.delimiter"]
    {
        let t = table(
            &[("a", "string")],
            &[("table.merge-engine", "aggregation"), ("fields.a.agg", "LISTAGG"), (option, " | ")],
        );
        let first = step(&t, None, text("x")).unwrap();
        assert_eq!(step(&t, Some(&first), text("y")).unwrap()[1], text("x | y"));
    }
}

#[test]
fn texts_do_not_grow_without_end() {
    let t = aggregation("string", "listagg");
    let long = vec![b'x'; MAX_AGGREGATED - 2];
    let first = step(&t, None, Some(long)).unwrap();
    let full = step(&t, Some(&first), text("y")).unwrap();
    assert_eq!(full[1].as_ref().unwrap().len(), MAX_AGGREGATED);
    let error = step(&t, Some(&full), text("z")).unwrap_err();
    assert_eq!(error, MergeFault::TooLarge { column: "a".to_owned() });
    // Two columns that fit alone do not fit together.
    let both = table(
        &[("a", "string"), ("b", "string")],
        &[("table.merge-engine", "aggregation"), ("fields.a.agg", "listagg"), ("fields.b.agg", "listagg")],
    );
    let half = Some(vec![b'x'; MAX_AGGREGATED / 2]);
    let stored = vec![int(1), half.clone(), half];
    let change = Op::Upsert(vec![int(1), text("y"), text("y")], None);
    assert_eq!(
        apply(&both, Some(&stored), &change).unwrap_err(),
        MergeFault::TooLarge { column: "b".to_owned() }
    );
}

#[test]
fn truth_values() {
    let bool = |v: Option<bool>| v.map(|v| vec![u8::from(v)]);
    let cases = [
        ("bool_and", [Some(true), Some(true)], Some(true)),
        ("bool_and", [Some(true), Some(false)], Some(false)),
        ("bool_and", [Some(false), Some(true)], Some(false)),
        ("bool_and", [Some(false), None], Some(false)),
        ("bool_and", [None, Some(true)], Some(true)),
        ("bool_or", [Some(true), Some(false)], Some(true)),
        ("bool_or", [Some(false), Some(true)], Some(true)),
        ("bool_or", [Some(false), Some(false)], Some(false)),
        ("bool_or", [None, None], None),
    ];
    for (function, values, expected) in cases {
        let result = fold("boolean", function, &values.map(bool)).unwrap();
        assert_eq!(result, bool(expected), "{function} {values:?}");
    }
}

#[test]
fn count_counts_what_is_not_null() {
    assert_eq!(ints("bigint", "count", &[Some(99)]), Some(1), "the value itself does not matter");
    assert_eq!(ints("bigint", "count", &[None]), Some(0));
    assert_eq!(ints("bigint", "count", &[None, Some(1), None, Some(-1)]), Some(2));
    let t = aggregation("bigint", "count");
    let full = vec![int(1), int(i128::from(i64::MAX))];
    assert_eq!(step(&t, Some(&full), int(1)).unwrap_err(), MergeFault::Overflow { column: "a".to_owned() });
    assert_eq!(step(&t, Some(&full), None).unwrap(), full);
}

#[test]
fn partial_updates_aggregate_their_targets_only() {
    let t = table(
        &[("a", "int"), ("b", "int"), ("n", "bigint")],
        &[
            ("table.merge-engine", "aggregation"),
            ("fields.a.agg", "sum"),
            ("fields.b.agg", "sum"),
            ("fields.n.agg", "count"),
        ],
    );
    let row = |a: Option<i128>, b: Option<i128>, n: Option<i128>| {
        vec![int(1), a.and_then(int), b.and_then(int), n.and_then(int)]
    };
    let op = Op::Upsert(row(Some(5), Some(6), Some(7)), Some(vec!["k", "a"]));
    let inserted = apply(&t, None, &op).unwrap();
    assert_eq!(inserted, Became::Row(row(Some(5), None, None)), "the first insert is masked too");
    let updated = apply(&t, Some(&row(Some(5), Some(1), None)), &op).unwrap();
    assert_eq!(updated, Became::Row(row(Some(10), Some(1), None)));
    let counted =
        apply(&t, Some(&row(None, None, None)), &Op::Upsert(row(None, None, Some(1)), Some(vec!["k", "n"])));
    assert_eq!(counted.unwrap(), Became::Row(row(None, None, Some(1))), "no count yet is 0");
}

#[test]
fn damaged_values_are_faults_of_ours() {
    for (column_type, function) in [
        ("int", "sum"),
        ("tinyint", "product"),
        ("decimal(5,2)", "sum"),
        ("double", "max"),
        ("float", "sum"),
        ("date", "min"),
        ("bigint", "count"),
    ] {
        let t = aggregation(column_type, function);
        let stored = vec![int(1), Some(vec![0x80; 3])];
        let value = match column_type {
            "double" => Some(vec![0; 8]),
            "float" => Some(vec![0; 4]),
            "tinyint" => Some(vec![0]),
            _ => int(1),
        };
        let error = step(&t, Some(&stored), value).unwrap_err();
        assert_eq!(error, MergeFault::Damaged { column: "a".to_owned() }, "{column_type} {function}");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
