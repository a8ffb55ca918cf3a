//! Rows by key, from the owner of their bucket.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wadi_model::Bucket;
use wadi_model::row::Rows;

use super::message::Malformed;
use super::part::{rows_of, sections_of};
use super::{ANSWER, At, Call, Route, RouteError};
use crate::shard::{Limit, LookupError, Shard};

/// What is asked for under prefixes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PrefixesHead {
    bucket: Bucket,
    rows: usize,
    bytes: usize,
}

/// For each key whether it has a row, or for each prefix how many; the lengths of the rows are in the first section, the rows in the second.
pub(super) type Counts = Vec<u32>;

impl Route {
    /// The rows of these primary keys of a bucket; see [`Shard::lookup`].
    pub async fn lookup(
        &self,
        bucket: Bucket,
        keys: &Rows,
        patience: Duration,
    ) -> Result<Vec<Option<Bytes>>, RouteError<LookupError>> {
        let question = move |at: At| async move {
            match at {
                At::Here(shard) => shard.lookup(&bucket, keys).await,
                At::There(peer) => {
                    let asked = peer.ask::<Counts>(Call::Lookup, &bucket, sections_of(keys).into(), ANSWER);
                    let (counts, sections) = asked.await?;
                    let groups = groups_of(&counts, &sections, keys.len()).map_err(damaged)?;
                    Ok(groups.into_iter().map(|mut group| group.pop()).collect())
                }
            }
        };
        self.ask(self.shard(&bucket), patience, question).await
    }

    /// All rows of a bucket under prefixes; see [`Shard::lookup_prefixes`].
    pub async fn lookup_prefixes(
        &self,
        bucket: Bucket,
        groups: &Rows,
        prefixes: &Rows,
        limit: Limit,
        patience: Duration,
    ) -> Result<Option<Vec<Vec<Bytes>>>, RouteError<LookupError>> {
        let question = move |at: At| async move {
            match at {
                At::Here(shard) => shard.lookup_prefixes(&bucket, groups, prefixes, limit).await,
                At::There(peer) => {
                    let head = PrefixesHead { bucket, rows: limit.rows, bytes: limit.bytes };
                    let sections = [sections_of(groups), sections_of(prefixes)].concat();
                    let asked = peer.ask::<Option<Counts>>(Call::Prefixes, &head, sections, ANSWER);
                    let (counts, sections) = asked.await?;
                    let groups = counts.map(|counts| groups_of(&counts, &sections, prefixes.len()));
                    groups.transpose().map_err(damaged)
                }
            }
        };
        self.ask(self.shard(&bucket), patience, question).await
    }
}

fn damaged(error: Malformed) -> LookupError {
    LookupError::Internal(error.to_string())
}

/// Groups of rows, as counts and sections.
pub(super) fn sections_of_groups(groups: &[Vec<Bytes>]) -> (Counts, Vec<Bytes>) {
    let counts = groups.iter().map(|group| group.len() as u32).collect();
    let rows = || groups.iter().flatten();
    let mut bytes = Vec::with_capacity(rows().map(Bytes::len).sum());
    let mut ends = Vec::with_capacity(rows().count());
    for row in rows() {
        bytes.extend_from_slice(row);
        ends.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    }
    (counts, vec![bytes.into(), ends.into()])
}

fn groups_of(counts: &[u32], sections: &[Bytes], asked: usize) -> Result<Vec<Vec<Bytes>>, Malformed> {
    let wrong = |what: &str| Malformed(what.to_owned());
    let [bytes, ends] = sections else { return Err(wrong("its rows are missing")) };
    let rows = rows_of(bytes, ends)?;
    let told: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if told != rows.len() as u64 || counts.len() != asked {
        return Err(wrong("it has other rows than it says"));
    }
    let mut at = 0;
    let group = |count: &u32| {
        let group = (at..at + *count as usize).map(|row| rows.slice(row)).collect();
        at += *count as usize;
        group
    };
    Ok(counts.iter().map(group).collect())
}

/// Answers a lookup.
pub(super) async fn answer_lookup(
    shard: &Shard,
    bucket: Bucket,
    sections: &[Bytes],
) -> Result<(Counts, Vec<Bytes>), LookupError> {
    let [keys, ends] = sections else { return Err(damaged(Malformed("its keys are missing".into()))) };
    let keys = rows_of(keys, ends).map_err(damaged)?;
    let found = shard.lookup(&bucket, &keys).await?;
    let groups: Vec<Vec<Bytes>> = found.into_iter().map(|row| row.into_iter().collect()).collect();
    Ok(sections_of_groups(&groups))
}

/// Answers a lookup of prefixes.
pub(super) async fn answer_prefixes(
    shard: &Shard,
    head: PrefixesHead,
    sections: &[Bytes],
) -> Result<(Option<Counts>, Vec<Bytes>), LookupError> {
    let [groups, group_ends, prefixes, ends] = sections else {
        return Err(damaged(Malformed("its prefixes are missing".into())));
    };
    let groups = rows_of(groups, group_ends).map_err(damaged)?;
    let prefixes = rows_of(prefixes, ends).map_err(damaged)?;
    if groups.len() != prefixes.len() {
        return Err(damaged(Malformed("not every prefix has a group".into())));
    }
    let limit = Limit { rows: head.rows, bytes: head.bytes };
    let found = shard.lookup_prefixes(&head.bucket, &groups, &prefixes, limit).await?;
    Ok(match found {
        None => (None, Vec::new()),
        Some(groups) => {
            let (counts, sections) = sections_of_groups(&groups);
            (Some(counts), sections)
        }
    })
}

impl PrefixesHead {
    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}
