//! Random operations on one key, against the plain model.

use proptest::prelude::*;
use roaring::{RoaringBitmap, RoaringTreemap};

use super::super::plain::{self, COLUMNS, Engine, Step, Value, Values};
use super::*;
use crate::options::DeleteBehavior;

fn table_of(engine: Engine, deletes: DeleteBehavior) -> Table {
    let columns: Vec<_> = COLUMNS.iter().map(|(name, column_type, _)| (*name, *column_type)).collect();
    let properties = engine.properties(deletes);
    let properties: Vec<_> = properties.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    table(&columns, &properties)
}

fn coded(values: &Values) -> Row {
    let code = |value: &Value| match value {
        Value::Whole(n) => int(i128::from(*n)),
        Value::Text(s) => text(s),
        Value::Bool(b) => Some(vec![u8::from(*b)]),
        Value::SmallSet(_) | Value::Set(_) => value.bitmap(),
    };
    std::iter::once(int(1)).chain(values.iter().map(|v| v.as_ref().and_then(code))).collect()
}

fn op(step: &Step) -> Op {
    let names = |mask: &plain::Mask| {
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

/// The same with each bitmap as a fresh one of its numbers: where an array and runs take as many bytes, a union may keep either.
fn fresh(became: Became) -> Became {
    let Became::Row(mut row) = became else { return became };
    for (field, (_, _, function)) in row.iter_mut().skip(1).zip(COLUMNS) {
        let Some(bytes) = field else { continue };
        let set = match function {
            "rbm32" => RoaringBitmap::deserialize_from(bytes.as_slice())
                .map(|bitmap| Value::SmallSet(bitmap.iter().collect())),
            "rbm64" => RoaringTreemap::deserialize_from(bytes.as_slice())
                .map(|bitmap| Value::Set(bitmap.iter().collect())),
            _ => continue,
        };
        *field = set.unwrap().bitmap();
    }
    Became::Row(row)
}

fn compare(engine: Engine, deletes: DeleteBehavior, steps: &[Step]) -> Result<(), TestCaseError> {
    let t = table_of(engine, deletes);
    let (mut stored, mut expected): (Option<Row>, Option<Values>) = (None, None);
    for step in steps {
        let became = apply(&t, stored.as_ref(), &op(step));
        if matches!(step, Step::Delete(_)) && deletes == DeleteBehavior::Disable {
            prop_assert_eq!(became, Err(MergeFault::DeleteDisabled));
            continue;
        }
        let became = became.unwrap();
        let should = plain::merge(engine, deletes, expected.as_ref(), step);
        match &became {
            Became::Unchanged => {}
            Became::Row(row) => stored = Some(row.clone()),
            Became::Gone => stored = None,
        }
        let coded = match &should {
            plain::Became::Unchanged => Became::Unchanged,
            plain::Became::Row(values) => Became::Row(coded(values)),
            plain::Became::Gone => Became::Gone,
        };
        prop_assert_eq!(fresh(became), fresh(coded), "after {:?}", step);
        match should {
            plain::Became::Unchanged => {}
            plain::Became::Row(values) => expected = Some(values),
            plain::Became::Gone => expected = None,
        }
    }
    Ok(())
}

fn history() -> impl Strategy<Value = (Engine, DeleteBehavior, Vec<Step>)> {
    let engine = prop_oneof![
        Just(Engine::Default),
        Just(Engine::FirstRow),
        Just(Engine::Versioned),
        Just(Engine::Aggregation)
    ];
    engine.prop_flat_map(|engine| {
        let deletes = proptest::sample::select(engine.delete_behaviors());
        (Just(engine), deletes, proptest::collection::vec(plain::step(engine), 1..20))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn each_engine_is_its_model((engine, deletes, steps) in history()) {
        compare(engine, deletes, &steps)?;
    }
}

proptest! {
    /// Bytes that no codec wrote: a fault or some result, never a panic.
    #[test]
    fn hostile_fields_never_panic(
        stored in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), COLUMNS.len() + 1),
        new in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), COLUMNS.len() + 1),
    ) {
        for engine in [Engine::Versioned, Engine::Aggregation] {
            let table = table_of(engine, DeleteBehavior::Ignore);
            let _ = apply(&table, Some(&stored), &Op::Upsert(new.clone(), None));
        }
    }
}
