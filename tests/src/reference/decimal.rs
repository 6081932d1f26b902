//! Decimals by their text, ordered by their value.
//!
//! Never: an integer or a float made of one, so nothing can be rounded or wrap.

use anyhow::{Result, bail};

/// The greatest exponent taken; no venue's number is anywhere near it.
const EXPONENT_MAX: i32 = 60;

/// A non-negative decimal in canonical form; the order of the fields is the order of values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal {
    /// Digits before the point, so that more of them is greater.
    width: usize,
    /// Without zeros at the front.
    whole: String,
    /// Without zeros at the end, so that text order is value order.
    part: String,
}

impl Decimal {
    /// Reads digits with at most one point, and perhaps an exponent.
    pub(super) fn read(text: &str) -> Result<Self> {
        let (plain, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, part) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let shift: i32 = exponent.parse().unwrap_or(i32::MAX);
        let nothing = whole.is_empty() && part.is_empty();
        if nothing || !digits(whole) || !digits(part) || !(-EXPONENT_MAX..=EXPONENT_MAX).contains(&shift) {
            bail!("not a decimal: {text:?}");
        }
        let places = usize::try_from(shift.unsigned_abs())?;
        let zeros = "0".repeat(places);
        let (all, point) = match shift < 0 {
            true => (format!("{zeros}{whole}{part}"), whole.len()),
            false => (format!("{whole}{part}{zeros}"), whole.len() + places),
        };
        let (whole, part) = all.split_at(point);
        let whole = whole.trim_start_matches('0').to_owned();
        Ok(Self { width: whole.len(), whole, part: part.trim_end_matches('0').to_owned() })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.whole.is_empty() && self.part.is_empty()
    }

    /// The one spelling of this value.
    pub(super) fn canonical(&self) -> String {
        let whole = if self.whole.is_empty() { "0" } else { &self.whole };
        if self.part.is_empty() { whole.to_owned() } else { format!("{whole}.{}", self.part) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_ordered_and_spelled_once() {
        let rising =
            ["0", "0.00000001", "0.05", "0.1", "0.12", "1", "9.99", "10", "10.00000001", "00100", "61837.63000000"];
        let read: Vec<Decimal> = rising.iter().map(|text| Decimal::read(text).unwrap()).collect();
        assert!(read.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Decimal::read("010.500").unwrap(), Decimal::read("10.5").unwrap());
        assert_eq!(Decimal::read("61837.63000000").unwrap().canonical(), "61837.63");
        assert_eq!(Decimal::read("0.000").unwrap().canonical(), "0");
        assert!(Decimal::read(".0").unwrap().is_zero());
        for (spelled, plain) in
            [("1e-8", "0.00000001"), ("1.25E-7", "0.000000125"), ("12.5e1", "125"), ("2.0e3", "2000")]
        {
            assert_eq!(Decimal::read(spelled).unwrap().canonical(), plain);
        }
        for wrong in ["", ".", "-1", "1.2.3", "NaN", " 1", "e5", "1e", "1e99", "1e-8e"] {
            assert!(Decimal::read(wrong).is_err(), "{wrong}");
        }
    }
}
