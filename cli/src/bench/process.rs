//! CPU time and memory of a process, from `/proc`.

use std::fs;

/// Ticks of a second in `/proc/*/stat`: the kernel's fixed unit for user space.
const TICKS: f64 = 100.0;

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory in RAM now, in bytes.
    pub(crate) rss: u64,
    /// The most it ever was.
    pub(crate) peak_rss: u64,
}

/// Looks at a process; `None` for this one. Nothing where there is no `/proc`, or no such process.
pub(crate) fn usage(pid: Option<u32>) -> Option<Usage> {
    let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(Usage {
        cpu_seconds: cpu_seconds(&stat)?,
        rss: bytes_of(&status, "VmRSS:")?,
        peak_rss: bytes_of(&status, "VmHWM:")?,
    })
}

/// The name in parentheses may hold spaces and parentheses, so fields are counted behind its end.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64 / TICKS)
}

fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(bytes_of("Name:\tx\nVmRSS:\t  12 kB\n", "VmRSS:"), Some(12 << 10));
        assert_eq!(cpu_seconds("nonsense"), None);
    }
}
