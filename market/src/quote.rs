//! Quotes: the best level of each side, of one instrument or of a pair across venues.
//!
//! Never: a quote of an instrument that is not LIVE in a consolidated best.

use crate::{Decimal, Level, Scale, U256, Venue};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Best bid and ask of one instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Quote {
    /// The highest bid, if any.
    pub bid: Option<Level>,
    /// The lowest ask, if any.
    pub ask: Option<Level>,
}

/// A non-negative exact number that compares by value: `steps * 10^exponent`, trailing zeros moved into the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exact {
    steps: U256,
    exponent: i8,
}

impl Exact {
    /// The number `steps * 10^exponent`.
    #[must_use]
    pub fn new(steps: U256, exponent: i8) -> Self {
        let value = Decimal::new(steps, i32::from(exponent));
        let exponent = i8::try_from(value.exponent()).unwrap_or(i8::MAX);
        Self { steps: value.digits(), exponent }
    }

    /// Its digits without trailing zeros.
    #[must_use]
    pub fn steps(self) -> U256 {
        self.steps
    }

    /// Its power of ten.
    #[must_use]
    pub fn exponent(self) -> i8 {
        self.exponent
    }

    /// The sum; none if 256 bits do not hold it.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let (one, two, exponent) = self.aligned(other)?;
        Some(Self::new(one.checked_add(two)?, exponent))
    }

    /// The difference; none if the other is greater, or 256 bits do not hold it.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let (one, two, exponent) = self.aligned(other)?;
        Some(Self::new(one.checked_sub(two)?, exponent))
    }

    /// Both in steps of the finer one's power of ten, which is the last of the three; none if 256 bits do not hold them.
    pub(crate) fn aligned(self, other: Self) -> Option<(U256, U256, i8)> {
        let exponent = match (self.steps.is_zero(), other.steps.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let steps = |value: Self| {
            if value.steps.is_zero() {
                return Some(U256::ZERO);
            }
            let shift = u64::try_from(i32::from(value.exponent) - i32::from(exponent)).ok()?;
            value.steps.checked_mul(U256::from(10_u64).checked_pow(U256::from(shift))?)
        };
        Some((steps(self)?, steps(other)?, exponent))
    }

    /// The value as a decimal.
    #[must_use]
    pub fn decimal(self) -> Decimal {
        Decimal::new(self.steps, i32::from(self.exponent))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.steps.is_zero() || other.steps.is_zero() {
            return self.steps.cmp(&other.steps);
        }
        // Both canonical: bring the coarser one to the finer exponent; what overflows 256 bits is greater.
        let shift = i32::from(self.exponent) - i32::from(other.exponent);
        let power = U256::from(10_u64).checked_pow(U256::from(shift.unsigned_abs()));
        if shift >= 0 {
            power
                .and_then(|power| self.steps.checked_mul(power))
                .map_or(Ordering::Greater, |wide| wide.cmp(&other.steps))
        } else {
            power.and_then(|power| other.steps.checked_mul(power)).map_or(Ordering::Less, |wide| self.steps.cmp(&wide))
        }
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One side of a pair's consolidated best: the price, who holds it, and how much rests there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BestSide {
    /// The exact price.
    pub price: Exact,
    /// The quantity that this venue rests at the price.
    pub quantity: Exact,
    /// The venue that holds it; of several at one price, the first in the order of [`Venue::ALL`].
    pub venue: Venue,
}

impl BestSide {
    /// A level of a venue as a candidate for the best of its pair. None where it has no exact decimal price of zero or
    /// more: a price that is a power has no place among decimal ones.
    #[must_use]
    pub fn of(venue: Venue, level: Level, scale: Scale) -> Option<Self> {
        let steps = u64::try_from(level.tick_index).ok().filter(|_| !scale.is_powers())?;
        let price = Exact::new(U256::from(steps), scale.price);
        Some(Self { price, quantity: Exact::new(level.quantity, scale.quantity), venue })
    }
}

/// The best of a pair across venues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Best {
    /// The highest bid over all live venues.
    pub bid: Option<BestSide>,
    /// The lowest ask over all live venues.
    pub ask: Option<BestSide>,
}

impl Best {
    /// The best of both: per side the better price, then the earlier venue.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let bid = pick(self.bid, other.bid, |held, new| new.price.cmp(&held.price));
        let ask = pick(self.ask, other.ask, |held, new| held.price.cmp(&new.price));
        Self { bid, ask }
    }
}

fn pick(
    held: Option<BestSide>,
    new: Option<BestSide>,
    better: impl Fn(&BestSide, &BestSide) -> Ordering,
) -> Option<BestSide> {
    match (held, new) {
        (Some(held), Some(new)) => match better(&held, &new) {
            Ordering::Greater => Some(new),
            Ordering::Less => Some(held),
            Ordering::Equal => Some(if new.venue < held.venue { new } else { held }),
        },
        (held, new) => held.or(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(steps: u64, exponent: i8) -> Exact {
        Exact::new(U256::from(steps), exponent)
    }

    #[test]
    fn exact_numbers_compare_by_value() {
        assert_eq!(exact(100, -2), exact(1, 0));
        assert!(exact(101, -2) > exact(1, 0));
        assert!(exact(1, 0) < exact(101, -2));
        assert!(exact(0, -2) < exact(1, -30));
        assert!(Exact::new(U256::MAX, 10) > exact(1, -30));
        assert!(exact(1, -30) < Exact::new(U256::MAX, 10));
    }

    #[test]
    fn the_better_price_wins_and_a_tie_goes_to_the_earlier_venue() {
        let side = |venue, steps| BestSide { price: exact(steps, 0), quantity: exact(1, 0), venue };
        let a = Best { bid: Some(side(Venue::BinanceSpot, 10)), ask: Some(side(Venue::BinanceSpot, 12)) };
        let b = Best { bid: Some(side(Venue::KrakenSpot, 11)), ask: Some(side(Venue::KrakenSpot, 12)) };
        let best = a.merge(b);
        assert_eq!(best.bid.map(|bid| bid.venue), Some(Venue::KrakenSpot));
        assert_eq!(best.ask.map(|ask| ask.venue), Some(Venue::BinanceSpot));
        assert_eq!(best, b.merge(a));
        assert_eq!(best, best.merge(Best::default()));
    }

    #[test]
    fn a_price_that_is_a_power_or_negative_is_no_candidate() {
        let level = |tick_index| Level { tick_index, quantity: U256::from(3_u64) };
        let of = |tick_index, price| BestSide::of(Venue::NeutronDex, level(tick_index), Scale { price, quantity: -1 });
        assert_eq!(of(5, crate::scale::PRICE_POWERS), None);
        assert_eq!(of(-5, -2), None);
        let side = BestSide { price: exact(5, -2), quantity: exact(3, -1), venue: Venue::NeutronDex };
        assert_eq!(of(5, -2), Some(side));
    }
}
