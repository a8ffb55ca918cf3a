//! Roaring bitmaps: golden bytes that another implementation wrote (CRoaring), unions, hostile input.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int32Array, RecordBatch};
use proptest::prelude::*;
use roaring::{RoaringBitmap, RoaringTreemap};

use super::*;
use crate::merge::bitmap::{Width, check, put_normal, put_union};

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn plain32(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.into_iter().collect::<RoaringBitmap>().serialize_into(&mut bytes).unwrap();
    bytes
}

fn plain64(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.into_iter().collect::<RoaringTreemap>().serialize_into(&mut bytes).unwrap();
    bytes
}

fn union(width: Width, a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_union(width, a, b, &mut out).unwrap();
    out
}

const ONE_TO_THREE: &str = "3a300000010000000000020010000000010002000300";
const ZERO_TO_NINE: &str = "3b3000000100000900010000000900";
/// 1, 2, 3, 2^40 and 2^63 + 5.
const WIDE: &str = "0300000000000000000000003a300000010000000000020010000000010002000300000100003a3000000100000000000000100000000000000000803a3000000100000000000000100000000500";
/// 0 to 9, and 2^64 - 1.
const WIDE_RUN: &str =
    "0200000000000000000000003b3000000100000900010000000900ffffffff3a30000001000000ffff000010000000ffff";

#[test]
fn golden_bytes() {
    assert_eq!(union(Width::Bits32, &plain32([1, 3]), &plain32([2])), hex(ONE_TO_THREE));
    assert_eq!(union(Width::Bits32, &plain32(0..5), &plain32(3..10)), hex(ZERO_TO_NINE));
    let wide = union(Width::Bits64, &plain64([1, 2, 1 << 40]), &plain64([3, (1 << 63) + 5]));
    assert_eq!(wide, hex(WIDE));
    assert_eq!(union(Width::Bits64, &plain64(0..10), &plain64([u64::MAX])), hex(WIDE_RUN));
    for (width, bytes) in [
        (Width::Bits32, ONE_TO_THREE),
        (Width::Bits32, ZERO_TO_NINE),
        (Width::Bits64, WIDE),
        (Width::Bits64, WIDE_RUN),
    ] {
        let mut again = Vec::new();
        put_normal(width, &hex(bytes), &mut again).unwrap();
        assert_eq!(again, hex(bytes), "it is in normal form already");
    }
}

#[test]
fn bitmaps_that_are_none_are_refused() {
    let wrong = |width, bytes: &[u8]| check(width, bytes).unwrap_err();
    assert_eq!(wrong(Width::Bits32, b""), "it ends too early");
    assert_eq!(wrong(Width::Bits32, b"hello"), "it is not in the portable format");
    assert_eq!(wrong(Width::Bits32, &hex(&format!("{ONE_TO_THREE}00"))), "bytes follow its end");
    assert_eq!(wrong(Width::Bits32, &hex(&ONE_TO_THREE[..40])), "it ends too early");
    assert_eq!(
        wrong(Width::Bits32, &hex("3a300000ffffffff")),
        "it is not in the portable format",
        "4 G containers"
    );
    assert_eq!(wrong(Width::Bits64, b""), "it ends too early");
    assert_eq!(wrong(Width::Bits64, &[0xff; 64]), "it ends too early", "2^64 - 1 parts");
    assert!(check(Width::Bits64, &hex(ONE_TO_THREE)).is_err(), "the 32-bit form is another one");
    let part = ONE_TO_THREE;
    let twice = format!("0200000000000000{}{part}{}{part}", "05000000", "05000000");
    assert_eq!(wrong(Width::Bits64, &hex(&twice)), "its parts do not ascend");
    assert_eq!(wrong(Width::Bits32, &vec![0; MAX_AGGREGATED + 1]), "it is longer than 8 MiB");
    // Values that do not ascend inside a container.
    assert!(check(Width::Bits32, &hex("3a300000010000000000020010000000020001000300")).is_err());
    assert_eq!(check(Width::Bits32, &plain32([])), Ok(()));
    assert_eq!(check(Width::Bits64, &plain64([])), Ok(()));
}

#[test]
fn many_full_containers_stay_small() {
    // 65,536 containers that are one run each: the whole range in 0.9 MB.
    let mut all = RoaringBitmap::new();
    all.insert_range(..);
    all.optimize();
    let mut full = Vec::new();
    all.serialize_into(&mut full).unwrap();
    let sparse = plain32((0..=u16::MAX).map(|high| u32::from(high) << 16 | 7));
    assert_eq!(union(Width::Bits32, &full, &sparse), full);
    assert_eq!(union(Width::Bits32, &sparse, &full), full);
}

fn bitmap_table() -> Table {
    table(
        &[("users", "bytes"), ("wide", "bytes"), ("raw", "bytes")],
        &[("table.merge-engine", "aggregation"), ("fields.users.agg", "rbm32"), ("fields.wide.agg", "RBM64")],
    )
}

#[test]
fn the_engine_unites_and_brings_first_values_to_normal_form() {
    let t = bitmap_table();
    let row = |users: Option<Vec<u8>>| vec![int(1), users, None, text("x")];
    let first = upsert(&t, None, row(Some(plain32(0..10))));
    assert_eq!(first, Became::Row(row(Some(hex(ZERO_TO_NINE)))));
    let stored = row(Some(plain32([1, 3])));
    assert_eq!(upsert(&t, Some(&stored), row(Some(plain32([2])))), Became::Row(row(Some(hex(ONE_TO_THREE)))));
    assert_eq!(upsert(&t, Some(&stored), row(None)), Became::Row(stored.clone()));
    assert_eq!(upsert(&t, Some(&row(None)), row(None)), Became::Row(row(None)));
    let bad = row(text("no bitmap"));
    let error = |stored: Option<&Row>, change: &Row| {
        apply(&t, stored, &Op::Upsert(change.clone(), None)).unwrap_err()
    };
    let why = "it is not in the portable format";
    assert_eq!(error(None, &bad), MergeFault::Bitmap { column: "users".to_owned(), why });
    assert_eq!(error(Some(&stored), &bad), MergeFault::Bitmap { column: "users".to_owned(), why });
    assert_eq!(error(Some(&bad), &stored), MergeFault::Damaged { column: "users".to_owned() });
}

#[test]
fn the_gateway_finds_corrupt_bitmaps_by_row() {
    let engine = MergeEngine::new(&bitmap_table()).unwrap();
    assert!(engine.needs_check());
    let (good, wide) = (plain32([1]), plain64([1]));
    let users: ArrayRef =
        Arc::new(BinaryArray::from(vec![Some(good.as_slice()), None, Some(b"bad"), Some(b"")]));
    let wides: ArrayRef =
        Arc::new(BinaryArray::from(vec![Some(good.as_slice()), Some(&wide), Some(b"bad"), None]));
    let raw: ArrayRef = Arc::new(BinaryArray::from(vec![Some(b"anything".as_slice()); 4]));
    let key: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("k", key.clone(), false),
        ("users", users, true),
        ("wide", wides, true),
        ("raw", raw, true),
    ])
    .unwrap();
    let rejects = engine.check(&batch);
    assert_eq!(rejects.rows().collect::<Vec<_>>(), [0, 2, 3]);
    let told: Vec<String> = rejects.told().map(|e| e.to_string()).collect();
    assert_eq!(
        told[1],
        "row 2, column \"users\": expected a Roaring bitmap of 32-bit numbers in the portable format, got 3 bytes: it ends too early"
    );
    assert!(told[0].contains("64-bit"), "{}", told[0]);
    let partial = RecordBatch::try_from_iter([("k", key)]).unwrap();
    assert!(engine.check(&partial).is_empty(), "columns that are not there are not looked at");
    assert!(!MergeEngine::new(&table(&[("a", "int")], &[])).unwrap().needs_check());
}

/// Numbers that fall into arrays, bitmaps and runs of few containers.
fn numbers() -> impl Strategy<Value = Vec<u64>> {
    let run = (0u64..4 << 16, 1u64..6000, 1u64..4)
        .prop_map(|(start, len, by)| (0..len).map(|i| start + i * by).collect::<Vec<_>>());
    let far = proptest::collection::vec(any::<u64>(), 0..20);
    proptest::collection::vec(prop_oneof![run, far], 0..4).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn unions_hold_what_was_in_either(a in numbers(), b in numbers()) {
        let both: Vec<u64> = a.iter().chain(&b).copied().collect();
        let mut expected = Vec::new();
        put_normal(Width::Bits64, &plain64(both.iter().copied()), &mut expected).unwrap();
        let ours = union(Width::Bits64, &plain64(a.iter().copied()), &plain64(b.iter().copied()));
        let read = RoaringTreemap::deserialize_from(ours.as_slice()).unwrap();
        let plain: std::collections::BTreeSet<u64> = both.iter().copied().collect();
        prop_assert!(read.iter().eq(plain.iter().copied()));
        prop_assert_eq!(check(Width::Bits64, &ours), Ok(()));
        let narrow = |values: &[u64]| plain32(values.iter().map(|v| *v as u32));
        let ours = union(Width::Bits32, &narrow(&a), &narrow(&b));
        let read = RoaringBitmap::deserialize_from(ours.as_slice()).unwrap();
        let plain: std::collections::BTreeSet<u32> = both.iter().map(|v| *v as u32).collect();
        prop_assert!(read.iter().eq(plain.iter().copied()));
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), form in 0usize..5) {
        let form = ["", "3a300000", "3b30", "0100000000000000000000003b30", "0200000000000000000000003a300000"][form];
        let mut all = hex(form);
        all.append(&mut bytes);
        for width in [Width::Bits32, Width::Bits64] {
            let mut out = Vec::new();
            if put_normal(width, &all, &mut out).is_ok() {
                prop_assert_eq!(check(width, &out), Ok(()));
                let twice = union(width, &all, &out);
                prop_assert_eq!(twice, out);
            }
        }
    }

    /// One byte of a good bitmap changed: refused, or still a bitmap.
    #[test]
    fn damaged_bitmaps_never_panic(values in numbers(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = Vec::new();
        put_normal(Width::Bits32, &plain32(values.iter().map(|v| *v as u32)), &mut bytes).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let mut out = Vec::new();
        if put_normal(Width::Bits32, &bytes, &mut out).is_ok() {
            prop_assert_eq!(check(Width::Bits32, &out), Ok(()));
        }
    }
}
