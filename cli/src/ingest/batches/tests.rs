use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::compute::concat_batches;
use arrow_ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;

use super::*;

fn batch(from: i64, rows: usize) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows as i64));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|i| "x".repeat(i % 50))));
    let index = ids.clone();
    RecordBatch::try_from_iter([("id", ids), ("name", names), ("__index_level_0__", index)]).unwrap()
}

fn rows_of(pieces: &[Piece]) -> RecordBatch {
    let batches = pieces.iter().flat_map(|p| match &p.content {
        Content::Batches(batches) => batches.clone(),
        _ => unreachable!(),
    });
    let batches: Vec<_> = batches.collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn check(pieces: &[Piece], whole: &RecordBatch, size: u64) {
    assert_eq!(rows_of(pieces), whole.project(&[0, 1]).unwrap());
    let mut rows = 0;
    for (i, piece) in pieces.iter().enumerate() {
        assert_eq!((piece.number, piece.place.rows), (i as u64 + 1, rows));
        rows += piece.rows;
        // Slices are even in rows, not in bytes.
        assert!(piece.raw_bytes <= size * 4 || piece.rows == 1, "{} of {size}", piece.raw_bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_are_cut_into_pieces_without_losing_a_row(
        sizes in prop::collection::vec(1usize..3000, 1..5),
        size in 200u64..40_000,
    ) {
        let mut from = 0;
        let batches: Vec<_> = sizes.iter().map(|rows| {
            from += *rows as i64;
            batch(from - *rows as i64, *rows)
        }).collect();
        let whole = concat_batches(&batches[0].schema(), &batches).unwrap();
        let directory = tempfile::tempdir().unwrap();

        let path = directory.path().join("a.parquet");
        let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), whole.schema(), None).unwrap();
        batches.iter().for_each(|b| writer.write(b).unwrap());
        writer.close().unwrap();
        let (pieces, rows) = BatchPieces::parquet(&path, size).unwrap();
        prop_assert_eq!(rows, whole.num_rows() as u64);
        let pieces: Vec<_> = pieces.map(Result::unwrap).collect();
        check(&pieces, &whole, size);
        let again: Vec<_> = BatchPieces::parquet(&path, size).unwrap().0.map(Result::unwrap).collect();
        prop_assert_eq!(&again, &pieces);

        let path = directory.path().join("a.arrows");
        let mut writer = StreamWriter::try_new(std::fs::File::create(&path).unwrap(), &whole.schema()).unwrap();
        batches.iter().for_each(|b| writer.write(b).unwrap());
        writer.finish().unwrap();
        let pieces: Vec<_> = BatchPieces::arrow(&path, size).unwrap().map(Result::unwrap).collect();
        check(&pieces, &whole, size);
    }
}

#[test]
fn the_same_piece_is_the_same_body() {
    let content = Content::Batches(vec![batch(0, 1000), batch(1000, 10)]);
    for compression in [wadi_client::ArrowCompression::Zstd, wadi_client::ArrowCompression::Lz4] {
        let (a, b) =
            (content.clone().encode(compression).unwrap(), content.clone().encode(compression).unwrap());
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.arrows");
    let mut stream = StreamWriter::try_new(Vec::new(), &batch(0, 1).schema()).unwrap();
    stream.write(&batch(0, 100)).unwrap();
    let bytes = stream.into_inner().unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let got: Vec<_> = BatchPieces::arrow(&path, 1000).unwrap().collect();
    assert!(got.last().unwrap().as_ref().unwrap_err().to_string().contains("broken.arrows"));
}
