use super::*;

fn options(given: &[(&str, &str)]) -> Result<TableOptions, InvalidOption> {
    TableOptions::new(given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
}

#[test]
fn values_are_checked_and_typed() {
    let o =
        options(&[(LOG_TTL, "12 h"), (COMPRESSION, "ZSTD"), (ZSTD_LEVEL, "9"), ("owner", "Team A")]).unwrap();
    assert_eq!(o.log_ttl(), Some(Duration::from_secs(12 * 3600)));
    assert_eq!(o.compression(), LogCompression::Zstd { level: 9 });
    assert_eq!(o.get("owner"), Some("Team A"));
    assert_eq!(options(&[(LOG_TTL, "0ms")]).unwrap().log_ttl(), None);
    assert_eq!(options(&[]).unwrap().compression(), LogCompression::Zstd { level: 1 });
}

#[test]
fn unknown_names_get_a_suggestion() {
    let error = options(&[("table.log.tll", "7d")]).unwrap_err();
    assert_eq!(error.to_string(), "option \"table.log.tll\" is not known; did you mean \"table.log.ttl\"?");
    for slip in ["tabel.log.ttl", "Table.log.ttl", "log.ttl"] {
        let error = options(&[(slip, "7d")]).unwrap_err().to_string();
        assert!(error.ends_with("did you mean \"table.log.ttl\"?"), "{error}");
    }
    for own in ["owner", "team.log.ttl", "log.level", "ttl"] {
        assert!(options(&[(own, "7d")]).is_ok(), "{own}");
    }
}

#[test]
fn bad_values_say_what_would_be_right() {
    let error = options(&[(LOG_TTL, "a week")]).unwrap_err();
    assert!(error.to_string().contains("7d"), "{error}");
    assert!(options(&[(ZSTD_LEVEL, "23")]).is_err());
    assert!(options(&[("table.datalake.enabled", "yes")]).is_err());
    assert!(options(&[(LOG_TTL, "99999999999999999999d")]).is_err());
    assert!(options(&[(LOG_TTL, "18446744073709551615d")]).is_err());
}

#[test]
fn only_some_options_can_be_altered() {
    let o = options(&[(COMPRESSION, "none")]).unwrap();
    let change =
        |name: &str, value: Option<&str>| o.altered([(name.to_owned(), value.map(str::to_owned))].into());
    assert!(matches!(change(COMPRESSION, Some("zstd")), Err(InvalidOption::NotAlterable { .. })));
    assert_eq!(change(LOG_TTL, Some("1d")).unwrap().get(LOG_TTL), Some("1d"));
    assert_eq!(change("note", Some("x")).unwrap().get("note"), Some("x"));
}
