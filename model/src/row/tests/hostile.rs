//! Damaged rows are errors, and never more than that.

use proptest::prelude::*;

use super::*;

/// Reads a row by all ways; if one reads it, it is the one spelling of its values.
fn read(codec: &RowCodec, row: &[u8]) -> Result<(), DamagedRow> {
    let schema = codec.schema();
    let decoded = codec.decode([row], &all(schema));
    let mut fields = Vec::new();
    let split = codec.split(row, &mut fields);
    let skipped = codec.decode([row], &[]);
    assert_eq!(split.is_ok(), skipped.is_ok(), "{split:?} {skipped:?}");
    if split.is_ok() {
        let mut joined = Vec::new();
        codec.join(&fields, &mut joined);
        assert_eq!(joined, row);
    } else {
        assert!(fields.is_empty());
        assert!(decoded.is_err());
    }
    let nullable = all(schema).into_iter().map(|i| column(i, &schema.columns()[i].data_type, true));
    let nullable = RowCodec::new(&Schema::new(schema.id(), nullable.collect()));
    let _ = RowUpgrade::new(codec, &nullable).upgrade(row, &mut Vec::new());
    let arrays = decoded?;
    assert_eq!(codec.encode_columns(&all(schema), &arrays, 1).unwrap().get(0), row);
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes(types in prop::collection::vec(any_column_type(), 1..5), bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let codec = RowCodec::new(&schema(&types));
        let _ = read(&codec, &bytes);
        let mut row = codec.schema().id().0.to_le_bytes().to_vec();
        row.push(0);
        row.extend_from_slice(&bytes);
        let _ = read(&codec, &row);
    }

    #[test]
    fn changed_bytes((schema, batch) in any_batch(), at in any::<prop::sample::Index>(), bits in 1..=255_u8) {
        let (codec, rows) = rows_of(&schema, &batch);
        for row in rows.iter().take(4) {
            let mut row = row.to_vec();
            let at = at.index(row.len());
            row[at] ^= bits;
            let _ = read(&codec, &row);
        }
    }

    #[test]
    fn shorter_and_longer_rows_are_errors((schema, batch) in any_batch(), last in any::<u8>()) {
        let (codec, rows) = rows_of(&schema, &batch);
        for row in rows.iter().take(3) {
            prop_assert!(read(&codec, row).is_ok());
            for len in (0..row.len()).rev().take(40) {
                prop_assert!(read(&codec, &row[..len]).is_err());
            }
            let mut longer = row.to_vec();
            longer.push(last);
            prop_assert!(read(&codec, &longer).is_err());
        }
    }
}

/// What is wrong with a row of one column of version 1: the bytes follow the id and no nulls.
fn damage(data_type: &str, bytes: &[u8]) -> Damage {
    let codec = RowCodec::new(&schema(&[data_type.parse().unwrap()]));
    let mut row = vec![1, 0, 0];
    row.extend_from_slice(bytes);
    let good = codec.encode_columns(&[], &[], 1).unwrap();
    let error = codec.decode([good.get(0), &row], &[0]).unwrap_err();
    assert_eq!(error.row, 1);
    error.damage
}

#[test]
fn each_damage_is_named() {
    assert_eq!(damage("boolean", &[2]), Damage::Boolean);
    assert_eq!(damage("boolean", &[]), Damage::Cut);
    assert_eq!(damage("boolean", &[0, 0]), Damage::Trailing { bytes: 1 });
    assert_eq!(damage("smallint", &[0x80, 0x80, 0x04]), Damage::Number, "32768");
    assert_eq!(damage("int", &[0x80, 0x00]), Damage::Number, "0 in two bytes");
    assert_eq!(damage("int", &[0x80; 20]), Damage::Number);
    assert_eq!(damage("bigint", &[0x80, 0x80]), Damage::Cut);
    assert_eq!(damage("decimal(38,0)", &[0xff; 19]), Damage::Number);
    assert_eq!(damage("double", &[0; 7]), Damage::Cut);
    assert_eq!(damage("string", &[2, 0xc3, 0x28]), Damage::Text);
    assert_eq!(damage("string", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0]), Damage::Cut);
    assert_eq!(damage("binary(2)", &[1, 0]), Damage::Length);
    assert_eq!(damage("array<int>", &[2, 1, 0b10]), Damage::NullBits);
    assert_eq!(damage("array<int not null>", &[2, 1, 1]), Damage::Null);
    assert_eq!(damage("array<int>", &[3, 0xff, 0xff, 0x7f]), Damage::Cut, "2 million elements in no bytes");
    assert_eq!(damage("map<int,int>", &[3, 0xff, 0xff, 0x7f]), Damage::Cut);
    assert_eq!(damage("row<a int>", &[3, 0, 4, 4]), Damage::Trailing { bytes: 1 });

    let error = RowCodec::new(&schema(&[DataType::Int])).decode([&[2, 0, 0, 0][..]], &[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stored row 0 cannot be read as schema version 1: it is of schema version 2"
    );
    let error = RowCodec::new(&schema(&[DataType::Int])).decode([&[1, 0, 0][..]], &[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "stored row 0 cannot be read as schema version 1, at column \"c0\": it ends too early"
    );
}

/// A null is one bit in a row and a mebibyte in the column.
#[test]
fn few_bytes_do_not_become_many() {
    let mut array = vec![0x80, 0x20]; // 4,096 elements
    array.extend_from_slice(&[0xff; 512]);
    let mut bytes = Vec::new();
    crate::varint::put(&mut bytes, array.len() as u64);
    bytes.extend_from_slice(&array);
    assert_eq!(damage("array<binary(1048576)>", &bytes), Damage::Full);
    assert_eq!(damage("array<row<a binary(1048576)>>", &bytes), Damage::Full);
}

/// Types nest as deep as DDL allows, and so do their values.
#[test]
fn the_deepest_type_reads_back() {
    let depth = crate::types::MAX_DEPTH - 1;
    let deep: DataType = format!("{}int{}", "array<".repeat(depth), ">".repeat(depth)).parse().unwrap();
    let schema = schema(&[deep]);
    let batch = random_batch(&schema, 20, 3);
    let (codec, rows) = rows_of(&schema, &batch);
    assert_eq!(codec.decode(rows.iter(), &[0]).unwrap(), batch.columns());
}
