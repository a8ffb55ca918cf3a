use std::fs;
use std::path::PathBuf;

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use prometheus_client::registry::Registry;
use wadi_model::LogSeq;

use super::*;

fn segment(range: Range<u64>) -> Segment {
    Segment { range, crc: 0 }
}

#[test]
fn near_segments_share_a_request_and_far_ones_do_not() {
    let wanted = [segment(0..10), segment(10..20), segment(100..200), segment(1 << 20..1 << 21)];
    let requests = merge(&wanted, &[0, 1, 2, 3]);
    assert_eq!(requests, [(0..200, vec![0, 1, 2]), (1 << 20..1 << 21, vec![3])]);
}

#[test]
fn cached_segments_are_left_out() {
    let wanted = [segment(0..10), segment(10..20), segment(20..30)];
    assert_eq!(merge(&wanted, &[0, 2]), [(0..30, vec![0, 2])]);
    assert!(merge(&wanted, &[]).is_empty());
}

/// A store of one log object, and a disk for its segments.
struct World {
    objects: Arc<dyn ObjectStore>,
    metrics: StoreMetrics,
    dir: tempfile::TempDir,
}

const MIB: usize = 1 << 20;

fn place() -> StoredObject {
    StoredObject::log(&Path::default(), ShardId(1), LogSeq(2))
}

impl World {
    async fn new() -> World {
        let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let body: Bytes = (0..4 * MIB).map(|i| (i * i / 7) as u8).collect();
        objects.put(&place().path, body.into()).await.unwrap();
        let metrics = StoreMetrics::new(&mut Registry::default());
        World { objects, metrics, dir: tempfile::tempdir().unwrap() }
    }

    async fn open(&self) -> SegmentCache {
        let disk = DiskCache::open(self.dir.path(), "c", "s3://b/w", 256 * MIB);
        SegmentCache::open(MIB, disk.as_ref()).await
    }

    fn segments(&self) -> Vec<Segment> {
        let range = |n: usize| n * 300_000..n * 300_000 + 200_000;
        let crc = |range: Range<usize>| crc32c::crc32c(&range.map(|i| (i * i / 7) as u8).collect::<Vec<_>>());
        let segment = |n| Segment { range: range(n).start as u64..range(n).end as u64, crc: crc(range(n)) };
        (0..10).map(segment).collect()
    }

    /// Reads all segments, and says how many were asked of the object store. What is read is right, as their
    /// checksums are compared.
    async fn misses(&self, cache: &SegmentCache) -> u64 {
        let before = self.metrics.segment_misses.get();
        let segments = self.segments();
        let read = cache.fetch(&self.objects, &self.metrics, &place(), &segments).await.unwrap();
        for (segment, bytes) in segments.iter().zip(read) {
            assert_eq!(crc32c::crc32c(&bytes), segment.crc);
        }
        self.metrics.segment_misses.get() - before
    }

    /// The files in which the disk cache has its blocks.
    fn files(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(crate::disk_cache::place(self.dir.path(), "c", "s3://b/w").join(NAME)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[tokio::test]
async fn a_restart_finds_segments_on_the_disk() {
    let world = World::new().await;
    let cache = world.open().await;
    assert_eq!(world.misses(&cache).await, 10);
    assert_eq!(world.misses(&cache).await, 0, "the memory is too small for all, the disk is not");
    cache.close().await;
    drop(cache);
    let cache = world.open().await;
    assert_eq!(world.misses(&cache).await, 0);
    assert!(world.metrics.segment_disk_hits.get() >= 10);
    assert_eq!(world.metrics.segment_disk_errors.get(), 0);
}

#[tokio::test]
async fn another_cluster_finds_nothing() {
    let world = World::new().await;
    let cache = world.open().await;
    world.misses(&cache).await;
    cache.close().await;
    // The second one is a copy of the first, at another place.
    for (cluster, root) in [("another", "s3://b/w"), ("c", "s3://b/copy")] {
        let disk = DiskCache::open(world.dir.path(), cluster, root, 256 * MIB).unwrap();
        assert_eq!(world.misses(&SegmentCache::open(MIB, Some(&disk)).await).await, 10);
    }
}

/// A disk that gives nothing back, and one that gives back something else.
#[tokio::test]
async fn a_failing_disk_fails_no_read() {
    for damage in [0, 1] {
        let world = World::new().await;
        let cache = world.open().await;
        world.misses(&cache).await;
        cache.close().await;
        drop(cache);
        let cache = world.open().await;
        for file in world.files() {
            let len = fs::metadata(&file).unwrap().len();
            match damage {
                0 => fs::File::options().write(true).open(&file).unwrap().set_len(0).unwrap(),
                _ => fs::write(&file, vec![0xa5; len as usize]).unwrap(),
            }
        }
        assert_eq!(world.misses(&cache).await, 10, "damage {damage}");
        // And it is asked again and again.
        world.misses(&cache).await;
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_used_leaves_the_memory() {
    let world = World::new().await;
    // More than any disk has.
    assert!(DiskCache::open(world.dir.path(), "c", "s3://b/w", 1 << 60).is_none());
    // A file where the directory should be.
    fs::write(world.dir.path().join("file"), "").unwrap();
    assert!(DiskCache::open(&world.dir.path().join("file"), "c", "s3://b/w", MIB).is_none());
    // Another process.
    let disk = DiskCache::open(world.dir.path(), "c", "s3://b/w", 256 * MIB).unwrap();
    assert!(DiskCache::open(world.dir.path(), "c", "s3://b/w", 256 * MIB).is_none());
    drop(disk);
    // A cache's own directory.
    fs::write(crate::disk_cache::place(world.dir.path(), "c", "s3://b/w").join(NAME), "").unwrap();
    let cache = world.open().await;
    assert!(matches!(cache.0, Tier::Memory(_)));
    assert_eq!(world.misses(&cache).await, 10);
}

#[test]
fn kept_bytes_that_lie_about_their_length_are_refused() {
    let mut written = Vec::new();
    Kept(Bytes::from_static(b"rows")).encode(&mut written).unwrap();
    assert_eq!(Kept::decode(&mut written.as_slice()).unwrap().0, "rows");
    written[0] = 5;
    assert!(Kept::decode(&mut written.as_slice()).is_err());
    written[7] = 0x7f;
    assert!(Kept::decode(&mut written.as_slice()).is_err());
}
