//! Prefix lookups: all rows under a beginning of the key.
//!
//! Rows of one bucket key are a *group* (see [`super::rows`]). A complete group answers from memory; else the group is read from
//! the database and kept, unless it is too large for that. Longer prefixes are answered from the group of their bucket key.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use wadi_model::Bucket;
use wadi_model::row::Rows;

use super::Shared;
use super::lookup::{LookupError, RowScan};
use super::rows::{GROUP_READ_BYTES, GROUP_ROWS, PrefixRows};
use crate::database;
use crate::keys::row;

/// Prefixes that are read from the database at once.
const PARALLEL: usize = 8;

/// How many rows, and bytes of them, an answer may have.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Rows.
    pub rows: usize,
    /// Bytes of stored rows.
    pub bytes: usize,
}

impl Limit {
    /// Takes a row off, if it is still inside.
    pub(super) fn take(&mut self, row: &[u8]) -> Option<()> {
        self.rows = self.rows.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(row.len())?;
        Some(())
    }
}

/// What was read of a prefix.
enum Read {
    All(Vec<Bytes>),
    /// More than the limit.
    TooMany,
}

/// All rows under each prefix; `None` if they are more than the limit.
pub(super) async fn lookup(
    shared: &Arc<Shared>,
    bucket: &Bucket,
    groups: &Rows,
    prefixes: &Rows,
    mut limit: Limit,
) -> Result<Option<Vec<Vec<Bytes>>>, LookupError> {
    let key = |primary: &[u8]| row::key(bucket, primary);
    let asked: Vec<(Bytes, Bytes)> = groups.iter().map(key).zip(prefixes.iter().map(key)).collect();
    let now = shared.context.env.now_millis();
    let slices = asked.iter().map(|(group, prefix)| (group.as_ref(), prefix.as_ref()));
    let Some(known) = shared.rows.groups(slices, now, &mut limit) else { return Ok(None) };
    let mut cold = Vec::new();
    for ((group, prefix), known) in asked.iter().zip(&known) {
        if !matches!(known, PrefixRows::All(_)) {
            cold.push(read(shared, group, prefix, limit));
        }
    }
    let mut cold = stream::iter(cold).buffered(PARALLEL);
    let mut found = Vec::with_capacity(known.len());
    for known in known {
        let rows = match known {
            PrefixRows::All(rows) => rows,
            PrefixRows::Unknown | PrefixRows::Many => match cold.try_next().await? {
                Some(Read::All(rows)) => {
                    if rows.iter().try_for_each(|row| limit.take(row)).is_none() {
                        return Ok(None);
                    }
                    rows
                }
                // There is one read for each that is not known.
                Some(Read::TooMany) | None => return Ok(None),
            },
        };
        found.push(rows);
    }
    if !shared.claim.hold().await {
        return Err(LookupError::NotOwned);
    }
    Ok(Some(found))
}

/// Reads the rows under a prefix, and keeps its group if it is not too large.
async fn read(
    shared: &Arc<Shared>,
    group: &Bytes,
    prefix: &Bytes,
    limit: Limit,
) -> Result<Read, LookupError> {
    let now = shared.context.env.now_millis();
    // Another read may have brought it; registered afterwards, this one cannot miss a write.
    let mut inside = limit;
    let asked = [(group.as_ref(), prefix.as_ref())];
    let known = shared.rows.groups(asked, now, &mut inside).and_then(|mut known| known.pop());
    match known {
        None => return Ok(Read::TooMany),
        Some(PrefixRows::All(rows)) => return Ok(Read::All(rows)),
        Some(PrefixRows::Many) => return scan(shared, prefix, limit).await,
        Some(PrefixRows::Unknown) => {}
    }
    let registered = shared.rows.begin_group(group.clone());
    let mut scan_of_group =
        RowScan::of_range(shared, row::range_of(group.clone()), &database::near()).await?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some((key, state)) = scan_of_group.next().await? {
        bytes += key.len() + state.row.as_ref().map_or(0, Bytes::len);
        rows.push((key, state));
        if rows.len() > GROUP_ROWS || bytes > GROUP_READ_BYTES {
            registered.finish_many();
            return scan(shared, prefix, limit).await;
        }
    }
    registered.finish(&rows);
    let inside = rows.into_iter().filter(|(key, _)| key.starts_with(prefix));
    Ok(Read::All(inside.filter_map(|(_, state)| state.row).collect()))
}

/// Reads the rows under a prefix of a large group, and keeps nothing.
async fn scan(shared: &Arc<Shared>, prefix: &Bytes, mut limit: Limit) -> Result<Read, LookupError> {
    let mut scan = RowScan::of_range(shared, row::range_of(prefix.clone()), &database::near()).await?;
    let mut rows = Vec::new();
    while let Some((_, state)) = scan.next().await? {
        let Some(row) = state.row else { continue };
        if limit.take(&row).is_none() {
            return Ok(Read::TooMany);
        }
        rows.push(row);
    }
    Ok(Read::All(rows))
}
