//! The cache of SlateDB's blocks, for all shards of a process: in memory, and on a disk if there is one.

use std::sync::Arc;

use async_trait::async_trait;
use slatedb::db_cache::foyer::{FoyerCache, FoyerCacheOptions};
use slatedb::db_cache::foyer_hybrid::FoyerHybridCache;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};

use crate::disk_cache::DiskCache;

/// SlateDB's version is a part of it: how it writes its blocks is its own affair.
const NAME: &str = "blocks-slatedb-0.18";

/// A cache of so many bytes in memory, and on the disk if there is one.
pub async fn block_cache(bytes: usize, disk: Option<&DiskCache>) -> Arc<dyn DbCache> {
    if let Some(disk) = disk
        && let Some(cache) = disk.cache(NAME, (1, 4), bytes, CachedEntry::size).await
    {
        let cache = FoyerHybridCache::new_with_cache(cache);
        return Arc::new(Forgiving { cache, _directory: disk.clone() });
    }
    let options = FoyerCacheOptions { max_capacity: bytes as u64, ..FoyerCacheOptions::default() };
    Arc::new(FoyerCache::new_with_opts(options))
}

/// A cache whose errors are misses: a block that the disk does not give is read from the object store. Fetches may fail; SlateDB
/// then reads by itself. They are the cache's own, so that many who want the same index at once read and decode it once.
struct Forgiving {
    cache: FoyerHybridCache,
    /// Locked as long as the cache uses it.
    _directory: DiskCache,
}

fn found(read: Result<Option<CachedEntry>, slatedb::Error>) -> Result<Option<CachedEntry>, slatedb::Error> {
    Ok(read.unwrap_or_else(|error| {
        tracing::debug!(%error, "a block was not read from the disk cache");
        None
    }))
}

#[async_trait]
impl DbCache for Forgiving {
    async fn get_block(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        found(self.cache.get_block(key).await)
    }

    async fn get_index(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        found(self.cache.get_index(key).await)
    }

    async fn get_filter(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        found(self.cache.get_filter(key).await)
    }

    async fn get_stats(&self, key: &CachedKey) -> Result<Option<CachedEntry>, slatedb::Error> {
        found(self.cache.get_stats(key).await)
    }

    async fn fetch_block(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, slatedb::Error> {
        self.cache.fetch_block(key, loader).await
    }

    async fn fetch_index(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, slatedb::Error> {
        self.cache.fetch_index(key, loader).await
    }

    async fn fetch_filter(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, slatedb::Error> {
        self.cache.fetch_filter(key, loader).await
    }

    async fn fetch_stats(&self, key: CachedKey, loader: CacheLoader) -> Result<CacheFetch, slatedb::Error> {
        self.cache.fetch_stats(key, loader).await
    }

    async fn insert(&self, key: CachedKey, value: CachedEntry) {
        self.cache.insert(key, value).await;
    }

    async fn remove(&self, key: &CachedKey) {
        self.cache.remove(key).await;
    }

    fn entry_count(&self) -> u64 {
        self.cache.entry_count()
    }

    async fn close(&self) -> Result<(), slatedb::Error> {
        self.cache.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use object_store::memory::InMemory;
    use slatedb::Db;
    use slatedb::config::{FlushOptions, FlushType};

    use super::*;

    async fn open(objects: &Arc<InMemory>, cache: &Arc<dyn DbCache>) -> Db {
        Db::builder("db", objects.clone()).with_db_cache(cache.clone(), 1).build().await.unwrap()
    }

    async fn check(db: &Db) {
        for i in 0..100_u32 {
            assert_eq!(db.get(i.to_be_bytes()).await.unwrap().unwrap(), vec![i as u8; 1000]);
        }
    }

    /// The disk is found again after a restart, and fails no read when it gives nothing back.
    #[tokio::test]
    async fn blocks_are_read_with_a_disk_and_without() {
        let dir = tempfile::tempdir().unwrap();
        let disk = || DiskCache::open(dir.path(), "c", "s3://b/w", 256 << 20);
        let objects = Arc::new(InMemory::new());
        let cache = block_cache(1 << 20, disk().as_ref()).await;
        let db = open(&objects, &cache).await;
        for i in 0..100_u32 {
            db.put(i.to_be_bytes(), vec![i as u8; 1000]).await.unwrap();
        }
        db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
        check(&db).await;
        db.close().await.unwrap();
        cache.close().await.unwrap();
        drop((cache, db));

        let cache = block_cache(1 << 20, disk().as_ref()).await;
        let db = open(&objects, &cache).await;
        let mut files = 0;
        for file in
            std::fs::read_dir(crate::disk_cache::place(dir.path(), "c", "s3://b/w").join(NAME)).unwrap()
        {
            File::options().write(true).open(file.unwrap().path()).unwrap().set_len(0).unwrap();
            files += 1;
        }
        assert!(files > 0, "the cache is on the disk");
        check(&db).await;
        db.close().await.unwrap();
    }
}
