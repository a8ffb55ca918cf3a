//! The ids that a shard's buckets have for auto-increment columns.
//!
//! Owned by the actor. A bucket takes ranges from the [`IdSource`](crate::ids::IdSource) ahead of need and uses them in order.
//! Each log object whose rows use ids says in a command what the bucket has left behind them; so the next id is a fold of the
//! log, and no id is given to two rows whatever happens: what an object used that never became durable nobody has seen.
//!
//! A range that no durable object names is lost with its owner. While a bucket has one it takes no other ahead, so a
//! takeover leaves a gap of one range at most. (A part that needs more ids than there are may add one.)

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use wadi_model::Bucket;

use crate::keys::ids::{IdRange, IdRanges};

/// A range is taken ahead when the bucket has less than this part of one left.
const AHEAD: u64 = 4;

/// The ids of all buckets. `W` is what waits for some.
#[derive(Debug)]
pub(super) struct Ids<W>(BTreeMap<Bucket, BucketIds<W>>);

#[derive(Debug)]
struct BucketIds<W> {
    held: VecDeque<Held>,
    /// Whether a range is being taken.
    taking: bool,
    waiting: Vec<W>,
    /// The most that anything waiting needs.
    needed: u64,
}

#[derive(Debug)]
struct Held {
    range: IdRange,
    /// Whether a durable object names it.
    logged: bool,
    /// Whether some of it is used.
    used: bool,
}

impl<W> Default for BucketIds<W> {
    fn default() -> BucketIds<W> {
        BucketIds { held: VecDeque::new(), taking: false, waiting: Vec::new(), needed: 0 }
    }
}

impl<W> BucketIds<W> {
    fn left(&self) -> u64 {
        self.held.iter().map(|held| held.range.end - held.range.next).sum()
    }

    /// How many are to be taken now, of ranges of `size`.
    fn due(&mut self, size: u64) -> Option<u64> {
        let on_its_way = self.held.iter().any(|held| held.used && !held.logged);
        let unnamed = self.held.iter().any(|held| !held.logged);
        let due = match self.waiting.is_empty() {
            // What waits for ids waits for the range on its way to be durable, too.
            false => !on_its_way,
            true => !unnamed && self.left() <= size / AHEAD,
        };
        let due = due && !self.taking;
        self.taking |= due;
        due.then(|| size.max(self.needed))
    }
}

impl<W> Ids<W> {
    /// What the log says.
    pub(super) fn new(logged: BTreeMap<Bucket, IdRanges>) -> Ids<W> {
        let held = |range| Held { range, logged: true, used: true };
        let of = |ranges: IdRanges| BucketIds {
            held: ranges.ranges.into_iter().filter(|range| range.next <= range.end).map(held).collect(),
            ..BucketIds::default()
        };
        Ids(logged.into_iter().map(|(bucket, ranges)| (bucket, of(ranges))).collect())
    }

    /// The ids that come next, for a part that may or may not be taken.
    pub(super) fn next(&self, bucket: &Bucket) -> NextIds {
        let held = self.0.get(bucket).map(|ids| ids.held.iter().map(|held| held.range).collect());
        NextIds { ranges: held.unwrap_or_default(), drawn: 0, short: 0 }
    }

    /// Notes that a part has used the next `count` ids. Gives what is left.
    pub(super) fn use_up(&mut self, bucket: Bucket, mut count: u64) -> IdRanges {
        let ids = self.0.entry(bucket).or_default();
        for held in &mut ids.held {
            let some = count.min(held.range.end - held.range.next);
            held.range.next += some;
            held.used |= some > 0;
            count -= some;
        }
        debug_assert_eq!(count, 0, "a part draws only what is there");
        while ids.held.len() > 1 && ids.held[0].range.next == ids.held[0].range.end && ids.held[0].logged {
            ids.held.pop_front();
        }
        IdRanges { ranges: ids.held.iter().map(|held| held.range).collect() }
    }

    /// Notes that a durable object says so of a bucket.
    pub(super) fn logged(&mut self, bucket: &Bucket, ranges: &IdRanges) {
        let Some(ids) = self.0.get_mut(bucket) else { return };
        for held in &mut ids.held {
            held.logged |= ranges.ranges.iter().any(|range| range.end == held.range.end);
        }
    }

    /// Lets something wait that needs so many ids.
    pub(super) fn wait(&mut self, bucket: Bucket, needed: u64, waiting: W) {
        let ids = self.0.entry(bucket).or_default();
        ids.needed = ids.needed.max(needed);
        ids.waiting.push(waiting);
    }

    /// How many ids are to be taken for a bucket now, if any; whoever asks takes them. `size` is how many a bucket takes at once.
    pub(super) fn due(&mut self, bucket: Bucket, size: u64) -> Option<u64> {
        self.0.entry(bucket).or_default().due(size)
    }

    /// What waits for ids of a bucket, if anything.
    pub(super) fn first_waiting(&self, bucket: &Bucket) -> Option<&W> {
        self.0.get(bucket)?.waiting.first()
    }

    /// Notes that a range was taken, or could not be, and gives back what waited.
    pub(super) fn taken(&mut self, bucket: Bucket, range: Option<Range<u64>>) -> Vec<W> {
        let ids = self.0.entry(bucket).or_default();
        ids.taking = false;
        ids.needed = 0;
        if let Some(Range { start: next, end }) = range {
            ids.held.push_back(Held { range: IdRange { next, end }, logged: false, used: false });
        }
        std::mem::take(&mut ids.waiting)
    }

    /// Gives back everything that waits.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = W> + '_ {
        self.0.values_mut().flat_map(|ids| std::mem::take(&mut ids.waiting))
    }
}

/// Ids for one part. Beyond what is there it counts what is missing.
#[derive(Debug)]
pub(super) struct NextIds {
    ranges: VecDeque<IdRange>,
    drawn: u64,
    short: u64,
}

impl NextIds {
    /// The next id; a part that got one beyond what is there cannot be taken.
    pub(super) fn draw(&mut self) -> u64 {
        while let Some(range) = self.ranges.front_mut() {
            if range.next < range.end {
                range.next += 1;
                self.drawn += 1;
                return range.next - 1;
            }
            self.ranges.pop_front();
        }
        self.short += 1;
        0
    }

    /// How many were drawn.
    pub(super) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// How many the part needs, if there are too few.
    pub(super) fn needed(&self) -> Option<u64> {
        (self.short > 0).then_some(self.drawn + self.short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: Bucket =
        Bucket { table: wadi_model::TableId(1), partition: wadi_model::PartitionId::NONE, bucket: 0 };

    fn ranges(of: &[(u64, u64)]) -> IdRanges {
        IdRanges { ranges: of.iter().map(|(next, end)| IdRange { next: *next, end: *end }).collect() }
    }

    fn draw(ids: &mut Ids<&str>, count: u64) -> (Vec<u64>, IdRanges) {
        let mut next = ids.next(&BUCKET);
        let drawn = (0..count).map(|_| next.draw()).collect();
        assert_eq!(next.needed(), None);
        (drawn, ids.use_up(BUCKET, next.drawn()))
    }

    #[test]
    fn ids_go_on_where_the_log_ends() {
        let mut ids = Ids::new(BTreeMap::from([(BUCKET, ranges(&[(5, 7), (20, 22)]))]));
        assert_eq!(draw(&mut ids, 3), (vec![5, 6, 20], ranges(&[(21, 22)])));
        assert_eq!(draw(&mut ids, 1), (vec![21], ranges(&[(22, 22)])));
        let mut next = ids.next(&BUCKET);
        next.draw();
        assert_eq!(next.needed(), Some(1));
    }

    #[test]
    fn a_part_that_is_not_taken_uses_nothing() {
        let mut ids: Ids<&str> = Ids::new(BTreeMap::from([(BUCKET, ranges(&[(5, 7)]))]));
        assert_eq!([ids.next(&BUCKET).draw(), ids.next(&BUCKET).draw()], [5, 5]);
        assert_eq!(draw(&mut ids, 1).0, [5]);
    }

    #[test]
    fn no_range_is_taken_beside_one_that_may_be_lost() {
        let mut ids = Ids::new(BTreeMap::new());
        ids.wait(BUCKET, 3, "part");
        assert_eq!(ids.due(BUCKET, 2), Some(3), "as many as the part needs");
        assert_eq!(ids.due(BUCKET, 2), None, "it is on its way");
        assert_eq!(ids.taken(BUCKET, Some(1..4)), ["part"]);
        let (_, left) = draw(&mut ids, 3);
        assert_eq!(ids.due(BUCKET, 2), None, "no durable object names the first one");
        ids.wait(BUCKET, 1, "next");
        assert_eq!(ids.due(BUCKET, 2), None, "not even for what waits");
        ids.logged(&BUCKET, &left);
        assert_eq!(ids.due(BUCKET, 2), Some(2));
    }

    #[test]
    fn a_range_is_taken_ahead_when_little_is_left() {
        let mut ids: Ids<&str> = Ids::new(BTreeMap::from([(BUCKET, ranges(&[(0, 100)]))]));
        draw(&mut ids, 74);
        assert_eq!(ids.due(BUCKET, 100), None);
        draw(&mut ids, 1);
        assert_eq!(ids.due(BUCKET, 100), Some(100));
        ids.taken(BUCKET, Some(500..600));
        assert_eq!(draw(&mut ids, 26).0[25], 500);
    }

    #[test]
    fn a_range_that_is_too_small_for_what_came_after_all_does_not_stop_it() {
        let mut ids = Ids::new(BTreeMap::new());
        ids.wait(BUCKET, 1, "part");
        ids.due(BUCKET, 1);
        ids.taken(BUCKET, Some(1..2));
        ids.wait(BUCKET, 5, "larger");
        assert_eq!(ids.due(BUCKET, 1), Some(5));
    }
}
