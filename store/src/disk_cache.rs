//! The local disk as the second tier of the caches: segments of log objects, and SlateDB's blocks.
//!
//! The disk is a convenience. Nothing is ever only there, and no read fails because of it: what cannot be read from it
//! counts as not found, what cannot be written is not cached, and a directory that cannot be used at all is said in the
//! log, and the caches stay in memory. The space is reserved when the cache opens, so a disk that others fill up later does
//! not matter to it.
//!
//! What was written is found again after a restart, also after a crash: foyer reads its block indexes back, and every entry
//! has a checksum. Each cluster has a directory of its own below the given one, since keys name shards and positions, which
//! every cluster has. Formats are part of the directories' names, so another version starts empty. One process at a
//! time uses a directory; its lock falls with the process.
//!
//! Opened by the gateway's start; [`segments`](crate::segments) and [`block_cache`](crate::block_cache) use it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCachePolicy,
    PsyncIoEngineConfig, StorageKey, StorageValue,
};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// What foyer evicts at once, and the largest thing that it keeps. Smaller ones would keep fewer of the large columns.
const LEAST_BLOCK: usize = 16 << 20;

/// Each block is an open file.
const MOST_BLOCKS: usize = 256;

/// Two of these wait for the disk; what comes while both are full is not written.
const WRITE_BUFFER: usize = 8 << 20;

/// A directory for caches, locked.
#[derive(Clone, Debug)]
pub struct DiskCache {
    root: PathBuf,
    bytes: usize,
    _lock: Arc<File>,
}

impl DiskCache {
    /// Takes the directory of a cluster below `dir`, for `bytes` in all; `None`, with the reason in the log, if it cannot be
    /// used. `url` is where the cluster's root is.
    pub fn open(dir: &Path, cluster: &str, url: &str, bytes: usize) -> Option<DiskCache> {
        let root = place(dir, cluster, url);
        match take(&root, bytes) {
            Ok(lock) => Some(DiskCache { root, bytes, _lock: Arc::new(lock) }),
            Err(error) => {
                tracing::warn!(dir = %root.display(), bytes, %error, "no disk cache; caches stay in memory");
                None
            }
        }
    }

    /// A cache of `memory` bytes in memory and a part of the disk, `share` of `of`. `name` says what it holds in which
    /// format. `None`, with the reason in the log, if it cannot be opened.
    pub(crate) async fn cache<K: StorageKey, V: StorageValue>(
        &self,
        name: &'static str,
        (share, of): (usize, usize),
        memory: usize,
        weight: fn(&V) -> usize,
    ) -> Option<HybridCache<K, V>> {
        let dir = self.root.join(name);
        let bytes = self.bytes / of * share;
        match open(&dir, name, bytes, memory, weight).await {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(dir = %dir.display(), bytes, %error, "no disk cache; this cache stays in memory");
                None
            }
        }
    }
}

/// The directory of a root: a copy of one has the id of the first, and soon other objects under the same names.
pub(crate) fn place(dir: &Path, cluster: &str, url: &str) -> PathBuf {
    dir.join(format!("{cluster}-{:08x}", crc32c::crc32c(url.as_bytes())))
}

/// Locks the directory, and checks that what it may still grow by is free.
fn take(root: &Path, bytes: usize) -> Result<File, Error> {
    std::fs::create_dir_all(root)?;
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(root.join("LOCK"))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::new(ErrorKind::WouldBlock, "another process uses it"));
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let disk = statvfs(root)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let missing = (bytes as u64).saturating_sub(reserved(root)?);
    if missing > free {
        let why = format!("{free} bytes are free, {missing} are missing; lower cache_disk_bytes");
        return Err(Error::new(ErrorKind::StorageFull, why));
    }
    Ok(lock)
}

/// Bytes that the files below a directory take on the disk.
fn reserved(root: &Path) -> Result<u64, Error> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() { reserved(&entry.path())? } else { found.blocks() * 512 };
    }
    Ok(bytes)
}

async fn open<K: StorageKey, V: StorageValue>(
    dir: &Path,
    name: &'static str,
    bytes: usize,
    memory: usize,
    weight: fn(&V) -> usize,
) -> Result<HybridCache<K, V>, foyer::Error> {
    // foyer panics if it cannot.
    std::fs::create_dir_all(dir).map_err(foyer::Error::io_error)?;
    let block = LEAST_BLOCK.max(bytes.div_ceil(MOST_BLOCKS));
    let device = FsDeviceBuilder::new(dir).with_capacity(bytes).build()?;
    let engine = BlockEngineConfig::new(device)
        .with_block_size(block)
        .with_buffer_pool_size(WRITE_BUFFER)
        .with_submit_queue_size_threshold(4 * WRITE_BUFFER);
    let cache = HybridCacheBuilder::new()
        .with_name(name)
        // Entries never change, and a process may end at any moment.
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .with_flush_on_close(false)
        .memory(memory)
        .with_weighter(move |_, value: &V| weight(value) + 64)
        .storage()
        .with_io_engine_config(PsyncIoEngineConfig::new())
        .with_engine_config(engine)
        .build()
        .await?;
    reserve(dir).map_err(foyer::Error::io_error)?;
    Ok(cache)
}

/// Makes sure of the space of all files. File systems that cannot do it may fail later, which costs only what is not cached.
fn reserve(dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir)? {
        let file = OpenOptions::new().write(true).open(entry?.path())?;
        let len = file.metadata()?.len();
        match fallocate(&file, FallocateFlags::empty(), 0, len) {
            Err(error) if error != rustix::io::Errno::OPNOTSUPP => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
