//! Primary-key tables: a bucket's changelog is run through a plain map, request by request.
//!
//! The changelog is the truth, and it is read in full. So at the end the judge walks along it: at each offset it knows
//! which request comes next, what that request does to the map as it is, and so which rows must stand there. A request in
//! doubt is one that is met or not. A row names its request by the id that it wrote; requests that write no ids
//! (deletions alone, and insertions of nothing but keys) are known by their acks, or must be one of those in doubt.
//!
//! What lookups and scans saw is held against the map on the way: there must be an offset between the beginning and the
//! end of the read at which the map is what was seen.
//!
//! That decides whether the bucket is linearizable, its keys as registers too. The log is the order. A read lies between the end of all
//! that was acked or seen before it began, and a high watermark that was seen before it ended; so of two reads, one of which ended before the
//! other began, the later one lies at the same offset or behind it, and a request that is sent after a read must stand behind that
//! ([`Checker::saw_end`] and `floor`). What overlaps may stand in any order, and a request in doubt anywhere behind its floor, or nowhere.

use std::collections::BTreeMap;
use std::ops::Range;

use wadi_model::changelog::ChangeType;
use wadi_model::{Bucket, TableId};

use super::{Checker, Entry, Fate, MOST_ROWS, first_id};

/// What a row of a request does to the row of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Writes all columns.
    Put,
    /// A partial update of the columns that follow from the id.
    PutId,
    /// A partial update of the other column.
    PutOther,
    /// Deletes it.
    Delete,
    /// Inserts a row of nothing but its key, if there is none.
    Ensure,
}

/// One row of a request to a primary-key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: i64,
    /// What is done.
    pub verb: Verb,
}

/// A row but for its key. All columns hold ids of rows that were sent, or follow from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The row that last wrote the first columns.
    pub id: Option<i64>,
    /// The row that last wrote the other column.
    pub other: Option<i64>,
    /// The id that the server gave, in a table with an auto-increment column.
    pub auto: Option<i64>,
}

/// The rows of a bucket by key.
pub type State = BTreeMap<i64, Image>;

/// A row of a changelog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// What happened.
    pub change: ChangeType,
    /// The key.
    pub key: i64,
    /// The row.
    pub image: Image,
}

/// What a read of rows saw.
#[derive(Clone, Debug)]
pub enum Seen {
    /// The row of a key.
    Key(i64, Option<Image>),
    /// All rows whose keys lie in a range.
    Group(Range<i64>, State),
    /// All rows.
    All(State),
    /// How many rows there are.
    Count(u64),
}

/// A read of rows, and the offsets between which there must be one that explains it.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub low: u64,
    pub high: u64,
    pub seen: Seen,
    pub who: String,
}

/// What is special about a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The changelog does not show the row before an update.
    pub wal: bool,
    /// New rows get ids.
    pub auto: bool,
}

impl Checker {
    /// Notes that a request to a primary-key table will be sent; see [`Checker::begin`].
    pub fn begin_keyed(&mut self, bucket: Bucket, ops: Vec<Op>) -> u64 {
        let request = self.begin(bucket, ops.len() as u64);
        if let Some(known) = self.requests.last_mut() {
            known.ops = Some(ops);
        }
        request
    }

    /// Says what is special about a bucket's table, and that it has a primary key.
    pub fn keyed(&mut self, bucket: Bucket, rules: Rules) {
        self.rules.insert(bucket, rules);
    }

    /// Some of the keys of a request.
    pub fn keys_of(&self, request: u64, most: usize) -> Vec<i64> {
        self.ops(request as usize).iter().take(most).map(|op| op.key).collect()
    }

    /// Notes what a read of rows saw, which lies between two offsets.
    pub fn looked(&mut self, bucket: Bucket, between: (u64, u64), seen: Seen, who: &str) {
        if self.is_gone(&bucket) {
            return;
        }
        self.counts.looks += 1;
        let (low, high) = between;
        if low > high {
            let what = format!(
                "{who} read rows of {bucket} up to {high}; rows up to {low} were acked or seen before"
            );
            return self.violated("K3", what);
        }
        self.saw_end(&bucket, high);
        self.looks.entry(bucket).or_default().push(Look { low, high, seen, who: who.to_owned() });
    }

    /// Judges a primary-key table's bucket, whose log ends at `end`.
    pub(super) fn finish_keyed(&mut self, bucket: Bucket, rules: Rules, end: u64) {
        let rows = self.logs.get(&bucket).into_iter().flatten();
        let log: Vec<Logged> = rows
            .filter_map(|(_, entry)| match entry {
                Entry::Change(logged) => Some(*logged),
                Entry::Row(_) => None,
            })
            .collect();
        if log.len() as u64 != end {
            // Trimmed before anybody read it; or rows are missing, which is said already.
            self.trace.count("changelogs not walked");
            return;
        }
        let looks = self.looks.remove(&bucket).unwrap_or_default();
        let mut given = std::mem::take(&mut self.given);
        let walked = Walk::new(self, bucket, rules, &log, looks).run(&mut given);
        self.given = given;
        if let Err((invariant, what)) = walked {
            self.violated(invariant, format!("{bucket}: {what}"));
        }
    }
}

/// A broken invariant, and what was seen.
type Broken = (&'static str, String);

struct Walk<'a> {
    checker: &'a Checker,
    bucket: Bucket,
    rules: Rules,
    log: &'a [Logged],
    at: usize,
    state: State,
    /// Acked requests by their first offset: those with rows, and those without.
    acked: BTreeMap<u64, usize>,
    empty: BTreeMap<u64, Vec<usize>>,
    /// Requests in doubt that write no ids.
    nameless: Vec<usize>,
    /// Where each request was met.
    met: BTreeMap<usize, usize>,
    /// Reads that are not explained yet, by their lower bounds, and those whose bound was passed.
    looks: std::iter::Peekable<std::vec::IntoIter<Look>>,
    open: Vec<Look>,
    /// What each key's row was, and from which offset on.
    history: BTreeMap<i64, Vec<(u64, Option<Image>)>>,
}

impl<'a> Walk<'a> {
    fn new(
        checker: &'a Checker,
        bucket: Bucket,
        rules: Rules,
        log: &'a [Logged],
        mut looks: Vec<Look>,
    ) -> Self {
        looks.sort_by_key(|look| look.low);
        let (mut acked, mut empty, mut nameless) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (n, request) in checker.requests.iter().enumerate().filter(|(_, r)| r.bucket == bucket) {
            match request.fate {
                Fate::Acked { base, rows: 0 } => empty.entry(base).or_insert_with(Vec::new).push(n),
                Fate::Acked { base, .. } => drop(acked.insert(base, n)),
                Fate::Open
                    if checker.ops(n).iter().all(|op| matches!(op.verb, Verb::Delete | Verb::Ensure)) =>
                {
                    nameless.push(n);
                }
                _ => {}
            }
        }
        Walk {
            checker,
            bucket,
            rules,
            log,
            at: 0,
            state: State::new(),
            acked,
            empty,
            nameless,
            met: BTreeMap::new(),
            looks: looks.into_iter().peekable(),
            open: Vec::new(),
            history: BTreeMap::new(),
        }
    }

    /// `given` are the ids that rows of all buckets have.
    fn run(mut self, given: &mut BTreeMap<(TableId, i64), u64>) -> Result<(), Broken> {
        loop {
            self.between_requests()?;
            if self.at == self.log.len() {
                break;
            }
            let from = self.at;
            self.step()?;
            self.check_ids(from, given)?;
        }
        self.open.extend(self.looks.next());
        if let Some(look) = self.open.first() {
            return Err(self.unexplained(look));
        }
        for (n, request) in self.checker.requests.iter().enumerate().filter(|(_, r)| r.bucket == self.bucket)
        {
            match request.fate {
                Fate::Acked { base, rows } if rows > 0 && !self.met.contains_key(&n) => {
                    return Err(("L1", format!("request {n}, acked at {base}, is not there")));
                }
                _ => {}
            }
        }
        match self.empty.first_key_value() {
            Some((base, requests)) => {
                Err(("F1", format!("requests {requests:?} were acked at {base}, where no request ends")))
            }
            None => Ok(()),
        }
    }

    /// What must hold where no request is half done.
    fn between_requests(&mut self) -> Result<(), Broken> {
        let at = self.at as u64;
        for n in self.empty.remove(&at).unwrap_or_default() {
            if !self.expand(n).is_empty() {
                return Err((
                    "K1",
                    format!("request {n} was acked at {at} as changing nothing, and it does"),
                ));
            }
        }
        while let Some(look) = self.looks.next_if(|look| look.low <= at) {
            self.open.push(look);
        }
        if let Some(look) = self.open.iter().find(|look| look.high < at) {
            return Err(self.unexplained(look));
        }
        let state = &self.state;
        self.open.retain(|look| match &look.seen {
            Seen::Key(key, image) => state.get(key) != image.as_ref(),
            Seen::Group(keys, rows) => !state.range(keys.clone()).eq(rows),
            Seen::All(all) => state != all,
            Seen::Count(count) => state.len() as u64 != *count,
        });
        Ok(())
    }

    fn unexplained(&self, look: &Look) -> Broken {
        let Look { low, high, seen, who } = look;
        match seen {
            Seen::Key(key, image) => {
                let history = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
                let then = history.iter().take_while(|(from, _)| from <= low).last();
                let then = then.and_then(|(_, image)| *image);
                let stale = history.iter().any(|(from, old)| from < low && old == image) || image.is_none();
                let what = format!(
                    "{who} saw {image:?} at key {key}; from offset {low} to {high} it never was that, and {then:?} at first"
                );
                (if stale { "K3" } else { "K1" }, what)
            }
            Seen::Group(keys, rows) => {
                let fold: Vec<_> = self.state.range(keys.clone()).collect();
                let what = format!(
                    "a prefix lookup of {who} saw {rows:?}, which keys {keys:?} are at no offset from {low} to {high}; at {} \
                     they are {fold:?}",
                    self.at
                );
                ("K6", what)
            }
            Seen::Count(count) => {
                let there = self.state.len();
                (
                    "K1",
                    format!(
                        "{who} was told that there are {count} rows at {high}; at {} there are {there}",
                        self.at
                    ),
                )
            }
            Seen::All(all) => {
                let fold = &self.state;
                let differs = |key: &&i64| all.get(*key) != fold.get(*key);
                let key = all.keys().chain(fold.keys()).find(differs);
                let pair = key.map(|key| (key, all.get(key), fold.get(key)));
                let what = format!(
                    "a scan of {who} is the fold of no offset from {low} to {high}; at {}, of its {} rows and the fold's \
                     {} the first that differ are {pair:?}",
                    self.at,
                    all.len(),
                    fold.len(),
                );
                ("K1", what)
            }
        }
    }

    /// Each new row since an offset has an id, which no other row has or had.
    fn check_ids(&self, from: usize, given: &mut BTreeMap<(TableId, i64), u64>) -> Result<(), Broken> {
        let new = (from..self.at).filter(|at| self.log[*at].change == ChangeType::Insert);
        for at in new.filter(|_| self.rules.auto) {
            let Some(id) = self.log[at].image.auto else {
                return Err(("I1", format!("the new row at offset {at} has no id: {:?}", self.log[at])));
            };
            if let Some(other) = given.insert((self.bucket.table, id), at as u64) {
                let what = format!("the row at offset {at} got id {id}, which a row at offset {other} has");
                return Err(("I1", what));
            }
        }
        Ok(())
    }

    /// One request.
    fn step(&mut self) -> Result<(), Broken> {
        let at = self.at;
        let Some(n) = self.next_request() else {
            return Err(("L4", format!("nobody sent what is at offset {at}: {:?}", self.log[at])));
        };
        let request = &self.checker.requests[n];
        if let Some(before) = self.met.insert(n, at) {
            return Err(("L3", format!("request {n} is at offset {before}, and at {at} again")));
        }
        if (at as u64) < request.floor {
            let what =
                format!("request {n} is at offset {at}; {} was reached before it was sent", request.floor);
            return Err(("K3", what));
        }
        if request.bucket != self.bucket {
            return Err(("L4", format!("request {n} is at offset {at}; it was sent to {}", request.bucket)));
        }
        let expected = self.expand(n);
        for (i, wanted) in expected.iter().enumerate() {
            match self.log.get(at + i) {
                Some(found) if self.fits(n, wanted, found) => {}
                Some(found) => return Err(self.misfit(n, at + i, wanted, found)),
                None => {
                    return Err((
                        "L5",
                        format!("request {n} at offset {at} lacks {wanted:?} and what follows"),
                    ));
                }
            }
        }
        match request.fate {
            Fate::Failed => return Err(("L2", format!("request {n} failed, and is at offset {at}"))),
            Fate::Acked { base, .. } if base != at as u64 => {
                return Err(("F1", format!("request {n} was acked at {base} and is at offset {at}")));
            }
            Fate::Acked { rows, .. } if rows != expected.len() as u64 => {
                let there = expected.len();
                return Err((
                    "L5",
                    format!("request {n} was acked with {rows} rows and has {there} at {at}"),
                ));
            }
            _ => {}
        }
        for row in &self.log[at..at + expected.len()] {
            match row.change.effect() {
                Some(true) => drop(self.state.insert(row.key, row.image)),
                Some(false) => drop(self.state.remove(&row.key)),
                None => continue,
            }
            let now = self.state.get(&row.key).copied();
            let end = (at + expected.len()) as u64;
            self.history.entry(row.key).or_insert_with(|| vec![(0, None)]).push((end, now));
        }
        self.at += expected.len();
        self.nameless.retain(|other| *other != n);
        Ok(())
    }

    /// The request whose rows begin here.
    fn next_request(&self) -> Option<usize> {
        if let Some(n) = self.acked.get(&(self.at as u64)) {
            return Some(*n);
        }
        let rest = &self.log[self.at..];
        let after = match rest[0].change {
            ChangeType::Insert | ChangeType::UpdateAfter => rest.first(),
            ChangeType::UpdateBefore => rest.get(1),
            ChangeType::Delete => None,
        };
        if let Some(row) = after {
            let before = self.state.get(&row.key).copied().unwrap_or_default();
            let written = |new: Option<i64>, old: Option<i64>| new.filter(|_| new != old);
            let id = written(row.image.id, before.id).or(written(row.image.other, before.other));
            let n =
                id.map(|id| (id as u64 / MOST_ROWS) as usize).filter(|n| !self.checker.ops(*n).is_empty());
            if n.is_some() {
                return n;
            }
        }
        // The one that explains most, of those that had been sent by then; which of two alike it was does not matter.
        let explains = |n: &usize| {
            let expected = self.expand(*n);
            let all = expected.len() <= rest.len() && expected.iter().zip(rest).all(|(a, b)| a == b);
            if all { expected.len() } else { 0 }
        };
        let sent = |n: &usize| self.checker.requests[*n].floor <= self.at as u64;
        let best = self.nameless.iter().copied().filter(sent).max_by_key(explains)?;
        (explains(&best) > 0).then_some(best)
    }

    /// The rows by which the changelog says what a request does to the rows as they are.
    fn expand(&self, n: usize) -> Vec<Logged> {
        let mut own = BTreeMap::new();
        let mut rows = Vec::new();
        for (op, id) in self.checker.ops(n).iter().zip(first_id(n as u64)..) {
            let key = op.key;
            let before = own.get(&key).copied().unwrap_or_else(|| self.state.get(&key).copied());
            // Which id a new row gets is for the server to say.
            let given = || self.log.get(self.at + rows.len()).and_then(|row| row.image.auto);
            let kept = before.unwrap_or_else(|| Image {
                auto: if self.rules.auto { given() } else { None },
                ..Image::default()
            });
            let after = match op.verb {
                Verb::Put => Some(Image { id: Some(id), other: Some(id), ..kept }),
                Verb::PutId => Some(Image { id: Some(id), ..kept }),
                Verb::PutOther => Some(Image { other: Some(id), ..kept }),
                Verb::Delete => None,
                Verb::Ensure if before.is_some() => continue,
                Verb::Ensure => Some(kept),
            };
            own.insert(key, after);
            let mut row = |change, image| rows.push(Logged { change, key, image });
            match (before, after) {
                (None, None) => {}
                (None, Some(after)) => row(ChangeType::Insert, after),
                (Some(before), None) => row(ChangeType::Delete, before),
                (Some(before), Some(after)) => {
                    if !self.rules.wal {
                        row(ChangeType::UpdateBefore, before);
                    }
                    row(ChangeType::UpdateAfter, after);
                }
            }
        }
        rows
    }

    fn fits(&self, n: usize, wanted: &Logged, found: &Logged) -> bool {
        // Without the row before, a row that replaces whatever was there does not say whether it was the first.
        let blind = self.rules.wal
            && !self.rules.auto
            && self.checker.ops(n).first().is_some_and(|op| op.verb == Verb::Put)
            && wanted.change == ChangeType::Insert
            && found.change == ChangeType::UpdateAfter;
        wanted == found || blind && (wanted.key, wanted.image) == (found.key, found.image)
    }

    fn misfit(&self, n: usize, at: usize, wanted: &Logged, found: &Logged) -> Broken {
        let partial = self.checker.ops(n).iter().any(|op| matches!(op.verb, Verb::PutId | Verb::PutOther));
        let invariant = if wanted.key != found.key {
            "L5"
        } else if wanted.change != found.change || wanted.change.effect() != Some(true) {
            "K2"
        } else if partial {
            "K4"
        } else {
            "L4"
        };
        (invariant, format!("request {n} should have {wanted:?} at offset {at}, where {found:?} is"))
    }
}

#[cfg(test)]
mod tests;
