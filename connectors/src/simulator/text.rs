//! Numbers and times as venues spell them, made of integers.
//!
//! Never: a float.

use std::sync::Arc;

/// Enough for any u64.
const DIGITS_MAX: usize = 20;

/// Appends a whole number.
pub(super) fn whole(out: &mut Vec<u8>, number: u64) {
    padded(out, number, 1);
}

/// Appends `units` of 10^-`decimals` with exactly that many decimals.
pub(super) fn fixed(out: &mut Vec<u8>, units: u64, decimals: u32) {
    let scale = 10_u64.pow(decimals);
    whole(out, units / scale);
    if decimals > 0 {
        out.push(b'.');
        padded(out, units % scale, usize::try_from(decimals).unwrap_or(DIGITS_MAX));
    }
}

/// Appends `units` of 10^-`decimals` with eight decimals, as Binance does.
pub(super) fn eight(out: &mut Vec<u8>, units: u64, decimals: u32) {
    fixed(out, units.saturating_mul(10_u64.pow(8_u32.saturating_sub(decimals))), 8);
}

/// `units` of 10^-`decimals` in canonical form: no zeros at the end, no point without decimals.
pub(super) fn canonical(units: u64, decimals: u32) -> String {
    let mut out = Vec::new();
    fixed(&mut out, units, decimals);
    let text = take(&mut out);
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// Appends a number with at least `width` digits.
fn padded(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut used = 0;
    for place in digits.iter_mut().rev() {
        if number == 0 && used >= width {
            break;
        }
        *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        used += 1;
    }
    out.extend_from_slice(digits.get(DIGITS_MAX - used..).unwrap_or_default());
}

/// The text in `scratch`, which is left empty for the next message.
pub(super) fn take(scratch: &mut Vec<u8>) -> String {
    // Only ASCII is ever written here, so nothing is replaced.
    let text = String::from_utf8_lossy(scratch).into_owned();
    scratch.clear();
    text
}

/// RFC 3339 times with microseconds; the second's text is kept, as most messages share it.
pub(super) struct Calendar {
    second: u64,
    text: Arc<str>,
}

impl Calendar {
    pub(super) fn new() -> Self {
        Self { second: 0, text: date_time(0).into() }
    }

    /// Appends the time, such as `2026-08-01T02:53:53.646219Z`.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, ts_ns: u64) {
        let second = ts_ns / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.text = date_time(second).into();
        }
        out.extend_from_slice(self.text.as_bytes());
        out.push(b'.');
        padded(out, ts_ns % 1_000_000_000 / 1_000, 6);
        out.push(b'Z');
    }
}

fn date_time(second: u64) -> String {
    let (year, month, day) = date(second / 86_400);
    let rest = second % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// The civil date `days` after 1970-01-01: 400-year cycles that begin in March, so that a leap day comes last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + cycle * 400 + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        take(&mut out)
    }

    #[test]
    fn numbers_are_spelled_as_venues_do() {
        assert_eq!(text(|out| whole(out, 0)), "0");
        assert_eq!(text(|out| whole(out, u64::MAX)), "18446744073709551615");
        assert_eq!(text(|out| fixed(out, 630_049, 1)), "63004.9");
        assert_eq!(text(|out| fixed(out, 5_100, 8)), "0.00005100");
        assert_eq!(text(|out| eight(out, 6_183_763, 2)), "61837.63000000");
        assert_eq!(text(|out| fixed(out, 0, 8)), "0.00000000");
    }

    #[test]
    fn times_are_civil() {
        let mut calendar = Calendar::new();
        let mut at = |ns| text(|out| calendar.write(out, ns));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_400_000_001_999), "2000-02-29T00:00:00.000001Z");
        assert_eq!(at(1_785_552_833_646_219_000), "2026-08-01T02:53:53.646219Z");
        assert_eq!(at(1_735_689_599_999_999_999), "2024-12-31T23:59:59.999999Z");
    }
}
