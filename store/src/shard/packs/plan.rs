//! What is to be packed or merged next: the owner says, a compactor asks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wadi_model::{LogSeq, Token};

use super::{PackError, PackState};
use crate::database;
use crate::keys::object;
use crate::keys::pack::PackEntry;
use crate::keys::packing::Packing;
use crate::settings::Settings;
use crate::shard::{Progress, Shard};
use crate::stored::{PackId, PackName};

/// Shared packs of a level that are merged into one of the next.
const MERGE: usize = 8;

/// Packs of this level are not merged any more.
const LAST_LEVEL: u32 = 6;

/// Objects to be turned into packs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The owner's token, which goes into the names.
    pub token: Token,
    /// The first log position that the round covers.
    pub from: LogSeq,
    /// The last one.
    pub to: LogSeq,
    /// The level of what is made.
    pub level: u32,
    /// What is to be read.
    pub inputs: Inputs,
}

/// The objects of a round, in the order of their rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Inputs {
    /// Log objects.
    Log(Vec<LogSeq>),
    /// Shared packs.
    Packs(Vec<PackName>),
}

impl Shard {
    /// The next round, if one is due. Where nothing is, it costs no request. The lease is not looked at: a round that an owner plans that has lost
    /// it is refused when it is to be committed.
    pub async fn next_round(&self) -> Result<Option<Round>, PackError> {
        let shared = &self.shared;
        let progress = *shared.progress.borrow();
        let (settings, now) = (&shared.context.settings, shared.context.env.now_millis());
        let (packing, merge) = {
            let packs = shared.packs.read();
            (packs.packing, packs.next_merge(progress))
        };
        let token = shared.claim.token();
        if is_due(&packing, settings, now)
            && let Some((log, to)) = self.log_inputs(&packing, progress).await?
        {
            let from = LogSeq(packing.packed + 1);
            return Ok(Some(Round { token, from, to, level: 0, inputs: Inputs::Log(log) }));
        }
        Ok(merge.map(|(names, level)| {
            let from = names.iter().map(|name| name.from).min().unwrap_or_default();
            let to = names.iter().map(|name| name.to).max().unwrap_or_default();
            Round { token, from, to, level: level + 1, inputs: Inputs::Packs(names) }
        }))
    }

    /// Bytes of the shard's log that no pack holds yet.
    pub fn unpacked_bytes(&self) -> u64 {
        self.shared.packs.read().packing.bytes
    }

    /// Log objects behind the packed ones that are durable in the database, as many as make a round, and the last position of them.
    async fn log_inputs(
        &self,
        packing: &Packing,
        progress: Progress,
    ) -> Result<Option<(Vec<LogSeq>, LogSeq)>, PackError> {
        let settings = &self.shared.context.settings;
        // The state may be ahead of what is durable, and SlateDB panics on a range that ends before it begins.
        if progress.flushed.0 <= packing.packed {
            return Ok(None);
        }
        let range = object::key(LogSeq(packing.packed + 1))..=object::key(progress.flushed);
        let mut entries = self.shared.db.scan_with_options(range, &database::far()).await?;
        let (mut log, mut bytes, mut rows) = (Vec::new(), 0u64, 0u64);
        while bytes < settings.pack_bytes && log.len() < settings.pack_objects {
            let Some(entry) = entries.next().await? else { break };
            let footer = object::decode(&entry.value)?;
            bytes += footer.chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
            rows += footer.chunks.iter().map(|chunk| u64::from(chunk.rows)).sum::<u64>();
            log.push(object::seq(&entry.key)?);
        }
        Ok(log.last().copied().filter(|_| rows > 0).map(|to| (log, to)))
    }
}

/// Whether the log that is not packed is worth a round.
fn is_due(packing: &Packing, settings: &Settings, now: i64) -> bool {
    let old = i64::try_from(settings.pack_interval.as_millis()).unwrap_or(i64::MAX);
    let many = packing.bytes >= settings.pack_bytes || packing.objects >= settings.pack_objects as u64;
    packing.objects > 0 && (many || now.saturating_sub(packing.oldest) >= old)
}

impl PackState {
    /// The oldest shared packs of a level that has enough of them, and that level. Packs are made in the order of the log, so those of
    /// a level stand side by side.
    fn next_merge(&self, progress: Progress) -> Option<(Vec<PackName>, u32)> {
        let mut levels: BTreeMap<u32, Vec<(PackId, PackEntry)>> = BTreeMap::new();
        for (id, entry) in &self.packs {
            let usable = entry.dead_since == 0 && entry.level < LAST_LEVEL;
            if usable && entry.to <= progress.flushed.0 {
                levels.entry(entry.level).or_default().push((*id, *entry));
            }
        }
        let (level, mut packs) = levels.into_iter().find(|(_, packs)| packs.len() >= MERGE)?;
        packs.sort_by_key(|(_, entry)| entry.from);
        packs.truncate(MERGE);
        Some((packs.into_iter().map(|(id, entry)| entry.name(id)).collect(), level))
    }
}
