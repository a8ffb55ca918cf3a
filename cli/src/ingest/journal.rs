//! What was sent of a file, so that an interrupted run can continue.
//!
//! A journal is a small file of JSON lines: first the [`Origin`] of the first run, then what happened, a line each. A line
//! that was cut off when the process died is dropped. The journal saves work; that no row is written twice rests on the
//! server, which knows the producer, and the producer is made of the origin. So without the journal, too, the same
//! unchanged file is not doubled.
//!
//! What a later run finds:
//!
//! | the file | then |
//! | --- | --- |
//! | as it was | it goes on; other `--on-error` or `--compression` hold for what is not sent yet |
//! | has grown (text) | the same, and the new rows follow; what was sent is compared piece by piece |
//! | has another name, and nothing the old one | the journal goes with it |
//! | is another one | sent whole, if the earlier one was; refused, if only a part of that was |
//! | would be cut in other pieces | sent whole, if nothing was sent yet; else refused |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, create_dir_all};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::fingerprint::{FileState, of_prefix};
use crate::failure::Failure;
use crate::format::{FileFormat, unreadable};
use old::Old;

mod old;
#[cfg(test)]
mod tests;

/// All that decides what piece `n` is. Another origin is another producer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) table: String,
    /// Of the server: a table created anew has another one.
    pub(crate) table_id: u64,
    /// Of the server, if it tells; ids of another cluster may be the same.
    pub(crate) table_created: String,
    /// Where the file was in the first run.
    pub(crate) file: PathBuf,
    /// What the file was in the first run, but for its time: touching it changes no row.
    pub(crate) bytes: u64,
    pub(crate) hash: u64,
    pub(crate) format: FileFormat,
    pub(crate) piece_bytes: u64,
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

    fn is_of_table(&self, other: &Origin) -> bool {
        (&self.table, self.table_id, &self.table_created, &self.intent)
            == (&other.table, other.table_id, &other.table_created, &other.intent)
    }

    fn cuts_as(&self, other: &Origin) -> bool {
        (self.format, self.piece_bytes) == (other.format, other.piece_bytes)
    }
}

/// An acked piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Acked {
    pub(crate) rows: u64,
    pub(crate) rejected: u64,
    /// Of its text; none of pieces that are no text.
    pub(crate) hash: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begin {
        origin: Box<Origin>,
        state: FileState,
    },
    /// The file is longer than the run before found it.
    Grown(FileState),
    /// The file is elsewhere now.
    Moved(PathBuf),
    /// A piece is about to be sent.
    Sent(u64),
    /// The server has refused a piece, and nothing of it was written.
    Refused(u64),
    Acked {
        piece: u64,
        acked: Acked,
    },
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
    /// Of the first run.
    pub(crate) producer: String,
    /// Pieces that are acked.
    pub(crate) acked: BTreeMap<u64, Acked>,
    /// Where the file ended in each run, the present one last. Every run ends a piece there.
    pub(crate) ends: Vec<u64>,
    /// Whether all of the file is acked.
    pub(crate) done: bool,
    /// What the user should know.
    pub(crate) remark: Option<String>,
}

impl Journal {
    /// Opens the journal of the file that `wanted` names, or begins one. With `again` (random, not 0) begins anew
    /// whatever was there.
    pub(crate) fn open(
        directory: &Path,
        wanted: Origin,
        state: FileState,
        again: Option<u64>,
    ) -> Result<Begun, Failure> {
        create_dir_all(directory).map_err(|e| unusable(directory, &e))?;
        let path = path_of(directory, &wanted);
        if let Some(again) = again {
            return Journal::begin(path, Origin { again, ..wanted }, state, None);
        }
        let own = Old::read(&path)?.filter(|old| old.origin.is_of_table(&wanted));
        let (old, mut remark) = match own {
            Some(old) => (old, None),
            None => match moved(directory, &path, &wanted, state)? {
                None => return Journal::begin(path, wanted, state, None),
                Some((old, from)) => {
                    let remark = format!("goes on where the run of {} was", from.display());
                    (old, Some(remark))
                }
            },
        };
        let growth = old.compare(&wanted.file, state)?;
        if growth == Growth::Another && (old.done || old.nothing_sent()) {
            let remark =
                old.done.then(|| "is not what was sent before under this name; all of it is sent".to_owned());
            return Journal::begin(path, wanted, state, remark);
        }
        let same_pieces = old.origin.cuts_as(&wanted);
        if old.nothing_sent() && (growth == Growth::More || !same_pieces) {
            return Journal::begin(path, wanted, state, None);
        }
        let all_sent = old.done && growth == Growth::None;
        if growth == Growth::Another || !same_pieces && !all_sent {
            return Err(changed(&old, &wanted, growth));
        }
        let mut journal = old.open(&path)?;
        let mut ends = old.ends;
        if growth == Growth::More {
            journal.write(&Line::Grown(state))?;
            ends.push(state.bytes);
            remark.get_or_insert_with(|| "has grown; what was sent before is not sent again".to_owned());
        }
        let producer = old.origin.producer();
        // A text whose time has changed is compared with what was sent.
        let untouched = old.state.modified == state.modified || !old.origin.format.is_text();
        let done = all_sent && (untouched || !same_pieces);
        Ok(Begun { journal, producer, acked: old.acked, ends, done, remark })
    }

    fn begin(
        path: PathBuf,
        origin: Origin,
        state: FileState,
        remark: Option<String>,
    ) -> Result<Begun, Failure> {
        let file = File::create(&path).map_err(|e| unusable(&path, &e))?;
        let mut journal = Journal { file, path };
        let producer = origin.producer();
        journal.write(&Line::Begin { origin: Box::new(origin), state })?;
        Ok(Begun { journal, producer, acked: BTreeMap::new(), ends: vec![state.bytes], done: false, remark })
    }

    /// Notes that a piece is about to be sent.
    pub(crate) fn sent(&mut self, piece: u64) -> Result<(), Failure> {
        self.write(&Line::Sent(piece))
    }

    /// Notes that nothing of a piece was written.
    pub(crate) fn refused(&mut self, piece: u64) -> Result<(), Failure> {
        self.write(&Line::Refused(piece))
    }

    /// Notes an acked piece.
    pub(crate) fn acked(&mut self, piece: u64, acked: Acked) -> Result<(), Failure> {
        self.write(&Line::Acked { piece, acked })
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

/// How a file is, against what a run before found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// As it was.
    None,
    /// It begins as it was, and goes on.
    More,
    /// Something else.
    Another,
}

fn path_of(directory: &Path, origin: &Origin) -> PathBuf {
    // To do another thing with the rows of a file is another run.
    let name = [origin.file.as_os_str().as_encoded_bytes(), b"\0", origin.intent.as_bytes()].concat();
    let key = xxh3_64(&name);
    directory.join(format!("{}-{key:016x}.jsonl", origin.table))
}

/// Looks for the journal of a file that had another name: of the same table, begun like this one, and gone from there.
/// Takes it over to `path`. Gives the name that it had.
fn moved(
    directory: &Path,
    path: &Path,
    wanted: &Origin,
    state: FileState,
) -> Result<Option<(Old, PathBuf)>, Failure> {
    let mut names: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|e| unusable(directory, &e))? {
        let name = entry.map_err(|e| unusable(directory, &e))?.path();
        if name != path && name.extension().is_some_and(|e| e == "jsonl") {
            names.push(name);
        }
    }
    names.sort();
    for name in names {
        let Some(old) = Old::read(&name)? else { continue };
        if !old.origin.is_of_table(wanted) || old.nothing_sent() || old.file.exists() {
            continue;
        }
        if old.compare(&wanted.file, state)? == Growth::Another {
            continue;
        }
        std::fs::rename(&name, path).map_err(|e| unusable(&name, &e))?;
        old.open(path)?.write(&Line::Moved(wanted.file.clone()))?;
        // Read anew, with that line.
        let from = old.file;
        return Ok(Old::read(path)?.map(|old| (old, from)));
    }
    Ok(None)
}

/// The earlier run cannot be continued, because its pieces would be others.
fn changed(old: &Old, wanted: &Origin, growth: Growth) -> Failure {
    let what = if growth == Growth::Another {
        "the file has changed since then, and not only grown".to_owned()
    } else if old.origin.piece_bytes != wanted.piece_bytes {
        format!("it ran with --piece-size {}", old.origin.piece_bytes)
    } else {
        "it read the file in another format".to_owned()
    };
    let sent = match (old.acked.len(), old.in_doubt.len()) {
        (0, doubt) => format!("{doubt} requests of it may have been written"),
        (acked, _) => format!("{acked} requests of it are written"),
    };
    let (file, table) = (old.file.display(), &old.origin.table);
    let message = format!("an earlier run of {file} into {table} cannot be continued: {what}, and {sent}");
    Failure::usage(message).hint("do as the earlier run did, or send all rows anew with --again")
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("the journal {} cannot be used: {error}", path.display()))
        .hint("--state names another directory for journals")
}
