//! Exact decimals from a venue's own text.
//!
//! Never: a float, a rounding, a wrap. What does not fit is a typed error.

use crate::U256;
use std::{fmt, str::FromStr};

/// Largest power of ten that a parsed number may need on either side of its digits.
///
/// A 256-bit quantity has at most 78 decimal digits, so nothing beyond this can be represented anyway.
pub const EXPONENT_MAX: i32 = 77;

/// Longest text taken as a number, in bytes; longer is refused before it costs anything.
pub const TEXT_BYTES_MAX: usize = 256;

/// A non-rounded decimal: `digits * 10^exponent`, negative if marked so.
///
/// Canonical: the last digit is not zero, and zero is `0 * 10^0` without a sign; so equality ignores how a venue
/// spelled the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    digits: U256,
    exponent: i32,
}

/// Why a text is no number that can be kept exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// No text at all.
    #[error("empty text where a number was expected")]
    Empty,
    /// Something other than `[+-]digits[.digits][e[+-]digits]`; `NaN`, `Infinity` and words end here.
    #[error("not a decimal number")]
    Malformed,
    /// More digits than 256 bits hold, or longer than [`TEXT_BYTES_MAX`].
    #[error("more digits than 256 bits hold")]
    TooManyDigits,
    /// The power of ten is beyond [`EXPONENT_MAX`].
    #[error("exponent beyond ten to the power of {EXPONENT_MAX}")]
    ExponentOutOfRange,
}

impl Decimal {
    /// The value `digits * 10^exponent`, made canonical.
    #[must_use]
    pub fn new(mut digits: U256, mut exponent: i32) -> Self {
        if digits.is_zero() {
            return Self::default();
        }
        let ten = U256::from(10_u64);
        loop {
            let (quotient, rest) = digits.div_rem(ten);
            if !rest.is_zero() {
                return Self { negative: false, digits, exponent };
            }
            digits = quotient;
            exponent = exponent.saturating_add(1);
        }
    }

    /// Reads a number as a venue writes it: `1.50`, `1E-8`, `1e+2`, `.5`, `5.`, `-0`.
    ///
    /// # Errors
    /// [`DecimalError`] when the text is no number or the number cannot be kept exactly.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let bytes = text.as_bytes();
        if bytes.is_empty() {
            return Err(DecimalError::Empty);
        }
        if bytes.len() > TEXT_BYTES_MAX {
            return Err(DecimalError::TooManyDigits);
        }
        let (negative, rest) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let mut scan = Scan::default();
        let exponent_text = scan.mantissa(rest)?;
        let written = match exponent_text {
            Some(text) => parse_exponent(text)?,
            None => 0,
        };
        scan.finish(negative, written)
    }

    /// Whether the value is zero, however it was spelled.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.digits.is_zero()
    }

    /// Whether the value is below zero (`-0` is not).
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// The digits, without trailing zeros.
    #[must_use]
    pub fn digits(&self) -> U256 {
        self.digits
    }

    /// The power of ten that the digits are multiplied with.
    #[must_use]
    pub fn exponent(&self) -> i32 {
        self.exponent
    }
}

impl FromStr for Decimal {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            out.write_str("-")?;
        }
        write_scaled(out, &self.digits.to_string(), self.exponent)
    }
}

/// Writes `digits * 10^exponent` in plain notation, keeping every digit of the step (`50` at -2 is `0.50`).
pub(crate) fn write_scaled(out: &mut impl fmt::Write, digits: &str, exponent: i32) -> fmt::Result {
    if exponent >= 0 {
        out.write_str(digits)?;
        if digits != "0" {
            for _ in 0..exponent {
                out.write_char('0')?;
            }
        }
        return Ok(());
    }
    let places = usize::try_from(exponent.unsigned_abs()).map_err(|_| fmt::Error)?;
    match digits.len().checked_sub(places).filter(|whole| *whole > 0).and_then(|whole| digits.split_at_checked(whole)) {
        Some((whole, fraction)) => write!(out, "{whole}.{fraction}"),
        None => write!(out, "0.{digits:0>places$}"),
    }
}

/// Digits read so far; zeros are held back so that trailing ones never enter the digits.
#[derive(Default)]
struct Scan {
    small: u64,
    large: Option<U256>,
    pending_zeros: u32,
    exponent: i32,
    seen: bool,
}

/// Powers of ten that fit a `u64`.
const POW10: [u64; 20] = {
    let mut table = [1_u64; 20];
    let mut at = 1;
    #[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where an overrun is a build error")]
    while at < 20 {
        table[at] = table[at - 1] * 10;
        at += 1;
    }
    table
};

impl Scan {
    /// Reads digits and at most one point; gives back what follows an exponent mark.
    fn mantissa<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, DecimalError> {
        let mut fraction = false;
        let mut rest = bytes;
        while let [byte, tail @ ..] = rest {
            rest = tail;
            match byte {
                b'0'..=b'9' => {
                    self.seen = true;
                    self.digit(u64::from(byte - b'0'), fraction)?;
                }
                b'.' if !fraction => fraction = true,
                b'e' | b'E' if self.seen => return Ok(Some(rest)),
                _ => return Err(DecimalError::Malformed),
            }
        }
        if self.seen { Ok(None) } else { Err(DecimalError::Malformed) }
    }

    fn digit(&mut self, digit: u64, fraction: bool) -> Result<(), DecimalError> {
        if fraction {
            self.exponent -= 1;
        }
        if digit == 0 {
            self.pending_zeros += 1;
            return Ok(());
        }
        let shift = self.pending_zeros + 1;
        self.pending_zeros = 0;
        let grown = usize::try_from(shift)
            .ok()
            .and_then(|shift| POW10.get(shift))
            .filter(|_| self.large.is_none())
            .and_then(|power| self.small.checked_mul(*power))
            .and_then(|value| value.checked_add(digit));
        if let Some(value) = grown {
            self.small = value;
            return Ok(());
        }
        let wide = self.large.unwrap_or(U256::from(self.small));
        let power = if wide.is_zero() {
            U256::ZERO
        } else {
            U256::from(10_u64).checked_pow(U256::from(shift)).ok_or(DecimalError::TooManyDigits)?
        };
        let value = wide.checked_mul(power).and_then(|value| value.checked_add(U256::from(digit)));
        self.large = Some(value.ok_or(DecimalError::TooManyDigits)?);
        Ok(())
    }

    fn finish(self, negative: bool, written: i32) -> Result<Decimal, DecimalError> {
        let digits = self.large.unwrap_or(U256::from(self.small));
        if digits.is_zero() {
            return Ok(Decimal::default());
        }
        let zeros = i32::try_from(self.pending_zeros).map_err(|_| DecimalError::ExponentOutOfRange)?;
        let exponent = self.exponent.saturating_add(zeros).saturating_add(written);
        if exponent.unsigned_abs() > EXPONENT_MAX.unsigned_abs() {
            return Err(DecimalError::ExponentOutOfRange);
        }
        Ok(Decimal { negative, digits, exponent })
    }
}

fn parse_exponent(bytes: &[u8]) -> Result<i32, DecimalError> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return Err(DecimalError::Malformed);
    }
    let mut value = 0_i32;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::Malformed);
        }
        value = value.saturating_mul(10).saturating_add(i32::from(byte - b'0'));
    }
    Ok(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &str) -> String {
        Decimal::parse(text).map_or_else(|error| format!("{error:?}"), |value| value.to_string())
    }

    #[test]
    fn every_spelling_of_a_number_gives_its_exact_value() {
        for (text, right) in [
            ("0.01234567", "0.01234567"),
            ("1E-7", "0.0000001"),
            ("1e-8", "0.00000001"),
            ("1E-8", "0.00000001"),
            ("1e+2", "100"),
            (".5", "0.5"),
            ("5.", "5"),
            ("55714.40000", "55714.4"),
            ("1.7e-7", "0.00000017"),
            ("0.0000082", "0.0000082"),
            ("+3", "3"),
            ("-3.10", "-3.1"),
            ("100155647470219567721", "100155647470219567721"),
            ("00012.500", "12.5"),
        ] {
            assert_eq!(plain(text), right, "{text}");
        }
    }

    #[test]
    fn every_spelling_of_zero_is_zero() {
        for text in ["0", "0.0", "0E-8", "-0", "0.00000000", ".0", "0.", "0e9999", "-0.000"] {
            assert_eq!(Decimal::parse(text), Ok(Decimal::default()), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_a_typed_error() {
        for text in
            ["NaN", "Infinity", "-Infinity", "null", "abc", "1.2.3", "1e", "e5", ".", "-", "1,5", "1 ", "--1", "0x10"]
        {
            assert_eq!(Decimal::parse(text), Err(DecimalError::Malformed), "{text}");
        }
        assert_eq!(Decimal::parse(""), Err(DecimalError::Empty));
        assert_eq!(Decimal::parse("1e78"), Err(DecimalError::ExponentOutOfRange));
        assert_eq!(Decimal::parse("1e-78"), Err(DecimalError::ExponentOutOfRange));
        assert_eq!(Decimal::parse(&"9".repeat(79)), Err(DecimalError::TooManyDigits));
        assert_eq!(Decimal::parse(&"0".repeat(300)), Err(DecimalError::TooManyDigits));
    }

    #[test]
    fn the_greatest_256_bit_number_is_kept() {
        let text = U256::MAX.to_string();
        assert_eq!(plain(&text), text);
        let beyond = "115792089237316195423570985008687907853269984665640564039457584007913129639936";
        assert_eq!(Decimal::parse(beyond), Err(DecimalError::TooManyDigits));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_value_or_an_error(text in ".{0,40}") {
            if let Ok(value) = Decimal::parse(&text) {
                prop_assert_eq!(Decimal::parse(&value.to_string()), Ok(value));
            }
        }

        #[test]
        fn digits_and_exponent_survive(digits in any::<u128>(), places in 0_usize..20, zeros in 0_usize..5) {
            let whole = digits.to_string();
            let text = format!("{}{}e-{}", whole, "0".repeat(zeros), places + zeros);
            let value = Decimal::parse(&text).unwrap();
            prop_assert_eq!(value, Decimal::new(U256::from(digits), -i32::try_from(places).unwrap()));
        }
    }
}
