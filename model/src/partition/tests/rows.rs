use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;

use super::super::{Grouping, MAX_PARTITIONS};
use super::*;
use crate::fault::Fault;
use crate::reject::Rejects;
use crate::split::split;

fn batch(table: &Table, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(table.schema().arrow().clone(), columns).unwrap()
}

/// The rows that are left with their groups, as a write takes them apart.
fn grouped(table: &Table, rows: &RecordBatch, now: Option<i64>) -> Grouping {
    let columns: Vec<ArrayRef> =
        table.partition_columns().into_iter().map(|i| rows.column(i).clone()).collect();
    Grouping::of(table, &columns, now).unwrap()
}

fn parts(grouping: &Grouping, rows: &RecordBatch, column: usize) -> Vec<(String, Vec<i64>)> {
    let mut grouping = grouping.clone();
    let kept = without(rows, &grouping.take_rejects());
    assert_eq!(grouping.of_rows().len(), kept.num_rows());
    let parts = split(kept, grouping.of_rows()).unwrap().into_iter();
    parts.map(|(group, rows)| (grouping.names()[group as usize].clone(), numbers(&rows, column))).collect()
}

fn without(rows: &RecordBatch, rejects: &Rejects) -> RecordBatch {
    let keep: BooleanArray = (0..rows.num_rows() as u64).map(|row| Some(!rejects.has(row))).collect();
    filter_record_batch(rows, &keep).unwrap()
}

fn numbers(rows: &RecordBatch, column: usize) -> Vec<i64> {
    rows.column(column).as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn rows_go_to_their_partitions_in_order() {
    let table = table(&[("day", "date"), ("region", "string"), ("n", "bigint")], &["day", "region"], &[]);
    let days = Date32Array::from(vec![0, 0, 1, 0, 1]);
    let regions = StringArray::from(vec!["eu", "us", "eu", "eu", "eu"]);
    let rows =
        batch(&table, vec![Arc::new(days), Arc::new(regions), Arc::new(Int64Array::from_iter_values(0..5))]);
    let grouping = grouped(&table, &rows, None);
    assert_eq!(grouping.names(), ["1970-01-01$eu", "1970-01-01$us", "1970-01-02$eu"]);
    let parts = parts(&grouping, &rows, 2);
    let want = [("1970-01-01$eu", vec![0, 3]), ("1970-01-01$us", vec![1]), ("1970-01-02$eu", vec![2, 4])];
    assert_eq!(parts, want.map(|(name, rows)| (name.to_owned(), rows)));
}

#[test]
fn rows_without_a_partition_are_named_with_the_reason() {
    let options = [
        ("auto-partition.enabled", "true"),
        ("auto-partition.key", "day"),
        ("auto-partition.num-retention", "1"),
    ];
    let table =
        table(&[("day", "string"), ("region", "string"), ("n", "bigint")], &["day", "region"], &options);
    let days = [Some("20260301"), None, Some("20260228"), Some("20260227"), Some("today"), Some("20260301")];
    let regions = [Some("eu"), Some("eu"), Some("eu"), Some("eu"), Some("eu"), Some("e u")];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(days.to_vec())),
        Arc::new(StringArray::from(regions.to_vec())),
        Arc::new(Int64Array::from_iter_values(0..6)),
    ];
    let rows = batch(&table, columns);
    let grouping = grouped(&table, &rows, Some(at("2026-03-01T12:00:00Z")));
    let told: Vec<String> = grouping.rejects.told().map(ToString::to_string).collect();
    let want = [
        "row 1, column \"day\": expected a string that names a partition, got null; rows of a partitioned table need a value in each partition column",
        "row 3, column \"day\": expected 20260228 or later (table.auto-partition.num-retention = 1), got \"20260227\"; the table takes late rows if its option table.auto-partition.late-rows is \"accept\"",
        "row 4, column \"day\": expected a day in the format yyyyMMdd, such as 19700101, got \"today\"",
        "row 5, column \"region\": expected a name (only letters, digits, \"_\" and \"-\" may stand in it), got \"e u\"",
    ];
    assert_eq!(told, want);
    assert_eq!(
        parts(&grouping, &rows, 2),
        [("20260301$eu".to_owned(), vec![0]), ("20260228$eu".to_owned(), vec![2])]
    );
}

#[test]
fn all_nan_are_one_partition_and_both_zeros_two() {
    let table = table(&[("x", "double")], &["x"], &[]);
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let rows = batch(&table, vec![Arc::new(Float64Array::from(vec![f64::NAN, other_nan, 0.0, -0.0]))]);
    assert_eq!(grouped(&table, &rows, None).names(), ["NaN", "0_0", "-0_0"]);
}

#[test]
fn more_partitions_than_a_table_may_have_are_refused_and_bad_values_do_not_count() {
    let table = table(&[("n", "bigint"), ("s", "string")], &["n", "s"], &[]);
    let make = |count: usize, s: &str| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count as i64));
        batch(&table, vec![numbers, Arc::new(StringArray::from(vec![s; count]))])
    };
    assert_eq!(grouped(&table, &make(MAX_PARTITIONS, "a"), None).names().len(), MAX_PARTITIONS);
    let error = Grouping::of(&table, make(MAX_PARTITIONS + 1, "a").columns(), None).unwrap_err();
    assert_eq!(error.code(), "too_many_partitions");
    let mut bad = grouped(&table, &make(MAX_PARTITIONS * 3, "not a name"), None);
    assert_eq!((bad.names().len(), bad.rejects.count()), (0, MAX_PARTITIONS as u64 * 3));
    bad.take_rejects();
    assert!(bad.of_rows().is_empty());
}

proptest! {
    /// Against a row-wise model: each row is in exactly one place, in order.
    #[test]
    fn splitting_equals_the_obvious_way(rows in prop::collection::vec((prop::option::of(0i64..5), "[a-c ]{1}"), 0..80)) {
        let table = table(&[("k", "bigint"), ("s", "string"), ("i", "bigint")], &["k", "s"], &[]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|(k, _)| *k).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|(_, s)| Some(s.as_str())).collect::<StringArray>()),
            Arc::new(Int64Array::from_iter_values(0..rows.len() as i64)),
        ];
        let all = batch(&table, columns);
        let mut want = BTreeMap::<String, Vec<i64>>::new();
        let mut rejected = Vec::new();
        for (i, (k, s)) in rows.iter().enumerate() {
            match k {
                Some(k) if s != " " => want.entry(format!("{k}${s}")).or_default().push(i as i64),
                _ => rejected.push(i as u64),
            }
        }
        let grouping = grouped(&table, &all, None);
        prop_assert_eq!(grouping.rejects.rows().collect::<Vec<_>>(), rejected);
        let got: BTreeMap<String, Vec<i64>> = parts(&grouping, &all, 2).into_iter().collect();
        prop_assert_eq!(got, want);
    }
}

#[test]
fn many_rows_are_grouped_over_all_steps() {
    let table = table(&[("n", "bigint")], &["n"], &[]);
    let count = 20_000i64;
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter((0..count).map(|n| (n % 1000 != 7).then_some(n / 50))));
    let mut grouping = Grouping::of(&table, &[numbers], None).unwrap();
    assert_eq!(grouping.names().len(), 400);
    let rejected: Vec<u64> = grouping.take_rejects().rows().collect();
    assert_eq!(rejected, (0..20).map(|n| n * 1000 + 7).collect::<Vec<_>>());
    assert_eq!(grouping.of_rows().len(), 19_980);
    assert!(grouping.of_rows().is_sorted());
}
