//! A shard on an in-memory store, driven directly: what holds in good times, and the known ways to break it.

use std::collections::BTreeSet;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use wadi_model::options::LogCompression;
use wadi_model::predicate::Predicate;
use wadi_model::{Bucket, Offset, ShardId};

use super::*;
use crate::container::Frame;
use setup::{World, ids};

mod engines;
mod faults;
mod ids;
mod keyed;
mod packs;
mod prefixes;
mod relief;
mod room;
mod routed;
mod setup;
mod swept;
mod ttl;

#[tokio::test]
async fn rows_are_readable_once_acked() {
    let world = World::new();
    let shard = world.open().await;
    let first = shard.append(world.part(0, 0..10)).await.unwrap();
    let second = shard.append(world.part(0, 10..15)).await.unwrap();
    assert_eq!((first.base_offset, second.base_offset), (Offset(0), Offset(10)));
    assert_eq!(world.read(&shard, 0, 0).await, (0..15).collect::<Vec<_>>());
    assert_eq!(world.read(&shard, 0, 12).await, [12, 13, 14]);
    assert_eq!(shard.bounds(&world.bucket(0)).high_watermark, Offset(15));
}

#[tokio::test]
async fn buckets_have_offsets_of_their_own() {
    let world = World::new();
    let shard = world.open().await;
    let appends = (0..4).map(|bucket| shard.append(world.part(bucket, 0..5)));
    for appended in futures::future::join_all(appends).await {
        assert_eq!(appended.unwrap().base_offset, Offset(0));
    }
    for bucket in 0..4 {
        assert_eq!(world.read(&shard, bucket, 0).await, [0, 1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn a_new_owner_has_every_acked_row() {
    let world = World::new();
    let shard = world.open().await;
    for i in 0..30 {
        shard.append(world.part(i % 3, 0..7)).await.unwrap();
    }
    // No release: the old owner just stops being heard of.
    let next = world.open().await;
    assert!(next.token() > shard.token());
    for bucket in 0..3 {
        assert_eq!(world.read(&next, bucket, 0).await.len(), 70);
    }
    let appended = next.append(world.part(0, 0..1)).await.unwrap();
    assert_eq!(appended.base_offset, Offset(70));
}

#[tokio::test]
async fn a_fenced_owner_acks_nothing() {
    let world = World::new();
    let old = world.open().await;
    old.append(world.part(0, 0..3)).await.unwrap();
    let new = world.open().await;
    let refused = old.append(world.part(0, 3..6)).await.unwrap_err();
    assert_eq!(refused, AppendError::OutcomeUnknown);
    assert!(matches!(old.ended().await, Ended::Poisoned(_)));
    assert_eq!(world.read(&new, 0, 0).await, [0, 1, 2]);
    assert!(matches!(world.try_read(&old, 0, 0).await, Err(LogReadError::NotOwned)));
}

#[tokio::test]
async fn a_released_shard_leaves_nothing_to_replay() {
    let world = World::new();
    let shard = world.open().await;
    shard.append(world.part(0, 0..100)).await.unwrap();
    shard.release().await;
    assert_eq!(shard.ended().await, Ended::Released);
    assert_eq!(shard.append(world.part(0, 0..1)).await.unwrap_err(), AppendError::NotOwned);
    let manifest = crate::database::read_manifest(&world.context, shard.claim().shard()).await.unwrap();
    assert_eq!(manifest.last_l0_seq, LogSeq(2), "the fence and one object are in the database");
    assert_eq!(world.read(&world.open().await, 0, 0).await.len(), 100);
}

#[tokio::test]
async fn a_retry_gets_its_first_offsets_also_from_the_next_owner() {
    let world = World::new();
    let shard = world.open().await;
    let first = shard.append(world.stamped(0, 0..5, "p", 1)).await.unwrap();
    let again = shard.append(world.stamped(0, 0..5, "p", 1)).await.unwrap();
    assert_eq!((again.base_offset, again.again), (first.base_offset, true));
    let next = world.open().await;
    let again = next.append(world.stamped(0, 0..5, "p", 1)).await.unwrap();
    assert_eq!((again.base_offset, again.again), (first.base_offset, true));
    let mut other = world.stamped(0, 0..6, "p", 1);
    other.stamp.as_mut().unwrap().fingerprint = 99;
    assert!(matches!(next.append(other).await, Err(AppendError::KeyReused { .. })));
    assert_eq!(world.read(&next, 0, 0).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn the_same_request_twice_at_once_is_written_once() {
    let world = World::new();
    let shard = world.open().await;
    let tries = (0..8).map(|_| shard.append(world.stamped(0, 0..5, "p", 7)));
    let outcomes = futures::future::join_all(tries).await;
    let written = outcomes.iter().filter(|o| o.as_ref().is_ok_and(|a| !a.again)).count();
    assert_eq!(written, 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|o| matches!(o, Ok(_) | Err(AppendError::InFlight { .. }))), "{outcomes:?}");
    assert_eq!(world.read(&shard, 0, 0).await, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn large_and_small_parts_mix() {
    let world = World::new();
    let shard = world.open().await;
    let sizes = [1, 50_000, 3, 100_000, 2, 2, 40_000];
    let appends = sizes.iter().map(|n| shard.append(world.part(0, 0..*n)));
    let appended = futures::future::join_all(appends).await;
    let mut at = 0;
    for (size, appended) in sizes.iter().zip(appended) {
        assert_eq!(appended.unwrap().base_offset, Offset(at));
        at += *size as u64;
    }
    let expected: Vec<i64> = sizes.iter().flat_map(|n| 0..*n).collect();
    assert_eq!(world.read(&shard, 0, 0).await, expected);
    // And again by the next owner, from the object store.
    assert_eq!(world.read(&world.open().await, 0, 0).await, expected);
}

/// Bytes of the log after each of `buckets` got a part of 100 rows.
async fn log_bytes(buckets: u32, parts: u32) -> u64 {
    let world = World::new();
    let shard = world.open().await;
    let part = |n: u32| world.part(n % buckets, i64::from(n) * 100..i64::from(n + 1) * 100);
    for appended in futures::future::join_all((0..parts).map(|n| shard.append(part(n)))).await {
        appended.unwrap();
    }
    world.context.metrics.log_object_bytes.get()
}

/// A hundred rows for each of many buckets cost at most twice the bytes of the same rows for one.
#[tokio::test]
async fn many_small_chunks_cost_little_more_than_a_large_one() {
    let (many, one) = (log_bytes(200, 200).await, log_bytes(1, 200).await);
    assert!(many < 2 * one, "{many} against {one} bytes");
}

#[tokio::test]
async fn what_is_not_to_be_compressed_stays_a_message() {
    let world = World::with(|settings| settings.tail_bytes = 0);
    let shard = world.open().await;
    let compressions =
        [LogCompression::None, LogCompression::Lz4, LogCompression::Zstd { level: 3 }, LogCompression::None];
    for (bucket, compression) in compressions.into_iter().enumerate() {
        let part = Part { compression, ..world.part(bucket as u32, 0..100) };
        shard.append(part).await.unwrap();
        assert_eq!(world.read(&shard, bucket as u32, 0).await, (0..100).collect::<Vec<_>>());
        let path = crate::log::object_path(&world.context.root, ShardId(0), LogSeq(bucket as u64 + 2));
        let object = crate::log::read_object(world.context.objects.as_ref(), &path).await.unwrap().unwrap();
        let frame = object.footer.chunks[0].frame();
        let expected = match compression {
            LogCompression::None => Frame::None,
            LogCompression::Lz4 => Frame::Lz4,
            LogCompression::Zstd { .. } => Frame::Zstd,
        };
        assert_eq!(frame, expected);
    }
}

#[tokio::test]
async fn too_large_parts_are_refused_alone() {
    let world = World::new();
    let shard = world.open().await;
    let huge = world.part(0, 0..5_000_000);
    assert!(matches!(shard.append(huge).await, Err(AppendError::TooLarge { .. })));
    shard.append(world.part(0, 0..1)).await.unwrap();
}

#[tokio::test]
async fn more_than_the_budget_is_refused_and_later_taken() {
    let world = World::with(|settings| {
        settings.unflushed_bytes = 32 << 20;
        settings.linger = Duration::from_millis(1);
    });
    let shard = world.open().await;
    let appends = (0..8).map(|_| shard.append(world.part(0, 0..500_000)));
    let outcomes = futures::future::join_all(appends).await;
    assert!(outcomes.iter().any(|o| o.as_ref() == Err(&AppendError::Overloaded)), "{outcomes:?}");
    shard.append(world.part(0, 0..500_000)).await.unwrap();
    assert_eq!(world.context.memory.used(), 0);
}

#[tokio::test]
async fn filters_and_columns_give_the_same_rows_everywhere() {
    let world = World::new();
    let shard = world.open().await;
    for i in 0..10 {
        shard.append(world.part(0, i * 10_000..(i + 1) * 10_000)).await.unwrap();
    }
    let filter = Arc::new(
        Predicate::parse("id >= 41000 and id < 43000 or id = 7", world.table.schema().arrow()).unwrap(),
    );
    let mut expected = vec![7];
    expected.extend(41_000..43_000);
    let next = world.open().await;
    for shard in [&shard, &next] {
        if shard.has_ended() {
            continue;
        }
        let mut request = world.request(0, Offset(0));
        request.filter = Some(&filter);
        request.columns = vec![0];
        request.max_rows = 500;
        let mut seen = Vec::new();
        loop {
            let answer = match shard.read(&request).await {
                Ok(answer) => answer,
                Err(LogReadError::NotOwned) => break,
                Err(error) => panic!("{error}"),
            };
            let got = ids(&world, &answer, &request.columns);
            assert!(got.len() <= 500);
            seen.extend(got);
            if answer.next_offset >= answer.bounds.high_watermark {
                assert_eq!(seen, expected);
                break;
            }
            request.offset = answer.next_offset;
        }
    }
}

#[tokio::test]
async fn filters_on_system_columns_choose_rows_and_skip_chunks() {
    let world = World::with(|settings| settings.tail_bytes = 0);
    let shard = world.open().await;
    for i in 0..10 {
        world.set_time(1_000 * (i + 1));
        shard.append(world.part(0, i * 10_000..(i + 1) * 10_000)).await.unwrap();
    }
    let schema = wadi_model::system::beside(world.table.schema().arrow());
    let read = async |filter: &str, columns: Vec<usize>| {
        let filter = Arc::new(Predicate::parse(filter, &schema).unwrap());
        let mut request = world.request(0, Offset(0));
        (request.filter, request.columns) = (Some(&filter), columns);
        let answer = shard.read(&request).await.unwrap();
        assert_eq!(answer.next_offset, answer.bounds.high_watermark);
        ids(&world, &answer, &request.columns)
    };
    let all: Vec<i64> = (0..100_000).collect();
    for (filter, from, to) in [
        ("_offset >= 41000 and _offset < 43000", 41_000, 43_000),
        ("_offset between 9999 and 10000", 9_999, 10_001),
        ("_timestamp >= '1970-01-01T00:00:10Z'", 90_000, 100_000),
        ("_timestamp < '1970-01-01T00:00:01.001Z' and id > 5", 6, 10_000),
        ("_bucket = 0 and _change_type = '+I' and _partition = ''", 0, 100_000),
        ("_bucket = 1 or _change_type in ('-D', '-U')", 0, 0),
        ("_offset = id and _offset is not null and _offset < 3", 0, 3),
    ] {
        assert_eq!(read(filter, vec![0]).await, all[from..to], "{filter}");
        assert_eq!(read(filter, vec![0, 2]).await, all[from..to], "{filter}");
    }
    let gets = || world.context.metrics.segment_hits.get() + world.context.metrics.segment_misses.get();
    let cost = async |filter: &str| {
        let before = gets();
        read(filter, vec![0]).await;
        gets() - before
    };
    let one = cost("_offset = 41000").await;
    assert!(one > 0 && cost("_timestamp = '1970-01-01T00:00:05Z'").await == one);
    assert_eq!(cost("_bucket = 7 or _offset < 0").await, 0);
    let all = cost("_offset >= 0").await;
    assert!(all >= 8 * one, "{all} segments instead of {one}");
}

#[tokio::test]
async fn two_columns_of_a_chunk_are_read_alone() {
    let world = World::with(|settings| settings.tail_bytes = 0);
    let shard = world.open().await;
    shard.append(world.part(0, 0..200_000)).await.unwrap();
    let mut request = world.request(0, Offset(0));
    request.columns = vec![1];
    let before = world.context.metrics.log_get_bytes.get();
    shard.read(&request).await.unwrap();
    let one = world.context.metrics.log_get_bytes.get() - before;
    request.columns = vec![0, 1, 2];
    shard.read(&request).await.unwrap();
    let rest = world.context.metrics.log_get_bytes.get() - before - one;
    assert!(one > 0 && one < rest, "{one} against {rest} bytes");
    shard.read(&request).await.unwrap();
    let again = world.context.metrics.log_get_bytes.get() - before - one - rest;
    assert_eq!(again, 0, "all segments are in memory now");
}

#[tokio::test]
async fn system_columns_tell_where_rows_stand() {
    let world = World::new();
    let shard = world.open().await;
    shard.append(world.part(2, 0..4)).await.unwrap();
    let mut request = world.request(2, Offset(1));
    request.columns = vec![];
    request.system = ["_offset", "_bucket", "_change_type", "_timestamp"].map(str::to_owned).to_vec();
    let answer = shard.read(&request).await.unwrap();
    let [Piece::Batch(batch)] = answer.pieces.as_slice() else { panic!("{answer:?}") };
    assert_eq!(batch.column(0).as_primitive::<Int64Type>(), &Int64Array::from(vec![1, 2, 3]));
    assert_eq!(batch.column(2).as_string::<i32>().value(0), "+I");
    assert_eq!(batch.num_columns(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_read_holds_its_memory_until_its_bytes_are_gone() {
    let mut world = World::with(|settings| settings.tail_bytes = 0);
    world.context.reads = crate::context::Memory::new(1 << 20);
    let shard = world.open().await;
    shard.append(world.part(0, 0..200_000)).await.unwrap();
    let reads = world.context.reads.clone();
    let answer = shard.read(&world.request(0, Offset(0))).await.unwrap();
    assert_eq!(reads.used(), 1 << 20, "the whole budget, as the answer is larger");
    let body = answer.share.hold(Bytes::from_static(b"rows"));
    drop(answer);
    assert_eq!(reads.used(), 1 << 20, "the body is not sent yet");
    let refused = shard.read(&world.request(0, Offset(0))).await.unwrap_err();
    assert!(matches!(refused, LogReadError::Overloaded), "{refused}");
    let part_of_it = body.slice(1..2);
    drop(body);
    assert_eq!(reads.used(), 1 << 20, "a part of the body is not sent yet");
    drop(part_of_it);
    assert_eq!(reads.used(), 0);
    assert_eq!(world.read(&shard, 0, 0).await.len(), 200_000);
    assert_eq!(reads.used(), 0);
}

#[tokio::test]
async fn offsets_out_of_range_say_what_is_there() {
    let world = World::new();
    let shard = world.open().await;
    shard.append(world.part(0, 0..4)).await.unwrap();
    assert!(world.read(&shard, 0, 4).await.is_empty());
    let Err(LogReadError::OutOfRange { bounds, .. }) = world.try_read(&shard, 0, 5).await else { panic!() };
    assert_eq!(bounds, Bounds { log_start: Offset(0), high_watermark: Offset(4) });
}

#[tokio::test]
async fn times_find_their_offset() {
    let world = World::new();
    let shard = world.open().await;
    world.set_time(1000);
    shard.append(world.part(0, 0..4)).await.unwrap();
    world.set_time(2000);
    shard.append(world.part(0, 4..6)).await.unwrap();
    for (time, offset) in [(0, 0), (1000, 0), (1001, 4), (2000, 4), (2001, 6)] {
        assert_eq!(shard.offset_at(&world.bucket(0), time).await.unwrap(), Offset(offset), "at {time}");
    }
    let next = world.open().await;
    assert_eq!(next.offset_at(&world.bucket(0), 1500).await.unwrap(), Offset(4));
}

#[tokio::test]
async fn time_never_runs_back_within_a_shard() {
    let world = World::new();
    let shard = world.open().await;
    world.set_time(5000);
    shard.append(world.part(0, 0..1)).await.unwrap();
    world.set_time(10);
    let next = world.open().await;
    next.append(world.part(0, 1..2)).await.unwrap();
    assert_eq!(next.offset_at(&world.bucket(0), 5000).await.unwrap(), Offset(0));
    next.release().await;
    world.open().await.append(world.part(0, 2..3)).await.unwrap();
}

#[tokio::test]
async fn many_objects_are_read_from_the_database_index() {
    let world = World::with(|settings| {
        settings.tail_bytes = 0;
        settings.group_objects = 4;
        settings.linger = Duration::ZERO;
        settings.linger_small = Duration::ZERO;
    });
    let shard = world.open().await;
    for i in 0..60 {
        shard.append(world.part(0, i * 3..(i + 1) * 3)).await.unwrap();
    }
    for offset in [0, 1, 50, 100, 178] {
        assert_eq!(world.read_all(&shard, 0, offset as u64).await, (offset..180).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_is_too_much_in_memory_is_flushed_at_once() {
    let flushed_to = async |memtable_bytes| {
        let world = World::with(|settings| {
            settings.memtable_bytes = memtable_bytes;
            settings.group_objects = 1;
        });
        let shard = world.open().await;
        shard.append(world.part(0, 0..100)).await.unwrap();
        for _ in 0..100 {
            let manifest = crate::database::read_manifest(&world.context, ShardId(0)).await.unwrap();
            if manifest.last_l0_seq == LogSeq(2) {
                assert_eq!(world.context.memtables.used(), 0);
                return Some(manifest.last_l0_seq);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        None
    };
    assert_eq!(flushed_to(1).await, Some(LogSeq(2)), "the fence and one object");
    assert_eq!(flushed_to(1 << 20).await, None, "it waits for its interval");
}

#[tokio::test]
async fn batches_of_an_older_schema_version_are_read_under_the_newest() {
    use wadi_model::evolve::SchemaChange;
    let mut world = World::new();
    let shard = world.open().await;
    shard.append(world.part(0, 0..3)).await.unwrap();
    let rename = SchemaChange::RenameColumn { from: "id".into(), to: "key".into() };
    let widen = SchemaChange::WidenColumn { name: "n".into(), data_type: "bigint".parse().unwrap() };
    world.table = Arc::new(world.table.evolved(&[rename, widen]).unwrap());
    let answer = shard.read(&world.request(0, Offset(0))).await.unwrap();
    let [Piece::Batch(batch)] = answer.pieces.as_slice() else { panic!("{answer:?}") };
    assert_eq!(batch.schema_ref(), world.table.schema().arrow());
    assert_eq!(batch.column(1).as_primitive::<Int64Type>().values(), &[0, 7, 14]);
}
