//! Merge engines said plainly, for tests: values are values, and each rule is a line.
//!
//! The engines are compared with it here, and whole shards in `store`, through restarts and in their changelog. It shares no code
//! with what it judges.

use std::collections::BTreeSet;

use proptest::prelude::*;
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::options::DeleteBehavior;

/// The columns beside the key, one for each function: name, type, function under aggregation.
pub const COLUMNS: [(&str, &str, &str); 15] = [
    ("sum", "bigint", "sum"),
    ("product", "bigint", "product"),
    ("max", "int", "max"),
    ("min", "string", "min"),
    ("kept", "string", "last_value_ignore_nulls"),
    ("first", "int", "first_value"),
    ("first_set", "bigint", "first_value_ignore_nulls"),
    ("list", "string", "listagg"),
    ("joined", "string", "string_agg"),
    ("every", "boolean", "bool_and"),
    ("some", "boolean", "bool_or"),
    ("small_set", "bytes", "rbm32"),
    ("set", "bytes", "rbm64"),
    ("count", "bigint", "count"),
    ("v", "bigint", "last_value"),
];

/// The position in [`COLUMNS`] of the version column.
const VERSION: usize = 14;

/// A value of a column.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// A whole number.
    Whole(i64),
    /// A text.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// What a bitmap of 32-bit numbers holds.
    SmallSet(BTreeSet<u32>),
    /// What a bitmap of 64-bit numbers holds.
    Set(BTreeSet<u64>),
}

impl Value {
    /// The bitmap of a set as it is stored.
    pub fn bitmap(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let written = match self {
            Value::SmallSet(set) => {
                let mut bitmap: RoaringBitmap = set.iter().collect();
                bitmap.optimize();
                bitmap.serialize_into(&mut bytes)
            }
            Value::Set(set) => {
                let mut bitmap: RoaringTreemap = set.iter().collect();
                bitmap.optimize();
                bitmap.serialize_into(&mut bytes)
            }
            _ => return None,
        };
        written.expect("writing to memory does not fail");
        Some(bytes)
    }
}

/// A row without its key.
pub type Values = Vec<Option<Value>>;

/// Which of [`COLUMNS`] are targets; `None` is all of them.
pub type Mask = Option<Vec<bool>>;

/// What is done to the row of a key.
#[derive(Clone, Debug)]
pub enum Step {
    /// Insert or update the target columns.
    Upsert(Values, Mask),
    /// Delete the target columns, or the row.
    Delete(Mask),
}

/// The merge engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Engine {
    Default,
    FirstRow,
    Versioned,
    Aggregation,
}

impl Engine {
    /// The properties of a table with [`COLUMNS`] and this engine.
    pub fn properties(self, deletes: DeleteBehavior) -> Vec<(String, String)> {
        let engine = match self {
            Engine::Default => None,
            Engine::FirstRow => Some("first_row"),
            Engine::Versioned => Some("versioned"),
            Engine::Aggregation => Some("aggregation"),
        };
        let deletes = match deletes {
            DeleteBehavior::Allow => "allow",
            DeleteBehavior::Ignore => "ignore",
            DeleteBehavior::Disable => "disable",
        };
        let mut properties = vec![("table.delete.behavior".to_owned(), deletes.to_owned())];
        properties.extend(engine.map(|engine| ("table.merge-engine".to_owned(), engine.to_owned())));
        match self {
            Engine::Versioned => {
                let column = COLUMNS[VERSION].0.to_owned();
                properties.push(("table.merge-engine.versioned.ver-column".to_owned(), column));
            }
            Engine::Aggregation => {
                let function = |(name, _, function): &(&str, &str, &str)| {
                    (format!("fields.{name}.agg"), (*function).to_owned())
                };
                properties.extend(COLUMNS.iter().map(function));
            }
            Engine::Default | Engine::FirstRow => {}
        }
        properties
    }

    /// What deletes may do in a table of this engine.
    pub fn delete_behaviors(self) -> &'static [DeleteBehavior] {
        use DeleteBehavior::{Allow, Disable, Ignore};
        match self {
            Engine::Default | Engine::Aggregation => &[Allow, Ignore, Disable],
            Engine::FirstRow | Engine::Versioned => &[Ignore, Disable],
        }
    }

    /// Whether parts of rows can be written.
    pub fn takes_masks(self) -> bool {
        matches!(self, Engine::Default | Engine::Aggregation)
    }
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Became {
    /// Nothing happened.
    Unchanged,
    /// This is the row now.
    Row(Values),
    /// It is gone.
    Gone,
}

/// A column under aggregation.
fn aggregate(function: &str, old: &Option<Value>, new: &Option<Value>) -> Option<Value> {
    use Value::{Bool, Set, SmallSet, Text, Whole};
    let extreme = |wins: bool| if wins { new.clone() } else { old.clone() };
    match (function, old, new) {
        ("first_value", old, _) => old.clone(),
        ("last_value", _, new) => new.clone(),
        ("count", None, new) => Some(Whole(i64::from(new.is_some()))),
        (_, old, None) => old.clone(),
        ("count", Some(Whole(n)), _) => Some(Whole(n + 1)),
        (_, None, new) => new.clone(),
        ("last_value_ignore_nulls", _, new) => new.clone(),
        ("first_value_ignore_nulls", old, _) => old.clone(),
        ("sum", Some(Whole(a)), Some(Whole(b))) => Some(Whole(a + b)),
        ("product", Some(Whole(a)), Some(Whole(b))) => Some(Whole(a * b)),
        ("max", a, b) => extreme(b > a),
        ("min", a, b) => extreme(b < a),
        ("listagg" | "string_agg", Some(Text(a)), Some(Text(b))) => Some(Text(format!("{a},{b}"))),
        ("bool_and", Some(Bool(a)), Some(Bool(b))) => Some(Bool(*a && *b)),
        ("bool_or", Some(Bool(a)), Some(Bool(b))) => Some(Bool(*a || *b)),
        ("rbm32", Some(SmallSet(a)), Some(SmallSet(b))) => Some(SmallSet(a | b)),
        ("rbm64", Some(Set(a)), Some(Set(b))) => Some(Set(a | b)),
        other => panic!("{other:?}"),
    }
}

/// What a step makes of the row of its key. Deletes of tables that disable them are no step.
pub fn merge(engine: Engine, deletes: DeleteBehavior, stored: Option<&Values>, step: &Step) -> Became {
    let is_target = |mask: &Mask, i: usize| mask.as_ref().is_none_or(|mask| mask[i]);
    match (step, stored) {
        (Step::Delete(_), _) if deletes != DeleteBehavior::Allow => Became::Unchanged,
        (Step::Delete(_), None) => Became::Unchanged,
        (Step::Delete(mask), Some(old)) => {
            let left = |(i, v): (usize, &Option<Value>)| v.clone().filter(|_| !is_target(mask, i));
            let left: Values = old.iter().enumerate().map(left).collect();
            if left.iter().any(Option::is_some) { Became::Row(left) } else { Became::Gone }
        }
        (Step::Upsert(new, mask), old) => {
            let version = |row: &Values| match &row[VERSION] {
                Some(Value::Whole(v)) => Some(*v),
                _ => None,
            };
            match (engine, old) {
                (Engine::FirstRow, Some(_)) => return Became::Unchanged,
                (Engine::Versioned, Some(old)) if version(new) < version(old) => return Became::Unchanged,
                _ => {}
            }
            let merged = new.iter().enumerate().map(|(i, value)| match (engine, old) {
                (_, None) if !is_target(mask, i) => None,
                (_, Some(old)) if !is_target(mask, i) => old[i].clone(),
                (Engine::Aggregation, Some(old)) => aggregate(COLUMNS[i].2, &old[i], value),
                (Engine::Aggregation, None) if COLUMNS[i].2 == "count" => aggregate("count", &None, value),
                _ => value.clone(),
            });
            Became::Row(merged.collect())
        }
    }
}

fn value(name: &str, column_type: &str) -> BoxedStrategy<Value> {
    let sparse = || prop_oneof![0..20u32, Just(65_536), Just(u32::MAX)];
    match (name, column_type) {
        ("small_set", _) => proptest::collection::btree_set(sparse(), 0..5).prop_map(Value::SmallSet).boxed(),
        ("set", _) => {
            let number = (0..3u64, sparse()).prop_map(|(part, n)| part << 32 | u64::from(n));
            proptest::collection::btree_set(number, 0..5).prop_map(Value::Set).boxed()
        }
        // Products of dozens of them fit.
        ("product", _) => (-1i64..=2).prop_map(Value::Whole).boxed(),
        (_, "boolean") => any::<bool>().prop_map(Value::Bool).boxed(),
        (_, "string") => "[a-c]{0,2}".prop_map(Value::Text).boxed(),
        _ => prop_oneof![-3i64..3, -70_000i64..70_000].prop_map(Value::Whole).boxed(),
    }
}

/// Rows.
pub fn values() -> impl Strategy<Value = Values> {
    let columns: Vec<_> = COLUMNS
        .iter()
        .map(|(name, column_type, _)| proptest::option::weighted(0.7, value(name, column_type)))
        .collect();
    columns
}

/// Sets of target columns, where an engine knows them.
pub fn mask(engine: Engine) -> BoxedStrategy<Mask> {
    let some = proptest::collection::vec(any::<bool>(), COLUMNS.len()).prop_map(Some);
    if engine.takes_masks() { prop_oneof![Just(None), some].boxed() } else { Just(None).boxed() }
}

/// Steps.
pub fn step(engine: Engine) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (values(), mask(engine)).prop_map(|(values, mask)| Step::Upsert(values, mask)),
        1 => mask(engine).prop_map(Step::Delete),
    ]
}
