//! Latencies and their percentiles.

use std::time::Duration;

use serde::Serialize;

/// Measured latencies. Four bytes each, so an hour of a thousand requests a second is 15 MB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<u32>,
}

/// What is told of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.micros.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn extend(&mut self, other: Latencies) {
        self.micros.extend(other.micros);
    }

    pub(crate) fn percentiles(&mut self) -> Percentiles {
        self.micros.sort_unstable();
        let at = |share: f64| {
            // Nearest rank: the smallest value that `share` of all values do not exceed.
            let rank = (share * self.micros.len() as f64).ceil() as usize;
            self.micros.get(rank.saturating_sub(1)).map_or(0.0, |m| f64::from(*m) / 1000.0)
        };
        Percentiles { p50_ms: at(0.5), p90_ms: at(0.9), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentiles(), Percentiles::default());
        (1..=200).rev().for_each(|ms| latencies.add(Duration::from_millis(ms)));
        let want = Percentiles { p50_ms: 100.0, p90_ms: 180.0, p99_ms: 198.0, max_ms: 200.0 };
        assert_eq!(latencies.percentiles(), want);
    }
}
