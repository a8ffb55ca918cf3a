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
fn sizes_are_read_with_their_units() {
    let bytes = |text| options(&[(LOG_RETENTION_BYTES, text)]).map(|o| o.log_retention_bytes());
    for (text, read) in [
        ("1048576", 1 << 20),
        ("7 b", 7),
        ("3KB", 3 << 10),
        ("512mb", 512 << 20),
        ("2g", 2 << 30),
        ("1tb", 1 << 40),
    ] {
        assert_eq!(bytes(text), Ok(Some(read)), "{text}");
    }
    assert_eq!(bytes("0"), Ok(None), "no limit");
    assert_eq!(options(&[]).unwrap().log_retention_bytes(), None);
    for wrong in
        ["", "mb", "-1", "1.5gb", "10 bags", "18446744073709551616", "16777216tb", "99999999999999999999gb"]
    {
        let error = bytes(wrong).unwrap_err().to_string();
        assert!(error.contains("10gb"), "{error}");
    }
    assert_eq!(bytes("16777215tb"), Ok(Some(16_777_215 << 40)));
}

#[test]
fn only_some_options_can_be_altered() {
    let o = options(&[(COMPRESSION, "none")]).unwrap();
    let change =
        |name: &str, value: Option<&str>| o.altered([(name.to_owned(), value.map(str::to_owned))].into());
    assert!(matches!(change(COMPRESSION, Some("zstd")), Err(InvalidOption::NotAlterable { .. })));
    assert_eq!(change(LOG_TTL, Some("1d")).unwrap().get(LOG_TTL), Some("1d"));
    assert_eq!(change(LOG_RETENTION_BYTES, Some("1GB")).unwrap().log_retention_bytes(), Some(1 << 30));
    assert_eq!(change("note", Some("x")).unwrap().get("note"), Some("x"));
}

/// The rows of a table in docs/tables.md whose first cell begins like this, cell by cell.
fn documented(begin: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tables.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.filter(|row| row.starts_with(begin));
    rows.map(|row| row.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect()).collect()
}

#[test]
fn the_documentation_lists_every_option_as_it_is() {
    let values = |form: &Form| match form {
        Form::Bool => "true`, `false".to_owned(),
        Form::Integer(min, max) => format!("{min}` to `{max}"),
        Form::Duration => "a duration".to_owned(),
        Form::Size => "a size".to_owned(),
        Form::OneOf(values) => values.join("`, `"),
        Form::Text => "text".to_owned(),
    };
    let documented = documented("`table.");
    let told: BTreeMap<&str, (&str, &str)> =
        documented.iter().map(|row| (row[0].as_str(), (row[1].as_str(), row[2].as_str()))).collect();
    assert_eq!(told.len(), documented.len(), "an option stands there twice");
    for known in KNOWN {
        let (told_values, told_later) =
            told.get(known.name).unwrap_or_else(|| panic!("{} is missing", known.name));
        assert_eq!(*told_values, values(&known.form), "{}", known.name);
        assert_eq!(*told_later, if known.alterable { "yes" } else { "no" }, "{}", known.name);
    }
    assert_eq!(told.len(), KNOWN.len(), "an option stands there that does not exist");
    assert!(documented.iter().all(|row| row.len() == 4 && row[3].len() > 10));
}

#[test]
fn the_documentation_lists_every_aggregate_function_and_what_it_takes() {
    use crate::merge::AggFunction;
    for function in AggFunction::ALL {
        let rows = documented(&format!("`{}`", function.name()));
        let takes: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(takes, [function.types()], "{}", function.name());
    }
    for row in documented("`fields.<column>.") {
        let value = if row[1] == "a function" { "sum" } else { "|" };
        assert!(options(&[(&row[0].replace("<column>", "x"), value)]).is_ok(), "{} is not known", row[0]);
    }
}
