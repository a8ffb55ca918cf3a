//! What the owner knows of its shard's objects, so that a listing of the object store can be held against it (T4).

use wadi_model::LogSeq;

use super::PackError;
use super::deletion::last_deletable;
use crate::database;
use crate::keys::object;
use crate::shard::Shard;
use crate::stored::PackName;

/// The objects of a shard, as its owner knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Log objects that the database knows. FENCEs are not among them, nor what is not applied yet.
    pub log: Vec<LogSeq>,
    /// Log objects up to here, but for FENCEs, are of no use any more.
    pub deletable: LogSeq,
    /// The database is durable up to here.
    pub flushed: LogSeq,
    /// Packs into which the index points.
    pub live: Vec<PackName>,
    /// Packs into which it does not, and that are not reported as deleted.
    pub dead: Vec<PackName>,
}

impl Shard {
    /// What the shard knows of its objects. It reads the whole list of log objects: for checks, not for every day.
    pub async fn holdings(&self) -> Result<Holdings, PackError> {
        let progress = *self.shared.progress.borrow();
        let mut held = Holdings { flushed: progress.flushed, ..Holdings::default() };
        {
            let state = self.shared.packs.read();
            held.deletable = last_deletable(&state, progress);
            for (id, entry) in &state.packs {
                let of = if entry.dead_since == 0 { &mut held.live } else { &mut held.dead };
                of.push(entry.name(*id));
            }
        }
        let all = object::key(LogSeq(0))..=object::key(LogSeq(u64::MAX));
        let mut entries = self.shared.db.scan_with_options(all, &database::far()).await?;
        while let Some(entry) = entries.next().await? {
            held.log.push(object::seq(&entry.key)?);
        }
        Ok(held)
    }
}
