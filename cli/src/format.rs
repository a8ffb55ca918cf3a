//! Formats of files with rows, and how a file tells which one it has.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The format of a file with rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// CSV with a header line.
    Csv,
    /// A JSON object a line.
    Ndjson,
    /// Arrow IPC, as file or as stream.
    Arrow,
}

impl FileFormat {
    /// The format given, or else the one that the file's name tells.
    pub(crate) fn of(path: &Path, given: Option<FileFormat>) -> Result<FileFormat, Failure> {
        if let Some(format) = given {
            return Ok(format);
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Ok(FileFormat::Parquet),
            "csv" => Ok(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Ok(FileFormat::Ndjson),
            "arrow" | "arrows" | "feather" | "ipc" => Ok(FileFormat::Arrow),
            _ => Err(Failure::usage(format!("the format of {} is not known by its name", path.display()))
                .hint("give --format parquet, csv, ndjson or arrow")),
        }
    }
}

impl FileFormat {
    /// Whether rows are lines, which can be added at a file's end.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, FileFormat::Csv | FileFormat::Ndjson)
    }
}

/// Opens a file, with a message that names it.
pub(crate) fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|e| unreadable(path, &e))
}

/// A file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{} cannot be read: {error}", path.display()))
}

/// Whether an Arrow file is of the file format (with a footer), not a stream.
pub(crate) fn is_arrow_file(path: &Path) -> Result<bool, Failure> {
    let mut magic = Vec::with_capacity(6);
    open(path)?.take(6).read_to_end(&mut magic).map_err(|e| unreadable(path, &e))?;
    Ok(magic == b"ARROW1")
}

/// Whether a column is an index that pandas has stored beside the data: no data, and its name is not allowed.
pub(crate) fn is_pandas_index(column: &str) -> bool {
    column.starts_with("__index_level_")
}
