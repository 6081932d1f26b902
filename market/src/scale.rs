//! Steps of an instrument: how an exact decimal becomes a tick index or a quantity, and back to text.
//!
//! Never: a rounding, but in the text of a price that is a power. A value finer than the step is reported, so that the
//! step can be refined.

use crate::{Decimal, DecimalError, U256, decimal::write_scaled, power};
use serde::{Deserialize, Serialize};

/// Finest and coarsest power of ten that a step may have.
pub const STEP_EXPONENT_LIMIT: i8 = 38;

/// Finest power of ten of a price step: on-chain amounts have 18 decimals, and a price in `i64` leaves no room for more.
pub const PRICE_EXPONENT_MIN: i8 = -18;

/// In the place of a price exponent: the price is a power, `1.0001^tick_index` of asset_1's least units for one of
/// asset_0's, and no decimal number of steps.
pub const PRICE_POWERS: i8 = i8::MIN;

/// The decimal exponents of an instrument's price and quantity steps: a tick index of 5 at -2 is a price of 0.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scale {
    /// Power of ten of one price step, or [`PRICE_POWERS`].
    pub price: i8,
    /// Power of ten of one quantity step.
    pub quantity: i8,
}

/// Why a number cannot be expressed in an instrument's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// The number itself is unreadable.
    #[error(transparent)]
    Number(#[from] DecimalError),
    /// A price or quantity below zero.
    #[error("negative where only zero or more has a meaning")]
    Negative,
    /// Not a multiple of the step; the step must be refined to this exponent first.
    #[error("finer than the step: needs ten to the power of {exponent}")]
    Finer {
        /// The exponent that would hold the value exactly.
        exponent: i8,
    },
    /// The value does not fit its type at this step.
    #[error("out of range at this step")]
    OutOfRange,
    /// A decimal price where prices are powers.
    #[error("the instrument's prices are powers, no decimal steps")]
    Powers,
}

impl Default for Scale {
    /// The coarsest scale, which every first value refines.
    fn default() -> Self {
        Self { price: STEP_EXPONENT_LIMIT, quantity: STEP_EXPONENT_LIMIT }
    }
}

impl Scale {
    /// Whether a tick index is the exponent of a price that is a power ([`PRICE_POWERS`]), and no number of steps.
    #[must_use]
    pub const fn is_powers(self) -> bool {
        self.price == PRICE_POWERS
    }

    /// Whether prices are powers in one of the two and steps in the other: nothing of one has a place in the other.
    #[must_use]
    pub const fn mixes(self, other: Self) -> bool {
        self.is_powers() != other.is_powers()
    }

    /// A price in steps.
    ///
    /// # Errors
    /// [`ScaleError`]: negative, finer than the step, beyond `i64`, or a decimal where prices are powers.
    pub fn price(self, value: &Decimal) -> Result<i64, ScaleError> {
        self.decimal()?;
        let steps = in_steps(value, self.price)?;
        i64::try_from(steps).map_err(|_| ScaleError::OutOfRange)
    }

    /// A quantity in steps.
    ///
    /// # Errors
    /// [`ScaleError`]: negative, finer than the step, or beyond 256 bits.
    pub fn quantity(self, value: &Decimal) -> Result<U256, ScaleError> {
        in_steps(value, self.quantity)
    }

    /// The scale refined so that both values are multiples of its steps.
    ///
    /// # Errors
    /// [`ScaleError::OutOfRange`] if a price step finer than [`PRICE_EXPONENT_MIN`], or a quantity step finer than
    /// [`STEP_EXPONENT_LIMIT`], would be needed; [`ScaleError::Powers`] where prices are powers, which nothing refines.
    pub fn refined(self, price: &Decimal, quantity: &Decimal) -> Result<Self, ScaleError> {
        self.decimal()?;
        let (price, quantity) =
            (finer(self.price, price, PRICE_EXPONENT_MIN)?, finer(self.quantity, quantity, -STEP_EXPONENT_LIMIT)?);
        Ok(Self { price, quantity })
    }

    /// The finer of two scales, step by step. Of two that [mix](Self::mixes) powers and steps it has powers, where no price
    /// in steps has a place: [`Self::price_in`] gives none.
    #[must_use]
    pub fn finest(self, other: Self) -> Self {
        Self { price: self.price.min(other.price), quantity: self.quantity.min(other.quantity) }
    }

    /// A tick index of this scale as a tick index of a finer one; `None` where it does not fit, and between powers and
    /// steps.
    #[must_use]
    pub fn price_in(self, finer: Self, tick_index: i64) -> Option<i64> {
        if self.is_powers() || finer.is_powers() {
            return (!self.mixes(finer)).then_some(tick_index);
        }
        let shift = u32::try_from(i32::from(self.price) - i32::from(finer.price)).ok()?;
        tick_index.checked_mul(10_i64.checked_pow(shift)?)
    }

    /// A quantity of this scale as a quantity of a finer one; `None` where it does not fit.
    #[must_use]
    pub fn quantity_in(self, finer: Self, quantity: U256) -> Option<U256> {
        let shift = u32::try_from(i32::from(self.quantity) - i32::from(finer.quantity)).ok()?;
        if quantity.is_zero() || shift == 0 {
            return Some(quantity);
        }
        quantity.checked_mul(U256::from(10_u64).checked_pow(U256::from(shift))?)
    }

    /// The exact value of a tick index; none below zero, and none where prices are powers, which have more digits than
    /// any number here.
    #[must_use]
    pub fn price_value(self, tick_index: i64) -> Option<Decimal> {
        let steps = u64::try_from(tick_index).ok().filter(|_| !self.is_powers())?;
        Some(Decimal::new(U256::from(steps), i32::from(self.price)))
    }

    /// Price text with every digit of the step, e.g. `61737.60` at -2. Where prices are powers it has 18 significant
    /// digits, correctly rounded, as [`power::text`] says; the tick index alone is exact then.
    #[must_use]
    pub fn price_text(self, tick_index: i64) -> String {
        if self.is_powers() {
            return power::text(tick_index, power::DIGITS);
        }
        let sign = if tick_index < 0 { "-" } else { "" };
        scaled_text(sign, &tick_index.unsigned_abs().to_string(), self.price)
    }

    /// Quantity text with every digit of the step; a zero is `0`.
    #[must_use]
    pub fn quantity_text(self, quantity: U256) -> String {
        if quantity.is_zero() {
            return "0".to_owned();
        }
        scaled_text("", &quantity.to_string(), self.quantity)
    }

    const fn decimal(self) -> Result<(), ScaleError> {
        if self.is_powers() { Err(ScaleError::Powers) } else { Ok(()) }
    }
}

fn scaled_text(sign: &str, digits: &str, exponent: i8) -> String {
    let mut text = String::with_capacity(digits.len() + 4);
    text.push_str(sign);
    // Writing into a String cannot fail; an empty text would be seen at once by every golden test.
    if write_scaled(&mut text, digits, i32::from(exponent)).is_err() {
        text.clear();
    }
    text
}

fn in_steps(value: &Decimal, step: i8) -> Result<U256, ScaleError> {
    if value.is_negative() {
        return Err(ScaleError::Negative);
    }
    if value.is_zero() {
        return Ok(U256::ZERO);
    }
    let shift = value.exponent() - i32::from(step);
    let Ok(shift) = u32::try_from(shift) else {
        let exponent = i8::try_from(value.exponent()).map_err(|_| ScaleError::OutOfRange)?;
        return Err(ScaleError::Finer { exponent });
    };
    if shift == 0 {
        return Ok(value.digits());
    }
    let small = u64::try_from(value.digits()).ok().zip(10_u64.checked_pow(shift));
    if let Some(steps) = small.and_then(|(digits, power)| digits.checked_mul(power)) {
        return Ok(U256::from(steps));
    }
    let power = U256::from(10_u64).checked_pow(U256::from(shift)).ok_or(ScaleError::OutOfRange)?;
    value.digits().checked_mul(power).ok_or(ScaleError::OutOfRange)
}

fn finer(step: i8, value: &Decimal, finest: i8) -> Result<i8, ScaleError> {
    if value.is_zero() {
        return Ok(step);
    }
    let exponent = i8::try_from(value.exponent()).map_err(|_| ScaleError::OutOfRange)?;
    if exponent < finest {
        return Err(ScaleError::OutOfRange);
    }
    Ok(step.min(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn a_price_is_a_whole_number_of_steps() {
        let scale = Scale { price: -2, quantity: -8 };
        assert_eq!(scale.price(&decimal("61737.63000000")), Ok(6_173_763));
        assert_eq!(scale.price(&decimal("1e2")), Ok(10_000));
        assert_eq!(scale.price(&decimal("0.001")), Err(ScaleError::Finer { exponent: -3 }));
        assert_eq!(scale.price(&decimal("-1")), Err(ScaleError::Negative));
        assert_eq!(scale.price(&decimal("92233720368547758.08")), Err(ScaleError::OutOfRange));
        assert_eq!(scale.quantity(&decimal("0.00000001")), Ok(U256::from(1_u64)));
        assert_eq!(scale.quantity(&decimal("1e75")), Err(ScaleError::OutOfRange));
    }

    #[test]
    fn a_scale_only_gets_finer() {
        let first = Scale::default().refined(&decimal("61737.63"), &decimal("0.5")).unwrap();
        assert_eq!(first, Scale { price: -2, quantity: -1 });
        let second = first.refined(&decimal("61737.6"), &decimal("0.00001")).unwrap();
        assert_eq!(second, Scale { price: -2, quantity: -5 });
        assert_eq!(first.quantity_in(second, U256::from(5_u64)), Some(U256::from(50_000_u64)));
        assert_eq!(second.quantity_in(first, U256::from(5_u64)), None);
        assert_eq!(first.price_in(Scale { price: -4, quantity: 0 }, 6_173_763), Some(617_376_300));
        assert_eq!(first.price_in(Scale { price: -22, quantity: 0 }, 1), None);
    }

    #[test]
    fn text_keeps_every_digit_of_the_step() {
        let scale = Scale { price: -2, quantity: -2 };
        assert_eq!(scale.price_text(6_173_760), "61737.60");
        assert_eq!(scale.price_text(5), "0.05");
        assert_eq!(scale.price_text(-105), "-1.05");
        assert_eq!(scale.quantity_text(U256::from(50_u64)), "0.50");
        assert_eq!(scale.quantity_text(U256::ZERO), "0");
        assert_eq!(Scale { price: 2, quantity: 0 }.price_text(7), "700");
    }
    #[test]
    fn powers_and_steps_never_become_each_other() {
        let powers = Scale { price: PRICE_POWERS, quantity: -27 };
        let steps = Scale { price: -2, quantity: -8 };
        for tick_index in [0, 1, -1, i64::MAX] {
            for scale in [steps, Scale::default(), Scale { price: i8::MIN + 1, quantity: 0 }] {
                assert_eq!(scale.price_in(powers, tick_index), None);
                assert_eq!(powers.price_in(scale, tick_index), None);
                assert_eq!(scale.price_in(scale.finest(powers), tick_index), None);
            }
            assert_eq!(powers.price_in(Scale { quantity: -30, ..powers }, tick_index), Some(tick_index));
            assert_eq!(powers.price_value(tick_index), None);
        }
        assert!(powers.mixes(steps) && steps.mixes(powers) && !powers.mixes(powers) && !steps.mixes(steps));
        assert_eq!(powers.price(&decimal("0")), Err(ScaleError::Powers));
        assert_eq!(powers.refined(&decimal("0"), &decimal("1")), Err(ScaleError::Powers));
    }

    #[test]
    fn a_price_that_is_a_power_is_told_with_eighteen_digits() {
        let scale = Scale { price: PRICE_POWERS, quantity: -27 };
        assert_eq!(scale.price_text(0), "1.00000000000000000");
        assert_eq!(scale.price_text(1), "1.00010000000000000");
        assert_eq!(scale.price_text(-559_681), "1.0001^-559681");
        assert_eq!(scale.quantity_text(U256::from(5_u64)), "0.000000000000000000000000005");
        assert_eq!(Scale { price: -2, quantity: 0 }.price_value(-5), None);
        assert_eq!(Scale { price: -2, quantity: 0 }.price_value(50), Some(decimal("0.5")));
    }
}
