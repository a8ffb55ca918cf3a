//! Why a change cannot be merged.

use super::MAX_AGGREGATED;
use crate::fault::{ErrorKind, Fault};

/// A change that cannot be merged. Nothing of it was: the caller refuses the part as a whole and adds which row it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum MergeFault {
    #[error("deletes are disabled in this table (option \"{}\")", crate::options::DELETE_BEHAVIOR)]
    DeleteDisabled,
    #[error("the aggregate in column \"{column}\" would no longer fit the column's type; widen the column")]
    Overflow { column: String },
    #[error(
        "the aggregate in column \"{column}\" would no longer fit the {} MiB that the aggregated values of a row may take",
        MAX_AGGREGATED >> 20
    )]
    TooLarge { column: String },
    #[error("the value for column \"{column}\" is no Roaring bitmap: {why}")]
    Bitmap { column: String, why: &'static str },
    #[error("the stored value of column \"{column}\" is damaged")]
    Damaged { column: String },
    #[error("a row cannot be merged: {0}")]
    Misfit(&'static str),
}

impl Fault for MergeFault {
    fn kind(&self) -> ErrorKind {
        match self {
            MergeFault::DeleteDisabled | MergeFault::Overflow { .. } | MergeFault::Bitmap { .. } => {
                ErrorKind::Rejected
            }
            MergeFault::TooLarge { .. } => ErrorKind::TooLarge,
            MergeFault::Damaged { .. } | MergeFault::Misfit(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            MergeFault::DeleteDisabled => "delete_disabled",
            MergeFault::Overflow { .. } => "aggregate_overflow",
            MergeFault::TooLarge { .. } => "aggregate_too_large",
            MergeFault::Bitmap { .. } => "invalid_bitmap",
            MergeFault::Damaged { .. } => "damaged_row",
            MergeFault::Misfit(_) => "internal",
        }
    }
}
