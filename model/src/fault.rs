//! What went wrong, in a form that tells the caller what to do.
//!
//! Every error that can reach a user implements [`Fault`]. The *kind* decides the HTTP status and whether a retry
//! helps; the *code* is stable and meant for programs; the message (`Display`) names the thing, the place and the
//! fix. The gateway maps kinds to responses in one place.

use serde::{Deserialize, Serialize};

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request cannot be understood: fix it.
    Invalid,
    /// The thing does not exist.
    NotFound,
    /// The state forbids it now: exists already, in flight, too old.
    Conflict,
    /// It existed and is gone: below the log start, or an expired page.
    Gone,
    /// Larger than a limit.
    TooLarge,
    /// A body or answer format that is not spoken here.
    UnsupportedMedia,
    /// Understood, but the data does not fit the table.
    Rejected,
    /// Too much at once: wait and send it again.
    Overloaded,
    /// Nothing happened, and nothing is wrong with the request: send it again.
    Unavailable,
    /// It may or may not have happened: the same key finds out.
    OutcomeUnknown,
    /// Well understood, and not offered.
    NotSupported,
    /// A fault of Wadi's own, or damaged data.
    Internal,
}

impl ErrorKind {
    /// Whether the same request may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(self, ErrorKind::Overloaded | ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
    }
}

/// An error that can be shown to a user.
pub trait Fault: std::error::Error + Send + Sync {
    /// What the caller can do.
    fn kind(&self) -> ErrorKind;

    /// A stable name for programs, in snake_case.
    fn code(&self) -> &str;
}

/// An error that another process of the cluster has told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Told {
    /// Its kind there.
    pub kind: ErrorKind,
    /// Its code there.
    pub code: String,
    /// What it said.
    pub message: String,
}

impl Told {
    /// What an error says of itself.
    pub fn of(fault: &(impl Fault + ?Sized)) -> Told {
        Told { kind: fault.kind(), code: fault.code().to_owned(), message: fault.to_string() }
    }
}

impl Fault for Told {
    fn kind(&self) -> ErrorKind {
        self.kind
    }

    fn code(&self) -> &str {
        &self.code
    }
}
