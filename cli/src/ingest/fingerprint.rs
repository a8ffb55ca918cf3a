//! What tells a file from others without reading all of it.

use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// How much of the beginning and of the end is looked at.
const EDGE: u64 = 64 << 10;

/// A file at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileState {
    pub(crate) bytes: u64,
    /// Milliseconds since 1970.
    pub(crate) modified: u64,
    /// Hash of the beginning and the end.
    pub(crate) hash: u64,
}

impl FileState {
    /// Looks at a file.
    pub(crate) fn of(path: &Path) -> Result<FileState> {
        let metadata = path.metadata()?;
        let modified = metadata.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |t| t.as_millis() as u64);
        let bytes = metadata.len();
        Ok(FileState { bytes, modified, hash: of_prefix(path, bytes)? })
    }
}

/// The hash that a file had when it ended after `bytes`.
pub(crate) fn of_prefix(path: &Path, bytes: u64) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut edges = Vec::new();
    (&mut file).take(EDGE.min(bytes)).read_to_end(&mut edges)?;
    let tail = bytes.saturating_sub(EDGE);
    file.seek(SeekFrom::Start(tail))?;
    file.take(bytes - tail).read_to_end(&mut edges)?;
    Ok(xxh3_64(&edges))
}
