use proptest::prelude::*;

use super::*;

fn read(text: &str) -> DataType {
    text.parse().unwrap()
}

#[test]
fn spellings_are_read_in_any_case_and_spacing() {
    assert_eq!(read("BIGINT"), DataType::BigInt);
    assert_eq!(read(" decimal ( 10 , 2 ) "), DataType::Decimal { precision: 10, scale: 2 });
    assert_eq!(read("timestamp"), DataType::Timestamp(6));
    let nested = read("row<a int not null, `b c` array<map<string, double not null>>>");
    assert_eq!(nested.to_string(), "row<a int not null, `b c` array<map<string,double not null>>>");
}

#[test]
fn bad_spellings_say_where_and_why() {
    let error = "decimal(39,2)".parse::<DataType>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "type \"decimal(39,2)\" cannot be read at character 11: a number from 1 to 38 is expected here"
    );
    for bad in ["", "in", "int int", "array<int", "map<int>", "row<>", "row<a int, a int>", "int not null"] {
        assert!(bad.parse::<DataType>().is_err(), "{bad} was taken");
    }
    let error = "varchar(3)".parse::<DataType>().unwrap_err().to_string();
    assert!(error.ends_with("at character 8: a varchar has no length here; write string"), "{error}");
    let deep = "array<".repeat(100_000);
    assert!(deep.parse::<DataType>().is_err());
}

#[test]
fn column_lists_are_read() {
    let columns = parse_columns("id bigint not null, \"the name\" string").unwrap();
    assert_eq!(columns[0].0, "id");
    assert!(!columns[0].1.nullable);
    assert_eq!(columns[1].0, "the name");
}

/// Any type that can be part of a key, but `char`, which Arrow does not tell from `string`.
pub(crate) fn any_leaf() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::TinyInt),
        Just(DataType::SmallInt),
        Just(DataType::Int),
        Just(DataType::BigInt),
        Just(DataType::Float),
        Just(DataType::Double),
        (1u8..=38)
            .prop_flat_map(|p| (Just(p), 0..=p))
            .prop_map(|(p, s)| DataType::Decimal { precision: p, scale: s }),
        Just(DataType::String),
        Just(DataType::Bytes),
        (1u32..100).prop_map(DataType::Binary),
        Just(DataType::Date),
        prop_oneof![Just(0u8), Just(3), Just(6), Just(9)].prop_map(DataType::Time),
        prop_oneof![Just(0u8), Just(3), Just(6), Just(9)].prop_map(DataType::Timestamp),
        prop_oneof![Just(0u8), Just(3), Just(6), Just(9)].prop_map(DataType::TimestampLtz),
    ]
}

/// Any type but `char`.
pub(crate) fn any_type() -> impl Strategy<Value = DataType> {
    any_leaf().prop_recursive(4, 16, 4, |inner| {
        let nested =
            (inner.clone(), any::<bool>()).prop_map(|(data_type, nullable)| Nested { data_type, nullable });
        prop_oneof![
            nested.clone().prop_map(|n| DataType::Array(Box::new(n))),
            (inner, nested.clone()).prop_map(|(k, v)| DataType::Map(Box::new(k), Box::new(v))),
            proptest::collection::vec(("[a-z `]{1,8}", nested), 1..4).prop_map(|mut fields| {
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                fields.dedup_by(|a, b| a.0 == b.0);
                DataType::Row(fields)
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(data_type in any_type()) {
        prop_assert_eq!(&read(&data_type.to_string()), &data_type);
    }

    #[test]
    fn arrow_keeps_the_type(data_type in any_type()) {
        prop_assert_eq!(DataType::from_arrow(&data_type.to_arrow()), Some(data_type));
    }

    #[test]
    fn reading_never_panics(text in "\\PC{0,40}") {
        let _ = text.parse::<DataType>();
    }
}

#[test]
fn a_column_list_may_say_the_primary_key() {
    let names = |text: &str| {
        let (columns, key) = parse_table(text).unwrap();
        (columns.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "), key.join(" "))
    };
    let of = |columns: &str, key: &str| (columns.to_owned(), key.to_owned());
    assert_eq!(names("a int, b row<x int, primary int>, PRIMARY KEY(a , `b`)"), of("a b", "a b"));
    assert_eq!(names("primary int, key string"), of("primary key", ""));
    for bad in
        ["a int, primary key ()", "a int, primary key (a", "a int, primary key (a), b int", "primary key (a)"]
    {
        assert!(parse_table(bad).is_err(), "{bad} was taken");
    }
    assert!(parse_columns("a int, primary key (a)").is_err());
}
