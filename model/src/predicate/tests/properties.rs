//! Random predicates on random batches: the oracle agrees, pruning is safe, text is exact.

use super::interpreter::{Row, interpret};
use super::*;
use arrow::compute::concat;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;

/// Columns whose values are drawn from few, so that equality, order and bounds all meet.
const COLUMNS: [&str; 14] =
    ["b", "i8", "i64", "f32", "f64", "dec", "s", "bin", "fixed", "d", "t_ms", "ts_s", "ts_ms", "i32"];

const STRINGS: [&str; 9] = [
    "",
    "a",
    "ab%",
    "a_b\\",
    "Ä",
    "äb",
    "a long string that is cut in its statistics",
    "a long string that is cut in its statistics too",
    "\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}\u{10FFFF}",
];

fn value(column: &str) -> BoxedStrategy<Value> {
    let ints = |values: &[i64]| select(values.to_vec()).prop_map(Value::Int).boxed();
    match column {
        "b" => any::<bool>().prop_map(Value::Boolean).boxed(),
        "i8" => ints(&[-128, -1, 0, 1, 127]),
        "i32" => ints(&[-129, -1, 0, 1, 2, 127, 2_147_483_647]),
        "i64" => ints(&[i64::MIN, -1, 0, 1, 9_007_199_254_740_993, i64::MAX]),
        "f32" | "f64" => select(vec![
            -f64::NAN,
            f64::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            f64::from(0.1_f32),
            1.5,
            f64::from(f32::MAX),
            f64::INFINITY,
            f64::NAN,
        ])
        .prop_map(Value::Float)
        .boxed(),
        "dec" => {
            select(vec![-9_999_999_999_i128, -5, 0, 5, 150, 9_999_999_999]).prop_map(Value::Decimal).boxed()
        }
        "s" => select(STRINGS.to_vec()).prop_map(|text| Value::Utf8(text.to_owned())).boxed(),
        "bin" => select(vec![vec![], vec![0], vec![0, 255], vec![255; 40], vec![7; 33]])
            .prop_map(Value::Binary)
            .boxed(),
        "fixed" => select(vec![vec![0, 0], vec![0, 255], vec![255, 255]]).prop_map(Value::Binary).boxed(),
        "t_ms" => ints(&[0, 1, 86_399_999]),
        "d" => ints(&[i64::from(i32::MIN), -1, 0, 15_706, i64::from(i32::MAX)]),
        _ => ints(&[i64::MIN, -1, 0, 999, 1_357_034_400, i64::MAX]),
    }
}

fn data_type(column: &str) -> DataType {
    schema().field_with_name(column).unwrap().data_type().clone()
}

fn literal(column: &str) -> BoxedStrategy<Literal> {
    let data_type = match data_type(column) {
        DataType::FixedSizeBinary(_) => DataType::Binary,
        other => other,
    };
    let source = if column == "fixed" && data_type == DataType::Binary { "bin" } else { column };
    prop_oneof![value(column), value(source)]
        .prop_map(move |value| Literal::new(data_type.clone(), value).unwrap())
        .boxed()
}

fn op() -> impl Strategy<Value = CompareOp> {
    use CompareOp::*;
    select(vec![Eq, NotEq, Lt, LtEq, Gt, GtEq])
}

fn leaf() -> BoxedStrategy<Predicate> {
    let column = || select(COLUMNS.to_vec());
    let compare = (column(), op()).prop_flat_map(|(column, op)| {
        literal(column).prop_map(move |literal| Predicate::Compare { column: column.into(), op, literal })
    });
    let in_list = (column(), any::<bool>()).prop_flat_map(|(column, negated)| {
        vec(literal(column), 0..12).prop_map(move |literals| Predicate::In {
            column: column.into(),
            literals,
            negated,
        })
    });
    let pairs =
        vec![("i8", "i64"), ("i64", "i32"), ("f32", "f64"), ("bin", "fixed"), ("s", "s"), ("ts_s", "ts_s")];
    let columns = (select(pairs), op()).prop_map(|((left, right), op)| Predicate::CompareColumns {
        left: left.into(),
        op,
        right: right.into(),
    });
    let pattern = vec(select(vec!["%", "_", "a", "b", "\\%", "\\\\", "Ä", "a long", "!_", "!!"]), 0..5);
    let like = (pattern, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(pattern, escaped, negated, case_insensitive)| Predicate::Like {
            column: "s".into(),
            pattern: pattern.concat(),
            escape: escaped.then_some('!'),
            negated,
            case_insensitive,
        },
    );
    prop_oneof![
        5 => compare,
        2 => in_list,
        1 => columns,
        2 => like,
        1 => (column(), any::<bool>()).prop_map(|(column, negated)| Predicate::IsNull { column: column.into(), negated }),
        1 => Just(Predicate::Column("b".into())),
        1 => select(vec![T, F, N]).prop_map(Predicate::Constant),
    ]
    .boxed()
}

fn predicate() -> impl Strategy<Value = Predicate> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 2..4).prop_map(Predicate::And),
            vec(inner.clone(), 2..4).prop_map(Predicate::Or),
            inner.clone().prop_map(|inner| Predicate::Not(Box::new(inner))),
            (inner, select(vec![T, F, N]))
                .prop_map(|(inner, outcome)| Predicate::Is { predicate: Box::new(inner), outcome }),
        ]
    })
}

/// Columns of one length with few different values; some are missing, some all null.
fn columns() -> impl Strategy<Value = (usize, BTreeMap<String, Vec<Option<Value>>>)> {
    (1_usize..12).prop_flat_map(|rows| {
        let column = |name: &'static str| {
            let some = (
                vec(value(name), 1..3),
                vec(proptest::option::weighted(0.8, any::<proptest::sample::Index>()), rows),
            )
                .prop_map(|(values, cells)| {
                    Some(
                        cells
                            .into_iter()
                            .map(|cell| cell.map(|cell| cell.get(&values).clone()))
                            .collect::<Vec<_>>(),
                    )
                });
            prop_oneof![1 => Just(None), 1 => Just(Some(vec![None; rows])), 8 => some]
                .prop_map(move |cells| (name.to_owned(), cells))
        };
        let all = COLUMNS.iter().map(|name| column(name)).collect::<Vec<_>>();
        all.prop_map(move |all| {
            (rows, all.into_iter().filter_map(|(name, cells)| Some((name, cells?))).collect())
        })
    })
}

fn array(name: &str, cells: &[Option<Value>]) -> ArrayRef {
    let data_type = data_type(name);
    let cell = |cell: &Option<Value>| match cell {
        Some(value) => {
            let own = if name == "fixed" { DataType::Binary } else { data_type.clone() };
            Literal::new(own, value.clone()).unwrap().to_array(&data_type).unwrap()
        }
        None => new_null_array(&data_type, 1),
    };
    let cells: Vec<ArrayRef> = cells.iter().map(cell).collect();
    concat(&cells.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
}

fn batch(rows: usize, columns: &BTreeMap<String, Vec<Option<Value>>>) -> RecordBatch {
    let arrays = columns.iter().map(|(name, cells)| (name, array(name, cells)));
    let fields: Vec<Field> =
        arrays.clone().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        arrays.map(|(_, array)| array).collect(),
        &RecordBatchOptions::new().with_row_count(Some(rows)),
    )
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn printed_predicate_parses_back_to_itself(predicate in predicate()) {
        let text = predicate.to_string();
        prop_assert_eq!(Predicate::parse(&text, &schema()), Ok(predicate), "{}", text);
    }

    #[test]
    fn evaluation_agrees_with_the_row_by_row_meaning(
        (rows, columns) in columns(),
        predicate in predicate(),
    ) {
        let batch = batch(rows, &columns);
        let outcomes = predicate.evaluate(&batch).unwrap();
        for row in 0..rows {
            let cells: Row = columns.iter().map(|(name, cells)| (name.clone(), cells[row].clone())).collect();
            let outcome = (!outcomes.is_null(row)).then(|| outcomes.value(row));
            prop_assert_eq!(outcome, interpret(&predicate, &cells), "{} in row {}: {:?}", predicate, row, cells);
        }
        let half = batch.slice(rows / 2, rows - rows / 2);
        prop_assert_eq!(predicate.evaluate(&half).unwrap(), outcomes.slice(rows / 2, rows - rows / 2));
        let selected = outcomes.iter().filter(|outcome| *outcome == T).count();
        prop_assert_eq!(predicate.filter(&batch).unwrap().num_rows(), selected);
    }

    #[test]
    fn skipped_chunk_has_no_selected_row((rows, columns) in columns(), predicate in predicate()) {
        let batch = batch(rows, &columns);
        let mut encoded = Vec::new();
        batch.columns().iter().for_each(|array| ColumnStatistics::compute(array).encode(&mut encoded));
        let mut bytes = encoded.as_slice();
        let known: Vec<_> = batch.columns().iter().map(|_| ColumnStatistics::decode(&mut bytes).unwrap()).collect();
        prop_assert!(bytes.is_empty());
        let missing = ColumnStatistics::all_null(rows as u64);
        let selected = predicate.filter(&batch).unwrap().num_rows();
        let of = |name: &str| batch.schema().index_of(name).map_or(&missing, |index| &known[index]);
        if !predicate.may_match(rows as u64, |name| Some(of(name))) {
            prop_assert_eq!(selected, 0, "{}", predicate);
        }
        if !predicate.may_match(rows as u64, |name| (name > "f").then(|| of(name))) {
            prop_assert_eq!(selected, 0, "{} with some columns unknown", predicate);
        }
    }

    #[test]
    fn integer_against_fraction_is_exact(
        quarters in -600_i64..600,
        values in vec(any::<i8>(), 1..20),
        op in op(),
        negated in any::<bool>(),
    ) {
        let not = if negated { "NOT " } else { "" };
        let text = format!("{not}i8 {} {}", op.sql(), quarters as f64 / 4.0);
        let expected: Vec<_> = values
            .iter()
            .map(|value| {
                let quadruple = Literal::new(DataType::Int64, Value::Int(i64::from(*value) * 4)).unwrap();
                let row = Row::from([("x".to_owned(), Some(quadruple.value().clone()))]);
                let literal = Literal::new(DataType::Int64, Value::Int(quarters)).unwrap();
                let exact = Predicate::Compare { column: "x".into(), op, literal };
                interpret(&exact, &row).map(|outcome| outcome != negated)
            })
            .collect();
        prop_assert_eq!(outcomes(&text, "i8", Arc::new(Int8Array::from(values))), expected, "{}", text);
    }
}
