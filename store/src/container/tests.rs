use proptest::prelude::*;
use wadi_model::{LogSeq, Offset, ShardId, Token};

use super::*;
use crate::keys::ids::{IdRange, IdRanges};
use crate::keys::index::{IndexEntry, IndexedChunk};

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

/// What version 1 had no words for: frames, of any length.
fn object_with_frames() -> SealedObject {
    let message = object();
    let mut chunks: Vec<_> = message.footer.chunks.into_iter().zip(message.chunks).collect();
    let frame = |bucket, base_offset, rows, frame: Frame| Chunk {
        bucket,
        base_offset,
        rows,
        metadata_len: 0,
        raw_len: 99,
        frame: frame as i32,
        runs: vec![Run { rows, time: 1_357_034_400_000 }],
        ..chunks[0].0.clone()
    };
    let (zstd, lz4) = (frame(2, 5, 7, Frame::Zstd), frame(2, 12, 1, Frame::Lz4));
    let odd = Chunk {
        runs: vec![Run { rows: 1, time: 1 }, Run { rows: 1, time: 2 }],
        ..frame(3, 0, 2, Frame::Zstd)
    };
    for (n, chunk) in [zstd, lz4, odd].into_iter().enumerate() {
        chunks.push((chunk, vec![4 + n as u8; 11 + n].into()));
    }
    seal(header(), chunks)
}

fn footer_of(object: &Bytes) -> Result<Footer, Damaged> {
    let trailer = Trailer::read(object)?;
    let end = object.len() - TRAILER_LEN;
    let start = end.checked_sub(trailer.footer_len as usize).ok_or(Damaged(String::new()))?;
    trailer.footer(&object.slice(start..end))
}

fn whole(object: &SealedObject) -> Bytes {
    object.pieces.concat().into()
}

#[test]
fn an_object_reads_back_as_it_was_sealed() {
    for sealed in [object(), object_with_frames()] {
        let bytes = whole(&sealed);
        assert_eq!(bytes.len(), sealed.len());
        assert_eq!(Header::read(&bytes).unwrap(), header());
        let footer = footer_of(&bytes).unwrap();
        assert_eq!(footer, sealed.footer);
        for (chunk, body) in footer.chunks.iter().zip(&sealed.chunks) {
            assert_eq!(bytes.slice(chunk.range().start as usize..chunk.range().end as usize), body);
            assert_eq!(chunk.start % 8, 0);
        }
    }
    let marks = object_with_frames().footer.high_watermarks;
    assert_eq!(
        marks.iter().map(|h| (h.bucket, h.offset)).collect::<Vec<_>>(),
        [(0, 15), (1, 1), (2, 13), (3, 2)]
    );
}

/// The format is a promise to objects already written.
#[test]
fn golden_object_never_changes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/container-v2.bin");
    if std::env::var_os("WADI_WRITE_GOLDEN").is_some() {
        std::fs::write(path, whole(&object_with_frames())).unwrap();
    }
    assert_eq!(whole(&object_with_frames()), std::fs::read(path).unwrap());
}

#[test]
fn objects_of_version_1_are_read() {
    let golden = Bytes::from_static(include_bytes!("../../testdata/container-v1.bin"));
    assert_eq!(Header::read(&golden).unwrap(), header());
    let expected = Footer { time: 0, ..object().footer };
    assert_eq!(footer_of(&golden).unwrap(), expected);
}

#[test]
fn versions_to_come_are_refused() {
    let mut bytes = whole(&object()).to_vec();
    let trailer = bytes.len() - 8;
    bytes[4] = 3;
    bytes[trailer] = 3;
    for told in [Header::read(&bytes).unwrap_err(), Trailer::read(&bytes).unwrap_err()] {
        let told = told.to_string();
        for part in ["format 3, which is not known here", "knows up to 2: upgrade", crate::versions::WADI] {
            assert!(told.contains(part), "{part} is missing in {told}");
        }
    }
}

#[test]
fn frames_that_cannot_be_are_refused() {
    let footer = object_with_frames().footer;
    let broken: [fn(&mut Chunk); 4] = [
        |c| c.raw_len = 64 * 1024 + 1,
        |c| c.frame = 3,
        |c| c.metadata_len = 8,
        |c| c.columns = vec![ColumnSegment::default()],
    ];
    assert!(Footer::decode(&footer.to_bytes()).is_ok());
    for change in broken {
        let mut footer = footer.clone();
        change(&mut footer.chunks[3]);
        assert!(Footer::decode(&footer.to_bytes()).is_err(), "{:?}", footer.chunks[3]);
    }
}

/// What an object says about a chunk of its own bucket costs about 30 bytes, not a hundred.
#[test]
fn a_small_chunk_has_a_small_entry() {
    let chunks = (0..1000).map(|n| {
        let chunk = Chunk {
            table: 1000 + n,
            kind: ChunkKind::Log as i32,
            schema_id: 1,
            base_offset: 100_000,
            rows: 100,
            raw_len: 13_000,
            frame: Frame::Zstd as i32,
            crc: 77,
            runs: vec![Run { rows: 100, time: header().time }],
            ..Chunk::default()
        };
        (chunk, Bytes::from(vec![0; 3000]))
    });
    let object = seal(header(), chunks.collect());
    assert!(object.footer_bytes.len() < 32 * 1000, "{} bytes", object.footer_bytes.len());
}

proptest! {
    #[test]
    fn any_changed_bit_of_header_footer_and_trailer_is_noticed(byte in 0usize..400, bit in 0u8..8) {
        let bytes = whole(&object());
        let body = HEADER_LEN..HEADER_LEN + 48;
        prop_assume!(byte < bytes.len() && !body.contains(&byte));
        let mut changed = bytes.to_vec();
        changed[byte] ^= 1 << bit;
        let read = |bytes: &Bytes| Ok::<_, Damaged>((Header::read(bytes)?, footer_of(bytes)?));
        let unused = [68..72, bytes.len() - 6..bytes.len() - 4];
        let padding = unused.iter().any(|r| r.contains(&byte));
        prop_assert_eq!(read(&changed.into()).is_err(), !padding);
    }

    #[test]
    fn any_footer_reads_back_from_its_stored_form(
        parts in proptest::collection::vec((1..40_u32, 0..3_u32, 0..4_u32, any::<i64>(), 0..3_u64), 0..12),
        time in any::<i64>(),
    ) {
        let mut at = HEADER_LEN as u32;
        let chunks = parts.into_iter().map(|(len, gap, rows, run, table)| {
            let start = at.next_multiple_of(8) + gap * 8;
            at = start + len;
            let runs = match rows {
                0 => vec![],
                1 => vec![Run { rows, time }],
                _ => vec![Run { rows: 1, time }, Run { rows: rows - 1, time: run }],
            };
            Chunk { table, start, len, rows, runs, ..Chunk::default() }
        });
        let chunks: Vec<Chunk> = chunks.collect();
        let high_watermarks = footer::high_watermarks(&chunks);
        let footer = Footer { chunks, high_watermarks, time };
        prop_assert_eq!(Footer::decode(&footer.to_bytes()).unwrap(), footer);
    }

    #[test]
    fn hostile_footers_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Footer::decode(&bytes);
        let _ = Trailer::read(&bytes);
        let _ = Header::read(&bytes);
    }
}

#[test]
fn commands_are_chunks_without_rows() {
    let ranges = vec![IdRange { next: 7, end: 300 }, IdRange { next: 900, end: 1000 }];
    let command = Command { ids: Some(IdRanges { ranges }), ..Command::default() };
    let message = object();
    let rows = message.footer.chunks.iter().cloned().zip(message.chunks);
    let chunks: Vec<_> = std::iter::once(command.chunk(&message.footer.chunks[0])).chain(rows).collect();
    let sealed = seal(header(), chunks);
    let bytes = whole(&sealed);
    let footer = footer_of(&bytes).unwrap();
    assert_eq!(footer.high_watermarks, message.footer.high_watermarks, "it moves no offset");
    let chunk = &footer.chunks[0];
    assert_eq!(
        (chunk.kind(), chunk.rows, chunk.first(), chunk.runs.len()),
        (ChunkKind::Command, 0, Offset(10), 0)
    );
    let stored = bytes.slice(chunk.range().start as usize..chunk.range().end as usize);
    assert_eq!(*stored, [10, 15, 10, 5, 8, 7, 16, 172, 2, 10, 6, 8, 132, 7, 16, 232, 7]);
    assert_eq!(Command::read(&stored).unwrap(), command);
}

#[test]
fn commands_of_later_versions_and_damaged_ones_are_not_passed_over() {
    // Field 15, which is not known.
    assert!(Command::read(&[122, 1, 0]).is_err());
    assert!(Command::read(&[]).is_err());
    assert!(Command::read(&[10, 200, 1]).is_err());
}

/// The commands of the shard as they are stored: a later reader must read them for as long as they lie in logs.
#[test]
fn golden_commands_never_change() {
    let entry = IndexEntry {
        chunks: vec![IndexedChunk {
            position: 1,
            base_offset: 10,
            rows: 5,
            time: 7,
            pack_high: 1,
            pack_low: 2,
            seq: 0,
            // Not noted, as in commands of the first versions.
            bytes: 0,
        }],
    };
    let bucket = BucketRewrite {
        removed: vec![11, 14],
        entries: vec![entry],
        log_start: Some(9),
        gone: true,
        ..BucketRewrite::of(&wadi_model::Bucket::of(wadi_model::TableId(5), 3))
    };
    let rewrite = Rewrite {
        round: Some(LogRound { to: 20, objects: 3, bytes: 4_000, time: 1_357_034_400_000 }),
        packs: vec![NewPack { name: "p".into(), bytes: 99, live: 1, footer: Bytes::from_static(b"f") }],
        released: vec![Released { pack_high: 3, pack_low: 4, entries: 2 }],
        buckets: vec![bucket],
    };
    let deleted = Deleted { log: vec![1, 300], packs: vec!["q".into()] };
    let command = Command { rewrite: Some(rewrite), deleted: Some(deleted), ..Command::default() };
    let (chunk, bytes) = command.chunk_of_shard();
    assert!(chunk.is_of_shard() && chunk.rows == 0);
    let golden = concat!(
        "125e0a0e0814100318a01f2080d2b6acbf27120a0a0170106318012201661a140903000000000000001104000000000000001802",
        "222a0805180322020b0e2a1c0a1a1001180a20052807310100000000000000390200000000000000300938011a080a0301ac02120171"
    );
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, golden);
    assert_eq!(Command::read(&bytes).unwrap(), command);

    // With the bytes of chunks.
    let sized = IndexedChunk { seq: 3, rows: 5, bytes: 300, ..IndexedChunk::default() };
    let hex: String =
        prost::Message::encode_to_vec(&sized).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "0803200540ac02");
}
