use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field, TimeUnit};
use proptest::prelude::*;
use wadi_model::types::Nested;
use wadi_model::{DataType, Schema};

use super::super::tests::{read, schema};
use super::super::{BodyFormat, without_bom};
use super::*;

/// A small source of numbers, so that a failing case is one seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        x ^ (x >> 33)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// From `min` to `max`, both often.
    fn within(&mut self, min: i64, max: i64) -> i64 {
        match self.below(8) {
            0 => min,
            1 => max,
            _ => (i128::from(min) + i128::from(self.next()) % (i128::from(max) - i128::from(min) + 1)) as i64,
        }
    }

    fn text(&mut self) -> String {
        let letters =
            ['a', 'B', '"', ',', '\n', '\r', '\\', 'é', '😀', ' ', '\t', '\u{1}', '{', 'n', '\u{7f}', '/'];
        (0..self.below(8)).map(|_| letters[self.below(16) as usize]).collect()
    }
}

fn array(nested: &Nested, rows: usize, dice: &mut Dice) -> ArrayRef {
    let nulls: Vec<bool> = (0..rows).map(|_| nested.nullable && dice.below(4) == 0).collect();
    macro_rules! values {
        ($array:ty, $value:expr) => {{
            let values = nulls.iter().map(|null| {
                let value = $value;
                (!null).then_some(value)
            });
            values.collect::<$array>()
        }};
    }
    let arrow = nested.data_type.to_arrow();
    let ticks = |unit: TimeUnit, dice: &mut Dice| match unit {
        TimeUnit::Second => dice.within(-62_135_596_800, 253_402_300_799),
        TimeUnit::Millisecond => dice.within(-62_135_596_800_000, 253_402_300_799_999),
        TimeUnit::Microsecond => dice.within(-62_135_596_800_000_000, 253_402_300_799_999_999),
        TimeUnit::Nanosecond => dice.within(i64::MIN, i64::MAX),
    };
    let valid = NullBuffer::from(nulls.iter().map(|n| !n).collect::<Vec<_>>());
    let valid = Some(valid).filter(|v| v.null_count() > 0);
    let ends = |dice: &mut Dice| OffsetBuffer::<i32>::from_lengths((0..rows).map(|_| dice.below(4) as usize));
    match &nested.data_type {
        DataType::Boolean => Arc::new(values!(BooleanArray, dice.below(2) == 0)),
        DataType::TinyInt => Arc::new(values!(Int8Array, dice.within(-128, 127) as i8)),
        DataType::SmallInt => Arc::new(values!(Int16Array, dice.within(-32_768, 32_767) as i16)),
        DataType::Int => Arc::new(values!(Int32Array, dice.within(i32::MIN.into(), i32::MAX.into()) as i32)),
        DataType::BigInt => Arc::new(values!(Int64Array, dice.within(i64::MIN, i64::MAX))),
        DataType::Float => Arc::new(values!(Float32Array, {
            let value = f32::from_bits(dice.next() as u32);
            if value.is_finite() { value } else { -0.0 }
        })),
        DataType::Double => Arc::new(values!(Float64Array, {
            let value = f64::from_bits(dice.next());
            if value.is_finite() { value } else { 1e300 }
        })),
        DataType::Decimal { precision, scale } => {
            let bound = 10i128.pow(u32::from(*precision));
            let values = values!(Decimal128Array, {
                let wide = i128::from(dice.next() as i64) * i128::from(dice.next() as i64) % bound;
                if dice.below(5) == 0 { bound - 1 } else { wide >> dice.below(100) }
            });
            Arc::new(values.with_precision_and_scale(*precision, *scale as i8).unwrap())
        }
        DataType::Char(_) | DataType::String => Arc::new(values!(StringArray, dice.text())),
        DataType::Bytes => Arc::new(values!(BinaryArray, dice.text().into_bytes())),
        DataType::Binary(n) => {
            let values: Vec<_> =
                nulls.iter().map(|null| (!null).then(|| vec![dice.next() as u8; *n as usize])).collect();
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), *n as i32).unwrap(),
            )
        }
        DataType::Date => Arc::new(values!(Date32Array, dice.within(-719_162, 2_932_896) as i32)),
        DataType::Time(_) => match arrow {
            ArrowType::Time32(TimeUnit::Second) => {
                Arc::new(values!(Time32SecondArray, dice.within(0, 86_399) as i32))
            }
            ArrowType::Time32(_) => {
                Arc::new(values!(Time32MillisecondArray, dice.within(0, 86_399_999) as i32))
            }
            ArrowType::Time64(TimeUnit::Microsecond) => {
                Arc::new(values!(Time64MicrosecondArray, dice.within(0, 86_399_999_999)))
            }
            _ => Arc::new(values!(Time64NanosecondArray, dice.within(0, 86_399_999_999_999))),
        },
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let ArrowType::Timestamp(unit, zone) = arrow else { unreachable!() };
            match unit {
                TimeUnit::Second => {
                    Arc::new(values!(TimestampSecondArray, ticks(unit, dice)).with_timezone_opt(zone))
                }
                TimeUnit::Millisecond => {
                    Arc::new(values!(TimestampMillisecondArray, ticks(unit, dice)).with_timezone_opt(zone))
                }
                TimeUnit::Microsecond => {
                    Arc::new(values!(TimestampMicrosecondArray, ticks(unit, dice)).with_timezone_opt(zone))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(values!(TimestampNanosecondArray, ticks(unit, dice)).with_timezone_opt(zone))
                }
            }
        }
        DataType::Array(item) => {
            let ArrowType::List(field) = arrow else { unreachable!() };
            let ends = ends(dice);
            let count = ends[rows] as usize;
            Arc::new(ListArray::new(field, ends, array(item, count, dice), valid))
        }
        DataType::Map(key, value) => {
            let ArrowType::Map(field, _) = arrow else { unreachable!() };
            let ArrowType::Struct(fields) = field.data_type() else { unreachable!() };
            let ends = ends(dice);
            let count = ends[rows] as usize;
            // Names of one object differ: keys count up.
            let keys: ArrayRef = match &**key {
                DataType::Int => Arc::new(Int32Array::from_iter_values(0..count as i32)),
                DataType::String => {
                    Arc::new(StringArray::from_iter_values((0..count).map(|i| format!("{}{i}", dice.text()))))
                }
                DataType::Date => Arc::new(Date32Array::from_iter_values(0..count as i32)),
                other => array(&Nested { data_type: other.clone(), nullable: false }, count, dice),
            };
            let entries = StructArray::new(fields.clone(), vec![keys, array(value, count, dice)], None);
            Arc::new(MapArray::new(field.clone(), ends, entries, valid, false))
        }
        DataType::Row(inner) => {
            let ArrowType::Struct(fields) = arrow else { unreachable!() };
            let columns = inner.iter().map(|(_, nested)| array(nested, rows, dice)).collect();
            Arc::new(StructArray::new(fields, columns, valid))
        }
    }
}

fn batch(schema: &Schema, rows: usize, seed: u64) -> RecordBatch {
    let mut dice = Dice(seed);
    let column = |c: &wadi_model::Column| {
        array(&Nested { data_type: c.data_type.clone(), nullable: c.nullable }, rows, &mut dice)
    };
    let columns = schema.columns().iter().map(column).collect();
    RecordBatch::try_new(schema.arrow().clone(), columns).unwrap()
}

/// Every type, alone and nested.
const TYPES: [&str; 40] = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "bigint not null",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,0)",
    "decimal(38,38)",
    "decimal(15,15)",
    "decimal(20,5)",
    "char(4)",
    "string",
    "string not null",
    "binary(3)",
    "binary(1)",
    "bytes",
    "date",
    "time(0)",
    "time(3)",
    "time(6)",
    "time(9)",
    "timestamp(0)",
    "timestamp(3)",
    "timestamp(6)",
    "timestamp(9)",
    "timestamp_ltz(0)",
    "timestamp_ltz(3)",
    "timestamp_ltz(6)",
    "timestamp_ltz(9)",
    "array<int>",
    "array<array<string not null>>",
    "array<row<a int not null, b array<string>>>",
    "map<string,double>",
    "map<int,array<decimal(30,2)>>",
    "map<date,bytes>",
    "map<row<a int>,timestamp_ltz(3)>",
    "row<a int not null, `b c` row<x string, y map<string,boolean>>>",
];

fn every_type() -> Schema {
    let names: Vec<String> = (0..TYPES.len()).map(|i| format!("c{i}")).collect();
    schema(&names.iter().map(String::as_str).zip(TYPES).collect::<Vec<_>>())
}

fn lines(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    JsonRows::new(batch).unwrap().write_lines(&mut out);
    out
}

fn elements(batch: &RecordBatch) -> Vec<u8> {
    let mut out = vec![b'['];
    JsonRows::new(batch).unwrap().write_elements(&mut true, &mut out);
    out.push(b']');
    out
}

fn csv(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    csv_header(batch.schema_ref(), &mut out);
    csv_rows(batch, &mut out).unwrap();
    out
}

fn stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowStreamWriter::new(batch.schema_ref()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    writer.take().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_reads_back_the_same(seed: u64, rows in 0usize..20) {
        let schema = every_type();
        let batch = batch(&schema, rows, seed);
        for (format, body) in [
            (BodyFormat::Json, elements(&batch)),
            (BodyFormat::Ndjson, [b"\n", &lines(&batch)[..]].concat()),
            (BodyFormat::Csv { header: true }, csv(&batch)),
            (BodyFormat::ArrowStream, stream(&batch)),
        ] {
            let decoded = read(format, body, &schema).unwrap();
            let told: Vec<_> = decoded.rejects.told().map(ToString::to_string).collect();
            prop_assert!(told.is_empty(), "{:?}: {:?}", format, told);
            for (i, (read, written)) in decoded.batch.columns().iter().zip(batch.columns()).enumerate() {
                prop_assert_eq!(read, written, "{:?} {}", format, TYPES[i]);
            }
        }
    }

    #[test]
    fn each_type_alone_reads_back_the_same(seed: u64, at in 0..TYPES.len()) {
        let schema = schema(&[("only", TYPES[at])]);
        let batch = batch(&schema, 5, seed);
        for (format, body) in [(BodyFormat::Json, elements(&batch)), (BodyFormat::Csv { header: true }, csv(&batch))] {
            prop_assert_eq!(&read(format, body, &schema).unwrap().batch, &batch);
        }
    }

    #[test]
    fn lines_are_json_to_others(seed: u64) {
        let batch = batch(&every_type(), 5, seed);
        let text = lines(&batch);
        for line in without_bom(&text).split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(line).is_ok());
        }
    }
}

#[test]
fn values_are_spelled_as_documented() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("f", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("g", Arc::new(Float32Array::from(vec![0.1]))),
        ("d", Arc::new(Decimal128Array::from(vec![-5]).with_precision_and_scale(15, 2).unwrap())),
        (
            "e",
            Arc::new(
                Decimal128Array::from(vec![i128::from(u64::MAX) * 10])
                    .with_precision_and_scale(38, 1)
                    .unwrap(),
            ),
        ),
        ("b", Arc::new(BinaryArray::from_vec(vec![b"\x00\xFF"]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("UTC"))),
        ("u", Arc::new(TimestampSecondArray::from(vec![0]))),
        ("x", Arc::new(Time64NanosecondArray::from(vec![1]))),
        ("y", Arc::new(Date32Array::from(vec![-719_162]))),
        ("s", Arc::new(StringArray::from(vec!["a\"b"]))),
        ("m", Arc::new(UInt64Array::from(vec![u64::MAX]))),
        ("v", Arc::new(StringViewArray::from(vec!["view"]))),
        ("z", Arc::new(NullArray::new(1))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    assert_eq!(
        String::from_utf8(lines(&batch)).unwrap(),
        concat!(
            r#"{"i":-9223372036854775808,"f":null,"g":0.1,"d":-0.05,"e":"18446744073709551615.0","b":"AP8=","#,
            r#""t":"1969-12-31T23:59:59.999Z","u":"1970-01-01T00:00:00","x":"00:00:00.000000001","#,
            r#""y":"0001-01-01","s":"a\"b","m":"18446744073709551615","v":"view","z":null}"#,
            "\n"
        )
    );
    assert_eq!(
        String::from_utf8(csv(&batch)).unwrap(),
        concat!(
            "i,f,g,d,e,b,t,u,x,y,s,m,v,z\n-9223372036854775808,,0.1,-0.05,18446744073709551615.0,AP8=,",
            "1969-12-31T23:59:59.999Z,1970-01-01T00:00:00,00:00:00.000000001,0001-01-01,\"a\"\"b\",",
            "18446744073709551615,view,\n"
        )
    );
}

#[test]
fn elements_of_several_batches_are_one_array() {
    let one =
        RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let rows = JsonRows::new(&one).unwrap();
    let (mut first, mut out) = (true, Vec::new());
    rows.write_elements(&mut first, &mut out);
    rows.write_elements(&mut first, &mut out);
    assert_eq!(out, br#"{"a":1},{"a":2},{"a":1},{"a":2}"#);
    assert_eq!((rows.len(), rows.is_empty()), (2, false));
}

#[test]
fn a_stream_can_be_framed_around_stored_messages() {
    let batch = batch(&every_type(), 3, 7);
    let whole = stream(&batch);
    let head = schema_message(batch.schema_ref()).unwrap();
    assert!(whole.starts_with(&head));
    assert!(whole.ends_with(&end_of_stream()));
    let framed = [&head[..], &whole[head.len()..whole.len() - 8], &end_of_stream()[..]].concat();
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&framed[..], None).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), batch);
    assert!(reader.next().is_none());
}

#[test]
fn slices_write_their_own_rows() {
    let field = Arc::new(Field::new("item", ArrowType::Int32, true));
    let list = ListArray::new(
        field,
        OffsetBuffer::from_lengths([1, 2, 1]),
        Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
        None,
    );
    let batch = RecordBatch::try_from_iter([("l", Arc::new(list) as ArrayRef)]).unwrap();
    assert_eq!(lines(&batch.slice(1, 1)), b"{\"l\":[2,3]}\n");
}
