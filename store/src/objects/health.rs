//! How the object store is: since when it fails, and with what.
//!
//! Every request of every part of the process is noted, also those that SlateDB repeats by itself for as long as it takes
//! and whose errors nobody else ever sees. What failed is shown to people who ask why a shard does not open; a gateway whose
//! writes fail for long gives its shards away (`host::fitness`).
//!
//! Refusals of reads and of writes are told apart: a store that has become read-only goes on answering reads, and those must not
//! hide it.

use std::sync::Arc;

use object_store::Error;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use wadi_model::env::Env;
use wadi_model::time::rfc3339;

use super::plain::refusal;

/// Longest error that is kept, in characters.
const LONGEST: usize = 400;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// The health of one object store. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    env: Env,
    ill: Arc<Mutex<[Option<Illness>; 2]>>,
    unwritten: watch::Sender<Option<Unwritten>>,
}

/// Writes that fail, without one in between that did not.
#[derive(Clone, Debug)]
pub struct Unwritten {
    /// When the first that failed was begun.
    pub since: Instant,
    /// What it said.
    pub error: String,
}

/// Requests that fail, without one of the same kind in between that did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Illness {
    /// When the first failed.
    pub since: String,
    /// How many failed.
    pub failures: u64,
    /// What the last one said.
    pub error: String,
    /// What fails: reads or writes.
    pub access: &'static str,
    /// Whether the store refuses who asks.
    pub refused: bool,
}

impl std::fmt::Display for Illness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Illness { since, failures, error, access, refused } = self;
        match refused {
            true => {
                write!(f, "the object store refuses {access} since {since} ({failures} requests): {error}")
            }
            false => write!(f, "the object store fails since {since} ({failures} requests): {error}"),
        }
    }
}

impl Health {
    /// Of a store of which nothing is known.
    pub fn new(env: Env) -> Health {
        Health { env, ..Health::default() }
    }

    /// What is wrong now, if anything is: with writes first, as they are what most depends on.
    pub fn illness(&self) -> Option<Illness> {
        let [reads, writes] = &*self.ill.lock();
        let mut worst = writes.clone().or_else(|| reads.clone())?;
        if let Some(reads) = reads {
            worst.since = worst.since.min(reads.since.clone());
        }
        Some(worst)
    }

    /// Tells whether writes fail, as soon as one does.
    pub fn unwritten(&self) -> watch::Receiver<Option<Unwritten>> {
        self.unwritten.subscribe()
    }

    /// Takes the outcome of a request, and when it was begun. An answer that says no is an answer.
    pub(super) fn note<T>(&self, access: Access, outcome: &Result<T, Error>, begun: Instant) {
        let place = access as usize;
        let error = match outcome {
            Ok(_)
            | Err(
                Error::NotFound { .. }
                | Error::AlreadyExists { .. }
                | Error::Precondition { .. }
                | Error::NotModified { .. },
            ) => {
                let mut ill = self.ill.lock();
                ill[place] = None;
                // It answers: only what it refuses may go on.
                ill[1 - place].take_if(|other| !other.refused);
                if access == Access::Write {
                    self.unwritten.send_if_modified(|unwritten| unwritten.take().is_some());
                }
                return;
            }
            Err(error) => error,
        };
        let refusal = refusal(error);
        let refused = refusal.is_some();
        let error: String = refusal.unwrap_or_else(|| error.to_string()).chars().take(LONGEST).collect();
        let mut ill = self.ill.lock();
        let since = ill[place]
            .take()
            .map_or_else(|| (rfc3339(self.env.now_millis()), 0), |before| (before.since, before.failures));
        let (since, failures, fails) = (since.0, since.1 + 1, access.fails());
        ill[place] = Some(Illness { since, failures, error: error.clone(), access: fails, refused });
        if access == Access::Write {
            self.unwritten.send_if_modified(|unwritten| {
                let first = unwritten.is_none();
                unwritten.get_or_insert(Unwritten { since: begun, error });
                first
            });
        }
    }
}

impl Access {
    /// What fails, in words.
    fn fails(self) -> &'static str {
        match self {
            Access::Read => "reads",
            Access::Write => "writes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &str) -> Result<(), Error> {
        Err(Error::Generic { store: "s3", source: why.to_owned().into() })
    }

    #[test]
    fn failures_are_counted_until_something_answers() {
        let health = Health::default();
        assert_eq!(health.illness(), None);
        health.note(Access::Read, &failed("one"), Instant::now());
        let since = health.illness().unwrap().since;
        health.note(Access::Read, &failed("two"), Instant::now());
        let ill = health.illness().unwrap();
        assert_eq!((ill.failures, &ill.since), (2, &since));
        assert!(ill.error.contains("two"), "{ill}");
        health.note::<()>(
            Access::Read,
            &Err(Error::NotFound { path: "a".into(), source: "none".into() }),
            Instant::now(),
        );
        assert_eq!(health.illness(), None);
    }

    #[test]
    fn reads_that_succeed_do_not_hide_writes_that_are_refused() {
        let health = Health::default();
        let denied = Error::PermissionDenied { path: "a".into(), source: "AccessDenied (no)".into() };
        health.note::<()>(Access::Write, &Err(denied), Instant::now());
        health.note(Access::Read, &Ok(()), Instant::now());
        let told = health.illness().unwrap().to_string();
        assert!(told.contains("refuses writes") && told.contains("AccessDenied (no)"), "{told}");
        health.note(Access::Write, &Ok(()), Instant::now());
        assert_eq!(health.illness(), None);
    }

    #[test]
    fn writes_that_fail_are_told_until_one_does_not() {
        let (health, begun) = (Health::default(), Instant::now());
        let unwritten = health.unwritten();
        health.note(Access::Read, &failed("a read"), begun);
        assert!(unwritten.borrow().is_none());
        health.note(Access::Write, &failed("a write"), begun);
        health.note(Access::Read, &Ok(()), begun);
        health.note(Access::Write, &failed("another"), begun + std::time::Duration::from_secs(1));
        let now = unwritten.borrow().clone().unwrap();
        assert_eq!((now.since, now.error.contains("a write")), (begun, true));
        let exists = Error::AlreadyExists { path: "a".into(), source: "there".into() };
        health.note::<()>(Access::Write, &Err(exists), begun);
        assert!(unwritten.borrow().is_none(), "that was an answer");
    }

    #[test]
    fn long_errors_are_cut() {
        let health = Health::default();
        health.note(Access::Write, &failed(&"é".repeat(10_000)), Instant::now());
        assert!(health.illness().unwrap().error.chars().count() <= LONGEST);
    }
}
