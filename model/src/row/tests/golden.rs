//! The bytes of each type. A change here is a change of the format of stored rows.

use arrow::array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int32Builder, Int64Array, ListBuilder, MapBuilder,
    StringArray, StringBuilder, StructArray, Time32MillisecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::compute::cast;

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The row of one value: version 1, and the value is not null.
fn golden(data_type: &str, value: impl Array + 'static, field: &str) {
    let data_type: DataType = data_type.parse().unwrap();
    let schema = schema(std::slice::from_ref(&data_type));
    // Names and nullability of what is inside are the type's.
    let array = cast(&value, &data_type.to_arrow()).unwrap();
    let batch = batch(&schema, vec![array], 1);
    let (codec, rows) = rows_of(&schema, &batch);
    assert_eq!(hex(rows.get(0)), format!("010000{field}"), "{data_type}");
    assert_eq!(codec.decode(rows.iter(), &[0]).unwrap(), batch.columns());
}

#[test]
fn simple_types() {
    golden("boolean", BooleanArray::from(vec![true]), "01");
    golden("tinyint", Int8Array::from(vec![-2]), "fe");
    golden("smallint", Int16Array::from(vec![-2]), "03");
    golden("smallint", Int16Array::from(vec![i16::MIN]), "ffff03");
    golden("int", Int32Array::from(vec![300]), "d804");
    golden("int", Int32Array::from(vec![i32::MAX]), "feffffff0f");
    golden("bigint", Int64Array::from(vec![-65]), "8101");
    golden("bigint", Int64Array::from(vec![i64::MIN]), "ffffffffffffffffff01");
    golden("float", Float32Array::from(vec![1.5]), "0000c03f");
    golden("double", Float64Array::from(vec![-1.5]), "000000000000f8bf");
    let decimal =
        |value, precision| Decimal128Array::from(vec![value]).with_precision_and_scale(precision, 2).unwrap();
    golden("decimal(10,2)", decimal(-1234, 10), "a313");
    let most = 10_i128.pow(38) - 1;
    golden("decimal(38,2)", decimal(most, 38), "feffffffff8f918a93e8a3ecd096d4ccf6ac02");
    golden("char(3)", StringArray::from(vec!["ü"]), "02c3bc");
    golden("string", StringArray::from(vec![""]), "00");
    golden("binary(2)", FixedSizeBinaryArray::try_from_iter([[1, 2]].iter()).unwrap(), "020102");
    golden("bytes", BinaryArray::from(vec![b"xyz".as_slice()]), "0378797a");
    golden("date", Date32Array::from(vec![-1]), "01");
    golden("time(3)", Time32MillisecondArray::from(vec![1]), "02");
    golden("time(9)", Time64NanosecondArray::from(vec![64]), "8001");
    golden("timestamp(3)", TimestampMillisecondArray::from(vec![-1]), "01");
    let instant = TimestampMicrosecondArray::from(vec![1_700_000_000_000_001]).with_timezone("UTC");
    golden("timestamp_ltz(6)", instant, "8280f28183898506");
}

#[test]
fn long_values_have_long_lengths() {
    let long = "x".repeat(200);
    golden("string", StringArray::from(vec![long.as_str()]), &format!("c801{}", "78".repeat(200)));
    let mut list = ListBuilder::new(StringBuilder::new());
    list.append_value([Some(long.as_str())]);
    golden("array<string>", list.finish(), &format!("cc010100c801{}", "78".repeat(200)));
}

#[test]
fn nested_types() {
    let mut list = ListBuilder::new(Int32Builder::new());
    list.append_value([Some(1), None, Some(-1)]);
    // length 4, 3 elements, the second is null, 1, -1
    golden("array<int>", list.finish(), "0403020201");
    let mut empty = ListBuilder::new(Int32Builder::new());
    empty.append_value([]);
    golden("array<int>", empty.finish(), "0100");

    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("a");
    map.values().append_null();
    map.keys().append_value("b");
    map.values().append_value(5);
    map.append(true).unwrap();
    // length 7, 2 entries, "a", "b", the first value is null, 5
    golden("map<string,int>", map.finish(), "070201610162010a");

    let fields: Vec<(&str, ArrayRef)> =
        vec![("a", one(Int32Array::from(vec![None]))), ("b", one(StringArray::from(vec!["x"])))];
    let row = StructArray::from(
        RecordBatch::try_from_iter_with_nullable(fields.into_iter().map(|(name, array)| (name, array, true)))
            .unwrap(),
    );
    // length 3, the first field is null, "x"
    golden("row<a int,b string>", row, "03010178");
}

/// Ten columns: two bytes of null bits.
#[test]
fn a_whole_row() {
    let types = ["bigint", "string", "int", "double", "boolean", "int", "int", "int", "string", "date"];
    let types = types.map(|t| t.parse::<DataType>().unwrap());
    let codec = RowCodec::new(&Schema::new(SchemaId(0x0102), schema(&types).columns().to_vec()));
    let arrays = [
        one(Int64Array::from(vec![7])),
        one(StringArray::from(vec!["seven"])),
        one(Date32Array::from(vec![1])),
    ];
    let rows = codec.encode_columns(&[0, 1, 9], &arrays, 1).unwrap();
    assert_eq!(hex(rows.get(0)), "0201fc010e05736576656e02");
}
