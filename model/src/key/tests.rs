use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::cast;
use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type};
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::columns::random::random_array;
use crate::types::tests::any_leaf;

/// A value as its key compares.
#[derive(Debug)]
enum Value {
    Number(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Value {
    /// All values of a column, read by other ways than the codec's.
    fn all(array: &ArrayRef) -> Vec<Value> {
        let float = |array: &ArrayRef| {
            let doubles = cast(array, &ArrowType::Float64).unwrap();
            doubles.as_primitive::<Float64Type>().values().iter().map(|v| Value::Float(*v)).collect()
        };
        let long = |array: &ArrayRef| {
            let longs = cast(array, &ArrowType::Int64).unwrap();
            longs.as_primitive::<Int64Type>().values().iter().map(|v| Value::Number((*v).into())).collect()
        };
        match array.data_type() {
            ArrowType::Float32 | ArrowType::Float64 => float(array),
            ArrowType::Decimal128(..) => {
                array.as_primitive::<Decimal128Type>().values().iter().map(|v| Value::Number(*v)).collect()
            }
            ArrowType::Utf8 | ArrowType::Binary | ArrowType::FixedSizeBinary(_) => {
                let bytes = cast(array, &ArrowType::LargeBinary).unwrap();
                bytes.as_binary::<i64>().iter().map(|v| Value::Bytes(v.unwrap().to_vec())).collect()
            }
            ArrowType::Time32(_) | ArrowType::Date32 => long(&cast(array, &ArrowType::Int32).unwrap()),
            _ => long(array),
        }
    }

    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => {
                a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
            }
            (a, b) => unreachable!("{a:?} and {b:?} are of one column"),
        }
    }
}

/// Key columns, and as many values of each.
fn any_keys() -> impl Strategy<Value = (KeyCodec, Vec<ArrayRef>, usize)> {
    let leaf = prop_oneof![8 => any_leaf(), 1 => Just(DataType::Char(5))];
    (prop::collection::vec(leaf, 1..5), 1..24_usize, any::<u64>()).prop_map(|(types, rows, seed)| {
        let mut rng = StdRng::seed_from_u64(seed);
        let columns = types.iter().map(|t| random_array(&mut rng, t, rows, false)).collect();
        (KeyCodec::new(&types).unwrap(), columns, rows)
    })
}

fn compare(columns: &[Vec<Value>], a: usize, b: usize) -> Ordering {
    columns.iter().map(|c| c[a].cmp(&c[b])).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

proptest! {
    #[test]
    fn bytes_sort_as_the_tuples_do((codec, columns, rows) in any_keys()) {
        let keys = codec.encode(&columns, rows).unwrap();
        let values: Vec<Vec<Value>> = columns.iter().map(Value::all).collect();
        for a in 0..rows {
            for b in 0..rows {
                prop_assert_eq!(keys.get(a).cmp(keys.get(b)), compare(&values, a, b));
            }
        }
    }

    /// A scan from a prefix to its end gives the keys with these values in the first columns, and no others.
    #[test]
    fn prefixes_are_ranges((codec, columns, rows) in any_keys(), first in any::<prop::sample::Index>()) {
        let first = first.index(columns.len()) + 1;
        let keys = codec.encode(&columns, rows).unwrap();
        let prefixes = codec.encode(&columns[..first], rows).unwrap();
        let values: Vec<Vec<Value>> = columns[..first].iter().map(Value::all).collect();
        for a in 0..rows {
            prop_assert!(keys.get(a).starts_with(prefixes.get(a)));
            let end = prefix_end(prefixes.get(a));
            for b in 0..rows {
                let equal = compare(&values, a, b).is_eq();
                prop_assert_eq!(keys.get(b).starts_with(prefixes.get(a)), equal);
                let within = keys.get(b) >= prefixes.get(a) && end.as_deref().is_none_or(|end| keys.get(b) < end);
                prop_assert_eq!(within, equal);
            }
        }
    }

    #[test]
    fn keys_read_back((codec, columns, rows) in any_keys()) {
        let keys = codec.encode(&columns, rows).unwrap();
        let read = codec.decode(keys.iter()).unwrap();
        for (read, given) in read.iter().zip(&columns) {
            if !given.data_type().is_floating() {
                prop_assert_eq!(read, given);
            }
            for (a, b) in Value::all(read).iter().zip(&Value::all(given)) {
                prop_assert_eq!(a.cmp(b), Ordering::Equal);
            }
        }
        prop_assert_eq!(codec.encode(&read, rows).unwrap(), keys);
    }

    /// Damage is an error, and what reads is the one spelling.
    #[test]
    fn damaged_keys(
        (codec, columns, rows) in any_keys(),
        at in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
        other in prop::collection::vec(prop_oneof![Just(0), Just(9), any::<u8>()], 0..40),
    ) {
        let keys = codec.encode(&columns, rows).unwrap();
        let mut changed = keys.get(0).to_vec();
        let at = at.index(changed.len());
        changed[at] ^= bits;
        for key in [changed, other] {
            if let Ok(read) = codec.decode([key.as_slice()]) {
                let again = codec.encode(&read, 1).unwrap();
                prop_assert_eq!(again.get(0), key);
            }
        }
        for key in keys.iter().take(3) {
            for len in 0..key.len() {
                prop_assert!(codec.decode([&key[..len]]).is_err());
            }
            let longer = [key, b"\0"].concat();
            prop_assert!(codec.decode([longer.as_slice()]).is_err());
        }
    }

    #[test]
    fn the_end_of_a_prefix(prefix in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..4), more in prop::collection::vec(any::<u8>(), 0..3), other in prop::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 0..5)) {
        let end = prefix_end(&prefix);
        let inside = [prefix.clone(), more].concat();
        prop_assert!(end.as_ref().is_none_or(|end| inside < *end));
        let above = other > prefix && !other.starts_with(&prefix);
        prop_assert_eq!(above, end.is_some_and(|end| other >= end));
    }
}

fn types(types: &[&str]) -> Vec<DataType> {
    types.iter().map(|t| t.parse().unwrap()).collect()
}

/// The key of one value, in hexadecimal. A change here is a change of the format of stored keys.
fn golden(data_type: &str, value: impl Array + 'static, key: &str) {
    let codec = KeyCodec::new(&types(&[data_type])).unwrap();
    let array = cast(&value, &codec.types[0]).unwrap();
    let keys = codec.encode(&[array], 1).unwrap();
    let hex: String = keys.get(0).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, key, "{data_type}");
}

#[test]
fn the_stored_format_has_not_changed() {
    golden("boolean", BooleanArray::from(vec![true]), "01");
    golden("tinyint", Int8Array::from(vec![-1]), "7f");
    golden("smallint", Int16Array::from(vec![1]), "8001");
    golden("int", Int32Array::from(vec![i32::MIN]), "00000000");
    golden("int", Int32Array::from(vec![-2]), "7ffffffe");
    golden("bigint", Int64Array::from(vec![258]), "8000000000000102");
    golden("float", Float32Array::from(vec![1.0]), "bf800000");
    golden("float", Float32Array::from(vec![-0.0]), "80000000");
    golden("float", Float32Array::from(vec![-f32::NAN]), "ffc00000");
    golden("double", Float64Array::from(vec![-1.0]), "400fffffffffffff");
    golden("double", Float64Array::from(vec![f64::NAN]), "fff8000000000000");
    let decimal = Decimal128Array::from(vec![-1]).with_precision_and_scale(10, 2).unwrap();
    golden("decimal(10,2)", decimal, "7fffffffffffffffffffffffffffffff");
    golden("date", Date32Array::from(vec![1]), "80000001");
    golden("time(0)", Time32SecondArray::from(vec![2]), "80000002");
    golden("time(6)", Time64MicrosecondArray::from(vec![2]), "8000000000000002");
    golden("timestamp(3)", TimestampMillisecondArray::from(vec![-1]), "7fffffffffffffff");
    let instant = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
    golden("timestamp_ltz(6)", instant, "8000000000000001");
    golden("string", StringArray::from(vec![""]), "000000000000000000");
    golden("char(3)", StringArray::from(vec!["abc"]), "616263000000000003");
    golden("string", StringArray::from(vec!["abcdefgh"]), "616263646566676808");
    golden("string", StringArray::from(vec!["abcdefghi"]), "616263646566676809690000000000000001");
    golden("bytes", BinaryArray::from(vec![[0, 0xff].as_slice()]), "00ff00000000000002");
    golden("binary(1)", FixedSizeBinaryArray::try_from_iter([[7]].iter()).unwrap(), "070000000000000001");
}

#[test]
fn bad_columns_are_named() {
    let message = |error: KeyFault| error.to_string();
    let lists = KeyCodec::new(&types(&["int", "array<int>"])).unwrap_err();
    assert_eq!(message(lists), "key column 1 is array<int>; keys are of simple types");
    let codec = KeyCodec::new(&types(&["int", "string"])).unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
    let error = |columns: &[ArrayRef], rows| message(codec.encode(columns, rows).unwrap_err());
    assert_eq!(error(&[ids.clone(), names.clone()], 3), "key column 1 is null in row 2; keys are never null");
    assert_eq!(
        error(&[ids.clone(), ids.clone()], 3),
        "key column 1 is Utf8 in the table and Int32 in the rows"
    );
    assert_eq!(error(std::slice::from_ref(&ids), 2), "key column 0 has 3 values for 2 rows");
    assert_eq!(error(&[ids.clone(), names, ids], 3), "the rows have 3 key columns and the key 2");
}

#[test]
fn long_keys_are_refused_by_row() {
    let codec = KeyCodec::new(&types(&["string", "int"])).unwrap();
    let encode = |len: usize| {
        let texts = StringArray::from(vec!["a".to_owned(), "a".repeat(len)]);
        codec.encode(&[Arc::new(texts), Arc::new(Int32Array::from(vec![1, 2]))], 2)
    };
    // 7,274 groups of nine bytes and a number of four are 65,470 of 65,472 bytes.
    assert_eq!(encode(58_192).unwrap().get(1).len(), 65_470);
    assert_eq!(encode(58_193).unwrap_err(), KeyFault::TooLong { row: 1 });
    assert_eq!(encode(10_000_000).unwrap_err(), KeyFault::TooLong { row: 1 });
    // Fixed columns are counted too.
    let wide = KeyCodec::new(&types(&["string", "int", "int"])).unwrap();
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let texts = StringArray::from(vec!["a".repeat(58_192)]);
    let error = wide.encode(&[Arc::new(texts), numbers.clone(), numbers], 1).unwrap_err();
    assert_eq!(error, KeyFault::TooLong { row: 0 });
}
