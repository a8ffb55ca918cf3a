use proptest::prelude::*;

use super::super::{AutoPartition, Untimely};
use super::*;
use crate::evolve::SchemaChange;
use crate::options::{AUTO_PARTITION, AUTO_PARTITION_KEY};

/// The rules of a table that is partitioned by the text column `d`.
fn rules(options: &[(&str, &str)]) -> AutoPartition {
    AutoPartition::of(&auto(&[("d", "string")], &["d"], options).unwrap()).unwrap().unwrap()
}

fn auto(columns: &[(&str, &str)], by: &[&str], options: &[(&str, &str)]) -> Result<Table, InvalidTable> {
    let prefixed: Vec<(String, &str)> =
        options.iter().map(|(name, value)| (format!("auto-partition.{name}"), *value)).collect();
    let mut all = vec![("auto-partition.enabled", "true")];
    all.extend(prefixed.iter().map(|(name, value)| (name.as_str(), *value)));
    try_table(columns, by, &all)
}

fn refused(columns: &[(&str, &str)], by: &[&str], options: &[(&str, &str)]) -> String {
    auto(columns, by, options).unwrap_err().to_string()
}

#[test]
fn each_unit_has_its_names() {
    let now = at("2026-11-30T22:15:00Z");
    let made = |unit: &str| rules(&[("time-unit", unit), ("num-precreate", "3")]).to_precreate(now, 0);
    assert_eq!(made("hour"), ["2026113022", "2026113023", "2026120100"]);
    assert_eq!(made("day"), ["20261130", "20261201", "20261202"]);
    assert_eq!(made("month"), ["202611", "202612", "202701"]);
    assert_eq!(made("QUARTER"), ["20264", "20271", "20272"]);
    assert_eq!(made("year"), ["2026", "2027", "2028"]);
    assert_eq!(rules(&[]).to_precreate(now, 0), ["20261130", "20261201"]);
    assert!(rules(&[("num-precreate", "0")]).to_precreate(now, 0).is_empty());
}

#[test]
fn old_periods_expire_and_the_rest_stays() {
    let now = at("2026-03-01T00:30:00Z");
    let rules = rules(&[("num-retention", "2")]);
    let expired = |name: &str| rules.is_expired(name, 0, now);
    assert_eq!(
        ["20260226", "20260227", "20260228", "20260301", "20990101", "junk"].map(expired),
        [true, false, false, false, false, false]
    );
    let quarter = super::auto::rules(&[("time-unit", "quarter"), ("num-retention", "1")]);
    assert_eq!(["20253", "20254", "20261"].map(|n| quarter.is_expired(n, 0, now)), [true, false, false]);
    for all in ["0", "-1"] {
        assert!(!super::auto::rules(&[("num-retention", all)]).is_expired("19990101", 0, now));
    }
}

#[test]
fn values_are_judged_by_format_and_age() {
    let rules = rules(&[("num-retention", "1"), ("time-format", "yyyy-MM-dd")]);
    let now = Some(at("2026-03-01T12:00:00Z"));
    assert!(rules.judge("2026-02-28", now).is_ok());
    assert!(rules.judge("2026-03-09", now).is_ok());
    let Err(Untimely::Expired { expected }) = rules.judge("2026-02-27", now) else { panic!() };
    assert!(expected.starts_with("2026-02-28 or later"), "{expected}");
    assert!(rules.judge("2026-02-27", None).is_ok());
    for bad in ["20260301", "2026-3-01", "2026-02-30", "", "2026-03-01x", "２０２６-03-01"] {
        assert!(matches!(rules.judge(bad, now), Err(Untimely::Malformed { .. })), "{bad}");
    }
    let accepting = super::auto::rules(&[("num-retention", "1"), ("late-rows", "accept")]);
    assert!(accepting.judge("19990101", now).is_ok());
}

#[test]
fn a_late_partition_that_is_accepted_lives_as_long_as_one_of_its_making() {
    let rules = rules(&[("num-retention", "2"), ("late-rows", "accept")]);
    let made = at("2026-03-10T08:00:00Z");
    assert!(!rules.is_expired("20250101", made, at("2026-03-12T23:59:59Z")));
    assert!(rules.is_expired("20250101", made, at("2026-03-13T00:00:00Z")));
    // One that was made in time is not kept longer.
    assert!(rules.is_expired("20260305", at("2026-03-04T00:00:00Z"), at("2026-03-08T00:00:00Z")));
}

#[test]
fn days_begin_by_the_clock_of_the_zone() {
    let names = |zone: &str, now: &str| rules(&[("time-zone", zone)]).to_precreate(at(now), 0);
    assert_eq!(names("Asia/Shanghai", "2026-01-01T15:59:59Z")[0], "20260101");
    assert_eq!(names("Asia/Shanghai", "2026-01-01T16:00:00Z")[0], "20260102");
    assert_eq!(names("+05:30", "2026-01-01T18:30:00Z")[0], "20260102");
    assert_eq!(names("-11:00", "2026-01-01T10:59:59Z")[0], "20251231");
    // 30 December 2011 did not happen in Samoa: the day before the leap is followed by the one after it.
    assert_eq!(names("Pacific/Apia", "2011-12-30T09:59:59Z")[0], "20111229");
    assert_eq!(names("Pacific/Apia", "2011-12-30T10:00:00Z")[0], "20111231");
}

#[test]
fn hours_follow_clocks_that_are_set() {
    let rules = rules(&[
        ("time-unit", "hour"),
        ("time-zone", "Europe/Berlin"),
        ("num-precreate", "3"),
        ("num-retention", "1"),
    ]);
    // Forward: there is no hour 2 on that night.
    let spring = at("2026-03-29T00:30:00Z");
    assert_eq!(rules.to_precreate(spring, 0), ["2026032901", "2026032903", "2026032904"]);
    assert!(!rules.is_expired("2026032901", 0, spring + 3_600_000));
    assert!(rules.is_expired("2026032901", 0, spring + 2 * 3_600_000));
    // Back: two hours are called 2, and are one partition.
    let autumn = at("2026-10-25T00:30:00Z");
    assert_eq!(rules.to_precreate(autumn, 0), ["2026102502", "2026102503", "2026102504"]);
    assert_eq!(rules.to_precreate(autumn + 3_600_000, 0)[0], "2026102502");
    assert!(!rules.is_expired("2026102502", 0, autumn + 2 * 3_600_000));
    assert!(rules.is_expired("2026102502", 0, autumn + 3 * 3_600_000));
    // Half an hour back in the middle of one.
    let lord_howe = super::auto::rules(&[("time-unit", "hour"), ("time-zone", "Australia/Lord_Howe")]);
    assert_eq!(lord_howe.to_precreate(at("2026-04-04T14:45:00Z"), 0), ["2026040501", "2026040502"]);
}

#[test]
fn days_to_come_are_made_later_by_the_jitter_and_today_never_is() {
    let rules = rules(&[("num-precreate", "3")]);
    let hours = 3_600_000;
    let made = |now: &str| rules.to_precreate(at(now), 5 * hours);
    assert_eq!(made("2026-05-05T04:59:59Z"), ["20260505", "20260506"]);
    assert_eq!(made("2026-05-05T05:00:00Z"), ["20260505", "20260506", "20260507"]);
    let one = super::auto::rules(&[("num-precreate", "1")]);
    assert_eq!(one.to_precreate(at("2026-05-05T00:00:00Z"), 23 * hours), ["20260505"]);
    let months = super::auto::rules(&[("time-unit", "month")]);
    assert_eq!(months.to_precreate(at("2026-05-01T00:00:00Z"), 5 * hours), ["202605", "202606"]);
    let jitters: std::collections::BTreeSet<_> =
        (0..200).map(|id| AutoPartition::jitter(TableId(id)) / hours).collect();
    assert_eq!(jitters.len(), 24, "tables spread over the day");
    assert_eq!(AutoPartition::jitter(TableId(7)), AutoPartition::jitter(TableId(7)));
}

#[test]
fn keys_of_other_types_follow_the_format() {
    let number = auto(&[("d", "int")], &["d"], &[]).unwrap();
    number.check_partition("20260131", Some(at("2026-02-01T00:00:00Z"))).unwrap();
    assert!(number.check_partition("7", None).unwrap_err().to_string().contains("format yyyyMMdd"));
    let date = auto(&[("d", "date")], &["d"], &[]).unwrap();
    let rules = AutoPartition::of(&date).unwrap().unwrap();
    assert_eq!(rules.to_precreate(at("2026-01-31T00:00:00Z"), 0), ["2026-01-31", "2026-02-01"]);
    auto(&[("d", "smallint")], &["d"], &[("time-unit", "year")]).unwrap();
    auto(&[("d", "bigint")], &["d"], &[("time-unit", "hour")]).unwrap();
    assert!(refused(&[("d", "smallint")], &["d"], &[]).contains("whole number"));
    assert!(refused(&[("d", "int")], &["d"], &[("time-format", "yyyy-MM-dd")]).contains("whole number"));
    assert!(refused(&[("d", "date")], &["d"], &[("time-unit", "month")]).contains("are days"));
    assert!(refused(&[("d", "date")], &["d"], &[("time-format", "yyyyMMdd")]).contains("always yyyy-MM-dd"));
    assert!(refused(&[("d", "boolean")], &["d"], &[]).contains("must be string"));
    assert!(refused(&[("d", "timestamp(3)")], &["d"], &[]).contains("must be string"));
}

#[test]
fn formats_have_the_fields_of_their_unit_and_fixed_width() {
    let named = |unit: &str, format: &str| {
        rules(&[("time-unit", unit), ("time-format", format)])
            .to_precreate(at("2026-08-05T07:00:00Z"), 0)
            .remove(0)
    };
    assert_eq!(named("day", "yyyy-MM-dd"), "2026-08-05");
    assert_eq!(named("hour", "yyyyMMdd_HH"), "20260805_07");
    assert_eq!(named("quarter", "yyyy'Q'Q"), "2026Q3");
    assert_eq!(named("month", "'m'yyyy-MM"), "m2026-08");
    for (unit, format) in [
        ("day", "MM-yyyy"),
        ("day", "yyyy-MM"),
        ("day", "yyyy-M-dd"),
        ("day", "yyyyMMddHH"),
        ("month", "yyyyQ"),
        ("year", "yy"),
        ("year", ""),
        ("day", "ddMMyyyy"),
        ("day", "yyyy/MM/dd"),
        ("day", "yyyy.MM.dd"),
        ("day", "yyyyMMdd'"),
        ("day", "yyyyMMdd' '"),
        ("day", "yyyyMMdd$"),
        ("hour", "yyyyMMddhh"),
    ] {
        let message = refused(&[("d", "string")], &["d"], &[("time-unit", unit), ("time-format", format)]);
        assert!(message.contains("time-format"), "{unit} {format}: {message}");
    }
}

#[test]
fn options_are_checked_together() {
    let two = [("d", "string"), ("region", "string")];
    let by = ["d", "region"];
    assert!(refused(&two, &by, &[]).contains("must name one of the partition columns"));
    assert!(refused(&two, &by, &[("key", "n")]).contains("must name one of"));
    assert!(refused(&two, &by, &[("key", "d"), ("num-precreate", "1")]).contains("must be 0"));
    assert!(refused(&two, &[], &[]).contains("not partitioned"));
    assert!(refused(&two, &["d"], &[("key", "region")]).contains("must name one of"));
    assert!(refused(&two, &["d"], &[("time-zone", "Mars/Base")]).contains("time zone"));
    for zone in ["+8", "+25:00", "-08:60", "+08:0x", "＋08:00", "+"] {
        assert!(refused(&two, &["d"], &[("time-zone", zone)]).contains("time zone"), "{zone}");
    }
    let table = auto(&two, &by, &[("key", "region"), ("time-unit", "month")]).unwrap();
    let rules = AutoPartition::of(&table).unwrap().unwrap();
    assert!(rules.to_precreate(0, 0).is_empty());
    assert!(rules.is_expired("x$202501", 0, at("2026-01-01T00:00:00Z")));
    assert!(!rules.is_expired("202501$202601", 0, at("2026-01-01T00:00:00Z")));
    // Tables without it are left alone, whatever their partitions are.
    let off = try_table(&[("b", "boolean")], &["b"], &[("auto-partition.enabled", "false")]).unwrap();
    assert_eq!(AutoPartition::of(&off).unwrap(), None);
}

#[test]
fn alter_checks_them_together_too_and_a_new_name_of_the_column_is_followed() {
    let alter = |table: &Table, option: &str, value: &str| {
        table.altered(&[], &[(option.to_owned(), Some(value.to_owned()))].into())
    };
    let plain = try_table(&[("b", "boolean"), ("n", "int")], &["b"], &[]).unwrap();
    assert!(alter(&plain, AUTO_PARTITION, "true").unwrap_err().to_string().contains("must be string"));
    let two = auto(&[("d", "string"), ("r", "string")], &["d", "r"], &[("key", "d")]).unwrap();
    assert!(alter(&two, "table.auto-partition.num-precreate", "2").is_err());
    let renamed =
        two.altered(&[SchemaChange::RenameColumn { from: "d".into(), to: "day".into() }], &[].into());
    let renamed = renamed.unwrap();
    assert_eq!(renamed.options.get(AUTO_PARTITION_KEY), Some("day"));
    assert!(AutoPartition::of(&renamed).unwrap().is_some());
}

#[test]
fn what_would_rename_partitions_is_refused() {
    let widen = |from: &str, to: &str| {
        let change = SchemaChange::WidenColumn { name: "p".into(), data_type: to.parse().unwrap() };
        table(&[("p", from)], &["p"], &[]).evolved(&[change])
    };
    assert!(matches!(widen("float", "double"), Err(InvalidTable::WidensPartition { .. })));
    for (from, to) in
        [("int", "bigint"), ("char(3)", "string"), ("binary(2)", "bytes"), ("timestamp(3)", "timestamp(6)")]
    {
        assert!(widen(from, to).is_ok(), "{from} to {to}");
    }
}

proptest! {
    /// Whatever the time, the zone and the unit: the present period is made first and never expired, names are read
    /// back, and what is dropped is older than what is kept.
    #[test]
    fn the_present_is_kept(now in -60_000_000_000_000i64..200_000_000_000_000, zone in 0usize..6, unit in 0usize..5, n in 1u32..6, kept in 1u32..5, jitter in 0i64..86_400_000) {
        let zone = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "+05:45"][zone];
        let unit = ["hour", "day", "month", "quarter", "year"][unit];
        let (n, kept) = (n.to_string(), kept.to_string());
        let rules = rules(&[("time-unit", unit), ("time-zone", zone), ("num-precreate", &n), ("num-retention", &kept)]);
        let names = rules.to_precreate(now, jitter);
        prop_assert!(!names.is_empty() && names.len() <= n.parse().unwrap());
        for name in &names {
            prop_assert!(!rules.is_expired(name, 0, now), "{name}");
            prop_assert!(rules.judge(name, Some(now)).is_ok());
        }
        let present = rules.judge(&names[0], Some(now)).unwrap();
        for past in rules.to_precreate(now - 40 * 86_400_000, jitter) {
            let age = present.0 - rules.judge(&past, None).unwrap().0;
            // Where clocks are set, an hour may count as none or as two.
            prop_assert!(!rules.is_expired(&past, 0, now) || age >= kept.parse::<i64>().unwrap(), "{past}");
        }
    }
}
