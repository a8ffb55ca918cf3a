use arrow::array::*;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use wadi_model::{ErrorKind, Fault};

use super::super::BodyFormat;
use super::super::tests::{read as decoded, schema};
use super::*;

fn file(columns: Vec<(&str, ArrayRef)>, compression: Compression) -> Vec<u8> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let properties =
        WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(2)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn sample(compression: Compression) -> Vec<u8> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for i in 0..5 {
        lists.append_value((0..i).map(|n| Some(format!("item {n} that is longer than a view holds"))));
    }
    let dictionary: DictionaryArray<Int32Type> = vec!["x", "y", "x", "x", "z"].into_iter().collect();
    file(
        vec![
            ("n", Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5)])) as ArrayRef),
            ("l", Arc::new(lists.finish())),
            ("s", Arc::new(dictionary)),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3, 4, 5]).with_timezone("UTC"))),
        ],
        compression,
    )
}

fn wide() -> Schema {
    schema(&[
        ("s", "string"),
        ("t", "timestamp_ltz(6)"),
        ("n", "bigint"),
        ("l", "array<string>"),
        ("more", "int"),
    ])
}

#[test]
fn columns_of_all_row_groups_become_the_tables() {
    for compression in
        [Compression::UNCOMPRESSED, Compression::ZSTD(ZstdLevel::default()), Compression::SNAPPY]
    {
        let rows = decoded(BodyFormat::Parquet, sample(compression), &wide()).unwrap();
        assert!(rows.rejects.is_empty());
        assert_eq!(rows.batch.num_rows(), 5);
        assert_eq!(rows.batch.column(0).as_string::<i32>().value(4), "z");
        assert_eq!(rows.batch.column(1).as_primitive::<TimestampMicrosecondType>().value(2), 3);
        assert_eq!(rows.batch.column(2).as_primitive::<Int64Type>().value(4), 5);
        assert_eq!(rows.batch.column(3).as_list::<i32>().value(3).len(), 3);
        assert_eq!(rows.batch.column(4).null_count(), 5);
    }
}

#[test]
fn bad_rows_are_found_by_their_position_in_the_file() {
    let narrow =
        schema(&[("n", "int not null"), ("l", "array<string>"), ("s", "string"), ("t", "timestamp_ltz(6)")]);
    let rows = decoded(BodyFormat::Parquet, sample(Compression::UNCOMPRESSED), &narrow).unwrap();
    assert_eq!(rows.rejects.rows().collect::<Vec<_>>(), [1]);
}

#[test]
fn encrypted_files_are_said_to_be_so() {
    let mut encrypted = sample(Compression::UNCOMPRESSED);
    let end = encrypted.len() - 4;
    encrypted[end..].copy_from_slice(b"PARE");
    let error = decoded(BodyFormat::Parquet, encrypted, &wide()).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("unsupported_parquet", ErrorKind::UnsupportedMedia));
    assert!(error.to_string().contains("encrypted"));
}

#[test]
fn an_encryption_note_in_a_plain_footer_counts_too() {
    // Field 8 of the footer: an empty struct; then the end of the footer's struct.
    let body = [&b"PAR1"[..], &[0x8C, 0x00, 0x00], &3u32.to_le_bytes(), b"PAR1"].concat();
    assert!(matches!(survey::footer(&body), Err(BodyError::UnsupportedParquet { .. })));
}

#[test]
fn columns_that_no_table_has_are_named() {
    let intervals = IntervalDayTimeArray::from(vec![arrow::datatypes::IntervalDayTime::new(1, 2)]);
    let body = file(vec![("n", Arc::new(intervals) as ArrayRef)], Compression::UNCOMPRESSED);
    let error = decoded(BodyFormat::Parquet, body, &wide()).unwrap_err();
    assert_eq!(error.code(), "type_mismatch");
    assert!(error.to_string().contains("\"n\""), "{error}");
}

#[test]
fn limits_hold_before_anything_is_decompressed() {
    let limits =
        |max_rows, max_batch_bytes| BodyLimits { max_rows, max_batch_bytes, ..BodyLimits::default() };
    let body = Bytes::from(sample(Compression::UNCOMPRESSED));
    let error = decode(body.clone(), &wide(), &limits(4, 1 << 20)).unwrap_err();
    assert_eq!(error, BodyError::TooManyRows { limit: 4 });
    assert_eq!(decode(body, &wide(), &limits(5, 200)).unwrap_err(), BodyError::BatchTooLarge { limit: 200 });
    let zeros: ArrayRef = Arc::new(StringArray::from(vec!["0".repeat(8 << 20); 2]));
    let bomb = file(vec![("s", zeros)], Compression::ZSTD(ZstdLevel::default()));
    assert!(bomb.len() < 100_000);
    let error = decode(bomb.into(), &wide(), &limits(10, 4 << 20)).unwrap_err();
    assert_eq!(error, BodyError::BatchTooLarge { limit: 4 << 20 });
}

#[test]
fn a_dictionary_value_in_many_rows_is_counted_before_it_is_unfolded() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 19); 3000]));
    let batch = RecordBatch::try_from_iter([("s", texts)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(1 << 21).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let body = writer.into_inner().unwrap();
    assert!(body.len() < 2 << 20);
    let error = decoded(BodyFormat::Parquet, body, &wide()).unwrap_err();
    assert_eq!(error.code(), "body_too_large");
}

#[test]
fn a_footer_with_an_absurd_list_is_refused_before_the_reader_allocates_it() {
    // Field 2, a list of two billion structs.
    let footer = [0x29, 0xFC, 0xFF, 0xFF, 0xFF, 0xFF, 0x07];
    let body = [&b"PAR1"[..], &footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat();
    assert_eq!(decode(body.into(), &wide(), &BodyLimits::default()).unwrap_err().code(), "bad_parquet");
}

#[test]
fn a_flipped_byte_anywhere_never_panics() {
    let body = sample(Compression::ZSTD(ZstdLevel::default()));
    for at in 0..body.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = body.clone();
            damaged[at] ^= flip;
            let _ = decode(damaged.into(), &wide(), &BodyLimits::default());
        }
    }
    for end in 0..body.len() {
        assert!(decode(body[..end].to_vec().into(), &wide(), &BodyLimits::default()).is_err());
    }
}
