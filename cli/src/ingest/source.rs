//! What `ingest` is given: a file, or standard input.

use std::path::{Path, PathBuf};

use super::batches::BatchPieces;
use super::fingerprint::FileState;
use super::piece::Pieces;
use super::text::{TextKind, TextPieces};
use crate::failure::Failure;
use crate::format::{FileFormat, open, unreadable};

/// A thing with rows that can be cut into pieces.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) format: FileFormat,
    pub(crate) kind: SourceKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SourceKind {
    /// Read once; a run over it cannot be continued.
    Input,
    File(SourceFile),
}

/// A file, and what tells it from others.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Absolute, links resolved.
    pub(crate) path: PathBuf,
    pub(crate) state: FileState,
}

/// The pieces of a source.
pub(crate) struct Opened {
    pub(crate) pieces: Pieces,
    /// Units of all pieces together, where that is known: see [`super::piece::Piece::units`].
    pub(crate) units: Option<u64>,
}

impl Source {
    /// Looks at a path; `-` is standard input.
    pub(crate) fn new(path: &Path, format: Option<FileFormat>) -> Result<Source, Failure> {
        if path == Path::new("-") {
            let Some(format) = format else {
                return Err(Failure::usage("standard input has no name that tells its format")
                    .hint("give --format csv, ndjson or arrow"));
            };
            if format == FileFormat::Parquet {
                return Err(Failure::usage(
                    "Parquet is read from its end, so it cannot come from standard input",
                )
                .hint("name the file instead"));
            }
            return Ok(Source { format, kind: SourceKind::Input });
        }
        let format = FileFormat::of(path, format)?;
        let state = FileState::of(path).map_err(|e| unreadable(path, &e))?;
        let path = path.canonicalize().map_err(|e| unreadable(path, &e))?;
        Ok(Source { format, kind: SourceKind::File(SourceFile { path, state }) })
    }

    /// The name to show.
    pub(crate) fn name(&self) -> String {
        match &self.kind {
            SourceKind::Input => "standard input".to_owned(),
            SourceKind::File(file) => {
                let name = file.path.file_name().unwrap_or(file.path.as_os_str());
                name.to_string_lossy().into_owned()
            }
        }
    }

    /// Opens it and cuts it into pieces of about `size` bytes. A text is cut at all `ends`, and not read beyond the last.
    pub(crate) fn open(&self, size: u64, ends: &[u64]) -> Result<Opened, Failure> {
        Ok(match (self.format, &self.kind) {
            (FileFormat::Ndjson, _) => self.text(TextKind::Ndjson, size, ends)?,
            (FileFormat::Csv, _) => self.text(TextKind::Csv, size, ends)?,
            (FileFormat::Parquet, SourceKind::File(file)) => {
                let (pieces, rows) = BatchPieces::parquet(&file.path, size)?;
                Opened { pieces: Box::new(pieces), units: Some(rows) }
            }
            (FileFormat::Arrow, SourceKind::File(file)) => {
                Opened { pieces: Box::new(BatchPieces::arrow(&file.path, size)?), units: None }
            }
            // `new` lets no Parquet through here.
            (FileFormat::Arrow | FileFormat::Parquet, SourceKind::Input) => {
                Opened { pieces: Box::new(BatchPieces::arrow_input(size)?), units: None }
            }
        })
    }

    fn text(&self, kind: TextKind, size: u64, ends: &[u64]) -> Result<Opened, Failure> {
        let (input, units): (Input, _) = match &self.kind {
            SourceKind::Input => (Box::new(std::io::stdin()), None),
            SourceKind::File(file) => (Box::new(open(&file.path)?), Some(file.state.bytes)),
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Ok(Opened { pieces: Box::new(TextPieces::new(kind, input, size).cut_at(ends)), units })
    }
}

type Input = Box<dyn std::io::Read + Send>;
