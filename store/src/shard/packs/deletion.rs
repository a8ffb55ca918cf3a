//! What may be deleted: only the owner says, and only what the durable database does not need.
//!
//! A log object goes when its rows lie in packs by the word of the durable database, and a takeover will not read it: takeovers begin at
//! the database's durable position, whose own object they look at. FENCEs stay for ever (they have no entry here). A pack goes when the durable
//! database has no entry that points into it. Whoever deletes waits for a grace time first, as readers may still follow what the index
//! said before, and then reports; the entry goes with the report. So a list that is carried out late, or twice, is harmless (F2).

use serde::{Deserialize, Serialize};
use wadi_model::LogSeq;

use super::{PackError, PackState};
use crate::container::{Command, Deleted};
use crate::database;
use crate::flaws::{self, Flaw};
use crate::keys::object;
use crate::shard::{Progress, Shard};
use crate::stored::PackName;
use crate::task;

/// Most objects of one list.
const LIST: usize = 10_000;

/// Objects that nobody needs any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletable {
    /// Log objects.
    pub log: Vec<LogSeq>,
    /// Packs.
    pub packs: Vec<PackName>,
}

impl Deletable {
    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty() && self.packs.is_empty()
    }
}

impl Shard {
    /// Objects of the shard that may be deleted, after a grace time: packs, and the first log objects behind `after`. Where there are none, it
    /// costs no request. The lease is not looked at: what an earlier owner knew to be of no use is of no use for ever.
    pub async fn deletable(&self, after: LogSeq) -> Result<Deletable, PackError> {
        let shared = &self.shared;
        let progress = *shared.progress.borrow();
        let (last, packs) = {
            let state = shared.packs.read();
            (last_deletable(&state, progress), state.dead_packs(progress))
        };
        let first = after.max(*shared.deleted.lock()).next();
        let mut log = Vec::new();
        if first <= last {
            let range = object::key(first)..=object::key(last);
            let mut entries = shared.db.scan_with_options(range, &database::far()).await?;
            while log.len() < LIST {
                let Some(entry) = entries.next().await? else { break };
                log.push(object::seq(&entry.key)?);
            }
            if log.is_empty() && after == LogSeq(0) {
                *shared.deleted.lock() = last;
            }
        }
        Ok(Deletable { log, packs })
    }

    /// Notes that objects of such a list are gone.
    ///
    /// # Errors
    ///
    /// `Refused` if one of them was never to be deleted; then nothing is noted.
    pub async fn note_deleted(&self, gone: Deletable) -> Result<(), PackError> {
        if gone.is_empty() {
            return Ok(());
        }
        let shard = self.clone();
        let lock = self.shared.rewriting.clone().lock_owned().await;
        let work = task::spawn(async move {
            let _lock = lock;
            let progress = *shard.shared.progress.borrow();
            let known = {
                let state = shard.shared.packs.read();
                let last = last_deletable(&state, progress);
                if let Some(seq) = gone.log.iter().find(|seq| **seq > last) {
                    return Err(PackError::Refused(format!(
                        "log object {seq} is needed; deletable are those up to {last}"
                    )));
                }
                state.known_dead(&gone.packs, progress)?
            };
            let log = gone.log.iter().map(|seq| seq.0).collect();
            let deleted = Deleted { log, packs: known };
            if deleted == Deleted::default() {
                return Ok(());
            }
            shard.order(Command { deleted: Some(deleted), ..Command::default() }).await
        });
        work.await.unwrap_or_else(|_| Err(PackError::Internal("a report of deletions panicked".into())))
    }

    /// Those of these packs that the shard knows. Of others, whoever made them long ago may delete them: the owner takes none that are
    /// older than half a day.
    pub fn known_packs(&self, names: &[PackName]) -> Vec<PackName> {
        let state = self.shared.packs.read();
        names.iter().filter(|name| state.packs.contains_key(&name.id)).copied().collect()
    }
}

/// The last log object that may be deleted.
pub(super) fn last_deletable(state: &PackState, progress: Progress) -> LogSeq {
    if flaws::has(Flaw::DeletesEarly) {
        return progress.applied;
    }
    // The object at the durable position is the one that a takeover looks at.
    LogSeq(state.packed_for_good().0.min(progress.flushed.0.saturating_sub(1)))
}

impl PackState {
    fn dead_packs(&self, progress: Progress) -> Vec<PackName> {
        let dead = self
            .packs
            .iter()
            .filter(|(_, entry)| entry.dead_since != 0 && entry.dead_since <= progress.flushed.0);
        dead.take(LIST).map(|(id, entry)| entry.name(*id)).collect()
    }

    /// Those of these packs that are known, all of which must be dead.
    fn known_dead(&self, names: &[PackName], progress: Progress) -> Result<Vec<String>, PackError> {
        let mut known = Vec::with_capacity(names.len());
        for name in names {
            match self.packs.get(&name.id) {
                Some(entry) if entry.dead_since == 0 || entry.dead_since > progress.flushed.0 => {
                    return Err(PackError::Refused(format!("{name} is needed")));
                }
                Some(_) => known.push(name.to_string()),
                // Reported before.
                None => {}
            }
        }
        Ok(known)
    }
}
