//! A journal of earlier runs, as it is read.

use super::*;

/// What earlier runs have noted.
#[derive(Debug)]
pub(super) struct Old {
    /// Of the first run.
    pub origin: Origin,
    /// Where the file was last.
    pub file: PathBuf,
    /// What the file was last.
    pub state: FileState,
    /// Where it ended in each run.
    pub ends: Vec<u64>,
    pub acked: BTreeMap<u64, Acked>,
    /// Pieces that were sent without an answer.
    pub in_doubt: BTreeSet<u64>,
    pub done: bool,
    /// Bytes of whole lines.
    whole: u64,
}

impl Old {
    /// `None` if there is no journal, or one that cannot be read.
    pub(super) fn read(path: &Path) -> Result<Option<Old>, Failure> {
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
                (Line::Begin { origin, state }, None) => old = Some(Old::begun(*origin, state)),
                (Line::Begin { .. }, Some(_)) | (_, None) => break,
                (line, Some(old)) => old.take(line),
            }
            if let Some(old) = old.as_mut() {
                old.whole += line.len() as u64;
            }
        }
        Ok(old)
    }

    fn begun(origin: Origin, state: FileState) -> Old {
        Old {
            file: origin.file.clone(),
            origin,
            state,
            ends: vec![state.bytes],
            acked: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            done: false,
            whole: 0,
        }
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Begin { .. } => {}
            Line::Grown(state) => {
                (self.state, self.done) = (state, false);
                self.ends.push(state.bytes);
            }
            Line::Moved(file) => self.file = file,
            Line::Sent(piece) => drop(self.in_doubt.insert(piece)),
            Line::Refused(piece) => drop(self.in_doubt.remove(&piece)),
            Line::Acked { piece, acked } => {
                self.in_doubt.remove(&piece);
                self.acked.insert(piece, acked);
            }
            Line::Done => self.done = true,
        }
    }

    /// Whether certainly no row was written.
    pub(super) fn nothing_sent(&self) -> bool {
        self.acked.is_empty() && self.in_doubt.is_empty()
    }

    /// Compares the file that is at `path` now with what it was.
    pub(super) fn compare(&self, path: &Path, now: FileState) -> Result<Growth, Failure> {
        let text = self.origin.format.is_text();
        if (now.bytes, now.hash) == (self.state.bytes, self.state.hash) {
            // Pieces of texts are compared one by one, and Parquet's end is a digest of it all.
            let trusted =
                text || self.origin.format == FileFormat::Parquet || now.modified == self.state.modified;
            return Ok(if trusted { Growth::None } else { Growth::Another });
        }
        if text && now.bytes > self.state.bytes {
            let begins = of_prefix(path, self.state.bytes).map_err(|e| unreadable(path, &e))?;
            if begins == self.state.hash {
                return Ok(Growth::More);
            }
        }
        Ok(Growth::Another)
    }

    /// Opens it behind its last whole line.
    pub(super) fn open(&self, path: &Path) -> Result<Journal, Failure> {
        let file = OpenOptions::new().append(true).open(path).map_err(|e| unusable(path, &e))?;
        file.set_len(self.whole).map_err(|e| unusable(path, &e))?;
        Ok(Journal { file, path: path.to_owned() })
    }
}
