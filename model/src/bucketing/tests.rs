//! The vectors are those of Fluss's own tests, of the Iceberg specification, and of keys confirmed on the wire.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, StringArray};

use super::*;

const FOX: &[u8] = b"The quick brown fox jumps over the lazy dog";
const UUID: &[u8] = b"2bb87d68-baf9-4e64-90f9-f80910419fa6";

#[test]
fn fluss_vectors() {
    let bucket = |key: &[u8], n| BucketFunction::Fluss.bucket(key, n);
    assert_eq!(
        [bucket(&[0, 10], 7), bucket(&[0, 10, 10, 10], 12), bucket(UUID, 16), bucket(FOX, 8)],
        [1, 0, 6, 6]
    );
    assert_eq!([murmur::fluss_hash(b""), murmur::fluss_hash(FOX)], [0x087f_cd5c, 0x1bc6_f880]);
    let finished = [0, 42, -77i32 as u32].map(murmur::fluss_finish);
    assert_eq!(finished, [0x2362_f9de, 0x43a4_6e1d, 0x2eeb_27de]);
}

#[test]
fn iceberg_vectors() {
    let bucket = |key: &[u8], n| BucketFunction::Iceberg.bucket(key, n);
    assert_eq!(
        [bucket(&[0, 10], 7), bucket(&[0, 10, 10, 10], 12), bucket(UUID, 16), bucket(FOX, 8)],
        [3, 4, 12, 3]
    );
    assert_eq!(murmur::murmur3_32(&34i64.to_le_bytes()) as i32, 2_017_239_379);
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

#[test]
fn columns_are_encoded_as_fluss_does() {
    let ints = batch(vec![("k", Arc::new(Int32Array::from(vec![1, -1, 300])))]);
    assert_eq!(BucketFunction::Fluss.buckets_of(&ints, &[0], 16).unwrap(), [12, 10, 5]);
    assert_eq!(BucketFunction::Fluss.buckets_of(&ints, &[0], 3).unwrap()[0], 0);
    let longs = batch(vec![("k", Arc::new(Int64Array::from(vec![-1])))]);
    assert_eq!(BucketFunction::Fluss.buckets_of(&longs, &[0], 16).unwrap(), [7]);
    let strings = batch(vec![("k", Arc::new(StringArray::from(vec!["a2"])))]);
    assert_eq!(BucketFunction::Fluss.buckets_of(&strings, &[0], 16).unwrap(), [14]);
    let both = batch(vec![
        ("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        ("b", Arc::new(StringArray::from(vec!["foo"]))),
    ]);
    assert_eq!(BucketFunction::Fluss.buckets_of(&both, &[0, 1], 16).unwrap(), [9]);
}

#[test]
fn columns_are_encoded_as_iceberg_does() {
    let ints = batch(vec![("k", Arc::new(Int32Array::from(vec![1, 34])))]);
    assert_eq!(BucketFunction::Iceberg.buckets_of(&ints, &[0], 16).unwrap(), [4, 3]);
}

#[test]
fn a_retry_meets_its_first_bucket() {
    assert_eq!(bucket_of_producer("p", 7, 16), bucket_of_producer("p", 7, 16));
    let spread: std::collections::BTreeSet<_> = (0..200).map(|s| bucket_of_producer("p", s, 16)).collect();
    assert_eq!(spread.len(), 16);
}
