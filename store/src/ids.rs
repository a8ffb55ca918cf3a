//! Where the ids of auto-increment columns come from.
//!
//! A table's ids are one counter in the meta store. A bucket's owner takes a range of it, which nobody gets again, and says so in
//! the shard log with its first use ([`crate::container::Command`]); so the counter is asked once for many rows, and what
//! a new owner does not find in the log is lost: a gap.
//!
//! | key | value |
//! | --- | --- |
//! | `ids/auto/<table id>` | the first id that nobody has, and who took the last range |

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use wadi_meta::{Compare, KeyValue, MetaErrorKind, MetaStore, Txn, TxnOutcome};
use wadi_model::TableId;
use wadi_model::env::Env;

/// The first id of a table.
const FIRST: u64 = 1;

/// How often a range is asked for when others ask too, or the meta store does not answer.
const TRIES: usize = 10;

/// Between two tries of something that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The key of a table's counter.
pub fn counter_key(table: TableId) -> String {
    format!("ids/auto/{}", table.0)
}

/// Hands out ids.
#[async_trait]
pub trait IdSource: std::fmt::Debug + Send + Sync {
    /// Takes `count` ids (at least one) of a table's auto-increment column, that nobody had and nobody gets again.
    async fn take(&self, table: TableId, count: u64) -> Result<Range<u64>, String>;
}

/// The counters in the meta store.
#[derive(Debug)]
pub struct MetaIds {
    meta: Arc<dyn MetaStore>,
    env: Env,
}

#[derive(Serialize, Deserialize)]
struct Counter {
    /// The last range begins here …
    start: u64,
    /// … and ends before this id, the first that nobody has.
    next: u64,
    /// Chosen anew for each range, so that one whose outcome is unknown is recognised.
    taken_by: String,
}

impl MetaIds {
    /// The counters of a cluster.
    pub fn new(meta: Arc<dyn MetaStore>, env: Env) -> MetaIds {
        MetaIds { meta, env }
    }
}

#[async_trait]
impl IdSource for MetaIds {
    async fn take(&self, table: TableId, count: u64) -> Result<Range<u64>, String> {
        let key = counter_key(table);
        let taken_by = format!("{:032x}", self.env.unique());
        let mut why = "others took them at the same time, again and again".to_owned();
        for _ in 0..TRIES {
            let found = match self.meta.get(&key).await {
                Ok(found) => found,
                Err(error) => {
                    why = error.to_string();
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let (start, unchanged) = match &found {
                None => (FIRST, Compare::absent(&key)),
                Some(found) => {
                    let last = read(found)?;
                    if last.taken_by == taken_by {
                        // An earlier try, whose answer was lost.
                        return Ok(last.start..last.next);
                    }
                    (last.next, Compare::modified(&key, found.modified))
                }
            };
            // A signed number holds each id.
            let next = start.checked_add(count).filter(|next| *next <= i64::MAX as u64);
            let next = next.ok_or("all ids are used up")?;
            let value = Counter { start, next, taken_by: taken_by.clone() };
            let value = serde_json::to_vec(&value).map_err(|e| e.to_string())?;
            // Of two tries of ours only one can be done, since both compare the same state.
            match self.meta.txn(Txn::new().when(unchanged).put(&key, value)).await {
                Ok(TxnOutcome::Committed(_)) => return Ok(start..next),
                Ok(TxnOutcome::Refused(_)) => {}
                Err(error) if error.kind() == MetaErrorKind::Unknown => why = error.to_string(),
                Err(error) => {
                    why = error.to_string();
                    sleep(PAUSE).await;
                }
            }
        }
        Err(why)
    }
}

fn read(found: &KeyValue) -> Result<Counter, String> {
    serde_json::from_slice(&found.value).map_err(|e| format!("the counter {} cannot be read: {e}", found.key))
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use wadi_meta::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn ranges_do_not_overlap_and_leave_no_gap() {
        let meta: Arc<dyn MetaStore> = Arc::new(MemoryStore::new());
        let sources: Vec<_> = (0..3).map(|_| MetaIds::new(meta.clone(), Env::default())).collect();
        let takes = (0..12).map(|n| sources[n % 3].take(TableId(n as u64 % 2), 1 + n as u64));
        let ranges = join_all(takes).await;
        for table in 0..2 {
            let of_table = ranges.iter().enumerate().filter(|(n, _)| n % 2 == table);
            let mut ranges: Vec<_> = of_table.map(|(_, range)| range.clone().unwrap()).collect();
            ranges.sort_by_key(|range| range.start);
            assert_eq!(ranges[0].start, FIRST);
            assert!(ranges.windows(2).all(|two| two[0].end == two[1].start), "{ranges:?}");
        }
    }

    #[tokio::test]
    async fn a_counter_at_its_end_gives_nothing() {
        let source = MetaIds::new(Arc::new(MemoryStore::new()), Env::default());
        source.take(TableId(1), i64::MAX as u64 - 10).await.unwrap();
        assert!(source.take(TableId(1), 10).await.is_err());
        assert_eq!(source.take(TableId(1), 9).await.unwrap(), i64::MAX as u64 - 9..i64::MAX as u64);
    }
}
