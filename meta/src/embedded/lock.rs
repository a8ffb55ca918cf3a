//! The lock on a local directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::MetaError;

/// A lock that falls when this is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct LockFile {
    _file: File,
}

impl LockFile {
    /// Locks `root/LOCK`; makes both if they are missing. The file is never removed: a second process could then lock
    /// a new one beside the first.
    pub(super) fn take(root: &Path) -> Result<Self, MetaError> {
        let path = root.join("LOCK");
        let failed = |what: &str, e: std::io::Error| {
            MetaError::unavailable(format!("{what} {}", path.display())).with_source(e)
        };
        std::fs::create_dir_all(root).map_err(|e| failed("creating the directory of", e))?;
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| failed("opening", e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(MetaError::unavailable(format!(
                    "{} is in use by another process ({}): stop it, or choose another directory",
                    root.display(),
                    holder(&mut file)
                )));
            }
            Err(TryLockError::Error(e)) => return Err(failed("locking", e)),
        }
        // For the message above only, so a disk that is full must not keep the store closed.
        if let Err(error) = note_holder(&mut file) {
            tracing::warn!(path = %path.display(), %error, "the lock file could not be written");
        }
        Ok(Self { _file: file })
    }
}

fn note_holder(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "pid {}", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(100).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_told_who_is_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = LockFile::take(dir.path()).unwrap();
        let message = LockFile::take(dir.path()).unwrap_err().to_string();
        assert!(message.contains(&format!("pid {}", std::process::id())), "{message}");
        drop(first);
        LockFile::take(dir.path()).unwrap();
    }
}
