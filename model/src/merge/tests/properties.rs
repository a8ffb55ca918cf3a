//! Random operations on one key, against a model that keeps values as values and says each rule in one line.

use proptest::prelude::*;

use super::*;

/// The columns beside the key: name, type, function under aggregation.
const COLUMNS: [(&str, &str, &str); 8] = [
    ("sum", "bigint", "sum"),
    ("max", "int", "max"),
    ("list", "string", "listagg"),
    ("first", "int", "first_value"),
    ("count", "bigint", "count"),
    ("any", "boolean", "bool_or"),
    ("plain", "string", "last_value_ignore_nulls"),
    ("v", "bigint", "last_value"),
];

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Value {
    Whole(i64),
    Text(String),
    Bool(bool),
}

type Values = Vec<Option<Value>>;

#[derive(Clone, Debug)]
enum Step {
    Upsert(Values, Option<Vec<bool>>),
    Delete(Option<Vec<bool>>),
}

#[derive(Clone, Copy, Debug)]
enum Engine {
    Default,
    FirstRow,
    Versioned,
    Aggregation,
}

fn table_of(engine: Engine) -> Table {
    let columns: Vec<_> = COLUMNS.iter().map(|(name, column_type, _)| (*name, *column_type)).collect();
    let functions: Vec<(String, &str)> =
        COLUMNS.iter().map(|(name, _, function)| (format!("fields.{name}.agg"), *function)).collect();
    match engine {
        Engine::Default => table(&columns, &[]),
        Engine::FirstRow => table(&columns, &[("table.merge-engine", "first_row")]),
        Engine::Versioned => table(
            &columns,
            &[("table.merge-engine", "versioned"), ("table.merge-engine.versioned.ver-column", "v")],
        ),
        Engine::Aggregation => {
            let mut properties: Vec<(&str, &str)> =
                functions.iter().map(|(name, function)| (name.as_str(), *function)).collect();
            properties.push(("table.merge-engine", "aggregation"));
            properties.push(("table.delete.behavior", "allow"));
            table(&columns, &properties)
        }
    }
}

fn coded(values: &Values) -> Row {
    let code = |value: &Value| match value {
        Value::Whole(n) => int(i128::from(*n)),
        Value::Text(s) => text(s),
        Value::Bool(b) => Some(vec![u8::from(*b)]),
    };
    std::iter::once(int(1)).chain(values.iter().map(|v| v.as_ref().and_then(code))).collect()
}

/// A column under aggregation.
fn aggregate(function: &str, old: &Option<Value>, new: &Option<Value>) -> Option<Value> {
    use Value::{Bool, Text, Whole};
    match (function, old, new) {
        ("first_value", old, _) => old.clone(),
        ("last_value", _, new) => new.clone(),
        ("count", None, new) => Some(Whole(i64::from(new.is_some()))),
        (_, old, None) => old.clone(),
        ("count", Some(Whole(n)), _) => Some(Whole(n + 1)),
        ("last_value_ignore_nulls", _, new) => new.clone(),
        (_, None, new) => new.clone(),
        ("sum", Some(Whole(a)), Some(Whole(b))) => Some(Whole(a + b)),
        ("max", a, b) => {
            if a > b {
                a.clone()
            } else {
                b.clone()
            }
        }
        ("listagg", Some(Text(a)), Some(Text(b))) => Some(Text(format!("{a},{b}"))),
        ("bool_or", Some(Bool(a)), Some(Bool(b))) => Some(Bool(*a || *b)),
        other => panic!("{other:?}"),
    }
}

fn model(engine: Engine, stored: Option<&Values>, step: &Step) -> Option<Values> {
    let is_target = |mask: &Option<Vec<bool>>, i: usize| mask.as_ref().is_none_or(|mask| mask[i]);
    let deletes = matches!(engine, Engine::Default | Engine::Aggregation);
    match (step, stored) {
        (Step::Delete(_), None) => None,
        (Step::Delete(_), Some(old)) if !deletes => Some(old.clone()),
        (Step::Delete(mask), Some(old)) => {
            let left: Values =
                old.iter().enumerate().map(|(i, v)| v.clone().filter(|_| !is_target(mask, i))).collect();
            left.iter().any(Option::is_some).then_some(left)
        }
        (Step::Upsert(new, mask), old) => {
            let version = |row: &Values| match &row[7] {
                Some(Value::Whole(v)) => Some(*v),
                _ => None,
            };
            match (engine, old) {
                (Engine::FirstRow, Some(old)) => return Some(old.clone()),
                (Engine::Versioned, Some(old)) if version(new) < version(old) => return Some(old.clone()),
                _ => {}
            }
            let merged = new.iter().enumerate().map(|(i, value)| match (engine, old) {
                (_, None) if !is_target(mask, i) => None,
                (_, Some(old)) if !is_target(mask, i) => old[i].clone(),
                (Engine::Aggregation, Some(old)) => aggregate(COLUMNS[i].2, &old[i], value),
                (Engine::Aggregation, None) if COLUMNS[i].2 == "count" => aggregate("count", &None, value),
                _ => value.clone(),
            });
            Some(merged.collect())
        }
    }
}

fn value(column_type: &str) -> BoxedStrategy<Value> {
    match column_type {
        "boolean" => any::<bool>().prop_map(Value::Bool).boxed(),
        "string" => "[a-c]{0,2}".prop_map(Value::Text).boxed(),
        _ => prop_oneof![-3i64..3, -70_000i64..70_000].prop_map(Value::Whole).boxed(),
    }
}

fn values() -> impl Strategy<Value = Values> {
    let columns: Vec<_> = COLUMNS
        .iter()
        .map(|(_, column_type, _)| proptest::option::weighted(0.7, value(column_type)))
        .collect();
    columns
}

fn steps(partial: bool) -> impl Strategy<Value = Vec<Step>> {
    let mask = move || {
        let mask = proptest::collection::vec(any::<bool>(), COLUMNS.len());
        mask.prop_map(Some).boxed()
    };
    let mask = move || if partial { prop_oneof![Just(None), mask()].boxed() } else { Just(None).boxed() };
    let step = prop_oneof![
        4 => (values(), mask()).prop_map(|(values, mask)| Step::Upsert(values, mask)),
        1 => mask().prop_map(Step::Delete),
    ];
    proptest::collection::vec(step, 1..20)
}

fn op(step: &Step) -> Op {
    let names = |mask: &Option<Vec<bool>>| {
        mask.as_ref().map(|mask| {
            let named = COLUMNS.iter().zip(mask).filter(|(_, named)| **named).map(|((name, ..), _)| *name);
            std::iter::once("k").chain(named).collect()
        })
    };
    match step {
        Step::Upsert(values, mask) => Op::Upsert(coded(values), names(mask)),
        Step::Delete(mask) => Op::Delete(names(mask)),
    }
}

fn compare(engine: Engine, steps: &[Step]) -> Result<(), TestCaseError> {
    let t = table_of(engine);
    let (mut stored, mut expected): (Option<Row>, Option<Values>) = (None, None);
    for step in steps {
        match apply(&t, stored.as_ref(), &op(step)).unwrap() {
            Became::Unchanged => {}
            Became::Row(row) => stored = Some(row),
            Became::Gone => stored = None,
        }
        expected = model(engine, expected.as_ref(), step);
        prop_assert_eq!(&stored, &expected.as_ref().map(coded), "after {:?}", step);
    }
    Ok(())
}

proptest! {
    #[test]
    fn the_default_engine_is_its_model(steps in steps(true)) {
        compare(Engine::Default, &steps)?;
    }

    #[test]
    fn first_row_is_its_model(steps in steps(false)) {
        compare(Engine::FirstRow, &steps)?;
    }

    #[test]
    fn versioned_is_its_model(steps in steps(false)) {
        compare(Engine::Versioned, &steps)?;
    }

    #[test]
    fn aggregation_is_its_model(steps in steps(true)) {
        compare(Engine::Aggregation, &steps)?;
    }

    /// Bytes that no codec wrote: a fault or some result, never a panic.
    #[test]
    fn hostile_fields_never_panic(
        stored in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 9),
        new in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 9),
    ) {
        for engine in [Engine::Versioned, Engine::Aggregation] {
            let _ = apply(&table_of(engine), Some(&stored), &Op::Upsert(new.clone(), None));
        }
    }
}
