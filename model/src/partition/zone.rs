//! Time zones of auto-partition: a name of the IANA database (`Europe/Berlin`), or a fixed offset (`+08:00`).

use chrono::{DateTime, FixedOffset, NaiveDateTime, TimeZone};
use chrono_tz::Tz;

/// A time zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Zone {
    Named(Tz),
    Fixed(FixedOffset),
}

impl Zone {
    /// Where nothing else is said. Not the zone of a machine: all gateways must agree, for ever.
    pub(super) const UTC: Zone = Zone::Named(Tz::UTC);

    /// Reads a name or an offset.
    pub(super) fn read(text: &str) -> Option<Zone> {
        match text.as_bytes() {
            [sign @ (b'+' | b'-'), digits @ ..] => {
                let &[h1, h2, b':', m1, m2] = digits else { return None };
                let number = |tens: u8, ones: u8| {
                    let digit = |b: u8| b.is_ascii_digit().then(|| i32::from(b - b'0'));
                    Some(digit(tens)? * 10 + digit(ones)?)
                };
                let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
                if hours > 18 || minutes > 59 {
                    return None;
                }
                let seconds = (hours * 60 + minutes) * 60;
                FixedOffset::east_opt(if *sign == b'-' { -seconds } else { seconds }).map(Zone::Fixed)
            }
            _ => text.parse().ok().map(Zone::Named),
        }
    }

    /// What clocks show there; `None` beyond the years that can be told.
    pub(super) fn local(self, millis: i64) -> Option<NaiveDateTime> {
        let utc = DateTime::from_timestamp_millis(millis)?.naive_utc();
        Some(match self {
            Zone::Named(zone) => zone.from_utc_datetime(&utc).naive_local(),
            Zone::Fixed(offset) => utc.checked_add_offset(offset)?,
        })
    }
}
