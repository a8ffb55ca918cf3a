//! How the object store is: since when it fails, and with what. For people who ask why a shard does not open.
//!
//! Every request of every part of the process is noted, also those that SlateDB repeats by itself for as long as it takes
//! and whose errors nobody else ever sees. Nothing is decided by it.
//!
//! Refusals of reads and of writes are told apart: a store that has become read-only goes on answering reads, and those must not
//! hide it.

use std::sync::Arc;

use object_store::Error;
use parking_lot::Mutex;
use serde::Serialize;
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
        Health { env, ill: Arc::default() }
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

    /// Takes the outcome of a request. An answer that says no is an answer.
    pub(super) fn note<T>(&self, access: Access, outcome: &Result<T, Error>) {
        let (place, access) = match access {
            Access::Read => (0, "reads"),
            Access::Write => (1, "writes"),
        };
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
                return;
            }
            Err(error) => error,
        };
        let refusal = refusal(error);
        let refused = refusal.is_some();
        let text = refusal.unwrap_or_else(|| error.to_string()).chars().take(LONGEST).collect();
        let mut ill = self.ill.lock();
        let since = ill[place]
            .take()
            .map_or_else(|| (rfc3339(self.env.now_millis()), 0), |before| (before.since, before.failures));
        ill[place] = Some(Illness { since: since.0, failures: since.1 + 1, error: text, access, refused });
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
        health.note(Access::Read, &failed("one"));
        let since = health.illness().unwrap().since;
        health.note(Access::Read, &failed("two"));
        let ill = health.illness().unwrap();
        assert_eq!((ill.failures, &ill.since), (2, &since));
        assert!(ill.error.contains("two"), "{ill}");
        health.note::<()>(Access::Read, &Err(Error::NotFound { path: "a".into(), source: "none".into() }));
        assert_eq!(health.illness(), None);
    }

    #[test]
    fn reads_that_succeed_do_not_hide_writes_that_are_refused() {
        let health = Health::default();
        let denied = Error::PermissionDenied { path: "a".into(), source: "AccessDenied (no)".into() };
        health.note::<()>(Access::Write, &Err(denied));
        health.note(Access::Read, &Ok(()));
        let told = health.illness().unwrap().to_string();
        assert!(told.contains("refuses writes") && told.contains("AccessDenied (no)"), "{told}");
        health.note(Access::Write, &Ok(()));
        assert_eq!(health.illness(), None);
    }

    #[test]
    fn long_errors_are_cut() {
        let health = Health::default();
        health.note(Access::Write, &failed(&"é".repeat(10_000)));
        assert!(health.illness().unwrap().error.chars().count() <= LONGEST);
    }
}
