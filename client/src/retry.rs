//! When a call is sent again, and after how long.
//!
//! | what happened | safe to repeat | not safe to repeat |
//! | --- | --- | --- |
//! | no connection | again | again: nothing was sent |
//! | 429, or another answer marked retryable, nothing done | again | again |
//! | 409 `in_flight`: an earlier try of this very call | again | an error |
//! | connection broke, no answer, 5xx of unknown effect | again | an error |
//! | everything else | an error | an error |

use std::time::Duration;

use tokio::time::Instant;

use crate::error::ClientError;
use crate::options::ClientOptions;

/// Whether a request may be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Reads, and writes under a key.
    Safe,
    /// A second try could do something else than the first (create, drop, alter).
    IfNothingWasDone,
}

/// The retries of one call.
pub(crate) struct Retry<'a> {
    options: &'a ClientOptions,
    repeat: Repeat,
    begun: Instant,
    attempts: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(options: &'a ClientOptions, repeat: Repeat) -> Retry<'a> {
        Retry { options, repeat, begun: Instant::now(), attempts: 1 }
    }

    /// How often the request has been sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Waits before the next attempt, or gives the error back if there is none. `retry_after` is what the server
    /// asked for.
    pub(crate) async fn wait(
        &mut self,
        error: ClientError,
        retry_after: Option<Duration>,
    ) -> Result<(), ClientError> {
        if !may_repeat(&error, self.repeat) {
            return Err(error);
        }
        let pause = self.pause(retry_after);
        let after = self.begun.elapsed();
        if after.saturating_add(pause) >= self.options.deadline {
            return Err(match self.attempts {
                1 => error,
                attempts => ClientError::GaveUp { attempts, after, source: Box::new(error) },
            });
        }
        tracing::debug!(%error, attempt = self.attempts, pause_ms = pause.as_millis() as u64, "send again");
        tokio::time::sleep(pause).await;
        self.attempts += 1;
        Ok(())
    }

    /// Full jitter, so that many clients that failed together do not come back together; beyond what the server
    /// asked for, if it asked.
    fn pause(&self, retry_after: Option<Duration>) -> Duration {
        let doubled = 1u32.checked_shl(self.attempts - 1).unwrap_or(u32::MAX);
        let most = self.options.first_backoff.saturating_mul(doubled).min(self.options.max_backoff);
        let share = (self.options.env.random() >> 11) as f64 / (1u64 << 53) as f64;
        retry_after.unwrap_or_default().saturating_add(most.mul_f64(share))
    }
}

fn may_repeat(error: &ClientError, repeat: Repeat) -> bool {
    let safe = repeat == Repeat::Safe;
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Broken { .. } | ClientError::TimedOut { .. } => safe,
        ClientError::Problem(p) if p.code == "in_flight" => safe,
        ClientError::Problem(p) if p.retryable => {
            safe || p.status == 429 || p.side_effects.as_deref() == Some("none")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wadi_model::env::{Env, Source};

    use super::*;
    use crate::error::Problem;

    struct Highest;

    impl Source for Highest {
        fn now_millis(&self) -> i64 {
            0
        }
        fn random(&self) -> u64 {
            u64::MAX
        }
    }

    fn options() -> ClientOptions {
        ClientOptions { env: Env::new(Highest), ..ClientOptions::default() }
    }

    #[test]
    fn pauses_double_up_to_the_limit_and_add_to_what_the_server_asks() {
        let options = options();
        let mut retry = Retry { options: &options, repeat: Repeat::Safe, begun: Instant::now(), attempts: 1 };
        let mut pauses = Vec::new();
        for attempts in [1, 2, 3, 10, 4_000_000_000] {
            retry.attempts = attempts;
            pauses.push(retry.pause(None).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 5000, 5000]);
        retry.attempts = 1;
        assert!(retry.pause(Some(Duration::from_secs(7))) >= Duration::from_secs(7));
    }

    #[test]
    fn what_may_have_been_done_is_not_repeated_without_a_key() {
        let problem = |status, code: &str, retryable, side_effects: &str| {
            ClientError::Problem(Box::new(Problem {
                status,
                code: code.into(),
                retryable,
                side_effects: Some(side_effects.into()),
                ..Problem::default()
            }))
        };
        let cases = [
            (problem(503, "outcome_unknown", true, "unknown"), true, false),
            (problem(503, "partially_written", true, "partial"), true, false),
            (problem(503, "draining", true, "none"), true, true),
            (problem(429, "overloaded", true, "none"), true, true),
            (problem(409, "in_flight", false, "none"), true, false),
            (problem(409, "sequence_too_old", false, "none"), false, false),
            (problem(422, "rows_rejected", false, "none"), false, false),
            (ClientError::TimedOut { after: Duration::ZERO }, true, false),
        ];
        for (error, safe, not_safe) in cases {
            assert_eq!(may_repeat(&error, Repeat::Safe), safe, "{error}");
            assert_eq!(may_repeat(&error, Repeat::IfNothingWasDone), not_safe, "{error}");
        }
    }

    #[tokio::test]
    async fn an_error_past_the_deadline_is_given_back_with_the_number_of_attempts() {
        let options = ClientOptions { deadline: Duration::ZERO, ..options() };
        let timed_out = || ClientError::TimedOut { after: Duration::ZERO };
        let mut retry = Retry::new(&options, Repeat::Safe);
        let first = retry.wait(timed_out(), None).await.unwrap_err();
        assert!(matches!(first, ClientError::TimedOut { .. }), "{first}");
        retry.attempts = 3;
        let third = retry.wait(timed_out(), None).await.unwrap_err();
        assert!(matches!(third, ClientError::GaveUp { attempts: 3, .. }), "{third}");
        assert_eq!(third.kind(), wadi_model::ErrorKind::OutcomeUnknown);
    }
}
