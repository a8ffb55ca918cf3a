//! Logs that are kept up to a size: exactly as many chunks go as may.

use wadi_model::options::{LAKE_ENABLED, LOG_RETENTION_BYTES};

use super::*;

/// First offset and stored bytes of each chunk of a bucket that is kept, by the index.
async fn chunks(world: &World, shard: &Shard, bucket: u32) -> Vec<(u64, u64)> {
    let bucket = world.bucket(bucket);
    let start = shard.bounds(&bucket).log_start;
    let mut entries = shard.shared.db.scan(index::from(&bucket, start)).await.unwrap();
    let mut all = Vec::new();
    while let Some(entry) = entries.next().await.unwrap() {
        let (_, _, entry) = index::decode(&entry.key, &entry.value).unwrap();
        let kept = entry.chunks.iter().filter(|chunk| chunk.end() > start);
        all.extend(kept.map(|chunk| {
            // Of one that begins before the log does, the share that is kept counts.
            let lost = start.0.saturating_sub(chunk.base_offset);
            let rows = u64::from(chunk.rows);
            (chunk.base_offset.max(start.0), u64::from(chunk.bytes) * (rows - lost) / rows)
        }));
    }
    all
}

/// Where a log of these chunks is to begin: as late as leaves so many bytes.
fn start_for(chunks: &[(u64, u64)], limit: u64) -> Option<u64> {
    let mut rest: u64 = chunks.iter().map(|(_, bytes)| bytes).sum();
    let mut start = None;
    for pair in chunks.windows(2) {
        rest -= pair[0].1;
        if rest < limit {
            break;
        }
        start = Some(pair[1].0);
    }
    start
}

/// Limits the bucket's table to so many bytes, trims, and looks where the log begins now.
pub(super) async fn trim_to(world: &World, shard: &Shard, bucket: u32, limit: u64) {
    let before = chunks(world, shard, bucket).await;
    let start = shard.bounds(&world.bucket(bucket)).log_start;
    world.set_options(&[(LOG_TTL, "0ms"), (LOG_RETENTION_BYTES, &limit.to_string())]);
    shard.trim().await.unwrap();
    let wanted = if limit == 0 { None } else { start_for(&before, limit) };
    let begins = shard.bounds(&world.bucket(bucket)).log_start;
    assert_eq!(begins, wanted.map_or(start, Offset), "{limit} bytes of {before:?}");
}

fn total(chunks: &[(u64, u64)]) -> u64 {
    chunks.iter().map(|(_, bytes)| bytes).sum()
}

/// Appends chunks of different sizes behind `at`; gives where the next one begins.
async fn fill(world: &World, shard: &Shard, at: i64, sizes: &[i64]) -> i64 {
    let mut at = at;
    for rows in sizes {
        shard.append(world.part(0, at..at + rows)).await.unwrap();
        at += rows;
    }
    settle(shard).await;
    at
}

#[tokio::test]
async fn as_many_chunks_go_as_leave_the_limit() {
    let world = world();
    let shard = world.open().await;
    fill(&world, &shard, 0, &[5, 90, 1, 40, 200, 3]).await;
    let all = chunks(&world, &shard, 0).await;
    assert!(all.len() == 6 && all.iter().all(|(_, bytes)| *bytes > 0), "{all:?}");
    let begins = |shard: &Shard| shard.bounds(&world.bucket(0)).log_start.0;
    for (limit, start) in [
        (u64::MAX, 0),
        (total(&all), 0),
        (total(&all[1..]) + 1, 0),
        (total(&all[1..]), all[1].0),
        (total(&all[3..]) + 1, all[2].0),
        (total(&all[3..]), all[3].0),
    ] {
        trim_to(&world, &shard, 0, limit).await;
        assert_eq!(begins(&shard), start, "{limit}");
    }
    assert_eq!(shard.trim().await.unwrap(), 0, "and then there is nothing to do");

    // The next owner counts for itself.
    let next = world.open().await;
    settle(&next).await;
    assert_eq!(next.trim().await.unwrap(), 0);
    assert_eq!(begins(&next), all[3].0);
    trim_to(&world, &next, 0, total(&all[4..])).await;
    assert_eq!(begins(&next), all[4].0);
    // More comes, of which the sum knows.
    fill(&world, &next, 339, &[70, 70]).await;
    trim_to(&world, &next, 0, total(&all[4..])).await;
    assert!(begins(&next) > all[4].0);
    trim_to(&world, &next, 0, 1).await;
    assert_eq!(begins(&next), 409, "the newest chunk stays, however small the limit is");
    assert_eq!(world.read_all(&next, 0, 409).await, (409..479).collect::<Vec<_>>());
}

#[tokio::test]
async fn packing_makes_a_log_smaller_and_nothing_goes_early() {
    let world = world();
    let shard = world.open().await;
    let end = fill(&world, &shard, 0, &[30; 8]).await;
    let loose = total(&chunks(&world, &shard, 0).await);
    trim_to(&world, &shard, 0, loose).await;
    world.pack(&shard).await.unwrap();
    let packed = chunks(&world, &shard, 0).await;
    assert_eq!(packed.len(), 1);
    assert!(packed[0].1 < loose, "{packed:?} of {loose}");
    fill(&world, &shard, end, &[30]).await;
    // By the sum of before, the pack could go.
    let last = chunks(&world, &shard, 0).await[1];
    trim_to(&world, &shard, 0, last.1 + 1).await;
    assert_eq!(shard.bounds(&world.bucket(0)).log_start, Offset(0));
    let next = world.open().await;
    settle(&next).await;
    trim_to(&world, &next, 0, last.1 + 1).await;
    assert_eq!(next.bounds(&world.bucket(0)).log_start, Offset(0));
    trim_to(&world, &next, 0, last.1).await;
    assert_eq!(next.bounds(&world.bucket(0)).log_start, Offset(last.0));
    // Nobody needs the pack any more.
    assert_eq!(world.delete(&next).await.packs.len(), 1);
    assert_eq!(world.read_all(&world.open().await, 0, last.0).await, (end..end + 30).collect::<Vec<_>>());
}

#[tokio::test]
async fn whichever_limit_comes_first_counts_and_the_lake_goes_before_both() {
    let world = world();
    let shard = world.open().await;
    for i in 0..4 {
        world.set_time(1_000 * (i + 1));
        fill(&world, &shard, i * 10, &[10]).await;
    }
    let all = chunks(&world, &shard, 0).await;
    let limit = |from: usize| total(&all[from..]).to_string();
    let begins = || shard.bounds(&world.bucket(0)).log_start.0;
    world.set_time(10_000);
    world.set_options(&[(LOG_TTL, "1ms"), (LOG_RETENTION_BYTES, "1"), (LAKE_ENABLED, "true")]);
    assert_eq!(shard.trim().await.unwrap(), 0, "what the lake may not have stays");
    // Older than 8.5 s: the first one.
    world.set_options(&[(LOG_TTL, "8500ms"), (LOG_RETENTION_BYTES, &limit(0))]);
    shard.trim().await.unwrap();
    assert_eq!(begins(), 10);
    world.set_options(&[(LOG_TTL, "8500ms"), (LOG_RETENTION_BYTES, &limit(2))]);
    shard.trim().await.unwrap();
    assert_eq!(begins(), 20);
    // Both at once, the size less far than the time.
    world.set_options(&[(LOG_TTL, "6500ms"), (LOG_RETENTION_BYTES, "1000000")]);
    shard.trim().await.unwrap();
    assert_eq!(begins(), 30);
}
