//! Packs: what a shard's log becomes, how it is trimmed, and what may be deleted.
//!
//! A compactor has no say in any of it. The owner [`plan`]s a round, the compactor reads the named objects and writes packs, and the owner
//! [`commit`]s them after it has compared them with its index. Retention ([`trim`]) and [`deletion`] are the owner's alone, too. Each
//! change is one command in the log, so that a later owner finds it (T4), and all of them together are a fold of the log ([`state`]).
//!
//! Changes of one shard follow each other: whoever makes one holds `Shared::rewriting` from its look at the index until the
//! database has its command. And they touch only entries of the index that are durable, since replay may group later ones
//! otherwise than they were grouped at first, under other keys.
//!
//! | invariant | by |
//! | --- | --- |
//! | L1, L4: no row is lost or moved by packing | `commit` compares offsets, kinds and schema versions with the index, row range by row range |
//! | F1: packs of a stalled compactor do no harm | a pack's name carries the token of the owner that planned it; another owner refuses it |
//! | F2: nobody misses what is deleted | `deletion` lists only what the durable database does not name, below what a takeover reads |
//! | R1: retention is never early | `trim` drops whole chunks whose newest row is too old, or without which the rest is large enough ([`weigh`]) |

use tokio::sync::oneshot;
use wadi_model::{ErrorKind, Fault, LogSeq};

use super::actor;
use super::group::Group;
use super::part::AppendError;
use super::{Shard, Shared};
use crate::container::{BucketRewrite, Command};
use crate::keys::DamagedEntry;
use crate::keys::watermark::Watermark;
use crate::log::ReadError;

pub(super) use state::{Entries, PackState};
pub(super) use trim::Looked;
pub(super) use weigh::Weight;

pub use deletion::Deletable;
pub use holdings::Holdings;
pub use plan::{Inputs, Round};

mod commit;
mod deletion;
mod holdings;
mod plan;
mod remains;
mod state;
mod trim;
mod weigh;

/// Why a change was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PackError {
    /// The shard is not open here any more.
    #[error("the shard is not open here now")]
    NotOwned,
    /// What was planned does not fit what the shard has become; plan anew.
    #[error("the round does not fit the shard any more: {0}")]
    Stale(String),
    /// Packs that do not hold what they should.
    #[error("the packs are refused: {0}")]
    Refused(String),
    /// Who was needed for it did not answer: a store, or a gateway. The text says who.
    #[error("{0}")]
    Unavailable(String),
    /// Whether the change was made is not known; whoever asks for the same again finds out.
    #[error("the change was not confirmed in time; it may or may not be made")]
    OutcomeUnknown,
    /// Stored data is damaged.
    #[error("{0}")]
    Internal(String),
}

impl Fault for PackError {
    fn kind(&self) -> ErrorKind {
        match self {
            PackError::NotOwned | PackError::Unavailable(_) => ErrorKind::Unavailable,
            PackError::Stale(_) => ErrorKind::Conflict,
            PackError::Refused(_) => ErrorKind::Rejected,
            PackError::OutcomeUnknown => ErrorKind::OutcomeUnknown,
            PackError::Internal(_) => ErrorKind::Internal,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            PackError::NotOwned => "shard_not_open",
            PackError::Stale(_) => "round_stale",
            PackError::Refused(_) => "packs_refused",
            PackError::Unavailable(_) => "store_unavailable",
            PackError::OutcomeUnknown => "outcome_unknown",
            PackError::Internal(_) => "internal",
        }
    }
}

impl PackError {
    /// The error of this [code](Fault::code), as it came from another process.
    pub fn of_code(code: &str, why: String) -> PackError {
        match code {
            "shard_not_open" => PackError::NotOwned,
            "round_stale" => PackError::Stale(why),
            "packs_refused" => PackError::Refused(why),
            "outcome_unknown" => PackError::OutcomeUnknown,
            "internal" => PackError::Internal(why),
            _ => PackError::Unavailable(why),
        }
    }
}

impl From<slatedb::Error> for PackError {
    fn from(error: slatedb::Error) -> PackError {
        match error.kind() {
            slatedb::ErrorKind::Closed(_) => PackError::NotOwned,
            slatedb::ErrorKind::Unavailable => PackError::Unavailable(error.to_string()),
            _ => PackError::Internal(error.to_string()),
        }
    }
}

impl From<DamagedEntry> for PackError {
    fn from(error: DamagedEntry) -> PackError {
        PackError::Internal(error.to_string())
    }
}

impl From<ReadError> for PackError {
    fn from(error: ReadError) -> PackError {
        match error {
            ReadError::Store { .. } => PackError::Unavailable(error.to_string()),
            ReadError::Damaged { .. } => PackError::Refused(error.to_string()),
        }
    }
}

impl From<AppendError> for PackError {
    fn from(error: AppendError) -> PackError {
        match error {
            AppendError::NotOwned => PackError::NotOwned,
            AppendError::OutcomeUnknown => PackError::OutcomeUnknown,
            error => PackError::Internal(error.to_string()),
        }
    }
}

/// Applies a command for the shard to its state and to the group that waits. `marks` changes what its caller has of a bucket, and
/// gives the bucket's bounds if they have changed.
pub(super) fn obey(
    packs: &mut PackState,
    group: &mut Group,
    seq: LogSeq,
    command: &Command,
    mut marks: impl FnMut(&BucketRewrite) -> Option<Watermark>,
) -> Result<(), DamagedEntry> {
    if let Some(rewrite) = &command.rewrite {
        group.add_entries(packs.rewrite(seq, rewrite)?);
        for change in &rewrite.buckets {
            match marks(change) {
                Some(mark) => group.add_start(change.bucket_id(), mark),
                None if change.gone => group.forget(&change.bucket_id()),
                None => {}
            }
        }
    }
    if let Some(deleted) = &command.deleted {
        group.add_entries(packs.deleted(deleted)?);
    }
    Ok(())
}

impl Shard {
    /// Puts a command into the log and waits until the database has it.
    async fn order(&self, command: Command) -> Result<(), PackError> {
        let shared: &Shared = &self.shared;
        let bytes = prost::Message::encoded_len(&command);
        // It is not a user's write, so it waits for memory instead of failing.
        let share = shared.context.memory.take(bytes).await.ok_or(PackError::NotOwned)?;
        let (reply, answer) = oneshot::channel();
        let order = super::open::Order { command: Box::new(command), reply, share };
        self.commands.send(actor::Command::Order(order)).await.map_err(|_| PackError::NotOwned)?;
        let seq = answer.await.map_err(|_| PackError::OutcomeUnknown)??;
        let mut progress = shared.progress.subscribe();
        let mut ended = shared.ended.subscribe();
        tokio::select! {
            biased;
            reached = progress.wait_for(|progress| progress.applied >= seq) => {
                reached.map(drop).map_err(|_| PackError::NotOwned)
            }
            // It is in the log, and whoever opens the shard next applies it.
            _ = ended.wait_for(Option::is_some) => Err(PackError::NotOwned),
        }
    }
}
