//! What is appended, and what can be said about it.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, RecordBatch};
use serde::{Deserialize, Serialize};
use wadi_model::ipc::Originals;
use wadi_model::options::LogCompression;
use wadi_model::{Bucket, ErrorKind, Fault, Offset, SchemaId, Told};

use super::merging::Keyed;
use crate::keyed::RowError;

/// One request's rows for one bucket. Taken or refused as a whole (L5).
#[derive(Clone, Debug)]
pub struct Part {
    /// The bucket.
    pub bucket: Bucket,
    /// The schema version of the rows.
    pub schema: SchemaId,
    /// How the rows are stored.
    pub compression: LogCompression,
    /// At least one row.
    pub rows: RecordBatch,
    /// Buffers of the rows that came compressed; none if they are made here.
    pub originals: Originals,
    /// Who sent it, if a retry is to find it again.
    pub stamp: Option<Stamp>,
    /// For a primary-key table, what the rows are to do.
    pub keyed: Option<Keyed>,
}

/// Bytes of the rows themselves. Columns may share one buffer, such as the body that they came in; counting buffers would
/// count it once for each.
pub fn raw_bytes(rows: &RecordBatch) -> usize {
    let size = |column: &ArrayRef| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| data.get_array_memory_size())
    };
    rows.columns().iter().map(size).sum()
}

/// The mark by which a request is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The producer, or the idempotency key.
    pub producer: Arc<str>,
    /// The request's number; 0 for an idempotency key.
    pub sequence: u64,
    /// A hash of what the request says.
    pub fingerprint: u64,
    /// Whether it has one request at a time, as an idempotency key does: only its last one is remembered, and not for as long.
    pub once: bool,
}

/// A part that is durable and readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Appended {
    /// The offset of its first row.
    pub base_offset: Offset,
    /// Its rows.
    pub rows: u32,
    /// Whether it was there already, from an earlier try.
    pub again: bool,
    /// How long it waited for its PUT to begin.
    pub queued: Duration,
    /// How long its PUT took.
    pub put: Duration,
}

/// All that can go wrong when a part is appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Larger than a log object may be.
    #[error(
        "{bytes} bytes for one bucket are more than the {limit} that one request may carry; send smaller requests"
    )]
    TooLarge {
        /// Raw bytes of the part.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The budget of accepted bytes is spent.
    #[error("too much is waiting to be written; send it again in a moment")]
    Overloaded,
    /// The shard is not open here, or is closing. Nothing was written.
    #[error("the shard of this bucket is not open here now; nothing was written")]
    NotOwned,
    /// It may or may not be written.
    #[error("the write was not confirmed in time; it may or may not be there")]
    OutcomeUnknown,
    /// The same request is being written.
    #[error("request {sequence} of producer \"{producer}\" is being written right now")]
    InFlight {
        /// The producer or key.
        producer: Arc<str>,
        /// The request's number.
        sequence: u64,
    },
    /// The request is older than what is remembered.
    #[error(
        "request {sequence} of producer \"{producer}\" is older than the last {} that are remembered",
        super::producers::WINDOW
    )]
    SequenceTooOld {
        /// The producer.
        producer: Arc<str>,
        /// The request's number.
        sequence: u64,
    },
    /// The same key or number came with other content before.
    #[error("\"{producer}\" ({sequence}) was used before for a request with other content")]
    KeyReused {
        /// The producer or key.
        producer: Arc<str>,
        /// The request's number.
        sequence: u64,
    },
    /// A row has no usable key.
    #[error("{0}")]
    Key(wadi_model::key::KeyFault),
    /// A row cannot be merged with the stored one.
    #[error("{0}")]
    Merge(wadi_model::merge::MergeFault),
    /// New rows need ids, and none could be taken. Nothing was written.
    #[error("new rows need ids for their auto-increment column, and the meta store gave none: {0}")]
    NoIds(String),
    /// The auto-increment column's type has no ids left. Nothing was written.
    #[error("the ids of column \"{column}\" are used up, the highest is {most}; widen the column")]
    IdsExhausted {
        /// The auto-increment column.
        column: String,
        /// The highest id that fits its type.
        most: u64,
    },
    /// A stored row is of a later version of the table than the one that the part was made for. Nothing was written.
    #[error(
        "the table was altered while the rows were on their way (version {version} is there now); send them again"
    )]
    SchemaBehind {
        /// The version of the stored row.
        version: SchemaId,
    },
    /// The shard's owner cannot be reached. Nothing was written.
    #[error("the owner of this bucket's shard did not answer: {0}; nothing was written")]
    Unreachable(String),
    /// What its owner said.
    #[error(transparent)]
    Told(Told),
    /// The rows could not be stored, or stored state could not be read.
    #[error("{0}")]
    Internal(String),
}

impl AppendError {
    pub(super) fn internal(why: impl ToString) -> AppendError {
        AppendError::Internal(why.to_string())
    }

    /// The stored rows could not be read, so nothing was written. A database closes when its shard moves.
    pub(super) fn not_read(error: slatedb::Error) -> AppendError {
        match error.kind() {
            slatedb::ErrorKind::Closed(_) => AppendError::NotOwned,
            _ => AppendError::internal(error),
        }
    }

    /// What the owner of a shard has told of a part with this stamp.
    pub(crate) fn told(told: Told, stamp: Option<&Stamp>) -> AppendError {
        match (told.code.as_str(), stamp) {
            ("shard_not_open", _) => AppendError::NotOwned,
            ("outcome_unknown", _) => AppendError::OutcomeUnknown,
            ("overloaded", _) => AppendError::Overloaded,
            ("in_flight", Some(stamp)) => {
                AppendError::InFlight { producer: stamp.producer.clone(), sequence: stamp.sequence }
            }
            _ => AppendError::Told(told),
        }
    }
}

impl From<RowError> for AppendError {
    fn from(error: RowError) -> AppendError {
        match error {
            RowError::Key(fault) => AppendError::Key(fault),
            RowError::UnknownVersion(version) => AppendError::SchemaBehind { version },
            error => AppendError::internal(error),
        }
    }
}

impl Fault for AppendError {
    fn kind(&self) -> ErrorKind {
        match self {
            AppendError::TooLarge { .. } => ErrorKind::TooLarge,
            AppendError::Overloaded => ErrorKind::Overloaded,
            AppendError::NotOwned
            | AppendError::SchemaBehind { .. }
            | AppendError::NoIds(_)
            | AppendError::Unreachable(_) => ErrorKind::Unavailable,
            AppendError::OutcomeUnknown => ErrorKind::OutcomeUnknown,
            AppendError::InFlight { .. } | AppendError::SequenceTooOld { .. } => ErrorKind::Conflict,
            AppendError::KeyReused { .. } | AppendError::Key(_) | AppendError::IdsExhausted { .. } => {
                ErrorKind::Rejected
            }
            AppendError::Merge(fault) => fault.kind(),
            AppendError::Told(told) => told.kind(),
            AppendError::Internal(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &str {
        match self {
            AppendError::TooLarge { .. } => "part_too_large",
            AppendError::Overloaded => "overloaded",
            AppendError::NotOwned => "shard_not_open",
            AppendError::OutcomeUnknown => "outcome_unknown",
            AppendError::InFlight { .. } => "in_flight",
            AppendError::SequenceTooOld { .. } => "sequence_too_old",
            AppendError::KeyReused { .. } => "key_reused",
            AppendError::Key(fault) => fault.code(),
            AppendError::Merge(fault) => fault.code(),
            AppendError::Told(told) => told.code(),
            AppendError::Unreachable(_) => "owner_unreachable",
            AppendError::NoIds(_) => "ids_unavailable",
            AppendError::IdsExhausted { .. } => "ids_exhausted",
            AppendError::SchemaBehind { .. } => "schema_changed",
            AppendError::Internal(_) => "internal",
        }
    }
}
