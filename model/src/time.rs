//! Moments as people read them.

use chrono::{DateTime, SecondsFormat};

/// Milliseconds since 1970 as RFC 3339 in UTC, `2026-01-31T12:00:00.000Z`; the number itself if no calendar has it.
pub fn rfc3339(millis: i64) -> String {
    match DateTime::from_timestamp_millis(millis) {
        Some(moment) => moment.to_rfc3339_opts(SecondsFormat::Millis, true),
        None => millis.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_spelled() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(i64::MAX), i64::MAX.to_string());
    }
}
