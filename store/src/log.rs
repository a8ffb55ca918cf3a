//! The shard log in the object store: names, conditional PUTs with known outcomes, and reads.

use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt};
use wadi_model::{LogSeq, ShardId};

use crate::container::{Damaged, Footer, HEADER_LEN, Header, TAIL_BYTES, TRAILER_LEN, Trailer};

pub use put::{PutOutcome, create};

mod put;
#[cfg(test)]
mod tests;

/// The name of a log object.
pub fn object_path(root: &Path, shard: ShardId, seq: LogSeq) -> Path {
    Path::from(format!("{root}/shard/{shard}/log/{:020}", seq.0))
}

/// The name of a shard's database.
pub fn database_path(root: &Path, shard: ShardId) -> Path {
    Path::from(format!("{root}/shard/{shard}/db"))
}

/// A log object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store did not answer, or not in time.
    #[error("log object {path}: {source}")]
    Store {
        /// The object.
        path: Path,
        /// Why.
        source: object_store::Error,
    },
    /// It is not what it should be.
    #[error("log object {path}: {source}")]
    Damaged {
        /// The object.
        path: Path,
        /// Why.
        source: Damaged,
    },
}

impl ReadError {
    pub(crate) fn damaged(path: &Path, source: Damaged) -> ReadError {
        ReadError::Damaged { path: path.clone(), source }
    }
}

/// A log object without its chunks.
#[derive(Clone, Debug)]
pub struct LogObject {
    /// Its header.
    pub header: Header,
    /// Its footer.
    pub footer: Footer,
    /// Its footer as it is stored.
    pub footer_bytes: Bytes,
}

/// The header of an object; `None` if there is no such object.
pub async fn read_header(store: &dyn ObjectStore, path: &Path) -> Result<Option<Header>, ReadError> {
    let bytes = match store.get_range(path, 0..HEADER_LEN as u64).await {
        Ok(bytes) => bytes,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(source) => return Err(ReadError::Store { path: path.clone(), source }),
    };
    Header::read(&bytes).map(Some).map_err(|e| ReadError::damaged(path, e))
}

/// The end of an object, with its footer. A small object is there as a whole.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The object's footer.
    pub footer: Footer,
    /// The footer as it is stored.
    pub footer_bytes: Bytes,
    path: Path,
    size: u64,
    bytes: Bytes,
}

impl Tail {
    /// How many bytes were read for it.
    pub fn read(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of the object: from here, or by a request.
    pub async fn range(
        &self,
        store: &dyn ObjectStore,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes, ReadError> {
        let start = self.size - self.bytes.len() as u64;
        let here = range.start.checked_sub(start).zip(range.end.checked_sub(start));
        match here {
            Some((from, to)) if range.end <= self.size => Ok(self.bytes.slice(from as usize..to as usize)),
            _ => store
                .get_range(&self.path, range)
                .await
                .map_err(|source| ReadError::Store { path: self.path.clone(), source }),
        }
    }
}

/// Header and footer of an object; `None` if there is no such object. Small objects take one request.
pub async fn read_object(store: &dyn ObjectStore, path: &Path) -> Result<Option<LogObject>, ReadError> {
    let Some(tail) = read_tail(store, path).await? else { return Ok(None) };
    let header = tail.range(store, 0..HEADER_LEN as u64).await?;
    let header = Header::read(&header).map_err(|e| ReadError::damaged(path, e))?;
    Ok(Some(LogObject { header, footer: tail.footer, footer_bytes: tail.footer_bytes }))
}

/// The end of an object; `None` if there is no such object.
pub async fn read_tail(store: &dyn ObjectStore, path: &Path) -> Result<Option<Tail>, ReadError> {
    let failed = |source| ReadError::Store { path: path.clone(), source };
    let suffix = GetOptions { range: Some(GetRange::Suffix(TAIL_BYTES)), ..GetOptions::default() };
    let tail = match store.get_opts(path, suffix).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(source) => return Err(failed(source)),
    };
    let size = tail.meta.size;
    let tail = tail.bytes().await.map_err(failed)?;
    let parse = |e| ReadError::damaged(path, e);
    let trailer = Trailer::read(&tail).map_err(parse)?;
    let footer_end = size.saturating_sub(TRAILER_LEN as u64);
    let Some(footer_start) =
        footer_end.checked_sub(u64::from(trailer.footer_len)).filter(|s| *s >= HEADER_LEN as u64)
    else {
        return Err(parse(Damaged("the footer is longer than the object".into())));
    };
    let mut end =
        Tail { footer: Footer::default(), footer_bytes: Bytes::new(), path: path.clone(), size, bytes: tail };
    end.footer_bytes = end.range(store, footer_start..footer_end).await?;
    end.footer = trailer.footer(&end.footer_bytes).map_err(parse)?;
    Ok(Some(end))
}
