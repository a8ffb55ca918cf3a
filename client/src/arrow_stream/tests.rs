use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use proptest::prelude::*;

use super::*;

fn batch(from: i64, rows: usize) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows as i64));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter((0..rows).map(|i| (i % 3 > 0).then(|| "x".repeat(i % 7)))));
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

fn cut(body: &Bytes, sizes: &[usize]) -> Vec<Result<Bytes, ClientError>> {
    let mut rest = body.clone();
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        chunks.push(Ok(rest.split_to((*size).min(rest.len()))));
    }
    chunks
}

fn read(chunks: Vec<Result<Bytes, ClientError>>) -> Vec<Result<RecordBatch, ClientError>> {
    futures::executor::block_on(BatchStream::new(futures::stream::iter(chunks)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_survive_any_cut_of_the_wire(
        rows in prop::collection::vec(1usize..50, 1..5),
        sizes in prop::collection::vec(1usize..300, 1..6),
        compression in prop::sample::select(vec![ArrowCompression::None, ArrowCompression::Lz4, ArrowCompression::Zstd]),
    ) {
        let batches: Vec<_> = rows.iter().enumerate().map(|(i, n)| batch(i as i64 * 100, *n)).collect();
        let body = encode_stream(&batches, compression).unwrap();
        let got: Vec<_> = read(cut(&body, &sizes)).into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(&got, &batches);
        prop_assert_eq!(decode_all(body).unwrap().1, batches);
    }
}

#[test]
fn a_cut_off_stream_gives_its_whole_batches_and_then_an_error() {
    let body = encode_stream(&[batch(0, 10), batch(10, 10)], ArrowCompression::None).unwrap();
    let got = read(vec![Ok(body.slice(..body.len() - 20))]);
    assert_eq!(got.len(), 2);
    assert_eq!(got[0].as_ref().unwrap().num_rows(), 10);
    assert!(matches!(got[1], Err(ClientError::BadAnswer { .. })));
}

#[test]
fn a_body_without_batches_is_refused() {
    assert!(matches!(encode_stream(&[], ArrowCompression::None), Err(ClientError::Encode(_))));
}
