use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, FixedSizeBinaryArray, Float32Array, Float64Array,
    Int8Array, Int64Array, StringArray, Time32MillisecondArray, Time32SecondArray, Time64NanosecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampSecondArray,
};
use proptest::prelude::*;

use super::super::value::{check, spell};
use super::*;
use crate::types::DataType;

fn names(data_type: &str, array: impl arrow::array::Array + 'static) -> Vec<String> {
    let data_type: DataType = data_type.parse().unwrap();
    let array: ArrayRef = Arc::new(array);
    (0..array.len())
        .map(|row| {
            let name = spell(&data_type, &array, row).unwrap_or_else(|expected| format!("!{expected}"));
            if !name.starts_with('!') {
                check(&data_type, &name).unwrap_or_else(|e| panic!("{name} is not read back: {e}"));
            }
            name
        })
        .collect()
}

/// Part of the data format: a name that changes would be another partition.
#[test]
fn values_are_spelled_as_in_fluss() {
    assert_eq!(names("string", StringArray::from(vec!["cn", "a_b-C9"])), ["cn", "a_b-C9"]);
    assert_eq!(names("boolean", BooleanArray::from(vec![true, false])), ["true", "false"]);
    assert_eq!(names("tinyint", Int8Array::from(vec![-128, 7])), ["-128", "7"]);
    assert_eq!(names("bigint", Int64Array::from(vec![i64::MIN, 0])), ["-9223372036854775808", "0"]);
    assert_eq!(names("bytes", BinaryArray::from(vec![&[0u8, 15, 255][..]])), ["000fff"]);
    let fixed = FixedSizeBinaryArray::try_from_iter([[1u8, 0xab]].iter()).unwrap();
    assert_eq!(names("binary(2)", fixed), ["01ab"]);
    let days = Date32Array::from(vec![0, -1, 20_484, -719_162, 2_932_896]);
    assert_eq!(names("date", days), ["1970-01-01", "1969-12-31", "2026-01-31", "0001-01-01", "9999-12-31"]);
    let times = Time32MillisecondArray::from(vec![0, 86_399_250]);
    assert_eq!(names("time(3)", times), ["00-00-00_000", "23-59-59_250"]);
    assert_eq!(names("time(0)", Time32SecondArray::from(vec![3_661])), ["01-01-01_000"]);
    // Fluss keeps milliseconds; what is finer must still make names of its own.
    let nanos = Time64NanosecondArray::from(vec![1_000_001, 1_000_000]);
    assert_eq!(names("time(9)", nanos), ["00-00-00_001000001", "00-00-00_001"]);
    let stamps = TimestampMillisecondArray::from(vec![1_748_433_853_048, -1]);
    assert_eq!(names("timestamp(3)", stamps), ["2025-05-28-12-04-13_048", "1969-12-31-23-59-59_999"]);
    let micros = TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC");
    assert_eq!(names("timestamp_ltz(6)", micros), ["1970-01-01-00-00-01_5"]);
    assert_eq!(names("timestamp(0)", TimestampSecondArray::from(vec![60])), ["1970-01-01-00-01-00_"]);
}

#[test]
fn floats_are_spelled_as_java_writes_them() {
    let values = [0.0, -0.0, 1.5, -100.0, 0.001, 9_999_999.0, 1e7, 1.25e-5, 1e300, 123_456_789.125];
    let want = ["0_0", "-0_0", "1_5", "-100_0", "0_001", "9999999_0", "1_0E7", "1_25E-5", "1_0E300"];
    let got = names("double", Float64Array::from(values.to_vec()));
    assert_eq!(got[..9], want);
    assert_eq!(got[9], "1_23456789125E8");
    let special = Float32Array::from(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.1, 1.0e10]);
    assert_eq!(names("float", special), ["NaN", "Inf", "-Inf", "0_1", "1_0E10"]);
}

#[test]
fn values_that_make_no_name_are_refused() {
    let texts = StringArray::from(vec!["", "a b", "a.b", "a$b", "__x", "ü", "..", "a/b"]);
    assert!(names("string", texts).iter().all(|name| name.starts_with('!')));
    assert!(
        names("date", Date32Array::from(vec![i32::MAX, i32::MIN, -719_163]))
            .iter()
            .all(|n| n.contains("year"))
    );
    assert!(
        names("timestamp(3)", TimestampMillisecondArray::from(vec![i64::MAX, i64::MIN]))[0].contains("year")
    );
    let times = Time64NanosecondArray::from(vec![-1, 86_400_000_000_000, i64::MAX]);
    assert!(names("time(9)", times).iter().all(|n| n.contains("time of day")));
    assert!(
        names("bytes", BinaryArray::from(vec![&[0u8; 101][..], &[]])).iter().all(|n| n.contains("bytes"))
    );
}

#[test]
fn only_the_spelling_of_a_value_is_a_name() {
    let refused = |data_type: &str, texts: &[&str]| {
        for text in texts {
            assert!(check(&data_type.parse().unwrap(), text).is_err(), "{data_type}: {text}");
        }
    };
    refused("int", &["", "07", "+7", "7.0", "2147483648", "-0", " 7", "x"]);
    refused("boolean", &["True", "1", ""]);
    refused("date", &["2026-1-31", "2026-02-30", "20260131", "+12026-01-01", "2026-01-31x", "0000-01-01"]);
    refused("time(3)", &["24-00-00_000", "23-59-59", "23-59-59_", "23-59-59_2500", "-1-00-00_000"]);
    refused("timestamp(3)", &["2026-01-31", "2026-01-31-00-00-00", "2026-01-31-00-00-00_50", "x_", "_"]);
    refused("double", &["1", "1.5", "inf", "nan", "1e5", "1_50", "_"]);
    refused("bytes", &["", "0", "0A", "0g"]);
    refused("binary(2)", &["00", "000000"]);
    refused("decimal(4,1)", &["1"]);
}

#[test]
fn names_of_partitions_are_checked_against_the_table() {
    let table = table(&[("day", "date"), ("region", "string"), ("n", "int")], &["day", "region"], &[]);
    table.check_partition("2026-01-31$eu", None).unwrap();
    let message = |name: &str| table.check_partition(name, None).unwrap_err().to_string();
    assert_eq!(
        message("2026-01-31"),
        "partition \"2026-01-31\" has 1 value(s); the table is partitioned by day, region"
    );
    assert!(message("2026-01-31$eu$x").contains("3 value(s)"));
    assert!(
        message("2026-13-31$eu").contains("column \"day\" should be a date such as"),
        "{}",
        message("2026-13-31$eu")
    );
    assert!(message("2026-01-31$").contains("column \"region\""));
    assert!(message(&format!("2026-01-31${}", "x".repeat(200))).contains("longer"));
    let name = table.partition_name(|column| Some(if column == "day" { "2026-01-31" } else { "eu" }));
    assert_eq!(name.unwrap(), "2026-01-31$eu");
    let missing = table.partition_name(|column| (column == "day").then_some("2026-01-31")).unwrap_err();
    assert!(missing.to_string().contains("column \"region\" is not given"), "{missing}");
    let plain = super::table(&[("n", "int")], &[], &[]);
    assert_eq!(plain.check_partition("1", None).unwrap_err().to_string(), "table \"a.t\" has no partitions");
}

proptest! {
    #[test]
    fn every_double_has_a_name_that_says_it(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let name = names("double", Float64Array::from(vec![value])).remove(0);
        prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')));
        let back: f64 = name.replace('_', ".").parse().unwrap();
        prop_assert!(back.to_bits() == bits || back.is_nan() && value.is_nan());
    }

    #[test]
    fn every_moment_has_a_name_that_says_it(micros in any::<i64>(), other in any::<i64>()) {
        let stamps = names("timestamp(6)", TimestampMicrosecondArray::from(vec![micros, other]));
        let untold = stamps[0].starts_with('!') || stamps[1].starts_with('!');
        prop_assert!(untold || (stamps[0] == stamps[1]) == (micros == other));
    }

    #[test]
    fn hostile_names_never_panic(name in "[ -~éß$_0-9-]{0,40}", type_ in 0usize..9) {
        let types = ["int", "double", "date", "time(9)", "timestamp(9)", "bytes", "binary(3)", "string", "boolean"];
        let _ = check(&types[type_].parse().unwrap(), &name);
        for options in [&[][..], &[("auto-partition.enabled", "true")]] {
            let _ = table(&[("d", "string")], &["d"], options).check_partition(&name, Some(0));
        }
    }
}
