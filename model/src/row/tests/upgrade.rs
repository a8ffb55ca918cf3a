//! Rows under a later version are what batches are.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::batch::read_as;

/// A type that the type widens to, often itself.
fn wider(from: &DataType, choice: usize) -> DataType {
    use DataType::*;
    let mut all = vec![from.clone(), SmallInt, Int, BigInt, Double, Char(9), String, Bytes];
    all.extend((0..=9).flat_map(|p| [Time(p), Timestamp(p), TimestampLtz(p)]));
    if let Decimal { precision, scale } = from {
        all.extend((*precision..=38).map(|precision| Decimal { precision, scale: *scale }));
    }
    all.retain(|to| from.widens_to(to));
    all.swap_remove(choice % all.len())
}

fn upgraded(from: &RowCodec, to: &RowCodec, rows: &Rows) -> Vec<Vec<u8>> {
    let upgrade = RowUpgrade::new(from, to);
    let row = |row| {
        let mut out = vec![7];
        upgrade.upgrade(row, &mut out).unwrap();
        out.split_off(1)
    };
    rows.iter().map(row).collect()
}

proptest! {
    #[test]
    fn upgraded_rows_are_what_read_as_reads(
        (old, batch) in any_batch(),
        choices in prop::collection::vec(any::<usize>(), 12),
        dropped in any::<u64>(),
        (turn, default) in (0..12_usize, any::<bool>()),
    ) {
        let mut columns: Vec<Column> = old.columns().to_vec();
        columns.retain(|c| dropped & (1 << c.id.0) == 0);
        for (column, choice) in columns.iter_mut().zip(&choices) {
            column.data_type = wider(&column.data_type, *choice);
        }
        let mut added = column(90, &DataType::String, true);
        added.default = default.then(|| json!("new"));
        columns.push(added);
        columns.push(column(91, &DataType::Int, true));
        let turn = turn % columns.len();
        columns.rotate_left(turn);
        let new = Schema::new(SchemaId(900), columns);

        let (from, rows) = rows_of(&old, &batch);
        let to = RowCodec::new(&new);
        let later = upgraded(&from, &to, &rows);
        let plan = read_as(&old, &new, &all(&new));
        let expected = plan.apply(&batch.project(plan.sources()).unwrap()).unwrap();
        let read = to.decode(later.iter().map(Vec::as_slice), &all(&new)).unwrap();
        prop_assert_eq!(&read, expected.columns());
        // And it is the spelling in which new rows are written.
        let (_, written) = rows_of(&new, &expected);
        prop_assert!(written.iter().eq(later.iter().map(Vec::as_slice)));
    }
}

#[test]
fn each_widening_is_tried() {
    let from = ["tinyint", "float", "time(3)", "timestamp(0)", "timestamp_ltz(3)", "char(3)", "binary(2)"];
    let to = ["bigint", "double", "time(9)", "timestamp(9)", "timestamp_ltz(6)", "string", "bytes"];
    let parse = |types: [&str; 7]| types.map(|t| t.parse::<DataType>().unwrap());
    let (old, new) = (schema(&parse(from)), schema(&parse(to)));
    let new = Schema::new(SchemaId(8), new.columns().to_vec());
    let batch = random_batch(&old, 500, 11);
    let (codec, rows) = rows_of(&old, &batch);
    let later = upgraded(&codec, &RowCodec::new(&new), &rows);
    let read = RowCodec::new(&new).decode(later.iter().map(Vec::as_slice), &all(&new)).unwrap();
    let expected = read_as(&old, &new, &all(&new)).apply(&batch).unwrap();
    assert_eq!(read, expected.columns());
    assert!(read[3].null_count() > batch.column(3).null_count(), "seconds that no nanoseconds hold");
}

#[test]
fn a_type_that_was_not_widened_is_an_error() {
    let (old, new) = (schema(&[DataType::BigInt]), schema(&[DataType::Int]));
    let number = one(arrow::array::Int64Array::from(vec![1]));
    let (codec, rows) = rows_of(&old, &batch(&old, vec![number], 1));
    let upgrade = RowUpgrade::new(&codec, &RowCodec::new(&new));
    let error = upgrade.upgrade(rows.get(0), &mut Vec::new()).unwrap_err();
    assert_eq!(error.damage, Damage::NotWider);
    assert_eq!(error.column.as_deref(), Some("c0"));
}
