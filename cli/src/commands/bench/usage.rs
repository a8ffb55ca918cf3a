//! What client and server have used during a measurement.

use serde::Serialize;

use crate::bench::process::{Usage, usage};
use crate::failure::Failure;

/// The state before a measurement.
pub(super) struct Before {
    client: Option<Usage>,
    server: Option<(u32, Usage)>,
}

/// What a measurement has cost.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Cost {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_cpu_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_cpu_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_peak_rss_bytes: Option<u64>,
}

impl Before {
    pub(super) fn now(server_pid: Option<u32>) -> Result<Before, Failure> {
        let server = server_pid.map(|pid| match usage(Some(pid)) {
            Some(usage) => Ok((pid, usage)),
            None => Err(Failure::usage(format!("process {pid} cannot be looked at"))
                .hint("--server-pid needs /proc, and a process on this machine")),
        });
        Ok(Before { client: usage(None), server: server.transpose()? })
    }

    pub(super) fn cost(&self) -> Cost {
        let client = self.client.zip(usage(None));
        let server = self.server.and_then(|(pid, before)| Some((before, usage(Some(pid))?)));
        Cost {
            client_cpu_seconds: client.map(|(before, now)| now.cpu_seconds - before.cpu_seconds),
            server_cpu_seconds: server.map(|(before, now)| now.cpu_seconds - before.cpu_seconds),
            server_rss_bytes: server.map(|(_, now)| now.rss),
            server_peak_rss_bytes: server.map(|(_, now)| now.peak_rss),
        }
    }
}

impl Cost {
    /// The cost for people, by gigabyte (10^9 bytes).
    pub(super) fn facts(&self, gigabytes: f64) -> Vec<(&'static str, String)> {
        self.told(|seconds| format!("{:.2} CPU-seconds per GB", seconds / gigabytes.max(1e-9)))
    }

    /// The cost for people, by what a core does in a second.
    pub(super) fn facts_of(&self, count: u64, what: &str) -> Vec<(&'static str, String)> {
        self.told(|seconds| {
            format!("{seconds:.2} CPU-seconds, {:.0} {what}/s per core", count as f64 / seconds.max(1e-9))
        })
    }

    fn told(&self, cpu: impl Fn(f64) -> String) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(seconds) = self.server_cpu_seconds {
            facts.push(("server", cpu(seconds)));
        }
        if let Some((now, peak)) = self.server_rss_bytes.zip(self.server_peak_rss_bytes) {
            facts.push(("server memory", format!("{} MiB, at most {} MiB", now >> 20, peak >> 20)));
        }
        if let Some(seconds) = self.client_cpu_seconds {
            facts.push(("client", cpu(seconds)));
        }
        facts
    }
}
