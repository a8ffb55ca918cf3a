use std::time::Duration;

use object_store::memory::InMemory;
use object_store::{PutMode, PutOptions};
use tokio::time::Instant;
use wadi_model::Token;

use super::*;
use crate::container::{Chunk, Kind, Run, seal};

fn object(put_id: u128, chunks: usize) -> crate::container::SealedObject {
    let (seq, shard) = (LogSeq(1), ShardId(0));
    let header = Header { kind: Kind::Data, shard, seq, last: seq, token: Token(1), put_id, time: 5 };
    let chunk = |bucket| {
        let runs = vec![Run { rows: 1, time: 5 }];
        (Chunk { bucket: bucket as u32, rows: 1, runs, ..Chunk::default() }, Bytes::from(vec![7; 64]))
    };
    seal(header, (0..chunks).map(chunk).collect())
}

fn path() -> Path {
    object_path(&Path::default(), ShardId(0), LogSeq(1))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test]
async fn footers_of_any_size_are_read() {
    for chunks in [0, 1, 10_000] {
        let store = InMemory::new();
        let object = object(1, chunks);
        assert_eq!(
            create(&store, &path(), &object.header, &object.pieces, soon()).await,
            PutOutcome::Written
        );
        let beyond_tail = object.footer_bytes.len() as u64 > TAIL_BYTES;
        assert_eq!(beyond_tail, chunks == 10_000, "{} bytes of footer", object.footer_bytes.len());
        let read = read_object(&store, &path()).await.unwrap().unwrap();
        assert_eq!((read.header, read.footer), (object.header, object.footer));
    }
}

#[tokio::test]
async fn a_missing_object_is_no_error() {
    let store = InMemory::new();
    assert!(read_object(&store, &path()).await.unwrap().is_none());
    assert!(read_header(&store, &path()).await.unwrap().is_none());
}

#[tokio::test]
async fn our_own_object_counts_as_written_and_anothers_as_taken() {
    let store = InMemory::new();
    let (ours, theirs) = (object(1, 1), object(2, 1));
    assert_eq!(create(&store, &path(), &ours.header, &ours.pieces, soon()).await, PutOutcome::Written);
    // The reply of the first PUT was lost, and it is sent again.
    assert_eq!(create(&store, &path(), &ours.header, &ours.pieces, soon()).await, PutOutcome::Written);
    let outcome = create(&store, &path(), &theirs.header, &theirs.pieces, soon()).await;
    assert_eq!(outcome, PutOutcome::Taken(ours.header));
}

#[tokio::test]
async fn something_else_at_the_name_is_damage() {
    let store = InMemory::new();
    let create_only = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    store.put_opts(&path(), "no object of ours".into(), create_only).await.unwrap();
    assert!(matches!(read_object(&store, &path()).await, Err(ReadError::Damaged { .. })));
    let ours = object(1, 1);
    let outcome = create(&store, &path(), &ours.header, &ours.pieces, soon()).await;
    assert!(matches!(outcome, PutOutcome::Unknown(_)), "{outcome:?}");
}
