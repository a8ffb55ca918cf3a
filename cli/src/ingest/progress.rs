//! The progress of a run on stderr: a bar on a terminal, else a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;
use wadi_client::Client;

use super::piece::Piece;

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how one file gets on.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: bool,
    last_line: Instant,
    begun: Instant,
    client: Client,
    name: String,
    total: Option<u64>,
    units: u64,
    rows: u64,
    raw_bytes: u64,
}

impl Progress {
    /// `total` is in [`Piece::units`].
    pub(crate) fn new(client: Client, name: String, total: Option<u64>, quiet: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| bar(&name, total));
        let now = Instant::now();
        Progress {
            bar,
            lines: !terminal && !quiet,
            last_line: now,
            begun: now,
            client,
            name,
            total,
            units: 0,
            rows: 0,
            raw_bytes: 0,
        }
    }

    /// A piece that an earlier run has sent.
    pub(crate) fn skip(&mut self, piece: &Piece) {
        self.units += piece.units;
        if let Some(bar) = &self.bar {
            // The speed of this run tells when it will end; skipping is no part of it.
            bar.set_position(self.units);
            bar.reset_eta();
        }
    }

    /// A piece of `units` and `raw_bytes` was acked.
    pub(crate) fn acked(&mut self, units: u64, rows: u64, raw_bytes: u64) {
        self.units += units;
        self.rows += rows;
        self.raw_bytes += raw_bytes;
        if let Some(bar) = &self.bar {
            bar.set_message(self.message());
            bar.set_position(self.units);
        }
        if self.lines && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let share = self.total.filter(|t| *t > 0).map(|t| format!("{} %, ", self.units * 100 / t));
            let _ =
                writeln!(std::io::stderr(), "{}: {}{}", self.name, share.unwrap_or_default(), self.message());
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn message(&self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        let (rows, mb) = (self.rows as f64 / seconds, self.raw_bytes as f64 / 1e6 / seconds);
        let retries = self.client.retries();
        format!("{} rows, {} rows/s, {mb:.1} MB/s, {retries} retries", self.rows, rows as u64)
    }
}

fn bar(name: &str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{prefix} [{bar:30}] {percent:>3} % {msg}, ETA {eta}"),
        None => (ProgressBar::no_length(), "{prefix} {spinner} {msg}"),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar.set_prefix(name.to_owned());
    // A template that cannot be read leaves the default one: still a progress.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
