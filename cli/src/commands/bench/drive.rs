//! Requests one after the other on several connections, and what became of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};
use wadi_client::ClientError;

use crate::latency::{Latencies, Percentiles};

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drive {
    /// Connections that send at a time, each one request after the other.
    pub(super) connections: u16,
    /// Most requests.
    pub(super) requests: u64,
    /// How long requests are begun.
    pub(super) duration: Duration,
    /// Requests a second, if not as fast as they are answered. A request's latency then counts from when it was due.
    pub(super) rate: Option<f64>,
}

/// What one request did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) rows: u64,
    pub(super) raw_bytes: u64,
    pub(super) wire_bytes: u64,
}

/// What requests did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) done: Done,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) latencies: Latencies,
    pub(super) took: Duration,
}

/// What is told of requests.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) rows: u64,
    pub(super) rows_per_second: f64,
    pub(super) latency: Percentiles,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

impl Drive {
    /// Sends requests, which are told their turn from 0.
    pub(super) async fn run<F>(&self, request: impl Fn(u64) -> F) -> Tally
    where
        F: Future<Output = Result<Done, ClientError>>,
    {
        let (begun, next) = (Instant::now(), AtomicU64::new(0));
        let mut tally = Tally::default();
        let connections = (0..self.connections).map(|_| self.connection(begun, &next, &request));
        for one in join_all(connections).await {
            tally.merge(one);
        }
        tally.took = begun.elapsed();
        tally
    }

    async fn connection<F>(&self, begun: Instant, next: &AtomicU64, request: &impl Fn(u64) -> F) -> Tally
    where
        F: Future<Output = Result<Done, ClientError>>,
    {
        let mut tally = Tally::default();
        loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let due = self.rate.map(|rate| begun + Duration::from_secs_f64(turn as f64 / rate));
            let from = due.unwrap_or_else(Instant::now);
            if turn >= self.requests || from >= begun + self.duration {
                return tally;
            }
            sleep_until(from).await;
            match request(turn).await {
                Ok(done) => {
                    tally.latencies.add(from.elapsed());
                    tally.requests += 1;
                    tally.done.add(done);
                }
                Err(error) => {
                    tally.errors += 1;
                    tally.first_error.get_or_insert_with(|| error.to_string());
                    // The same request would fail the same way, as fast as it can be sent.
                    if !error.kind().is_retryable() {
                        return tally;
                    }
                }
            }
        }
    }
}

impl Done {
    fn add(&mut self, other: Done) {
        self.rows += other.rows;
        self.raw_bytes += other.raw_bytes;
        self.wire_bytes += other.wire_bytes;
    }
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.requests += other.requests;
        self.done.add(other.done);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latencies.extend(other.latencies);
    }

    pub(super) fn told(mut self) -> Told {
        let seconds = self.took.as_secs_f64().max(1e-6);
        Told {
            seconds,
            requests: self.requests,
            rows: self.done.rows,
            rows_per_second: self.done.rows as f64 / seconds,
            latency: self.latencies.percentiles(),
            errors: self.errors,
            first_error: self.first_error,
        }
    }
}

impl Percentiles {
    /// The percentiles for people.
    pub(super) fn text(&self) -> String {
        format!(
            "p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
            self.p50_ms, self.p90_ms, self.p99_ms, self.max_ms
        )
    }
}
