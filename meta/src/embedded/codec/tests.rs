use proptest::prelude::*;

use super::*;

#[test]
fn rows_have_the_stored_format() {
    let step = Step {
        change: Change::Put(KeyValue {
            key: "a/ä".into(),
            value: Bytes::from_static(b"v\0"),
            created: Revision(0x0100_0001),
            modified: Revision(0x0100_0002),
        }),
        session: Some(SessionId(3)),
    };
    let (key, row) = encode_step(&step);
    assert_eq!(&key[..], b"ka/\xc3\xa4");
    assert_eq!(&row.unwrap()[..], b"\x01\x01\0\0\x01\0\0\0\0\x02\0\0\x01\0\0\0\0\x03\0\0\0\0\0\0\0v\0");
    let record = Record::new(Revision(7), Duration::from_secs(10));
    assert_eq!(record.encode().unwrap(), br#"{"format":1,"revision":7,"ttl_ms":10000}"#);
}

#[test]
fn a_ttl_is_rounded_up() {
    assert_eq!(Record::new(Revision(0), Duration::from_micros(1_001)).ttl(), Duration::from_millis(2));
}

#[test]
fn damaged_and_newer_rows_are_errors() {
    assert!(decode_entry(b"ka", &Bytes::from_static(b"\x01short")).is_err());
    assert!(decode_entry(b"k\xff", &Bytes::from(vec![1; HEADER])).is_err());
    assert!(decode_entry(b"ka", &Bytes::from(vec![2; HEADER])).is_err());
    assert!(decode_entry(b"ka", &Bytes::from(vec![1; HEADER])).is_ok());
    assert!(Record::decode(b"{}").is_err());
    assert!(Record::decode(br#"{"format":2,"revision":7,"ttl_ms":1}"#).is_err());
}

proptest! {
    #[test]
    fn a_row_survives_the_round_trip(
        key in ".{1,20}",
        value in prop::collection::vec(any::<u8>(), 0..50),
        created: u64,
        modified: u64,
        session in prop::option::of(1u64..),
    ) {
        let kv = KeyValue { key, value: value.into(), created: Revision(created), modified: Revision(modified) };
        let session = session.map(SessionId);
        let (row_key, row) = encode_step(&Step { change: Change::Put(kv.clone()), session });
        let entry = decode_entry(&row_key, &row.unwrap()).unwrap();
        prop_assert_eq!(entry.kv, kv);
        prop_assert_eq!(entry.session, session);
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(key in prop::collection::vec(any::<u8>(), 0..9), row in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = Record::decode(&row);
        let _ = decode_entry(&key, &row.into());
    }
}
