use proptest::prelude::*;
use wadi_model::{LogSeq, ShardId, Token};

use super::*;

fn header() -> Header {
    let (seq, put_id) = (LogSeq(7), 0x0123_4567_89ab_cdef_0011_2233_4455_6677);
    Header {
        kind: Kind::Data,
        shard: ShardId(3),
        seq,
        last: seq,
        token: Token(9),
        put_id,
        time: 1_357_034_400_000,
    }
}

fn object() -> SealedObject {
    let chunk = |bucket, base_offset, rows| Chunk {
        table: 5,
        bucket,
        kind: ChunkKind::Log as i32,
        schema_id: 1,
        base_offset,
        rows,
        metadata_len: 8,
        runs: vec![Run { rows, time: 1_357_034_400_000 }],
        ..Chunk::default()
    };
    let bytes = |byte, len| Bytes::from(vec![byte; len]);
    seal(
        header(),
        vec![(chunk(0, 10, 2), bytes(1, 16)), (chunk(0, 12, 3), bytes(3, 24)), (chunk(1, 0, 1), bytes(2, 8))],
    )
}

fn whole(object: &SealedObject) -> Bytes {
    object.pieces.concat().into()
}

#[test]
fn an_object_reads_back_as_it_was_sealed() {
    let sealed = object();
    let bytes = whole(&sealed);
    assert_eq!(bytes.len(), sealed.len());
    assert_eq!(Header::read(&bytes).unwrap(), header());
    let trailer = Trailer::read(&bytes).unwrap();
    let end = bytes.len() - TRAILER_LEN;
    let footer = trailer.footer(&bytes.slice(end - trailer.footer_len as usize..end)).unwrap();
    assert_eq!(footer, sealed.footer);
    let chunk = &footer.chunks[1];
    assert_eq!(&bytes[chunk.range().start as usize..chunk.range().end as usize], &[3; 24]);
    assert_eq!(
        footer.high_watermarks.iter().map(|h| (h.bucket, h.offset)).collect::<Vec<_>>(),
        [(0, 15), (1, 1)]
    );
}

/// The format is a promise to objects already written.
#[test]
fn golden_object_never_changes() {
    let golden = include_bytes!("../../testdata/container-v1.bin");
    if std::env::var_os("WADI_WRITE_GOLDEN").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/container-v1.bin"), whole(&object()))
            .unwrap();
    }
    assert_eq!(whole(&object()), golden.as_slice());
}

proptest! {
    #[test]
    fn any_changed_bit_of_header_footer_and_trailer_is_noticed(byte in 0usize..400, bit in 0u8..8) {
        let bytes = whole(&object());
        let body = HEADER_LEN..HEADER_LEN + 48;
        prop_assume!(byte < bytes.len() && !body.contains(&byte));
        let mut changed = bytes.to_vec();
        changed[byte] ^= 1 << bit;
        let read = |bytes: &Bytes| {
            let header = Header::read(bytes)?;
            let trailer = Trailer::read(bytes)?;
            let end = bytes.len() - TRAILER_LEN;
            let start = end.checked_sub(trailer.footer_len as usize).ok_or(Damaged(String::new()))?;
            Ok::<_, Damaged>((header, trailer.footer(&bytes.slice(start..end))?))
        };
        let unused = [68..72, bytes.len() - 6..bytes.len() - 4];
        let padding = unused.iter().any(|r| r.contains(&byte));
        prop_assert_eq!(read(&changed.into()).is_err(), !padding);
    }

    #[test]
    fn hostile_footers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Footer::decode(&bytes);
        let _ = Trailer::read(&bytes);
        let _ = Header::read(&bytes);
    }
}
