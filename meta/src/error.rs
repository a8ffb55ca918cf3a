//! What can go wrong with metadata. The kind tells the caller what to do; the message tells a person what happened.

use std::fmt;
use std::sync::Arc;

/// What a caller does about a [`MetaError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetaErrorKind {
    /// Nothing was done, the store cannot be reached now. Try again.
    Unavailable,
    /// The change may or may not have been made, now or a little later. Read the keys before trying again.
    Unknown,
    /// The session has ended for good and its keys are gone or going. Nothing was done. Start a new session.
    SessionLost,
    /// Another process has taken the store. Every later call fails too: exit.
    Fenced,
    /// The request breaks a rule of the store. Nothing was done, and it will never succeed.
    Invalid,
    /// This handle was closed.
    Closed,
    /// What is stored cannot be read, or the database under the store has failed. A person has to look; exit.
    Internal,
}

/// A failed call on a [`MetaStore`](crate::MetaStore), a [`Session`](crate::Session) or a [`Watch`](crate::Watch).
#[derive(Debug, Clone)]
pub struct MetaError {
    kind: MetaErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl MetaError {
    /// An error of a store outside this crate, such as a simulated one.
    pub fn new(kind: MetaErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(MetaErrorKind::Unavailable, message)
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(MetaErrorKind::Unknown, message)
    }

    pub(crate) fn session_lost(message: impl Into<String>) -> Self {
        Self::new(MetaErrorKind::SessionLost, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(MetaErrorKind::Invalid, message)
    }

    pub(crate) fn closed() -> Self {
        Self::new(MetaErrorKind::Closed, "the metadata store was closed")
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(MetaErrorKind::Internal, message)
    }

    /// What the caller does about it.
    pub fn kind(&self) -> MetaErrorKind {
        self.kind
    }
}

impl fmt::Display for MetaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for MetaError {}
