//! The checker: what was sent, what was answered, what was read, and whether all of it fits together.
//!
//! It knows nothing of shards and gateways: rows have ids that are never used twice, so a row tells which request wrote
//! it and where in the request it stood. The invariants have the names of the design:
//!
//! | name | what is checked |
//! | --- | --- |
//! | L1 | every acked row is there at the end |
//! | L2 | no row of a request that definitely failed is ever there |
//! | L3 | no row is there twice; a request that is answered twice gets the same offsets |
//! | L4 | offsets are dense, hold one row each, and all reads at all times agree; a row is what was sent |
//! | L5 | the rows of a request are all there or none is, side by side and in order |
//! | K1 | what lookups and scans see is the fold of the changelog up to one offset of their time (see [`keyed`]) |
//! | K2 | `-U` and `-D` show the row before, `+I` a key that was absent, `+U` one that was there |
//! | F1 | an ack came before the deadline of its session, and names the offsets where the rows are |
//! | K3 | buckets are linearizable: a read reaches what was acked or seen before it began (where sessions end early, a lease's time before), and rows come behind it (see [`keyed`]) |
//! | I1 | each new row of a table with an auto-increment column gets an id that no row has or had |
//! | K4 | a partial update touches its columns only |
//! | K6 | a prefix lookup sees what a scan sees that leaves other keys out: the fold at one offset, as under K1 |
//! | R1 | no row leaves its log before its time (see [`kept`]) |
//! | V1 | after healing every bucket takes rows within the time allowed |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use wadi_model::{Bucket, PartitionId, TableId};

use crate::trace::Trace;
use kept::Keeps;
use keyed::{Logged, Look, Op, Rules};

pub mod kept;
pub mod keyed;

/// Row ids of one request begin at its number times this, so that is the most rows it may have.
pub const MOST_ROWS: u64 = 1 << 12;

/// Trace lines that a violation carries.
const CONTEXT: usize = 60;

/// Violations that are kept; what follows the first ones is rarely news.
const KEPT: usize = 5;

/// A broken invariant.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// Milliseconds since the run began.
    pub at: u128,
    /// What was seen.
    pub what: String,
    /// The last lines of the trace before.
    pub trace: Vec<String>,
}

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Sent or about to be; it may be written or not.
    Open,
    /// Acked with this first offset and so many rows.
    Acked { base: u64, rows: u64 },
    /// Definitely not written.
    Failed,
}

#[derive(Debug)]
struct Request {
    bucket: Bucket,
    rows: u64,
    fate: Fate,
    /// When it was first sent, or before.
    sent: Instant,
    /// Where its bucket ended for all that was known then: its rows come later.
    floor: u64,
    /// What its rows do, of a primary-key table.
    ops: Option<Vec<Op>>,
}

/// A row as a log read gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The row of this id, of a log table.
    Row(i64),
    /// A row of a changelog.
    Change(Logged),
}

/// What was seen in one run.
#[derive(Debug)]
pub struct Checker {
    trace: Trace,
    requests: Vec<Request>,
    /// The row at each offset, as reads saw it.
    logs: BTreeMap<Bucket, BTreeMap<u64, Entry>>,
    /// Where each row was seen.
    places: BTreeMap<i64, (Bucket, u64)>,
    /// The end of what is acked, and since when, oldest first.
    acked_ends: BTreeMap<Bucket, Vec<(Instant, u64)>>,
    /// The end of what is acked or was seen.
    known_ends: BTreeMap<Bucket, Vec<(Instant, u64)>>,
    /// The buckets of primary-key tables.
    rules: BTreeMap<Bucket, Rules>,
    looks: BTreeMap<Bucket, Vec<Look>>,
    /// The ids that rows got, and where.
    given: BTreeMap<(TableId, i64), u64>,
    /// The first offset of each acked request.
    acked_at: BTreeMap<(Bucket, u64), u64>,
    /// How long rows are kept.
    keeps: BTreeMap<Bucket, Keeps>,
    /// Where logs began, and when that was first seen.
    trims: BTreeMap<Bucket, Vec<(u64, Instant)>>,
    /// What was dropped.
    gone: BTreeSet<(TableId, Option<PartitionId>)>,
    violations: Vec<Violation>,
    /// Acks, answers `again`, rows acked, rows read.
    pub counts: Counts,
}

/// What clients got done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests acked.
    pub acks: u64,
    /// Acks that found the rows there already.
    pub again: u64,
    /// Rows of acked requests.
    pub rows: u64,
    /// Requests that definitely failed.
    pub failed: u64,
    /// Rows read, repeats included.
    pub read: u64,
    /// Rows looked up by key, and scans of rows.
    pub looks: u64,
}

impl Checker {
    /// A checker that has seen nothing.
    pub fn new(trace: Trace) -> Checker {
        Checker {
            trace,
            requests: Vec::new(),
            logs: BTreeMap::new(),
            places: BTreeMap::new(),
            acked_ends: BTreeMap::new(),
            known_ends: BTreeMap::new(),
            rules: BTreeMap::new(),
            looks: BTreeMap::new(),
            given: BTreeMap::new(),
            acked_at: BTreeMap::new(),
            keeps: BTreeMap::new(),
            trims: BTreeMap::new(),
            gone: BTreeSet::new(),
            violations: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// What was violated, the earliest first.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Notes a violation that somebody else found.
    pub fn violated(&mut self, invariant: &'static str, what: String) {
        self.trace.note("CHECK", format_args!("{invariant} violated: {what}"));
        if self.violations.len() < KEPT {
            let at = self.trace.start().elapsed().as_millis();
            self.violations.push(Violation { invariant, at, what, trace: self.trace.tail(CONTEXT) });
        }
    }

    /// Notes that a request of so many rows will be sent. Its rows' ids are consecutive from [`first_id`].
    pub fn begin(&mut self, bucket: Bucket, rows: u64) -> u64 {
        let (rows, sent) = (rows.min(MOST_ROWS), Instant::now());
        let floor = self.known_end_before(&bucket, Duration::ZERO);
        self.requests.push(Request { bucket, rows, fate: Fate::Open, sent, floor, ops: None });
        self.requests.len() as u64 - 1
    }

    /// Notes that a request was acked.
    pub fn acked(&mut self, request: u64, base: u64, rows: u64, again: bool) {
        let Some(known) = self.requests.get_mut(request as usize) else { return };
        let (bucket, sent, before) = (known.bucket, known.rows, known.fate);
        if self.is_gone(&bucket) {
            return;
        }
        let Some(known) = self.requests.get_mut(request as usize) else { return };
        let misfit = match known.ops {
            // Each row may change nothing, or take a row away and put one in its place.
            Some(_) => rows > 2 * sent,
            None => rows != sent,
        };
        known.fate = Fate::Acked { base, rows };
        let end = base + rows;
        grow(self.acked_ends.entry(bucket).or_default(), end);
        self.saw_end(&bucket, end);
        if rows > 0 {
            self.acked_at.insert((bucket, base), request);
        }
        self.check_floor(request as usize, base);
        self.check_trimmed(bucket, request, base);
        self.counts.again += u64::from(again);
        if misfit {
            self.violated("L5", format!("request {request} of {sent} rows was acked with {rows}"));
        }
        match before {
            Fate::Open => {
                self.counts.acks += 1;
                self.counts.rows += sent;
            }
            Fate::Acked { base: first, rows: had } if (first, had) != (base, rows) => {
                let what = format!(
                    "request {request} was acked at {first} ({had} rows) and again at {base} of {bucket} ({rows} rows)"
                );
                self.violated("L3", what);
            }
            Fate::Acked { .. } => {}
            Fate::Failed => {
                self.violated("L2", format!("request {request} failed and was acked later"));
            }
        }
    }

    /// Notes that a request was definitely not written, by none of its tries.
    pub fn failed(&mut self, request: u64) {
        if let Some(known) = self.requests.get_mut(request as usize)
            && known.fate == Fate::Open
        {
            known.fate = Fate::Failed;
            self.counts.failed += 1;
        }
    }

    /// The end of what is acked of a bucket.
    pub fn acked_end(&self, bucket: &Bucket) -> u64 {
        self.acked_ends.get(bucket).and_then(|ends| ends.last()).map_or(0, |(_, end)| *end)
    }

    /// The end of what was acked of a bucket when so much time was left until now.
    pub fn acked_end_before(&self, bucket: &Bucket, ago: Duration) -> u64 {
        end_before(self.acked_ends.get(bucket), ago)
    }

    /// The end of what was acked or seen of a bucket then.
    pub fn known_end_before(&self, bucket: &Bucket, ago: Duration) -> u64 {
        end_before(self.known_ends.get(bucket), ago)
    }

    /// Notes that a bucket's log reached up to here.
    pub fn saw_end(&mut self, bucket: &Bucket, end: u64) {
        grow(self.known_ends.entry(*bucket).or_default(), end);
    }

    /// A request's rows were put behind all that was known when it was sent.
    fn check_floor(&mut self, request: usize, base: u64) {
        let Request { bucket, floor, .. } = self.requests[request];
        if base < floor {
            let what = format!(
                "request {request} is at {base} of {bucket}, which reached {floor} before it was sent"
            );
            self.violated("K3", what);
        }
    }

    /// What the rows of a request to a primary-key table do.
    fn ops(&self, request: usize) -> &[Op] {
        self.requests.get(request).and_then(|r| r.ops.as_deref()).unwrap_or_default()
    }

    /// Notes rows that a read gave.
    pub fn read(&mut self, bucket: Bucket, offset: u64, entries: &[Entry], who: &str) {
        if self.is_gone(&bucket) {
            return;
        }
        self.counts.read += entries.len() as u64;
        for (at, entry) in (offset..).zip(entries.iter().copied()) {
            let known = self.logs.entry(bucket).or_default().insert(at, entry);
            if known == Some(entry) {
                continue;
            }
            if let Some(known) = known {
                let what =
                    format!("{who} read {entry:?} at {at} of {bucket}, where {known:?} was read before");
                return self.violated("L4", what);
            }
            if let Entry::Row(id) = entry {
                self.place(bucket, at, id, who);
            }
        }
    }

    /// A row at a place where nobody had read.
    fn place(&mut self, bucket: Bucket, at: u64, id: i64, who: &str) {
        if let Some((other, there)) = self.places.insert(id, (bucket, at)) {
            let what =
                format!("{who} read row {id} at {at} of {bucket}, and it is at {there} of {other} too");
            return self.violated("L3", what);
        }
        let request = (id as u64) / MOST_ROWS;
        let position = (id as u64) % MOST_ROWS;
        if position == 0 && self.requests.get(request as usize).is_some_and(|sent| sent.bucket == bucket) {
            self.check_floor(request as usize, at);
        }
        match self.requests.get(request as usize) {
            Some(sent) if sent.bucket == bucket && position < sent.rows => match sent.fate {
                Fate::Failed => {
                    let what =
                        format!("{who} read row {id} at {at} of {bucket}, but request {request} failed");
                    self.violated("L2", what);
                }
                Fate::Acked { base, .. } if base + position != at => {
                    let what = format!(
                        "{who} read row {id} at {at} of {bucket}, but request {request} was acked at {base}"
                    );
                    self.violated("F1", what);
                }
                _ => {}
            },
            _ => {
                self.violated("L4", format!("{who} read row {id} at {at} of {bucket}; nobody sent it there"))
            }
        }
    }

    /// The last check, after everything was read up to these ends.
    pub fn finish(&mut self, ends: &BTreeMap<Bucket, u64>) {
        for (bucket, end) in ends {
            let (log, start) = (self.logs.get(bucket), self.log_start(bucket));
            let missing = (start..*end).find(|at| log.is_none_or(|log| !log.contains_key(at)));
            if let Some(at) = missing {
                self.violated("L4", format!("{bucket} ends at {end} and has no row at {at}"));
            }
            if let Some((at, _)) = self.logs.get(bucket).and_then(|log| log.last_key_value())
                && at >= end
            {
                let what = format!("{bucket} ends at {end}, and offset {at} was read before");
                self.violated("L4", what);
            }
        }
        for request in 0..self.requests.len() {
            let Request { bucket, ops, .. } = &self.requests[request];
            if ops.is_none() && !self.is_gone(bucket) {
                self.finish_request(request);
            }
        }
        let rules: Vec<_> = self.rules.iter().filter(|(bucket, _)| !self.is_gone(bucket)).collect();
        for (bucket, rules) in rules.into_iter().map(|(b, r)| (*b, *r)).collect::<Vec<_>>() {
            self.finish_keyed(bucket, rules, ends.get(&bucket).copied().unwrap_or_default());
        }
    }

    fn finish_request(&mut self, request: usize) {
        let Request { bucket, rows, fate, .. } = self.requests[request];
        let first = first_id(request as u64);
        let places = self.places_of(request, first);
        let there = places.iter().flatten().count() as u64;
        if let Fate::Acked { base, .. } = fate {
            for (at, found) in (base..).zip(&places) {
                match found {
                    Some(found) if *found == at => {}
                    Some(found) => {
                        let what = format!(
                            "request {request} was acked at {base} of {bucket}; a row of {at} is at {found}"
                        );
                        return self.violated("F1", what);
                    }
                    None => {
                        let what =
                            format!("request {request}, acked at {base} of {bucket}, misses offset {at}");
                        return self.violated("L1", what);
                    }
                }
            }
        }
        if fate == Fate::Failed && there > 0 {
            let what = format!("request {request} failed, and {there} rows of it are in {bucket}");
            return self.violated("L2", what);
        }
        if there != 0 && there != rows {
            let what = format!("{there} of {rows} rows of request {request} are in {bucket}");
            return self.violated("L5", what);
        }
        let apart = places.windows(2).any(|two| two[0].map(|at| at + 1) != two[1]);
        if there != 0 && apart {
            self.violated("L5", format!("rows of request {request} are not side by side in {bucket}"));
        }
    }
}

/// Adds an end, unless it was reached before.
fn grow(ends: &mut Vec<(Instant, u64)>, end: u64) {
    if ends.last().is_none_or(|(_, last)| end > *last) {
        ends.push((Instant::now(), end));
    }
}

fn end_before(ends: Option<&Vec<(Instant, u64)>>, ago: Duration) -> u64 {
    let (ends, now) = (ends.map(Vec::as_slice).unwrap_or_default(), Instant::now());
    let known = ends.partition_point(|(since, _)| *since + ago <= now);
    known.checked_sub(1).map_or(0, |last| ends[last].1)
}

/// The id of a request's first row.
pub fn first_id(request: u64) -> i64 {
    (request * MOST_ROWS) as i64
}

#[cfg(test)]
mod tests;
