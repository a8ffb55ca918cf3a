//! Retention and drops: what may be gone, and since when.
//!
//! A row was flushed between the moment when its request was first sent and its ack, by the clock of some gateway; another one's clock
//! says when it has expired. So a row must be there until its table's time has passed since it was sent, but for the
//! difference of the clocks; what is trimmed before that is lost (R1). Which rows are trimmed the ends of the log say, whoever reads
//! them.
//!
//! What was dropped may go at any time, and is judged no more, from the moment at which the drop is sent. Its rows have ids like all
//! others, so one that turns up under a table or partition made later is found (L3, L4).

use std::time::Duration;

use tokio::time::Instant;
use wadi_model::{Bucket, PartitionId, TableId};

use super::{Checker, Entry, Fate, MOST_ROWS};

/// How long the rows of a bucket's log are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeps {
    /// As its table says. `None` is longer than any run.
    pub ttl: Option<Duration>,
    /// How far the clocks of gateways are apart.
    pub skew: Duration,
}

impl Checker {
    /// Says how long rows of a bucket are kept; of those of which nothing is said, for ever.
    pub fn keeps(&mut self, bucket: Bucket, keeps: Keeps) {
        self.keeps.insert(bucket, keeps);
    }

    /// From now on this table, or partition, may be gone.
    pub fn dropped(&mut self, table: TableId, partition: Option<PartitionId>) {
        self.gone.insert((table, partition));
    }

    /// Whether a bucket was dropped, or that was tried.
    pub fn is_gone(&self, bucket: &Bucket) -> bool {
        let gone = |partition| self.gone.contains(&(bucket.table, partition));
        gone(None) || gone(Some(bucket.partition))
    }

    /// Notes a violation that concerns a bucket, unless that was dropped.
    pub fn violated_in(&mut self, bucket: &Bucket, invariant: &'static str, what: String) {
        if !self.is_gone(bucket) {
            self.violated(invariant, what);
        }
    }

    /// Where a bucket's log begins, as far as anybody has seen.
    pub fn log_start(&self, bucket: &Bucket) -> u64 {
        self.trims.get(bucket).and_then(|trims| trims.last()).map_or(0, |(start, _)| *start)
    }

    /// Notes where somebody saw a bucket's log begin.
    pub fn starts_at(&mut self, bucket: Bucket, start: u64, who: &str) {
        let before = self.log_start(&bucket);
        // An owner before may still say less.
        if start <= before || self.is_gone(&bucket) {
            return;
        }
        self.trace.count("trims seen");
        self.trims.entry(bucket).or_default().push((start, Instant::now()));
        let acked = self.acked_at.range((bucket, before)..(bucket, start));
        let mut requests: Vec<u64> = acked.map(|(_, request)| *request).collect();
        let read = self.logs.get(&bucket).into_iter().flat_map(|log| log.range(before..start));
        requests.extend(read.filter_map(|(_, entry)| match entry {
            Entry::Row(id) => Some(*id as u64 / MOST_ROWS),
            Entry::Change(_) => None,
        }));
        requests.dedup();
        for request in requests {
            self.check_kept(request, start, Instant::now(), who);
        }
    }

    /// A request that turns out to be acked where the log was trimmed already.
    pub(super) fn check_trimmed(&mut self, bucket: Bucket, request: u64, base: u64) {
        let trims = self.trims.get(&bucket).map(Vec::as_slice).unwrap_or_default();
        if let Some((start, when)) = trims.iter().find(|(start, _)| *start > base) {
            let (start, when) = (*start, *when);
            self.check_kept(request, start, when, "an ack");
        }
    }

    /// R1: the rows of a request, which were gone `when` the log began at `start`, had expired.
    fn check_kept(&mut self, request: u64, start: u64, when: Instant, who: &str) {
        let Some((bucket, sent)) = self.requests.get(request as usize).map(|r| (r.bucket, r.sent)) else {
            return;
        };
        let keeps = self.keeps.get(&bucket).copied().unwrap_or_default();
        let age = when.saturating_duration_since(sent);
        let needed = match keeps.ttl {
            Some(ttl) if age + keeps.skew >= ttl => return,
            Some(ttl) => format!("{ttl:?}, and clocks are {:?} apart", keeps.skew),
            None => "for ever".to_owned(),
        };
        let what = format!(
            "{who} saw {bucket} begin at {start}; rows of request {request} were trimmed {age:?} after they were sent, \
             and are kept {needed}"
        );
        self.violated("R1", what);
    }

    /// Where the rows of a request were seen; those that were trimmed before anybody read them are where they must have been.
    pub(super) fn places_of(&self, request: usize, first: i64) -> Vec<Option<u64>> {
        let known = &self.requests[request];
        let place = |i: u64| self.places.get(&(first + i as i64)).map(|(_, at)| *at);
        let mut places: Vec<Option<u64>> = (0..known.rows).map(place).collect();
        let seen = places.iter().zip(0..).find_map(|(at, i)| at.and_then(|at| at.checked_sub(i)));
        let base = match known.fate {
            Fate::Acked { base, .. } => Some(base),
            _ => seen,
        };
        let start = self.log_start(&known.bucket);
        if let Some(base) = base {
            for (at, place) in (base..start).zip(&mut places) {
                place.get_or_insert(at);
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::super::{BTreeMap, Trace, first_id};
    use super::*;

    const BUCKET: Bucket = Bucket { table: TableId(1), partition: PartitionId::NONE, bucket: 0 };

    /// Two requests of two rows, five seconds apart, in a table that keeps rows for ten seconds.
    async fn history() -> Checker {
        let mut checker = Checker::new(Trace::new(false));
        checker.keeps(BUCKET, Keeps { ttl: Some(Duration::from_secs(10)), skew: Duration::from_secs(1) });
        for base in [0, 2] {
            let request = checker.begin(BUCKET, 2);
            checker.acked(request, base, 2, false);
            advance(Duration::from_secs(5)).await;
        }
        checker
    }

    fn violations(checker: &Checker) -> Vec<&'static str> {
        checker.violations().iter().map(|v| v.invariant).collect()
    }

    fn finished(mut checker: Checker, end: u64) -> Vec<&'static str> {
        checker.finish(&BTreeMap::from([(BUCKET, end)]));
        violations(&checker)
    }

    #[tokio::test(start_paused = true)]
    async fn rows_that_have_expired_may_go_unread() {
        let mut checker = history().await;
        checker.starts_at(BUCKET, 2, "r");
        checker.read(BUCKET, 2, &[Entry::Row(first_id(1)), Entry::Row(first_id(1) + 1)], "r");
        assert!(finished(checker, 4).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_trim_that_takes_kept_rows_along_is_caught() {
        for unread in [false, true] {
            let mut checker = history().await;
            if !unread {
                checker.read(
                    BUCKET,
                    0,
                    &(0..2).map(|i| Entry::Row(first_id(0) + i)).collect::<Vec<_>>(),
                    "r",
                );
            }
            checker.starts_at(BUCKET, 3, "r");
            assert_eq!(violations(&checker), ["R1"], "the second request is five seconds old");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_that_was_read_and_never_acked_is_kept_too() {
        let mut checker = history().await;
        let open = checker.begin(BUCKET, 1);
        checker.read(BUCKET, 4, &[Entry::Row(first_id(open))], "r");
        advance(Duration::from_secs(8)).await;
        checker.starts_at(BUCKET, 5, "r");
        assert_eq!(violations(&checker), ["R1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_ack_that_comes_after_the_trim_is_looked_at() {
        let mut checker = history().await;
        let late = checker.begin(BUCKET, 1);
        advance(Duration::from_secs(6)).await;
        checker.starts_at(BUCKET, 5, "r");
        assert_eq!(violations(&checker), [] as [&str; 0], "nobody knows what lies at offset 4");
        checker.acked(late, 4, 1, true);
        assert_eq!(violations(&checker), ["R1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_table_that_keeps_all_is_not_trimmed() {
        let mut checker = history().await;
        checker.keeps(BUCKET, Keeps::default());
        advance(Duration::from_secs(5_000)).await;
        checker.starts_at(BUCKET, 2, "r");
        assert_eq!(violations(&checker), ["R1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn rows_behind_the_start_are_still_missed() {
        let mut checker = history().await;
        checker.starts_at(BUCKET, 2, "r");
        checker.read(BUCKET, 2, &[Entry::Row(first_id(1))], "r");
        assert_eq!(finished(checker, 4), ["L4", "L1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_is_not_judged_and_does_not_come_back() {
        let mut checker = history().await;
        let (old, new) = (PartitionId(7), PartitionId(8));
        let of = |partition| Bucket { partition, ..BUCKET };
        let request = checker.begin(of(old), 1);
        checker.acked(request, 0, 1, false);
        checker.dropped(BUCKET.table, Some(old));
        checker.starts_at(of(old), 1, "r");
        checker.read(of(old), 0, &[Entry::Row(99)], "r");
        checker.violated_in(&of(old), "L4", "nobody asks".into());
        assert_eq!(violations(&checker), [] as [&str; 0]);
        checker.read(of(new), 0, &[Entry::Row(first_id(request))], "r");
        assert_eq!(violations(&checker), ["L4"], "a row of the old one in the new one");
    }
}
