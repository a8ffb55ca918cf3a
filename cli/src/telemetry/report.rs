//! Says that a receiver of telemetry is away, and that it is back, and does not say it for each message.

use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The least time between two complaints.
const AGAIN: Duration = Duration::from_secs(300);

/// What is known of the delivery of one kind of things.
#[derive(Debug)]
pub(super) struct Report {
    what: &'static str,
    endpoint: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the log said last that nothing is delivered.
    complained: Option<Instant>,
    /// Whether that is the last that it said.
    away: bool,
    /// What was lost since anything was delivered.
    lost: usize,
}

/// What is to be said of a delivery.
#[derive(Debug, PartialEq, Eq)]
enum Say {
    Nothing,
    Away { lost: usize },
    Back { lost: usize },
}

impl State {
    fn note(&mut self, delivered: bool, count: usize, now: Instant) -> Say {
        if delivered {
            let lost = std::mem::take(&mut self.lost);
            return if std::mem::take(&mut self.away) { Say::Back { lost } } else { Say::Nothing };
        }
        self.lost += count;
        if self.complained.is_some_and(|said| now < said + AGAIN) {
            return Say::Nothing;
        }
        (self.complained, self.away) = (Some(now), true);
        Say::Away { lost: self.lost }
    }
}

impl Report {
    pub(super) fn new(what: &'static str, endpoint: &str) -> Report {
        Report { what, endpoint: endpoint.to_owned(), state: Mutex::default() }
    }

    /// Notes whether so many were delivered.
    pub(super) fn note<E: std::fmt::Display>(&self, outcome: &Result<(), E>, count: usize) {
        let say = self.state.lock().note(outcome.is_ok(), count, Instant::now());
        let (what, endpoint) = (self.what, &self.endpoint);
        match (say, outcome) {
            (Say::Away { lost }, Err(error)) => {
                tracing::warn!(endpoint, lost, %error, "{what} are not delivered; serving goes on without")
            }
            (Say::Back { lost }, _) => tracing::info!(endpoint, lost, "{what} are delivered again"),
            _ => {}
        }
    }
}

/// An exporter of spans or log lines whose failures are reported.
#[derive(Debug)]
pub(super) struct Reported<E> {
    pub(super) exporter: E,
    pub(super) report: Report,
}

impl<E: SpanExporter> SpanExporter for Reported<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let outcome = self.exporter.export(batch).await;
        self.report.note(&outcome, count);
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Reported<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let count = batch.iter().count();
        let outcome = self.exporter.export(batch).await;
        self.report.note(&outcome, count);
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_receiver_that_is_away_is_told_of_once_in_a_while() {
        let (mut state, began) = (State::default(), Instant::now());
        assert_eq!(state.note(true, 5, began), Say::Nothing);
        assert_eq!(state.note(false, 5, began), Say::Away { lost: 5 });
        assert_eq!(state.note(false, 5, began + AGAIN / 2), Say::Nothing);
        assert_eq!(state.note(false, 5, began + AGAIN), Say::Away { lost: 15 });
        assert_eq!(state.note(true, 5, began + AGAIN), Say::Back { lost: 15 });
        // One that comes and goes does not fill the log either.
        assert_eq!(state.note(false, 5, began + AGAIN), Say::Nothing);
        assert_eq!(state.note(true, 5, began + AGAIN), Say::Nothing);
        assert_eq!(state.note(false, 5, began + 2 * AGAIN), Say::Away { lost: 5 });
    }
}
