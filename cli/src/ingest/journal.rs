//! What was acked of a file, so that an interrupted run can continue.
//!
//! A journal is a small file of JSON lines: first the [`Origin`], then a line for each acked piece, at last `done`. A
//! line that was cut off when the process died is dropped. The journal saves work; that no row is written twice
//! rests on the server, which knows the producer. So without the journal, too, the same file is not doubled.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wadi_client::OnError;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::failure::Failure;
use crate::format::FileFormat;

#[cfg(test)]
mod tests;

/// All that decides what piece `n` is and what the server does with it. Another origin is another producer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) table: String,
    /// Of the server: a table created anew has another one.
    pub(crate) table_id: u64,
    /// Of the server, if it tells; ids of another cluster may be the same.
    pub(crate) table_created: String,
    pub(crate) file: PathBuf,
    pub(crate) bytes: u64,
    /// Milliseconds since 1970.
    pub(crate) modified: u64,
    /// Hash of the beginning and the end of the file.
    pub(crate) hash: u64,
    pub(crate) format: FileFormat,
    pub(crate) piece_bytes: u64,
    pub(crate) compression: String,
    pub(crate) on_error: OnError,
    /// What is done with the rows, as [`super::send::Intent`] says it.
    pub(crate) intent: String,
    /// 0, or random where the user wants the same file again.
    pub(crate) again: u64,
}

impl Origin {
    /// The producer's id: 39 characters.
    pub(crate) fn producer(&self) -> String {
        format!("ingest-{:032x}", xxh3_128(format!("{self:?}").as_bytes()))
    }
}

/// An acked piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acked {
    pub(crate) rows: u64,
    pub(crate) rejected: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin(Box<Origin>),
    Acked { piece: u64, rows: u64, rejected: u64 },
    Done,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

/// What a journal says at the beginning of a run.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) journal: Journal,
    /// The origin, with the `again` of the run that is continued.
    pub(crate) origin: Origin,
    /// Pieces that are acked.
    pub(crate) acked: BTreeMap<u64, Acked>,
    /// Whether all of the file is.
    pub(crate) done: bool,
}

impl Journal {
    /// Opens the journal of a file, or begins one. With `again` (random, not 0) begins anew whatever was there.
    pub(crate) fn open(directory: &Path, origin: Origin, again: Option<u64>) -> Result<Begun, Failure> {
        create_dir_all(directory).map_err(|e| unusable(directory, &e))?;
        let key = xxh3_64(origin.file.as_os_str().as_encoded_bytes());
        let path = directory.join(format!("{}-{key:016x}.jsonl", origin.table));
        let old = if again.is_none() { Old::read(&path)? } else { None };
        let Some(old) = old.filter(|old| old.concerns(&origin)) else {
            return Journal::begin(path, Origin { again: again.unwrap_or(0), ..origin });
        };
        let wanted = Origin { again: old.origin.again, ..origin };
        if old.origin != wanted {
            return Err(changed(&old.origin, &wanted));
        }
        let file = OpenOptions::new().append(true).open(&path).map_err(|e| unusable(&path, &e))?;
        file.set_len(old.whole).map_err(|e| unusable(&path, &e))?;
        Ok(Begun { journal: Journal { file, path }, origin: wanted, acked: old.acked, done: old.done })
    }

    fn begin(path: PathBuf, origin: Origin) -> Result<Begun, Failure> {
        let file = File::create(&path).map_err(|e| unusable(&path, &e))?;
        let mut journal = Journal { file, path };
        journal.write(&Line::Begin(Box::new(origin.clone())))?;
        Ok(Begun { journal, origin, acked: BTreeMap::new(), done: false })
    }

    /// Notes an acked piece.
    pub(crate) fn acked(&mut self, piece: u64, acked: Acked) -> Result<(), Failure> {
        self.write(&Line::Acked { piece, rows: acked.rows, rejected: acked.rejected })
    }

    /// Notes that all pieces are acked.
    pub(crate) fn done(&mut self) -> Result<(), Failure> {
        self.write(&Line::Done)
    }

    fn write(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(line).map_err(|e| unusable(&self.path, &e))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|e| unusable(&self.path, &e))
    }
}

/// A journal of an earlier run.
struct Old {
    origin: Origin,
    acked: BTreeMap<u64, Acked>,
    done: bool,
    /// Bytes of whole lines.
    whole: u64,
}

impl Old {
    fn read(path: &Path) -> Result<Option<Old>, Failure> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unusable(path, &e)),
        };
        let mut old: Option<Old> = None;
        for line in text.split_inclusive(|b| *b == b'\n') {
            // What follows a line that cannot be read is not trusted: it would be sent again, and do no harm.
            let Ok(read) = serde_json::from_slice::<Line>(line) else { break };
            if line.last() != Some(&b'\n') {
                break;
            }
            match (read, old.as_mut()) {
                (Line::Begin(origin), None) => {
                    old = Some(Old { origin: *origin, acked: BTreeMap::new(), done: false, whole: 0 });
                }
                (Line::Acked { piece, rows, rejected }, Some(old)) => {
                    old.acked.insert(piece, Acked { rows, rejected });
                }
                (Line::Done, Some(old)) => old.done = true,
                _ => break,
            }
            if let Some(old) = old.as_mut() {
                old.whole += line.len() as u64;
            }
        }
        Ok(old)
    }

    /// Whether the old run still matters: not if its table is gone, nor if it had sent all of another content.
    fn concerns(&self, origin: &Origin) -> bool {
        let same_table =
            self.origin.table_id == origin.table_id && self.origin.table_created == origin.table_created;
        same_table && (!self.done || same_content(&self.origin, origin))
    }
}

fn same_content(a: &Origin, b: &Origin) -> bool {
    (a.bytes, a.hash, a.modified) == (b.bytes, b.hash, b.modified)
}

/// The earlier run cannot be continued, because its pieces would be others.
fn changed(old: &Origin, wanted: &Origin) -> Failure {
    let what = if !same_content(old, wanted) {
        "the file has changed since then".to_owned()
    } else if old.intent != wanted.intent {
        format!("it was to {}", old.intent)
    } else if old.on_error != wanted.on_error {
        format!("it ran with --on-error {}", old.on_error.as_str())
    } else if old.piece_bytes != wanted.piece_bytes {
        format!("it ran with --piece-size {}", old.piece_bytes)
    } else if old.compression != wanted.compression {
        format!("it ran with --compression {}", old.compression)
    } else {
        "it read the file in another format".to_owned()
    };
    let message =
        format!("an earlier run of {} into {} cannot be continued: {what}", old.file.display(), old.table);
    Failure::usage(message).hint("do as the earlier run did, or send all rows anew with --again")
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("the journal {} cannot be used: {error}", path.display()))
        .hint("--state names another directory for journals")
}

/// Size, time and hash of a file.
pub(crate) fn fingerprint(file: &mut File) -> std::io::Result<(u64, u64, u64)> {
    use std::io::Seek;
    const EDGE: u64 = 64 << 10;
    let metadata = file.metadata()?;
    let modified = metadata.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = modified.map_or(0, |t| t.as_millis() as u64);
    let mut edges = Vec::new();
    file.take(EDGE).read_to_end(&mut edges)?;
    file.seek(std::io::SeekFrom::Start(metadata.len().saturating_sub(EDGE)))?;
    file.take(EDGE).read_to_end(&mut edges)?;
    Ok((metadata.len(), modified, xxh3_64(&edges)))
}
