//! What a server has asked of its object store, from its page of metrics, and what that costs.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use wadi_client::Client;

use crate::failure::Failure;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Requests {
    /// Creates and parts of large ones.
    pub(crate) puts: u64,
    /// Their bytes.
    pub(crate) put_bytes: u64,
    /// Reads, and looks at what is there.
    pub(crate) gets: u64,
    /// Their bytes.
    pub(crate) get_bytes: u64,
    /// Lists, by thousands of names.
    pub(crate) lists: u64,
    /// Deletions.
    pub(crate) deletes: u64,
}

/// What a server has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Raw bytes acked.
    pub(crate) raw_bytes: u64,
    /// Rows acked.
    pub(crate) rows: u64,
    /// Requests by the kind of objects.
    pub(crate) kinds: BTreeMap<String, Requests>,
}

/// What requests cost.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Prices {
    /// Dollars for a thousand PUTs or LISTs. The default is S3's list price.
    #[arg(long, env = "WADI_PUT_PRICE", default_value_t = 0.005)]
    put_price: f64,
    /// Dollars for a thousand GETs or HEADs. The default is S3's list price. Deletions cost nothing there.
    #[arg(long, env = "WADI_GET_PRICE", default_value_t = 0.0004)]
    get_price: f64,
}

impl Prices {
    /// Dollars.
    pub(crate) fn of(&self, requests: &Requests) -> f64 {
        let puts = (requests.puts + requests.lists) as f64;
        (puts * self.put_price + requests.gets as f64 * self.get_price) / 1000.0
    }
}

impl Requests {
    fn combine(self, other: Requests, with: impl Fn(u64, u64) -> u64) -> Requests {
        Requests {
            puts: with(self.puts, other.puts),
            put_bytes: with(self.put_bytes, other.put_bytes),
            gets: with(self.gets, other.gets),
            get_bytes: with(self.get_bytes, other.get_bytes),
            lists: with(self.lists, other.lists),
            deletes: with(self.deletes, other.deletes),
        }
    }
}

impl Counts {
    /// What the server tells now.
    pub(crate) async fn now(client: &Client) -> Result<Counts, Failure> {
        let counts = Counts::read(&client.metrics().await?);
        match counts.kinds.is_empty() {
            true => Err(Failure::new("the server does not tell its requests to the object store")),
            false => Ok(counts),
        }
    }

    fn read(page: &str) -> Counts {
        let mut counts = Counts::default();
        for line in page.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            match name {
                "wadi_store_acked_bytes_total" => counts.raw_bytes = value,
                "wadi_store_acked_rows_total" => counts.rows = value,
                _ => counts.labelled(name, value),
            }
        }
        counts
    }

    fn labelled(&mut self, name: &str, value: u64) {
        let Some((name, labels)) = name.strip_suffix("\"}").and_then(|name| name.split_once("{request=\""))
        else {
            return;
        };
        let Some((request, kind)) = labels.split_once("\",kind=\"") else { return };
        let requests = self.kinds.entry(kind.to_owned()).or_default();
        let field = match (name, request) {
            ("wadi_object_store_requests_total", "put" | "copy") => &mut requests.puts,
            ("wadi_object_store_requests_total", "get" | "head") => &mut requests.gets,
            ("wadi_object_store_requests_total", "list") => &mut requests.lists,
            ("wadi_object_store_requests_total", "delete") => &mut requests.deletes,
            ("wadi_object_store_transferred_bytes_total", "put") => &mut requests.put_bytes,
            ("wadi_object_store_transferred_bytes_total", "get") => &mut requests.get_bytes,
            _ => return,
        };
        *field += value;
    }

    /// What was done between `before` and now.
    pub(crate) fn since(&self, before: &Counts) -> Counts {
        let none = Requests::default();
        let one = |(kind, requests): (&String, &Requests)| {
            let before = *before.kinds.get(kind).unwrap_or(&none);
            (kind.clone(), requests.combine(before, u64::saturating_sub))
        };
        Counts {
            raw_bytes: self.raw_bytes.saturating_sub(before.raw_bytes),
            rows: self.rows.saturating_sub(before.rows),
            kinds: self.kinds.iter().map(one).collect(),
        }
    }

    /// Requests for one kind of objects.
    pub(crate) fn kind(&self, kind: &str) -> Requests {
        self.kinds.get(kind).copied().unwrap_or_default()
    }

    /// All requests.
    pub(crate) fn all(&self) -> Requests {
        self.kinds.values().fold(Requests::default(), |sum, one| sum.combine(*one, |a, b| a + b))
    }
}

/// A number without labels in a page of metrics.
pub(crate) fn value(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Waits until the server has written nothing but metadata and the lists of databases for a while.
pub(crate) async fn quiet(client: &Client, calm: Duration) -> Result<Counts, Failure> {
    let written = |counts: &Counts| ["log", "pack", "state"].map(|kind| counts.kind(kind).puts);
    let mut last = written(&Counts::now(client).await?);
    let mut since = Instant::now();
    loop {
        sleep(Duration::from_secs(1)).await;
        let counts = Counts::now(client).await?;
        if written(&counts) != last {
            (last, since) = (written(&counts), Instant::now());
        } else if since.elapsed() >= calm {
            return Ok(counts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# TYPE wadi_store_acked_rows counter
wadi_store_acked_rows_total 12
wadi_store_acked_bytes_total 3400
wadi_store_put_seconds_sum 1.5
wadi_object_store_requests_total{request=\"put\",kind=\"log\"} 3
wadi_object_store_requests_total{request=\"list\",kind=\"log\"} 1
wadi_object_store_requests_total{request=\"get\",kind=\"pack\"} 4
wadi_object_store_requests_total{request=\"head\",kind=\"pack\"} 1
wadi_object_store_transferred_bytes_total{request=\"put\",kind=\"log\"} 700
wadi_other_total{request=\"put\",kind=\"log\"} 9
";

    #[test]
    fn a_page_is_read_and_subtracted() {
        let counts = Counts::read(PAGE);
        assert_eq!((counts.rows, counts.raw_bytes), (12, 3400));
        let log = Requests { puts: 3, put_bytes: 700, lists: 1, ..Requests::default() };
        assert_eq!(counts.kind("log"), log);
        assert_eq!(counts.kind("pack"), Requests { gets: 5, ..Requests::default() });
        assert_eq!(counts.since(&counts).all(), Requests::default());
        assert_eq!(counts.since(&Counts::default()), counts);
        assert_eq!(counts.all().puts, 3);
        assert_eq!(value(PAGE, "wadi_store_put_seconds_sum"), Some(1.5));
        assert_eq!(value(PAGE, "wadi_store_put_seconds"), None);
    }

    #[test]
    fn lists_cost_as_puts_and_deletions_nothing() {
        let prices = Prices { put_price: 0.005, get_price: 0.0004 };
        let requests = Requests { puts: 900, lists: 100, gets: 1000, deletes: 5000, ..Requests::default() };
        assert!((prices.of(&requests) - 0.0054).abs() < 1e-12);
    }
}
