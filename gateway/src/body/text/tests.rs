use proptest::prelude::*;

use super::*;

#[test]
fn decimals_are_exact_or_refused() {
    let read = |text| decimal(text, 10, 2);
    for (text, value) in [
        ("12.5", 1250),
        ("-12.50", -1250),
        ("0", 0),
        ("-0.00", 0),
        ("12.500000000000000000000000000000000000000", 1250),
        ("1e3", 100_000),
        ("1.5E-1", 15),
        ("0.00000000000000000000000000000000000000000001e44", 100),
        ("99999999.99", 9_999_999_999),
        ("000000000000000000000000000000000000000000000000012", 1200),
        ("1e+2", 10_000),
    ] {
        assert_eq!(read(text), Ok(value), "{text}");
    }
    for text in [
        "100000000",
        "0.001",
        "1e8",
        "1e-3",
        "1e999999999",
        "12345678901234567890123456789012345678901234567890",
    ] {
        assert_eq!(read(text), Err(Unfit::Digits), "{text}");
    }
    for text in ["", "-", ".", "1.", "1..2", "x", "1e", "+1", "NaN", "1e+-1", "--1"] {
        assert_eq!(read(text), Err(Unfit::Form), "{text}");
    }
    assert_eq!(read("12,5"), Err(Unfit::Comma));
    let most = "9".repeat(38);
    assert_eq!(decimal(&most, 38, 0), Ok(10i128.pow(38) - 1));
}

#[test]
fn instants_are_read_in_every_spelling_of_iso() {
    let ltz = |text| timestamp(text, TimeUnit::Millisecond, true);
    for text in [
        "2013-01-31T10:00:00.125Z",
        "2013-01-31 10:00:00.125",
        "2013-01-31T11:00:00.125+01:00",
        "2013-01-31T08:30:00.125999-0130",
        "2013-01-31T11:00:00.125+01",
    ] {
        assert_eq!(ltz(text), Ok(1_359_626_400_125), "{text}");
    }
    assert_eq!(ltz("1969-12-31T23:59:59.999Z"), Ok(-1));
    assert_eq!(ltz("2013-01-31"), Ok(1_359_590_400_000));
    assert_eq!(ltz("2013-01-31T10:00"), Ok(1_359_626_400_000));
    for text in [
        "2013-01-31T",
        "2013-01-31T25:00:00",
        "2013-1-31",
        "2013-01-31T10:00:60Z",
        "2013-01-31T10:00:00.Z",
        "2013-01-31T10:00:00+25:00",
        "2013-01-31T10:00:00 Z",
        "now",
        "",
    ] {
        assert_eq!(ltz(text), Err(Unfit::Form), "{text}");
    }
    assert_eq!(ltz("0001-01-01T00:00:00+01:00"), Err(Unfit::Years));
    assert_eq!(ltz("0000-01-01"), Err(Unfit::Years));
    assert_eq!(ltz("48690-01-01T00:00:00Z"), Err(Unfit::Years));
    assert_eq!(ltz("9999-12-31T23:59:59.999Z"), Ok(253_402_300_799_999));
    assert_eq!(timestamp("2013-01-31T10:00:00+01:00", TimeUnit::Second, false), Err(Unfit::Zone));
    assert_eq!(timestamp("1600-01-01", TimeUnit::Nanosecond, false), Err(Unfit::Range));
}

#[test]
fn dates_and_times_are_strict() {
    assert_eq!(date("1970-01-02"), Ok(1));
    assert_eq!(date("2013-02-29"), Err(Unfit::Form));
    assert_eq!(date("2013-01-31T00:00:00"), Err(Unfit::Form));
    assert_eq!(time("10:00:00.5", TimeUnit::Microsecond), Ok(36_000_500_000));
    assert_eq!(time("10:00", TimeUnit::Second), Ok(36_000));
    assert_eq!(time("10:00:00Z", TimeUnit::Second), Err(Unfit::Form));
    assert_eq!(time("10:00.5", TimeUnit::Second), Err(Unfit::Form));
}

#[test]
fn floats_are_finite_numbers() {
    assert_eq!(float::<f64>("1e-400"), Ok(0.0));
    for text in ["NaN", "inf", "-Infinity", "", "e", "1e", "0x1"] {
        assert_eq!(float::<f64>(text), Err(Unfit::Form), "{text}");
    }
    assert_eq!(float::<f64>("1,5"), Err(Unfit::Comma));
    assert_eq!(float::<f32>("3.5e38"), Err(Unfit::Range));
}

proptest! {
    #[test]
    fn integers_are_read_as_the_standard_library_reads_them(value: i64, junk in "[-+0-9.e,x]{0,24}") {
        prop_assert_eq!(integer::<i64>(&value.to_string()), Ok(value));
        prop_assert_eq!(integer::<i16>(&value.to_string()).ok(), i16::try_from(value).ok());
        if !junk.starts_with('+') {
            prop_assert_eq!(integer::<i64>(&junk).ok(), junk.parse().ok());
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,30}", digits in "[-+0-9.eE:TZ ]{0,40}") {
        for text in [&text, &digits] {
            let _ = (date(text), time(text, TimeUnit::Nanosecond), decimal(text, 38, 20), float::<f32>(text));
            for unit in [TimeUnit::Second, TimeUnit::Nanosecond] {
                let _ = timestamp(text, unit, true);
            }
            let _ = base64(text, &mut Vec::new());
        }
    }
}
