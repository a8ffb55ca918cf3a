//! Rows read back, whole and in parts.

use arrow::array::{Array, Int64Array, StringArray};
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn batches_read_back((schema, batch) in any_batch()) {
        let (codec, rows) = rows_of(&schema, &batch);
        prop_assert_eq!(rows.len(), batch.num_rows());
        prop_assert_eq!(&codec.decode(rows.iter(), &all(&schema)).unwrap(), batch.columns());
    }

    #[test]
    fn wanted_columns_come_in_their_order(
        (schema, batch) in any_batch(),
        wanted in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (codec, rows) = rows_of(&schema, &batch);
        let wanted: Vec<usize> = wanted.iter().map(|i| i.index(schema.columns().len())).collect();
        let expected: Vec<ArrayRef> = wanted.iter().map(|i| batch.column(*i).clone()).collect();
        prop_assert_eq!(codec.decode(rows.iter(), &wanted).unwrap(), expected);
    }

    #[test]
    fn what_is_split_joins_again((schema, batch) in any_batch()) {
        let (codec, rows) = rows_of(&schema, &batch);
        let (mut fields, mut joined) = (Vec::new(), Vec::new());
        for (i, row) in rows.iter().enumerate() {
            fields.clear();
            codec.split(row, &mut fields).unwrap();
            for (field, array) in fields.iter().zip(batch.columns()) {
                prop_assert_eq!(field.is_none(), array.is_null(i));
            }
            joined.clear();
            codec.join(&fields, &mut joined);
            prop_assert_eq!(&joined, row);
            prop_assert_eq!(schema_of(row), Some(schema.id()));
            prop_assert_eq!(&rows.slice(i)[..], row);
        }
    }

    /// Rows of some columns are those of the whole batch with nulls elsewhere, in whatever order they are given.
    #[test]
    fn rows_of_some_columns((schema, batch) in any_batch(), given in any::<u64>(), turn in 0..12_usize) {
        let codec = RowCodec::new(&schema);
        let mut given: Vec<usize> = all(&schema).into_iter().filter(|i| given & (1 << i) != 0).collect();
        let turn = turn % given.len().max(1);
        given.rotate_left(turn);
        let arrays: Vec<ArrayRef> = given.iter().map(|i| batch.column(*i).clone()).collect();
        let rows = codec.encode_columns(&given, &arrays, batch.num_rows()).unwrap();
        let (_, whole) = rows_of(&schema, &batch);
        let mut kept = Vec::new();
        for (row, whole) in rows.iter().zip(whole.iter()) {
            let mut fields = Vec::new();
            codec.split(whole, &mut fields).unwrap();
            (0..fields.len()).filter(|i| !given.contains(i)).for_each(|i| fields[i] = None);
            kept.clear();
            codec.join(&fields, &mut kept);
            prop_assert_eq!(row, &kept);
        }
    }
}

fn of(types: &[&str]) -> RowCodec {
    let types: Vec<DataType> = types.iter().map(|t| t.parse().unwrap()).collect();
    RowCodec::new(&schema(&types))
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let codec = of(&["bigint", "string"]);
    let (numbers, texts) = (one(Int64Array::from(vec![1, 2])), one(StringArray::from(vec!["a", "b"])));
    let message = |columns: &[usize], arrays: &[ArrayRef], rows| {
        codec.encode_columns(columns, arrays, rows).unwrap_err().to_string()
    };
    assert_eq!(
        message(&[0, 1], &[numbers.clone(), numbers.clone()], 2),
        "column \"c1\" is Utf8 in the table and Int64 in the rows"
    );
    assert_eq!(message(&[0], std::slice::from_ref(&numbers), 3), "column \"c0\" has 2 values for 3 rows");
    assert!(message(&[1, 1], &[texts.clone(), texts.clone()], 2).contains("column 1"));
    assert!(message(&[2], std::slice::from_ref(&texts), 2).contains("column 2"));
    let narrow = RecordBatch::try_from_iter([("c1", texts)]).unwrap();
    assert!(codec.encode(&narrow).unwrap_err().to_string().contains("1 columns and the table 2"));
}

#[test]
fn no_rows_and_rows_of_nulls() {
    let codec = of(&["bigint", "array<string>", "int"]);
    let none = codec.decode([], &[0, 1]).unwrap();
    assert_eq!(none.iter().map(|a| a.len()).collect::<Vec<_>>(), [0, 0]);
    let nulls = codec.encode_columns(&[], &[], 2).unwrap();
    assert_eq!(nulls.get(1), [3, 0, 0b111]);
    let read = codec.decode(nulls.iter(), &[2, 1]).unwrap();
    assert!(read.iter().all(|a| a.null_count() == 2));
}
