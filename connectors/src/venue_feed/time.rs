//! Venue times: the unit is declared per field, and what is implausible in it is refused, not guessed at.
//!
//! Never: a unit inferred from a value's magnitude.

use super::{Undecodable, excerpt};
use jiff::Timestamp;
use market::Venue;

/// 2009-01-03, before which nothing of ours was traded anywhere, in Unix milliseconds.
const PLAUSIBLE_MS_MIN: u64 = 1_230_940_800_000;
/// 2100-01-01, in Unix milliseconds.
const PLAUSIBLE_MS_MAX: u64 = 4_102_444_800_000;

/// A field documented as Unix milliseconds, in nanoseconds.
pub(crate) fn from_ms(venue: Venue, ms: u64) -> Result<u64, Undecodable> {
    if (PLAUSIBLE_MS_MIN..PLAUSIBLE_MS_MAX).contains(&ms) {
        Ok(ms * 1_000_000)
    } else {
        Err(Undecodable::Time { venue, text: ms.to_string().into() })
    }
}

/// A field documented as RFC 3339 text, in Unix nanoseconds.
pub(crate) fn from_rfc3339(venue: Venue, text: &str) -> Result<u64, Undecodable> {
    let implausible = || Undecodable::Time { venue, text: excerpt(text) };
    let time: Timestamp = text.parse().map_err(|_| implausible())?;
    let ns = u64::try_from(time.as_nanosecond()).map_err(|_| implausible())?;
    let plausible = PLAUSIBLE_MS_MIN * 1_000_000..PLAUSIBLE_MS_MAX * 1_000_000;
    if plausible.contains(&ns) { Ok(ns) } else { Err(implausible()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_keeps_its_sub_second_part_and_an_implausible_one_is_refused() {
        let venue = Venue::KrakenSpot;
        assert_eq!(from_rfc3339(venue, "2026-08-01T02:53:53.646219Z").unwrap() % 1_000_000_000, 646_219_000);
        for text in ["1969-12-31T23:59:59Z", "2554-01-01T00:00:00Z", "yesterday", ""] {
            assert!(matches!(from_rfc3339(venue, text), Err(Undecodable::Time { .. })), "{text}");
        }
        assert_eq!(from_ms(venue, 1_618_677_372_122).unwrap(), 1_618_677_372_122_000_000);
        for seconds_or_micros in [0, 1_618_677_372, 1_618_677_372_122_000] {
            assert!(from_ms(venue, seconds_or_micros).is_err());
        }
    }
}
