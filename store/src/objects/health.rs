//! How the object store is: since when it fails, and with what.
//!
//! Every request of every part of the process is noted, also those that SlateDB repeats by itself for as long as it takes
//! and whose errors nobody else ever sees. What failed is shown to people who ask why a shard does not open; a gateway whose
//! writes alone fail gives its shards away (`host::fitness`).

use std::sync::Arc;

use object_store::Error;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use wadi_model::env::Env;
use wadi_model::time::rfc3339;

/// Longest error that is kept, in characters.
const LONGEST: usize = 400;

/// The health of one object store. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Health {
    env: Env,
    ill: Arc<Mutex<Option<Illness>>>,
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

/// Requests that fail, without one in between that did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Illness {
    /// When the first failed.
    pub since: String,
    /// How many failed.
    pub failures: u64,
    /// What the last one said.
    pub error: String,
}

impl std::fmt::Display for Illness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the object store fails since {} ({} requests): {}", self.since, self.failures, self.error)
    }
}

impl Health {
    /// Of a store of which nothing is known.
    pub fn new(env: Env) -> Health {
        Health { env, ..Health::default() }
    }

    /// What is wrong now, if anything is.
    pub fn illness(&self) -> Option<Illness> {
        self.ill.lock().clone()
    }

    /// Tells whether writes fail, as soon as one does.
    pub fn unwritten(&self) -> watch::Receiver<Option<Unwritten>> {
        self.unwritten.subscribe()
    }

    /// Takes the outcome of a request.
    pub(super) fn note<T>(&self, outcome: &Result<T, Error>) {
        let mut ill = self.ill.lock();
        let Some(error) = failure(outcome) else { return *ill = None };
        let since = ill
            .take()
            .map_or_else(|| (rfc3339(self.env.now_millis()), 0), |before| (before.since, before.failures));
        *ill = Some(Illness { since: since.0, failures: since.1 + 1, error });
    }

    /// Takes the outcome of a request that writes, and when it was begun.
    pub(super) fn note_write<T>(&self, outcome: &Result<T, Error>, begun: Instant) {
        self.note(outcome);
        let failure = failure(outcome);
        self.unwritten.send_if_modified(|unwritten| match (unwritten.is_some(), failure) {
            (true, None) => unwritten.take().is_some(),
            (false, Some(error)) => {
                *unwritten = Some(Unwritten { since: begun, error });
                true
            }
            _ => false,
        });
    }
}

/// What a request failed with. An answer that says no is an answer.
fn failure<T>(outcome: &Result<T, Error>) -> Option<String> {
    match outcome {
        Ok(_)
        | Err(
            Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Precondition { .. }
            | Error::NotModified { .. },
        ) => None,
        Err(error) => Some(error.to_string().chars().take(LONGEST).collect()),
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
        health.note(&failed("one"));
        let since = health.illness().unwrap().since;
        health.note(&failed("two"));
        let ill = health.illness().unwrap();
        assert_eq!((ill.failures, &ill.since), (2, &since));
        assert!(ill.error.contains("two"), "{ill}");
        health.note::<()>(&Err(Error::NotFound { path: "a".into(), source: "none".into() }));
        assert_eq!(health.illness(), None);
    }

    #[test]
    fn reads_that_succeed_say_nothing_of_writes() {
        let health = Health::default();
        let unwritten = health.unwritten();
        health.note(&failed("a read"));
        assert!(unwritten.borrow().is_none());
        let begun = Instant::now();
        health.note_write(&failed("a write"), begun);
        health.note::<()>(&Ok(()));
        health.note_write(&failed("another"), Instant::now());
        let now = unwritten.borrow().clone().unwrap();
        assert_eq!((now.since, now.error.contains("a write")), (begun, true));
        let exists = Error::AlreadyExists { path: "a".into(), source: "there".into() };
        health.note_write::<()>(&Err(exists), begun);
        assert!(unwritten.borrow().is_none(), "that was an answer");
    }

    #[test]
    fn long_errors_are_cut() {
        let health = Health::default();
        health.note(&failed(&"é".repeat(10_000)));
        assert!(health.illness().unwrap().error.chars().count() <= LONGEST);
    }
}
