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

/// A field documented as Unix microseconds, in nanoseconds.
pub(crate) fn from_us(venue: Venue, us: u64) -> Result<u64, Undecodable> {
    let implausible = || Undecodable::Time { venue, text: us.to_string().into() };
    let ns = us.checked_mul(1_000).ok_or_else(implausible)?;
    plausible(ns).ok_or_else(implausible)
}

/// A field documented as Unix nanoseconds.
pub(crate) fn from_ns(venue: Venue, ns: u64) -> Result<u64, Undecodable> {
    plausible(ns).ok_or_else(|| Undecodable::Time { venue, text: ns.to_string().into() })
}

/// A field documented as Unix seconds with decimals, as text, in nanoseconds; digits beyond nanoseconds are cut.
pub(crate) fn from_seconds(venue: Venue, text: &str) -> Result<u64, Undecodable> {
    let implausible = || Undecodable::Time { venue, text: excerpt(text) };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return Err(implausible());
    }
    let seconds: u64 = whole.parse().map_err(|_| implausible())?;
    let part_ns = part
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(9)
        .fold(0_u64, |ns, digit| ns.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0'))));
    let ns = seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(part_ns));
    ns.and_then(plausible).ok_or_else(implausible)
}

fn plausible(ns: u64) -> Option<u64> {
    (PLAUSIBLE_MS_MIN * 1_000_000..PLAUSIBLE_MS_MAX * 1_000_000).contains(&ns).then_some(ns)
}

/// A field documented as RFC 3339 text, in Unix nanoseconds.
pub(crate) fn from_rfc3339(venue: Venue, text: &str) -> Result<u64, Undecodable> {
    let implausible = || Undecodable::Time { venue, text: excerpt(text) };
    let time: Timestamp = text.parse().map_err(|_| implausible())?;
    let ns = u64::try_from(time.as_nanosecond()).map_err(|_| implausible())?;
    plausible(ns).ok_or_else(implausible)
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
        assert_eq!(from_us(venue, 1_618_677_372_122_345).unwrap(), 1_618_677_372_122_345_000);
        assert_eq!(from_seconds(venue, "1618677372.1223456789").unwrap(), 1_618_677_372_122_345_678);
        assert_eq!(from_seconds(venue, "1618677372").unwrap(), 1_618_677_372_000_000_000);
        for text in ["1618677372122", "", ".5", "1618677372.x", "-1", "1e9", "18446744073709551615.9"] {
            assert!(from_seconds(venue, text).is_err(), "{text}");
        }
        assert!(from_us(venue, 1_618_677_372_122).is_err() && from_us(venue, u64::MAX).is_err());
        assert_eq!(from_ns(venue, 1_618_677_372_122_345_678).unwrap(), 1_618_677_372_122_345_678);
        assert!(from_ns(venue, 1_618_677_372_122_345).is_err() && from_ns(venue, u64::MAX).is_err());
        for seconds_or_micros in [0, 1_618_677_372, 1_618_677_372_122_000] {
            assert!(from_ms(venue, seconds_or_micros).is_err());
        }
    }
}
