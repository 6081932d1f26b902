//! Powers of 1.0001 as decimal text: what a tick index means where the price is a power.
//!
//! Never: a float; a text that depends on the platform.

use crate::{U256, decimal::write_scaled};

/// Greatest distance of a tick index from 0 whose power is written out: the venue's own bound, where a price passes
/// 2 * 10^24, or 5 * 10^-25 on the other side.
pub const TICK_INDEX_MAX: u64 = 559_680;

/// Significant digits of a price that is a power. Neighbours differ by one part in ten thousand, so that eighteen tell
/// them apart with much to spare; and they fit a 64-bit integer.
pub const DIGITS: u32 = 18;

/// Digits of a mantissa after its first.
const PLACES: u32 = 37;

/// Least mantissa: one digit and [`PLACES`] zeros.
const ONE: u128 = 10_u128.pow(PLACES);

/// Above every mantissa that is not rounded up to it. The product of two is 10^76 at most, which 256 bits hold.
const TEN: u128 = 10 * ONE;

/// `mantissa * 10^(exponent - PLACES)`.
#[derive(Clone, Copy)]
struct Wide {
    mantissa: u128,
    exponent: i32,
}

/// `1.0001^tick_index` in plain decimal notation with so many significant digits, 1 to [`DIGITS`]; zeros fill the places
/// between them and the point. Beyond [`TICK_INDEX_MAX`] it is the formula, such as `1.0001^600000`.
///
/// The power is known to 1 part in 10^31: each product is rounded by half a unit of the 38th digit at the most, and a
/// squaring doubles what was off before, so that all of it is below `2 * 559,680 * 5 * 10^-38`. With 18 digits no power up
/// to the bound is nearer than 1 part in 10^25 to the middle of two texts, so every one is correctly rounded.
#[must_use]
pub fn text(tick_index: i64, digits: u32) -> String {
    let distance = tick_index.unsigned_abs();
    if distance > TICK_INDEX_MAX {
        return format!("1.0001^{tick_index}");
    }
    let above = power(distance);
    let value = if tick_index < 0 { above.inverse() } else { above };
    let (digits, exponent) = value.rounded(digits.clamp(1, DIGITS));
    let mut text = String::new();
    // Writing into a String cannot fail; an empty text would be seen at once by every test.
    if write_scaled(&mut text, &digits.to_string(), exponent).is_err() {
        text.clear();
    }
    text
}

/// `1.0001^distance` by squaring.
fn power(distance: u64) -> Wide {
    let mut square = Wide { mantissa: ONE / 10_000 * 10_001, exponent: 0 };
    let mut power = Wide { mantissa: ONE, exponent: 0 };
    let mut left = distance;
    while left > 0 {
        if left % 2 == 1 {
            power = power.times(square);
        }
        left /= 2;
        if left > 0 {
            square = square.times(square);
        }
    }
    power
}

impl Wide {
    fn times(self, other: Self) -> Self {
        let product = U256::from(self.mantissa).wrapping_mul(U256::from(other.mantissa));
        let carries = product >= U256::from(ONE).wrapping_mul(U256::from(TEN));
        let mantissa = nearest(product, if carries { TEN } else { ONE });
        Self { mantissa, exponent: self.exponent + other.exponent + i32::from(carries) }
    }

    fn inverse(self) -> Self {
        let one = U256::from(ONE).wrapping_mul(U256::from(TEN));
        Self { mantissa: nearest(one, self.mantissa), exponent: -self.exponent - 1 }
    }

    /// The value as `digits * 10^exponent` with so many digits.
    fn rounded(self, digits: u32) -> (u128, i32) {
        let dropped = (PLACES + 1).saturating_sub(digits);
        let kept = nearest(U256::from(self.mantissa), 10_u128.pow(dropped));
        let places = i32::try_from(digits).map_or(0, |digits| digits - 1);
        let exponent = self.exponent - places;
        // Rounded up to the next power of ten: one digit too many, a zero.
        if kept >= 10_u128.pow(digits) { (kept / 10, exponent + 1) } else { (kept, exponent) }
    }
}

/// The quotient, rounded to the nearest; here it has 39 digits at the most, 10^38 itself, which 128 bits hold.
fn nearest(dividend: U256, divisor: u128) -> u128 {
    let half = U256::from(divisor / 2);
    (dividend.wrapping_add(half) / U256::from(divisor)).saturating_to()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decimal, quote::Exact};
    use proptest::prelude::*;

    const BOUND: i64 = 559_680;

    /// Of Python's `decimal` with 80 digits, rounded half to even.
    const EXPECTED: [(i64, &str); 49] = [
        (0, "1.00000000000000000"),
        (1, "1.00010000000000000"),
        (-1, "0.999900009999000100"),
        (2, "1.00020001000000000"),
        (-2, "0.999800029996000500"),
        (3, "1.00030003000100000"),
        (9, "1.00090036008401260"),
        (-9, "0.999100449835049487"),
        (10, "1.00100045012002100"),
        (100, "1.01004966209287657"),
        (-100, "0.990050328741209482"),
        (6_931, "1.99983634019692763"),
        (6_932, "2.00003632383094732"),
        (-6_931, "0.500040918299108480"),
        (-6_932, "0.499990919207187761"),
        (9_999, "2.71787413941128374"),
        (10_000, "2.71814592682522486"),
        (-10_000, "0.367897834377123710"),
        (23_027, "9.99999779681069624"),
        (23_028, "10.0009977965903773"),
        (-23_027, "0.100000022031897892"),
        (-23_028, "0.0999900230295949322"),
        (46_055, "100.009955931812401"),
        (-46_055, "0.00999900450592947079"),
        (100_000, "22015.4560485521986"),
        (-100_000, "0.0000454226338893289903"),
        (192_422, "227176533.570498505"),
        (-192_423, "0.00000000440142295634027871"),
        (192_423, "227199251.223855555"),
        (207_243, "999998017.131374070"),
        (207_244, "1000098016.93308721"),
        (-207_243, "0.00000000100000198287255771"),
        (-207_244, "0.000000000999901992673290377"),
        (299_999, "10669391013791.5320"),
        (314_159, "43961233721646.8982"),
        (-314_159, "0.0000000000000227473142890344136"),
        (391_448, "99889691841637100.1"),
        (391_449, "99899680810821263.8"),
        (414_487, "1000096033870106580"),
        (-414_487, "0.000000000000000000999903975351512044"),
        (-414_488, "0.000000000000000000999803994952016842"),
        (500_000, "5171760815372400970000"),
        (-500_000, "0.000000000000000000000193357743271426482"),
        (529_715, "100943872917137109000000"),
        (-529_715, "0.00000000000000000000000990649527407058016"),
        (559_679, "2019923338971159650000000"),
        (-559_679, "0.000000000000000000000000495068293289460300"),
        (559_680, "2020125331305056770000000"),
        (-559_680, "0.000000000000000000000000495018791410319268"),
    ];

    fn value(text: &str) -> Exact {
        let value = Decimal::parse(text).unwrap();
        Exact::new(value.digits(), value.exponent().try_into().unwrap())
    }

    #[test]
    fn powers_are_those_of_another_arithmetic() {
        for (tick_index, expected) in EXPECTED {
            assert_eq!(text(tick_index, DIGITS), expected, "{tick_index}");
        }
    }

    /// Every 61st of all powers, held against Python's by a sum of all their bytes, each in its place.
    #[test]
    fn powers_all_over_the_range_are_those_of_another_arithmetic() {
        let (mut sum, mut before) = (0_u64, value("0"));
        for tick_index in (-BOUND..=BOUND).step_by(61) {
            let power = text(tick_index, DIGITS);
            sum = power.bytes().fold(sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let now = value(&power);
            assert!(before < now, "{tick_index}");
            before = now;
        }
        assert_eq!(sum, 2_392_817_834_113_174_509);
    }

    #[test]
    fn beyond_the_bound_the_formula_stands() {
        for tick_index in [BOUND + 1, -BOUND - 1, i64::MAX, i64::MIN] {
            assert_eq!(text(tick_index, DIGITS), format!("1.0001^{tick_index}"));
        }
    }

    #[test]
    fn fewer_digits_are_rounded_and_not_cut_off() {
        assert_eq!(text(0, 1), "1");
        assert_eq!(text(6_932, 4), "2.000");
        assert_eq!(text(-1, 7), "0.9999000");
        assert_eq!(text(-1, 2), "1.0");
        assert_eq!(text(BOUND, 4), "2020000000000000000000000");
        assert_eq!(text(1, 0), "1");
        assert_eq!(text(1, u32::MAX), text(1, DIGITS));
    }

    proptest! {
        #[test]
        fn a_greater_tick_index_is_a_greater_price(tick_index in -BOUND..BOUND) {
            let [below, above] = [tick_index, tick_index + 1].map(|tick_index| text(tick_index, DIGITS));
            prop_assert!(value(&below) < value(&above), "{} {}", below, above);
        }

        #[test]
        fn any_tick_index_has_a_text(tick_index: i64, digits: u32) {
            prop_assert!(!text(tick_index, digits).is_empty());
        }
    }
}
